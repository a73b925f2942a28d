package x11

import (
	"errors"
	"fmt"
	"sync"

	"github.com/jezek/xgb/xproto"
	"github.com/jezek/xgb/xtest"

	"github.com/deskhand/deskhand/internal/x11/quiesce"
	"github.com/deskhand/deskhand/internal/x11/request"
)

// Input sends pointer and keyboard input through XTEST. A connection has one Input. The
// methods of Input, Pointer and Keyboard may be called from any goroutine and run one at a
// time.
type Input struct {
	Pointer  *Pointer
	Keyboard *Keyboard

	*device
	unwatch func()
}

// device is the state that the pointer and the keyboard share.
type device struct {
	c *Conn

	mu        sync.Mutex // held during an operation; guards the fields below and the parts of Input
	programs  *quiesce.Tracker
	following bool // a window manager is followed
	closed    bool
}

// pingAnswers are the events of the root window with which programs answer pings: by the EWMH
// SubstructureNotify, but Qt sends StructureNotify.
const pingAnswers = xproto.EventMaskSubstructureNotify | xproto.EventMaskStructureNotify

// NewInput prepares input. Close ends it.
func (c *Conn) NewInput() (*Input, error) {
	d := &device{c: c}
	in := &Input{Pointer: &Pointer{device: d}, Keyboard: &Keyboard{device: d}, device: d}
	var err error
	if d.programs, err = quiesce.New(c.quiescence()); err != nil {
		return nil, err
	}
	if in.Keyboard.xkb, err = openXkb(c.x); err != nil {
		return nil, err
	}
	if in.Keyboard.slots, err = newSlots(d, in.Keyboard.xkb); err != nil {
		return nil, err
	}
	in.unwatch = c.handle(d.programs.Event)
	if err := c.selectRoot(pingAnswers); err != nil {
		in.unwatch()
		return nil, err
	}
	return in, nil
}

// Close releases held keys and buttons, and clears the keycodes that were used for
// characters. It may be called more than once.
func (in *Input) Close() error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.closed {
		return nil
	}
	in.closed = true
	defer in.unwatch()
	select {
	case <-in.c.done:
		return nil // the server has ended
	default:
	}
	err := errors.Join(in.release(), in.Keyboard.close())
	in.c.unselectEvents(in.c.root, pingAnswers)
	xproto.DestroyWindow(in.c.x, in.Keyboard.slots.window)
	return err
}

// Release releases every key and button that this Input holds down.
func (in *Input) Release() error {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.release()
}

// ReleaseAll is like Release, and also releases keys that other clients hold down, and the buttons
// that are down on any device. It returns an error if a button of a device stays down. Typing leaves
// these alone: a client may hold a key on purpose.
func (in *Input) ReleaseAll() error {
	return in.locked(func() error {
		kb := in.Keyboard
		others, err := kb.heldByOthers()
		if err != nil {
			return err
		}
		for _, code := range others {
			kb.held = append(kb.held, heldKey{code: code})
		}
		return errors.Join(in.release(), in.Pointer.releaseOtherButtons())
	})
}

func (in *Input) release() error {
	pt, kb := in.Pointer, in.Keyboard
	if len(kb.held) == 0 && len(pt.buttons) == 0 {
		return nil
	}
	in.c.wire.cork()
	for _, b := range pt.buttons {
		in.fake(xproto.ButtonRelease, b)
	}
	for i := len(kb.held) - 1; i >= 0; i-- {
		in.fake(xproto.KeyRelease, byte(kb.held[i].code))
		in.programs.ManagerMayAct() // the end of Alt ends the choice of a window
	}
	kb.held, pt.buttons = kb.held[:0], pt.buttons[:0]
	return in.flush("release keys and buttons")
}

// fake sends an event of a device (XTEST protocol, XTestFakeInput).
func (d *device) fake(kind, detail byte) {
	xtest.FakeInput(d.c.x, kind, detail, 0, 0, 0, 0, 0)
}

// flush uncorks and waits until the server has handled the requests.
func (d *device) flush(op string) error {
	sync := xproto.GetInputFocus(d.c.x)
	if err := d.c.wire.uncork(); err != nil {
		return request.Wrap(op, err)
	}
	_, err := sync.Reply()
	return request.Wrap(op, err)
}

// locked calls f in the turn of an operation.
func (d *device) locked(f func() error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.use(); err != nil {
		return err
	}
	return f()
}

// use returns an error after Close. It has the server use the first pointer and keyboard:
// any program can add others and assign them to this connection.
func (d *device) use() error {
	if d.closed {
		return fmt.Errorf("input: %w", ErrConnClosed)
	}
	// XISetClientPointer of this client.
	if choose := d.xinput(xiSetClientPointer, 0, 0, 0, 0, firstPointer, 0, 0, 0); choose != nil {
		d.c.wire.delay(choose)
		d.c.x.NewRequest(choose, d.c.x.NewCookie(false, false))
	}
	return nil
}
