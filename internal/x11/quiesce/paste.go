package quiesce

import (
	"context"
	"os"
	"slices"

	"github.com/jezek/xgb/xproto"
)

// Clipboard is the program's own clipboard, from which applications paste.
type Clipboard interface {
	// Owner returns the window that owns selections for the clipboard.
	Owner() xproto.Window

	// Served waits until every request was answered that the server had passed on
	// before. It returns the number of requests since the clipboard was made, and
	// whether an application is reading in pieces.
	Served(ctx context.Context) (count int, sending bool, err error)
}

// FollowClipboard has Quiesce wait until programs have what they asked this clipboard
// for, which belongs to the same connection. It must be called before the first input.
func (t *Tracker) FollowClipboard(c Clipboard) { t.clipboard = c }

// quiescePaste waits until applications that got input have what they asked the
// owner of a selection for. Most sleep until the owner answers: they have read all
// their input by then, answer pings, and take the keys that come next before
// the text that was pasted before.
func (t *Tracker) quiescePaste(ctx context.Context, apps []*process) error {
	owners, err := t.tree.selectionOwners()
	if err != nil {
		return err
	}
	for _, owner := range owners {
		if t.clipboard != nil && owner == t.clipboard.Owner() {
			_, err = t.limited(ctx, owner, takeLimit, func(ctx context.Context) error { return t.waitServed(ctx, apps) })
		} else {
			err = t.quiesceOwner(ctx, owner, apps)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// waitServed waits until the clipboard has nothing to answer, and the applications
// nothing to do with its answers, which may be to ask for more.
func (t *Tracker) waitServed(ctx context.Context, apps []*process) error {
	quiet := true // they sleep
	return t.display.poll(ctx, func() (bool, error) {
		served, sending, err := t.clipboard.Served(ctx)
		if err != nil {
			return false, err
		}
		if quiet && served == t.served && !sending {
			return true, nil
		}
		t.served = served
		quiet, err = t.display.allAsleep(apps)
		return false, err
	})
}

// quiesceOwner waits until neither the owner of a selection nor the applications
// have anything to do. It cannot be seen whether they have it with each other.
func (t *Tracker) quiesceOwner(ctx context.Context, owner xproto.Window, apps []*process) error {
	pid := t.tree.process(owner, owner)
	if pid == 0 || pid == os.Getpid() || slices.ContainsFunc(apps, func(p *process) bool { return p.pid == pid }) {
		return nil
	}
	p := t.display.watch(pid)
	defer p.close()
	all := append(slices.Clip(apps), p)
	_, err := t.limited(ctx, owner, quietLimit, func(ctx context.Context) error {
		return t.display.poll(ctx, func() (bool, error) { return t.display.allAsleep(all) })
	})
	return err
}
