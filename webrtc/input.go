package webrtc

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/deskhand/deskhand/desktop"
)

type inputKind uint8

const (
	inputMove inputKind = iota
	inputScroll
	inputKeyDown
	inputKeyUp
	inputButtonDown
	inputButtonUp
	inputType
	inputPress
)

type inputEvent struct {
	kind   inputKind
	at     *desktop.Point // of moves, and of buttons if known
	dx, dy int            // of scrolls, as the client sent them
	keysym uint32
	button desktop.Button
	text   string // to type, or the key combination to press
}

func (e inputEvent) secret() bool {
	return e.kind == inputKeyDown || e.kind == inputKeyUp || e.kind == inputType || e.kind == inputPress
}

// Opcodes of the data channel (neko 3). All numbers are big endian.
const (
	opMove       = 0x01
	opScroll     = 0x02
	opKeyDown    = 0x03
	opKeyUp      = 0x04
	opButtonDown = 0x05
	opButtonUp   = 0x06
	opPing       = 0x07
	opTouchBegin = 0x08
	opTouchMove  = 0x09
	opTouchEnd   = 0x0a
)

// inputHeader is the size of a message's header: the opcode and a redundant length.
const inputHeader = 3

var (
	errShort    = errors.New("message is too short")
	errOpcode   = errors.New("unknown opcode")
	errButton   = errors.New("unknown button")
	errKeysym   = errors.New("keysym must be from 0x20 to 0x1fffffff")
	errFinger   = errors.New("only one finger is understood")
	errControl  = errors.New("the viewer does not have control")
	errLongText = fmt.Errorf("a text must have at most %d bytes: put a longer one on the clipboard and paste it", textMost)
	errTyping   = errors.New("the desktop rejected a key or text") // for logs, where other errors would name keys
)

// parseInput parses a message of the data channel other than a ping.
func parseInput(b []byte) (inputEvent, error) {
	if len(b) < inputHeader {
		return inputEvent{}, errShort
	}
	op, body := b[0], b[inputHeader:]
	need := map[byte]int{
		opMove: 4, opScroll: 4, opKeyDown: 4, opKeyUp: 4, opButtonDown: 4, opButtonUp: 4,
		opTouchBegin: 13, opTouchMove: 13, opTouchEnd: 13,
	}[op]
	switch {
	case need == 0:
		return inputEvent{}, errOpcode
	case len(body) < need:
		return inputEvent{}, errShort
	}
	high, low := binary.BigEndian.Uint16(body), binary.BigEndian.Uint16(body[2:])
	number := binary.BigEndian.Uint32(body)
	switch op {
	case opMove:
		return inputEvent{kind: inputMove, at: &desktop.Point{X: int(high), Y: int(low)}}, nil
	case opScroll:
		return inputEvent{kind: inputScroll, dx: int(int16(high)), dy: int(int16(low))}, nil //nolint:gosec // two's complement
	case opKeyDown, opKeyUp:
		return keyEvent(op == opKeyDown, number)
	case opTouchBegin, opTouchMove, opTouchEnd:
		x, y := int32(binary.BigEndian.Uint32(body[4:])), int32(binary.BigEndian.Uint32(body[8:])) //nolint:gosec // two's complement
		return touchEvent(op, number, desktop.Point{X: int(x), Y: int(y)})
	}
	return buttonEvent(op == opButtonDown, number)
}

func keyEvent(down bool, keysym uint32) (inputEvent, error) {
	if keysym < 0x20 || keysym > 0x1fffffff {
		return inputEvent{}, errKeysym
	}
	// Some clients send every character beyond ASCII as a Unicode keysym, but programs expect
	// the keysyms of Latin-1 (X11 protocol, appendix A).
	if c := keysym - 0x0100_0000; c >= 0x20 && c <= 0xff {
		keysym = c
	}
	if down {
		return inputEvent{kind: inputKeyDown, keysym: keysym}, nil
	}
	return inputEvent{kind: inputKeyUp, keysym: keysym}, nil
}

// touchEvent turns the first finger, number 0, into the left button, because XTEST has no
// touch events. Other fingers are an error.
func touchEvent(op byte, finger uint32, at desktop.Point) (inputEvent, error) {
	if finger != 0 {
		return inputEvent{}, errFinger
	}
	switch op {
	case opTouchBegin:
		return inputEvent{kind: inputButtonDown, at: &at, button: desktop.ButtonLeft}, nil
	case opTouchEnd:
		return inputEvent{kind: inputButtonUp, at: &at, button: desktop.ButtonLeft}, nil
	}
	return inputEvent{kind: inputMove, at: &at}, nil
}

// buttons maps the button numbers of the X protocol. 4 to 7 are the wheel.
var buttons = map[uint32]desktop.Button{
	1: desktop.ButtonLeft, 2: desktop.ButtonMiddle, 3: desktop.ButtonRight, 8: desktop.ButtonBack, 9: desktop.ButtonForward,
}

func buttonEvent(down bool, number uint32) (inputEvent, error) {
	b, ok := buttons[number]
	if !ok {
		return inputEvent{}, errButton
	}
	if down {
		return inputEvent{kind: inputButtonDown, button: b}, nil
	}
	return inputEvent{kind: inputButtonUp, button: b}, nil
}

// wheel turns scrolls of clients into clicks of a wheel. Browsers send pixels with the sign
// of the DOM: 100 or 120 for a notch of a wheel, which is one click, or a few from a
// touchpad, where 100 are one click. neko's clients send few units, with the other sign.
type wheel struct {
	x, y int // pixels that are less than a click
}

