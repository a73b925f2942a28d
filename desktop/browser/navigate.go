package browser

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Duration converts m.
func (m Milliseconds) Duration() time.Duration { return time.Duration(m) * time.Millisecond }

// maxTimeout is the largest timeout of a request.
const maxTimeout = Milliseconds(10 * time.Minute / time.Millisecond)

// NavigationError says why a page was not loaded.
type NavigationError struct {
	URL    string
	Reason string // of Chromium: "net::ERR_NAME_NOT_RESOLVED"
}

func (e *NavigationError) Error() string { return fmt.Sprintf("navigate to %s: %s", e.URL, e.Reason) }

// LoadState is how far a page is loaded.
type LoadState string

// The states.
const (
	LoadNone        LoadState = "none" // the navigation has begun
	LoadCommit      LoadState = "commit"
	LoadDOM         LoadState = "domcontentloaded"
	LoadComplete    LoadState = "load"
	LoadNetworkIdle LoadState = "networkidle" // no request for half a second
)

// lifecycleNames are the names of the states in the protocol.
var lifecycleNames = map[LoadState]string{LoadCommit: "commit", LoadDOM: "DOMContentLoaded", LoadComplete: "load", LoadNetworkIdle: "networkIdle"}

// Navigate is a navigation. Without a URL, it is for Back, Forward and Reload.
type Navigate struct {
	Tab     string       `json:"tab,omitempty"` // empty: the active one
	URL     string       `json:"url,omitempty"`
	Until   LoadState    `json:"until,omitempty"`     // what to wait for; empty: LoadComplete
	Timeout Milliseconds `json:"timeoutMs,omitempty"` // 0: 30000; at most 600000
}

func (n *Navigate) check() error {
	n.Until, n.Timeout = cmp.Or(n.Until, LoadComplete), cmp.Or(n.Timeout, 30_000)
	if _, ok := lifecycleNames[n.Until]; !ok && n.Until != LoadNone {
		return &InvalidError{"Until", "must be none, commit, domcontentloaded, load or networkidle"}
	}
	return checkTimeout(n.Timeout)
}

func checkTimeout(m Milliseconds) error {
	if m < 0 || m > maxTimeout {
		return &InvalidError{"Timeout", fmt.Sprintf("must be between 1 and %d", maxTimeout)}
	}
	return nil
}

// Navigate loads a URL in a tab and waits until the page is loaded as far as Navigate.Until
// says. It returns a *NavigationError if the page cannot be loaded, and a *desktop.DeadlineError
// after the timeout; the page then continues to load. With these errors the Tab is as it is at
// that time. A URL that starts a download changes no page and is no error. If the tab is closed
// meanwhile, Navigate returns ErrNoTab.
func (b *Browser) Navigate(ctx context.Context, n Navigate) (Tab, error) {
	if err := checkURL("URL", n.URL); err != nil {
		return Tab{}, err
	}
	return b.navigate(ctx, n, "navigate", func(ctx context.Context, session string) (loader string, err error) {
		var v struct{ LoaderID, ErrorText string }
		err = b.call(ctx, session, "Page.navigate", map[string]any{"url": n.URL}, &v)
		if err == nil && v.ErrorText != "" && v.ErrorText != "net::ERR_ABORTED" { // a download is aborted
			err = &NavigationError{limited(n.URL), limited(v.ErrorText)}
		}
		if v.ErrorText != "" || v.LoaderID == "" {
			return "", err
		}
		return v.LoaderID, err
	})
}

// Back goes to the previous page of a tab and waits for it, as Navigate does. It returns
// ErrNoHistory if there is none. If no new document begins to load within a second, as after a
// step within a page, Back returns without an error. Forward and Reload do the same.
func (b *Browser) Back(ctx context.Context, n Navigate) (Tab, error) {
	return b.goTo(ctx, n, "back", -1)
}

// Forward goes to the next page of a tab and waits for it, as Navigate does. It returns
// ErrNoHistory if there is none.
func (b *Browser) Forward(ctx context.Context, n Navigate) (Tab, error) {
	return b.goTo(ctx, n, "forward", 1)
}

// ErrNoHistory is returned by Back and Forward if there is no such page.
var ErrNoHistory = errors.New("the tab has no page in that direction")

func (b *tabs) goTo(ctx context.Context, n Navigate, command string, step int) (Tab, error) {
	return b.navigate(ctx, n, command, func(ctx context.Context, session string) (string, error) {
		var v struct {
			CurrentIndex int
			Entries      []struct{ ID int }
		}
		if err := b.call(ctx, session, "Page.getNavigationHistory", nil, &v); err != nil {
			return "", err
		}
		i := v.CurrentIndex + step
		if i < 0 || i >= len(v.Entries) {
			return "", ErrNoHistory
		}
		return "", b.call(ctx, session, "Page.navigateToHistoryEntry", map[string]any{"entryId": v.Entries[i].ID}, nil)
	})
}

// Reload loads the page of a tab again and waits for it, as Navigate does.
func (b *Browser) Reload(ctx context.Context, n Navigate) (Tab, error) {
	return b.navigate(ctx, n, "reload", func(ctx context.Context, session string) (string, error) {
		return "", b.call(ctx, session, "Page.reload", nil, nil)
	})
}

// historyLimit is how long Back, Forward and Reload wait for a new document to begin: a page may
// answer them without one.
const historyLimit = time.Second

