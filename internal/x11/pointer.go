package x11

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/jezek/xgb/xproto"
	"github.com/jezek/xgb/xtest"
)

// Point is a position on the screen, in pixels.
type Point struct{ X, Y int }

// Bounds of pointer requests.
const (
	// corkedClicks bounds the clicks in one write.
	corkedClicks = 100
	// wheelFirst to wheelLast are the buttons of the wheel.
	wheelFirst, wheelLast = 4, 7
	// dragStep is the longest step of a drag. Toolkits begin a drag only after the
	// pointer has left a small area (8 pixels in GTK), and find the window below it at
	// each motion.
	dragStep  = 8
	dragSteps = 256 // per drag, beyond the path's own points
	// A drag takes dragRest with the button down at either end, and dragMotion between,
	// in dragStages.
	dragRest   = 100 * time.Millisecond
	dragMotion = 250 * time.Millisecond
	dragStages = 24
	// dragWait bounds the wait for an application in a drag.
	dragWait = 300 * time.Millisecond
	// clickGap is the shortest time between two presses. Chromium takes presses with the
	// same time stamp, in milliseconds, for one.
	clickGap = 2 * time.Millisecond
)

// Pointer moves the pointer of a display and presses its buttons.
type Pointer struct {
	*device
	buttons   []byte        // that are down
	pressed   time.Time     // of the last press
	pressedIn xproto.Window // child of the root window that got the last press
	series    series        // of the last presses
}

// Position returns the position of the pointer and the window under it: the top-level
// window that a window manager manages, else the child of the root, else the root.
func (pt *Pointer) Position() (x, y, screen int, top Window, err error) {
	r, win, err := pt.programs.Pointed()
	if err != nil {
		return 0, 0, 0, 0, err
	}
	return int(r.RootX), int(r.RootY), 0, cmp.Or(win, r.Root), nil
}

// Move moves the pointer.
func (pt *Pointer) Move(x, y int) error {
	return pt.locked(func() error {
		pt.c.wire.cork()
		pt.motion(Point{x, y})
		if len(pt.buttons) > 0 { // part of a drag
			pt.programs.ManagerMayAct()
			pt.programs.Acted(pt.pressedIn)
		}
		return pt.flush("move pointer")
	})
}

func (pt *Pointer) motion(p Point) {
	clamp := func(v int) int16 { return int16(min(max(v, math.MinInt16), math.MaxInt16)) }
	xtest.FakeInput(pt.c.x, xproto.MotionNotify, 0, 0, pt.c.root, clamp(p.X), clamp(p.Y), 0)
}

// Button presses or releases a button, numbered as X does: 1 left, 2 middle,
// 3 right, 8 back, 9 forward.
func (pt *Pointer) Button(button int, down bool) error {
	return pt.withButton(button, func(b byte) error {
		pt.c.wire.cork()
		under := xproto.QueryPointer(pt.c.x, pt.c.root)
		pt.setButton(b, down)
		presses := 0
		if down {
			presses = 1
		}
		return errors.Join(pt.flush("press button"), pt.acted(under, b, presses))
	})
}

// withButton calls f in the turn of an operation, with the number that the protocol has.
func (pt *Pointer) withButton(button int, f func(b byte) error) error {
	if button < 1 || button > 255 {
		return fmt.Errorf("pointer button %d: want 1 to 255", button)
	}
	return pt.locked(func() error { return f(byte(button)) })
}

// acted records the windows that got presses of a button, or its release and the press before
// it. It returns errButtonHeld if no window got the presses.
func (pt *Pointer) acted(under xproto.QueryPointerCookie, button byte, presses int) error {
	r, err := under.Reply()
	if err != nil {
		return nil //nolint:nilerr // the flush before has the error
	}
	pt.programs.Acted(r.Child)
	if presses == 0 {
		pt.programs.ManagerMayAct()
		pt.programs.Acted(pt.pressedIn)
		return nil
	}
	pt.pressedIn = r.Child
	pt.pressedAt(button, Point{int(r.RootX), int(r.RootY)}, presses)
	return pt.heldElsewhere(button, r.Mask)
}

// heldElsewhere returns errButtonHeld if a button was down before a press, by mask, and another
// device holds the button of the same number. It takes the press back then. The mask does not
// suffice: the window manager may not yet have let the release before the press take effect.
func (pt *Pointer) heldElsewhere(button byte, mask uint16) error {
	if button > 5 || mask>>(7+button)&1 == 0 {
		return nil
	}
	down, err := pt.otherButtons()
	held := func(b deviceButton) bool { return !slices.Contains(mappedPointers[:], b.device) && b.button == button }
	if err == nil && slices.ContainsFunc(down, held) {
		pt.setButton(button, false)
		err = errButtonHeld
	}
	return err
}