const (
	wheelPixels = 100 // of a touchpad, for a click
	wheelNotch  = 80  // from this on, pixels are notches
	wheelSmall  = 20  // below this, they are neko's units
	wheelMost   = 20  // clicks of one message
)

func (w *wheel) clicks(dx, dy int) (right, down int) {
	if max(dx, -dx) < wheelSmall && max(dy, -dy) < wheelSmall {
		return clampWheel(-dx), clampWheel(-dy)
	}
	return addPixels(&w.x, dx), addPixels(&w.y, dy)
}

func addPixels(rest *int, d int) int {
	if size := max(d, -d); size >= wheelNotch {
		*rest = 0
		return clampWheel(max(1, (size+60)/120) * (d / size))
	}
	if *rest > 0 != (d > 0) {
		*rest = 0 // the direction has changed
	}
	*rest += d
	n := *rest / wheelPixels
	*rest -= n * wheelPixels
	return clampWheel(n)
}

func clampWheel(n int) int { return min(max(n, -wheelMost), wheelMost) }

// inputQueue holds the actions of a viewer for the desktop. It keeps only the last of
// consecutive moves.
type inputQueue struct {
	mu     sync.Mutex
	events []inputEvent
	text   int           // bytes of the events' texts
	wake   chan struct{} // holds a value when there may be events
}

// Bounds of the queue. Beyond inputMost events, the queue accepts only releases, up to twice as
// many events.
const (
	inputMost = 512
	textMost  = 1 << 20 // bytes of all texts, and of one
)

func newInputQueue() *inputQueue { return &inputQueue{wake: make(chan struct{}, 1)} }

func (q *inputQueue) put(e inputEvent) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := len(q.events)
	switch {
	case n > 0 && e.kind == inputMove && q.events[n-1].kind == inputMove:
		q.events[n-1] = e
	case q.text+len(e.text) > textMost:
	case n >= inputMost && e.kind != inputKeyUp && e.kind != inputButtonUp || n >= 2*inputMost:
	default:
		q.events = append(q.events, e)
		q.text += len(e.text)
	}
	notify(q.wake)
}

func (q *inputQueue) take() []inputEvent {
	q.mu.Lock()
	defer q.mu.Unlock()
	events := q.events
	q.events, q.text = nil, 0
	return events
}

func (v *viewer) controls() bool {
	h := v.s.d.Control().Holder
	return h != nil && h.Kind == v.actor.Kind && h.ID == v.actor.ID
}

// input queues an action of a viewer that has control. A viewer that has requested control gets
// it first, if control is free.
func (v *viewer) input(e inputEvent) error {
	if !v.controls() {
		if !v.wants.Load() || v.s.d.Control().Holder != nil {
			return errControl
		}
		if err := v.askControl(v.ctx); err != nil {
			return err
		}
	}
	v.inputs.put(e)
	return nil
}

func (v *viewer) act() {
	var w wheel
	for {
		select {
		case <-v.ctx.Done():
			return
		case <-v.inputs.wake:
		}
		for _, e := range v.inputs.take() {
			if !v.controls() {
				break // another actor has control
			}
			if err := v.do(&w, e); err != nil {
				if e.secret() {
					err = errTyping
				}
				v.s.log.Debug("input", "viewer", v.id, "error", err)
			}
		}
	}
}

func (v *viewer) do(w *wheel, e inputEvent) error {
	ctx, d := v.ctx, v.s.d
	var err error
	switch e.kind {
	case inputMove:
		at := v.onScreen(*e.at)
		if _, err = d.Move(ctx, desktop.Move{At: at}); err == nil {
			v.s.movePointer(at, v)
		}
	case inputScroll:
		if right, down := w.clicks(e.dx, e.dy); right != 0 || down != 0 {
			_, err = d.Scroll(ctx, desktop.Scroll{DX: right, DY: down})
		}
	case inputKeyDown:
		err = d.KeyDown(ctx, keyName(e.keysym))
	case inputKeyUp:
		err = d.KeyUp(ctx, keyName(e.keysym))
	case inputButtonDown:
		_, err = d.ButtonDown(ctx, desktop.ButtonPress{At: v.place(e.at), Button: e.button})
	case inputButtonUp:
		_, err = d.ButtonUp(ctx, desktop.ButtonPress{At: v.place(e.at), Button: e.button})
	case inputType:
		err = d.Type(ctx, desktop.Type{Text: e.text})
	case inputPress:
		err = d.Press(ctx, desktop.Press{Keys: e.text})
	}
	return err
}

// place returns the point on the screen where a button was pressed, or nil.
func (v *viewer) place(at *desktop.Point) *desktop.Point {
	if at == nil {
		return nil
	}
	p := v.onScreen(*at)
	return &p
}

// onScreen moves a point onto the screen. The viewer may not know a new size.
func (v *viewer) onScreen(p desktop.Point) desktop.Point {
	size := v.s.d.Status().Size
	return desktop.Point{X: min(max(p.X, 0), size.Width-1), Y: min(max(p.Y, 0), size.Height-1)}
}

func keyName(keysym uint32) string { return "0x" + strconv.FormatUint(uint64(keysym), 16) }

func (v *viewer) askControl(ctx context.Context) error {
	if v.options.ViewOnly {
		return errControl
	}
	v.wants.Store(true)
	return v.gain(func() error { return v.s.d.RequestControl(ctx, v.actor) })
}