func (b *tabs) navigate(ctx context.Context, n Navigate, command string, begin func(ctx context.Context, session string) (string, error)) (Tab, error) {
	if err := n.check(); err != nil {
		return Tab{}, err
	}
	ctx, cancel := n.Timeout.limit(ctx, command, 0)
	defer cancel()
	t, session, err := b.tab(ctx, n.Tab)
	if err != nil {
		return Tab{}, explain(ctx, err)
	}
	if err := b.admit(ctx, command, n.URL); err != nil {
		return Tab{}, err
	}
	b.mu.Lock()
	before := t.loader
	b.mu.Unlock()
	loader, err := begin(ctx, session)
	if err == nil {
		err = b.awaitLoad(ctx, t, before, loader, n.Until, command == "navigate")
	}
	if err == nil && n.Until != LoadNone {
		b.readTitle(ctx, t, session)
	}
	tab, closed := b.describe(t)
	if err == nil {
		err = closed
	}
	return tab, explain(ctx, err)
}

// describe returns a tab as it is, and an error if it has been closed.
func (b *tabs) describe(t *tab) (Tab, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.find(t.id) == nil {
		return t.describe(t.id), errClosed
	}
	return t.describe(t.id), nil
}

// titleLimit is how long a page may take to tell its title.
const titleLimit = 300 * time.Millisecond

// readTitle asks a page for its title, which the browser reports later.
func (b *tabs) readTitle(ctx context.Context, t *tab, session string) {
	ctx, cancel := context.WithTimeout(ctx, titleLimit)
	defer cancel()
	var title string
	if b.evaluateIn(ctx, session, 0, "document.title.slice(0, 2000)", &title) == nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		t.info.Title = limited(title)
	}
}

// admit asks control and the policy, and emits the action, for an input whose effect takes
// longer than a turn.
func (b *process) admit(ctx context.Context, command, target string) error {
	return b.act(ctx, command, withoutSecrets(target), func(context.Context) error { return nil })
}

// awaitLoad waits until a document is loaded as far as until says. loader is the document, or
// empty if it is not known. before is the one before it.
func (b *tabs) awaitLoad(ctx context.Context, t *tab, before, loader string, until LoadState, same bool) error {
	if until == LoadNone || loader == "" && same {
		return nil // a navigation within the document, or a download
	}
	begun := func() bool {
		return t.loader == loader || loader == "" && t.loader != before || b.find(t.id) == nil
	}
	start := ctx
	if loader == "" {
		var cancel context.CancelFunc
		start, cancel = context.WithTimeout(ctx, historyLimit)
		defer cancel()
	}
	if err := b.await(start, begun); err != nil {
		if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
			return nil
		}
		return err
	}
	// A document to which a script redirects counts as well.
	return b.await(ctx, func() bool {
		return until == LoadCommit || t.lifecycle[lifecycleNames[until]] || b.find(t.id) == nil
	})
}

// Wait is what Browser.Wait waits for. At least one of Until, Selector, Text and URL must be set,
// and all that are set must hold.
type Wait struct {
	Tab      string       `json:"tab,omitempty"`       // empty: the active one
	Until    LoadState    `json:"until,omitempty"`     // how far the page is loaded
	Selector string       `json:"selector,omitempty"`  // a visible element that matches
	Text     string       `json:"text,omitempty"`      // visible text of the page
	URL      string       `json:"url,omitempty"`       // a part of the page's URL
	Gone     bool         `json:"gone,omitempty"`      // until Selector, Text and URL do not match any more
	Timeout  Milliseconds `json:"timeoutMs,omitempty"` // 0: 30000; at most 600000
}

// waitPace is the interval between checks of a page.
const waitPace = 100 * time.Millisecond

// Wait waits until a page is as w says, and returns its tab. It returns an *InvalidError if w
// says nothing, a *desktop.DeadlineError after the timeout, and ErrNoTab if the tab is closed.
func (b *Browser) Wait(ctx context.Context, w Wait) (Tab, error) {
	n := Navigate{Until: w.Until, Timeout: w.Timeout}
	if err := n.check(); err != nil {
		return Tab{}, err
	}
	matches := w.Selector != "" || w.Text != "" || w.URL != ""
	if w.Until == "" && !matches {
		return Tab{}, &InvalidError{"Until", "or selector, text or url must say what to wait for"}
	}
	ctx, cancel := n.Timeout.limit(ctx, "wait", 0)
	defer cancel()
	t, session, err := b.tab(ctx, w.Tab)
	if err == nil && w.Until != "" && w.Until != LoadNone {
		err = b.await(ctx, func() bool { return t.lifecycle[lifecycleNames[w.Until]] || b.find(t.id) == nil })
	}
	if err == nil && matches {
		err = b.awaitMatch(ctx, t, session, w)
	}
	if err != nil {
		return Tab{}, explain(ctx, err)
	}
	return b.describe(t)
}

func (b *tabs) awaitMatch(ctx context.Context, t *tab, session string, w Wait) error {
	pace := time.NewTicker(waitPace)
	defer pace.Stop()
	for {
		found, err := b.matches(ctx, t, session, w)
		if bad, ok := errors.AsType[*InvalidError](err); ok {
			return bad
		}
		if errors.Is(err, ErrNoTab) {
			return err
		}
		if err == nil && found != w.Gone {
			return nil
		}
		select {
		case <-pace.C:
		case <-b.conn.done:
			return ErrEnded
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (b *tabs) matches(ctx context.Context, t *tab, session string, w Wait) (bool, error) {
	b.mu.Lock()
	found := w.URL == "" || strings.Contains(t.info.URL, w.URL)
	closed := b.find(t.id) == nil
	b.mu.Unlock()
	if closed {
		return false, errClosed
	}
	if !found || w.Selector == "" && w.Text == "" {
		return found, nil
	}
	var v struct {
		Found bool
		Error string
	}
	err := b.runScript(ctx, frame{id: t.id, session: session}, "has", &v, w.Selector, w.Text)
	if v.Error != "" {
		return false, &InvalidError{"Selector", "is not a CSS selector"}
	}
	return v.Found, err
}
