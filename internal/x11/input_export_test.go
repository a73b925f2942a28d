package x11

import (
	"context"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/res"
	"github.com/jezek/xgb/xproto"

	"github.com/deskhand/deskhand/internal/x11/quiesce"
)

// X lets tests speak X themselves.
func (c *Conn) X() *xgb.Conn { return c.x }

// KeysymName is keysymName.
func KeysymName(sym xproto.Keysym) string { return keysymName(sym) }

// ResolveAfter finds the keys of a chord with the keymap as it was before f.
func (kb *Keyboard) ResolveAfter(ctx context.Context, ch Chord, f func()) error {
	return kb.locked(func() error {
		k, err := kb.readKeymap()
		if err != nil {
			return err
		}
		f()
		_, err = kb.resolve(ctx, k, ch)
		return err
	})
}

// GrowBackup makes the keyboard that Restore restores that many bytes larger.
func (kb *Keyboard) GrowBackup(size int) {
	first := &kb.backup.entries.entries[0]
	*first = append(*first, make([]byte, size)...)
}

// LockGroup selects another group of the keymap.
func (in *Input) LockGroup(group byte) error {
	in.Keyboard.xkb.lock(0, 0, 0, group)
	return in.c.Sync()
}

// LoseKeys turns SlowKeys and BounceKeys on.
func (c *Conn) LoseKeys() error {
	k, err := openXkb(c.x)
	if err != nil {
		return err
	}
	k.setControls(xkbSlowKeys|xkbBounceKeys, xkbSlowKeys|xkbBounceKeys)
	return c.Sync()
}

// UseXkb makes the server report groups to this connection.
func (c *Conn) UseXkb() error {
	_, err := openXkb(c.x)
	return err
}

// ProcessOf returns the process of a window's client.
func (in *Input) ProcessOf(win xproto.Window) int {
	spec := res.ClientIdSpec{Client: uint32(win), Mask: res.ClientIdMaskLocalClientPID}
	r, err := res.QueryClientIds(in.c.x, 1, []res.ClientIdSpec{spec}).Reply()
	if err != nil || len(r.Ids) == 0 || len(r.Ids[0].Value) == 0 {
		return 0
	}
	return int(r.Ids[0].Value[0])
}

// Waited reports whether keys waited until the limit for a program to select the keys of a window.
func (in *Input) Waited(win xproto.Window) bool { return in.programs.HasNoListener(win) }

// Quiescence returns what a quiesce.Tracker of the connection gets.
func (c *Conn) Quiescence() *quiesce.Display { return c.quiescence() }
