package browser

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/deskhand/deskhand/desktop"
)

// NewTab opens a tab with a URL, or an empty page if url is empty, and makes it the active tab. It
// does not wait for the page.
func (b *Browser) NewTab(ctx context.Context, url string) (Tab, error) {
	if url != "" {
		if err := checkURL("URL", url); err != nil {
			return Tab{}, err
		}
	} else {
		url = "about:blank"
	}
	ctx, cancel := Milliseconds(0).limit(ctx, "open tab", pageLimit)
	defer cancel()
	var v targetInfo
	err := b.actOnTabs(ctx, "open tab", withoutSecrets(url), func(ctx context.Context) error {
		return b.call(ctx, "", "Target.createTarget", map[string]any{"url": url}, &v)
	})
	if err != nil {
		return Tab{}, explain(ctx, err)
	}
	t, _, err := b.tab(ctx, v.TargetID)
	if err != nil {
		return Tab{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return t.describe(v.TargetID), nil
}

// ActivateTab makes a tab the active one, and waits until it is.
func (b *Browser) ActivateTab(ctx context.Context, id string) error {
	ctx, cancel := Milliseconds(0).limit(ctx, "activate tab", pageLimit)
	defer cancel()
	t, session, err := b.tab(ctx, id)
	if err != nil {
		return err
	}
	err = b.actOnTabs(ctx, "activate tab", t.id, func(ctx context.Context) error {
		return b.call(ctx, "", "Target.activateTarget", map[string]any{"targetId": t.id}, nil)
	})
	if err != nil {
		return explain(ctx, err)
	}
	for { // the page learns later that it is visible
		var shows int
		if err := b.runScript(ctx, frame{id: t.id, session: session}, "shows", &shows); err != nil || shows > 0 {
			return explain(ctx, err)
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("browser: activate tab %s: %w", id, context.Cause(ctx))
		}
	}
}

// CloseTab closes a tab and waits until it is closed. The browser ends with its last tab.
func (b *Browser) CloseTab(ctx context.Context, id string) error {
	ctx, cancel := Milliseconds(0).limit(ctx, "close tab", pageLimit)
	defer cancel()
	t, _, err := b.tab(ctx, id)
	if err != nil {
		return err
	}
	err = b.actOnTabs(ctx, "close tab", t.id, func(ctx context.Context) error {
		return b.call(ctx, "", "Target.closeTarget", map[string]any{"targetId": t.id}, nil)
	})
	if err != nil {
		return explain(ctx, err)
	}
	return explain(ctx, b.await(ctx, func() bool { return b.find(id) == nil }))
}

// actOnTabs is act for commands to the browser itself. It waits until the browser answers before it
// takes the turn of the desktop's input: other input does not wait for a browser that hangs.
func (b *Browser) actOnTabs(ctx context.Context, command, target string, f func(context.Context) error) error {
	if err := b.call(ctx, "", "Browser.getVersion", nil, nil); err != nil {
		return err
	}
	return b.act(ctx, command, target, f)
}

// inTurn runs f in one turn of the desktop's input, which ends if another actor takes control.
func (b *process) inTurn(ctx context.Context, op string, f func(context.Context, *desktop.Turn) error) error {
	return b.cfg.Desktop.Exclusive(ctx, func(ctx context.Context, turn *desktop.Turn) error {
		err := f(ctx, turn)
		if errors.Is(err, context.Canceled) && !errors.Is(err, desktop.ErrInterrupted) {
			err = &desktop.InterruptedError{Op: op, Cause: context.Cause(ctx)}
		}
		return err
	})
}

// infoOf returns the newest information about a tab.
func (b *tabs) infoOf(t *tab) targetInfo {
	b.mu.Lock()
	defer b.mu.Unlock()
	return t.info
}
