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

	// Served waits until all requests before the call are answered. It returns the number
	// of requests since the clipboard was made, and whether an application reads in
	// pieces.
	Served(ctx context.Context) (count int, sending bool, err error)
}

// FollowClipboard makes Quiesce wait for transfers from this clipboard, which must use the
// same connection. It must be called before the first input.
func (t *Tracker) FollowClipboard(c Clipboard) { t.clipboard = c }

// quiescePaste waits until applications that got input have received the content that they
// paste. Most applications sleep until the owner of the selection answers: they have read all
// their input and answer pings, but would take the next keys before the pasted text.
func (t *Tracker) quiescePaste(ctx context.Context, apps []*process) error {
	owners, err := t.tree.selectionOwners()
	if err != nil {
		return err
	}
	for _, owner := range owners {
		if t.clipboard != nil && owner == t.clipboard.Owner() {
			_, err = t.limited(ctx, owner, takeLimit, func() []int { return pidsOf(apps) }, func(ctx context.Context) error { return t.waitServed(ctx, apps) })
		} else {
			err = t.quiesceOwner(ctx, owner, apps)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func pidsOf(all []*process) []int {
	pids := make([]int, len(all))
	for i, p := range all {
		pids[i] = p.pid
	}
	return pids
}

// waitServed waits until the clipboard has answered all requests and the applications sleep.
func (t *Tracker) waitServed(ctx context.Context, apps []*process) error {
	quiet := true // the applications sleep
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

// quiesceOwner waits until the owner of a selection and the applications sleep.
func (t *Tracker) quiesceOwner(ctx context.Context, owner xproto.Window, apps []*process) error {
	pid := t.tree.process(owner, owner)
	if pid == 0 || pid == os.Getpid() || slices.ContainsFunc(apps, func(p *process) bool { return p.pid == pid }) {
		return nil
	}
	p := t.display.watch(pid)
	defer p.close()
	all := append(slices.Clip(apps), p)
	_, err := t.limited(ctx, owner, quietLimit, func() []int { return pidsOf(all) }, func(ctx context.Context) error {
		return t.display.poll(ctx, func() (bool, error) { return t.display.allAsleep(all) })
	})
	return err
}
