package x11

import (
	"context"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/xproto"
)

// X lets tests speak X themselves.
func (c *Conn) X() *xgb.Conn { return c.x }

// KeysymName is keysymName.
func KeysymName(sym xproto.Keysym) string { return keysymName(sym) }

// LockGroup puts another group of the keymap in effect.
func (in *Input) LockGroup(group byte) error {
	in.xkb.lock(0, 0, 0, group)
	return in.c.Sync()
}

// UseXkb makes the server tell this connection of groups.
func (c *Conn) UseXkb() error {
	_, err := openXkb(c.x)
	return err
}

// ProcessOf is the process of a window's client.
func (in *Input) ProcessOf(win xproto.Window) int { return in.process(win, win) }

// Helpers are a process and those of the same program below it.
func Helpers(pid int) []int { return helpers(pid) }

// WaitFamily waits until processes have nothing to do.
func (in *Input) WaitFamily(ctx context.Context, family []int) error {
	return in.waitFamily(ctx, family)
}

// ChildEnds says whether a child of a process is about to end.
func ChildEnds(pid int) bool { return childEnds(pid) }

// Waited says whether keys waited in vain for somebody to want those of a window.
func (in *Input) Waited(win xproto.Window) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	_, mute := in.mute[win]
	return mute
}
