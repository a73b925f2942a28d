package x11

import "github.com/jezek/xgb"

// X lets tests speak X themselves.
func (c *Conn) X() *xgb.Conn { return c.x }