func (pt *Pointer) setButton(button byte, down bool) {
	if !down {
		pt.fake(xproto.ButtonRelease, button)
		pt.buttons = slices.DeleteFunc(pt.buttons, func(b byte) bool { return b == button })
		return
	}
	delay := time.Duration(0) // in the server
	if button < wheelFirst || button > wheelLast {
		pt.programs.Pressed()
		if time.Since(pt.pressed) < clickGap {
			delay = clickGap
		}
		pt.pressed = time.Now()
	}
	xtest.FakeInput(pt.c.x, xproto.ButtonPress, button, uint32(delay.Milliseconds()), 0, 0, 0, 0)
	if !slices.Contains(pt.buttons, button) {
		pt.buttons = append(pt.buttons, button)
	}
}

// ButtonDown reports whether this Pointer holds a button.
func (pt *Pointer) ButtonDown() bool {
	pt.mu.Lock()
	defer pt.mu.Unlock()
	return len(pt.buttons) > 0
}

// Click presses and releases a button count times where the pointer is.
func (pt *Pointer) Click(button, count int) error {
	return pt.withButton(button, func(b byte) error { return pt.clicks(b, count) })
}

func (pt *Pointer) clicks(button byte, count int) error {
	for count > 0 {
		n := min(count, corkedClicks)
		count -= n
		pt.c.wire.cork()
		under := xproto.QueryPointer(pt.c.x, pt.c.root)
		for range n {
			pt.setButton(button, true)
			pt.setButton(button, false)
		}
		if err := errors.Join(pt.flush("click"), pt.acted(under, button, n)); err != nil {
			return err
		}
	}
	return nil
}

// Drag presses a button at the first point of a path, moves along it and releases the
// button at the last point, or where an error stopped it. It takes about half a second:
// the applications at both ends must see each stage, and the pages of a browser see it
// later than their window.
func (pt *Pointer) Drag(ctx context.Context, path []Point, button int) error {
	return pt.withButton(button, func(b byte) error { return pt.drag(ctx, path, b) })
}

func (pt *Pointer) drag(ctx context.Context, path []Point, button byte) (err error) {
	if len(path) == 0 {
		return errors.New("drag: empty path")
	}
	pt.c.wire.cork()
	pt.motion(path[0])
	under := xproto.QueryPointer(pt.c.x, pt.c.root)
	pt.setButton(button, true)
	pt.pressedAt(button, path[0], 1)
	defer func() {
		pt.c.wire.cork()
		pt.setButton(button, false)
		err = errors.Join(err, pt.flush("end drag"))
		pt.programs.ManagerMayAct()
		pt.programs.Acted(pt.pressedIn)
	}()
	if err := pt.flush("begin drag"); err != nil {
		return err
	}
	if r, err := under.Reply(); err == nil {
		if err := pt.heldElsewhere(button, r.Mask); err != nil {
			return err
		}
	}
	// The drag may move a window by its title bar.
	if err := pt.programs.AwaitManager(ctx); err != nil {
		return err
	}
	source := pt.drain(0)
	pt.pressedIn = source
	pt.rest(dragRest)
	steps := dragPath(path)
	size := min(max(len(steps)/dragStages, 1), corkedClicks)
	between := dragMotion / time.Duration(len(steps)/size+1)
	for stage := range slices.Chunk(steps, size) {
		pt.c.wire.cork()
		for _, p := range stage {
			pt.motion(p)
		}
		if err := pt.flush("drag"); err != nil {
			return err
		}
		pt.rest(between)
	}
	pt.drain(source) // it sees the motion, and asks the window below
	pt.drain(0)      // which answers
	pt.drain(source)
	pt.programs.ManagerMayAct()
	if err := pt.programs.AwaitManager(ctx); err != nil {
		return err
	}
	pt.rest(dragRest)
	return nil
}

func (pt *Pointer) rest(d time.Duration) {
	select {
	case <-time.After(d):
	case <-pt.c.done:
	}
}

// drain waits up to dragWait until the application of a window, or of the one under the
// pointer if win is 0, has taken its events. It returns the window.
func (pt *Pointer) drain(win xproto.Window) xproto.Window {
	if win == 0 {
		_, below, err := pt.programs.Pointed()
		if err != nil || below == 0 {
			return 0
		}
		win = below
	}
	ctx, cancel := context.WithTimeout(context.Background(), dragWait)
	defer cancel()
	if err := pt.programs.DrainWindow(ctx, win); err != nil {
		pt.c.log.Debug("drag goes on", "window", uint32(win), "error", err)
	}
	return win
}

// dragPath adds points to a path.
func dragPath(path []Point) []Point {
	length := 0.0
	for i := 1; i < len(path); i++ {
		length += distance(path[i-1], path[i])
	}
	step := max(dragStep, length/dragSteps)
	out := make([]Point, 0, len(path)+dragSteps)
	for i := 1; i < len(path); i++ {
		a, b := path[i-1], path[i]
		n := int(math.Ceil(distance(a, b) / step))
		for j := 1; j < n; j++ {
			f := float64(j) / float64(n)
			out = append(out, Point{a.X + int(math.Round(f*float64(b.X-a.X))), a.Y + int(math.Round(f*float64(b.Y-a.Y)))})
		}
		out = append(out, b)
	}
	return out
}

func distance(a, b Point) float64 { return math.Hypot(float64(b.X-a.X), float64(b.Y-a.Y)) }
