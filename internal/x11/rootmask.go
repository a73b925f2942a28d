package x11

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/jezek/xgb/xproto"

	"github.com/deskhand/deskhand/internal/x11/request"
)

// eventMasks has the events that each part of this package selects on a window. The server
// has one mask for each connection and window.
type eventMasks struct {
	mu     sync.Mutex
	wanted map[xproto.Window][]uint32
}

// selectRoot is selectEvents for the root window.
func (c *Conn) selectRoot(mask uint32) error { return c.selectEvents(c.root, mask) }

// errOwnWindow is returned for windows of this connection, whose events are selected when
// they are made. Other programs can name them, as in a list of windows.
var errOwnWindow = errors.New("the window belongs to this connection")

// selectEvents asks for events of another client's window until unselectEvents with the
// same mask, or forgetEvents.
func (c *Conn) selectEvents(win xproto.Window, mask uint32) error {
	if c.wire.owns(uint32(win)) {
		return fmt.Errorf("select events of window %d: %w", win, errOwnWindow)
	}
	c.masks.mu.Lock()
	if c.masks.wanted == nil {
		c.masks.wanted = make(map[xproto.Window][]uint32)
	}
	c.masks.wanted[win] = append(c.masks.wanted[win], mask)
	cookie := xproto.ChangeWindowAttributesChecked(c.x, win, xproto.CwEventMask, []uint32{c.masks.union(win)})
	c.masks.mu.Unlock()
	if err := cookie.Check(); err != nil {
		c.masks.mu.Lock()
		c.masks.remove(win, mask)
		c.masks.mu.Unlock()
		return request.Wrap(fmt.Sprintf("select events of window %d", win), err)
	}
	return nil
}

// unselectEvents ends one selectEvents. The window may be gone.
func (c *Conn) unselectEvents(win xproto.Window, mask uint32) {
	c.masks.mu.Lock()
	defer c.masks.mu.Unlock()
	if c.masks.remove(win, mask) {
		xproto.ChangeWindowAttributes(c.x, win, xproto.CwEventMask, []uint32{c.masks.union(win)})
	}
}

// forgetEvents is for a window that was destroyed.
func (c *Conn) forgetEvents(win xproto.Window) {
	c.masks.mu.Lock()
	delete(c.masks.wanted, win)
	c.masks.mu.Unlock()
}

func (m *eventMasks) union(win xproto.Window) (all uint32) {
	for _, mask := range m.wanted[win] {
		all |= mask
	}
	return all
}

func (m *eventMasks) remove(win xproto.Window, mask uint32) bool {
	list := m.wanted[win]
	i := slices.Index(list, mask)
	if i < 0 {
		return false
	}
	if len(list) == 1 {
		delete(m.wanted, win)
	} else {
		m.wanted[win] = slices.Delete(list, i, i+1)
	}
	return true
}
