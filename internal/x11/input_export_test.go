package x11

import (
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
