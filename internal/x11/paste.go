package x11

import (
	"context"
	"errors"
	"os"
	"slices"

	"github.com/jezek/xgb/xproto"
)

// FollowClipboard has input wait until programs have what they asked this
// clipboard for, which is one of the same connection. It must be called before
// the first input.
func (in *Input) FollowClipboard(cb *Clipboard) { in.clipboard = cb }

// settlePaste waits until applications that got input have what they asked the
// owner of a selection for. Most sleep until that answers: they have read all
// their input by then, answer pings, and take the keys that come next before
// the text that was pasted before.
func (in *Input) settlePaste(ctx context.Context, apps []watched) error {
	owners, err := in.selectionOwners()
	if err != nil {
		return err
	}
	for _, owner := range owners {
		if in.clipboard != nil && owner == in.clipboard.win {
			_, err = in.limited(ctx, &in.acted.deaf, owner, takeLimit, func(ctx context.Context) error { return in.waitServed(ctx, apps) })
		} else {
			err = in.settleOwner(ctx, owner, apps)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// selectionOwners is the windows that own the selections, each once.
func (in *Input) selectionOwners() (owners []xproto.Window, err error) {
	asked := [...]xproto.GetSelectionOwnerCookie{
		xproto.GetSelectionOwner(in.c.x, in.names.clipboard),
		xproto.GetSelectionOwner(in.c.x, xproto.AtomPrimary),
	}
	for _, cookie := range asked {
		r, err := cookie.Reply()
		if err != nil {
			return nil, wrap("ask for the owner of a selection", err)
		}
		if r.Owner != xproto.WindowNone && !slices.Contains(owners, r.Owner) {
			owners = append(owners, r.Owner)
		}
	}
	return owners, nil
}

// waitServed waits until our own clipboard has nothing to answer, and the
// applications nothing to do with its answers, which may be to ask for more.
func (in *Input) waitServed(ctx context.Context, apps []watched) error {
	quiet := true // they sleep
	for look := firstLook; ; {
		served, sending, err := in.clipboard.served(ctx)
		if err != nil {
			return err
		}
		if served != in.acted.served || sending {
			in.acted.served, quiet = served, false
		}
		if quiet {
			return nil
		}
		if quiet, err = in.allRest(apps); err != nil {
			return err
		}
		if quiet && !sending {
			continue
		}
		if err := in.beforeNext(ctx, &look); err != nil {
			return err
		}
	}
}

// settleOwner waits until neither the owner of a selection nor the applications
// have anything to do. It cannot be seen whether they have it with each other.
func (in *Input) settleOwner(ctx context.Context, owner xproto.Window, apps []watched) error {
	pid := in.process(owner, owner)
	if pid == 0 || pid == os.Getpid() || slices.ContainsFunc(apps, func(p watched) bool { return p.pid == pid }) {
		return nil
	}
	p := in.watch(pid)
	defer p.close()
	all := append(slices.Clip(apps), p)
	_, err := in.limited(ctx, &in.acted.deaf, owner, quietLimit, func(ctx context.Context) error {
		for look := firstLook; ; {
			if quiet, err := in.allRest(all); err != nil || quiet {
				return err
			}
			if err := in.beforeNext(ctx, &look); err != nil {
				return err
			}
		}
	})
	return err
}

// allRest tells whether all of these sleep, with nothing to read, at the same
// time. Those that have ended do not count.
func (in *Input) allRest(all []watched) (bool, error) {
	before := make([]threads, len(all))
	for i, p := range all {
		t, err := readThreads(p.pid)
		switch {
		case errors.Is(err, os.ErrNotExist):
		case err != nil:
			return false, err
		case !t.asleep:
			return false, nil
		}
		before[i] = t
	}
	if err := in.c.Sync(); err != nil {
		return false, err
	}
	for i, p := range all {
		if p.toRead() {
			return false, nil
		}
		t, err := readThreads(p.pid)
		switch {
		case errors.Is(err, os.ErrNotExist):
		case err != nil:
			return false, err
		case !t.asleep || !slices.Equal(t.sleeps, before[i].sleeps):
			return false, nil
		}
	}
	return true, nil
}
