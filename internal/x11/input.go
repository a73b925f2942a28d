package x11

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/xproto"
	"github.com/jezek/xgb/xtest"
)

// Input presses keys and moves the pointer, through XTEST. A connection has
// one. Its methods may be called from any goroutine and run one at a time;
// what belongs together over several calls, the caller keeps together.
type Input struct {
	c       *Conn
	xkb     xkb
	names   inputAtoms
	pongs   chan uint32 // tokens of the pings that were answered
	unwatch func()
	windows *Windows      // see Follow; nil: keys wait for no window manager
	window  xproto.Window // stands for this Input; never shown
	frames  frames

	clipboard *Clipboard // see FollowClipboard

	mu        sync.Mutex // guards what follows, and makes an operation whole
	keymap    *keymap    // as last read
	slots     []slot     // two per keycode, without Shift and with
	claimed   bool       // the slots are ours to use
	tick      uint64     // counts uses of slots
	strokes   []typed
	held      []heldKey
	buttons   []byte          // that are down
	pressed   time.Time       // when a button was last
	unsettled int             // presses that the window manager may not have seen yet
	dirty     bool            // a slot was pressed since the last drain
	waiting   []xproto.Window // that may have got its key
	token     uint32
	closed    bool
	backup    *keyboardBackup // see CheckKeyboard

	acted       acted
	listener    xproto.Window // that had the focus when Unheard asked last
	listens     bool          // its program answers pings
	mute        idlers        // windows whose keys nobody wanted in time
	managerHung bool          // it did not answer the last question
}

// inputAtoms are the names in use.
type inputAtoms struct {
	protocols, ping, pid, machine, state, slots, clipboard xproto.Atom
}

// heldKey is a key that is down through this Input.
type heldKey struct {
	code xproto.Keycode
	sym  xproto.Keysym
	by   xproto.Keysym // the key that it was pressed for: itself, or one that needs Shift
}

// NewInput prepares input. Close ends it.
func (c *Conn) NewInput() (*Input, error) {
	in := &Input{c: c, pongs: make(chan uint32, 8), token: firstToken}
	var err error
	if in.xkb, err = openXkb(c.x); err != nil {
		return nil, err
	}
	for name, a := range map[string]*xproto.Atom{
		"WM_PROTOCOLS": &in.names.protocols, "_NET_WM_PING": &in.names.ping, "_NET_WM_PID": &in.names.pid,
		"WM_CLIENT_MACHINE": &in.names.machine, "WM_STATE": &in.names.state, "_DESKHAND_KEYCODES": &in.names.slots,
		"CLIPBOARD": &in.names.clipboard,
	} {
		if *a, err = c.atom(name); err != nil {
			return nil, err
		}
	}
	if in.window, err = xproto.NewWindowId(c.x); err != nil {
		return nil, wrap("create window", err)
	}
	if err := xproto.CreateWindowChecked(c.x, 0, in.window, c.root, -1, -1, 1, 1, 0, xproto.WindowClassInputOnly, 0,
		xproto.CwOverrideRedirect, []uint32{1}).Check(); err != nil {
		return nil, wrap("create window", err)
	}
	if err := in.claimSlots(); err != nil {
		return nil, err
	}
	in.unwatch = c.handle(in.event)
	// Answers to pings are sent to the root window with this mask (EWMH,
	// _NET_WM_PING).
	if err := c.selectRoot(xproto.EventMaskSubstructureNotify); err != nil {
		in.unwatch()
		return nil, err
	}
	return in, nil
}

// event looks for the answers to pings, and for changes of the frames.
func (in *Input) event(ev xgb.Event) {
	in.frames.event(ev, in.c.root)
	m, ok := ev.(xproto.ClientMessageEvent)
	if !ok || m.Type != in.names.protocols || m.Format != 32 || m.Window != in.c.root ||
		xproto.Atom(m.Data.Data32[0]) != in.names.ping {
		return
	}
	select {
	case in.pongs <- m.Data.Data32[1]:
	default: // nobody waits
	}
}

// Close releases everything that is held down and gives the keycodes that were
// used for characters back. It may be called more than once.
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
		return nil // the server has released all, and its keymap is its own affair
	default:
	}
	err := in.releaseAll()
	err = errors.Join(err, in.emptySlots())
	in.c.unselectEvents(in.c.root, xproto.EventMaskSubstructureNotify)
	xproto.DestroyWindow(in.c.x, in.window)
	return err
}

// ReleaseAll lets go of every key and button that this Input holds down.
func (in *Input) ReleaseAll() error {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.releaseAll()
}

func (in *Input) releaseAll() error {
	if len(in.held) == 0 && len(in.buttons) == 0 {
		return nil
	}
	in.c.wire.cork()
	for _, b := range in.buttons {
		in.fake(xproto.ButtonRelease, b)
	}
	for i := len(in.held) - 1; i >= 0; i-- {
		in.fake(xproto.KeyRelease, byte(in.held[i].code))
		in.unsettle() // the end of Alt ends the choice of a window
	}
	in.held, in.buttons = in.held[:0], in.buttons[:0]
	return in.flush("release keys and buttons")
}

// fake has the server act as if a device had sent that event (XTEST protocol,
// XTestFakeInput).
func (in *Input) fake(kind, detail byte) {
	xtest.FakeInput(in.c.x, kind, detail, 0, 0, 0, 0, 0)
}

// flush sends what is corked and waits until the server has done it.
func (in *Input) flush(op string) error {
	sync := xproto.GetInputFocus(in.c.x)
	if err := in.c.wire.uncork(); err != nil {
		return wrap(op, err)
	}
	_, err := sync.Reply()
	return wrap(op, err)
}

// use refuses to work after Close.
func (in *Input) use() error {
	if in.closed {
		return fmt.Errorf("input: %w", ErrConnClosed)
	}
	return nil
}
