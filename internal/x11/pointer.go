package x11

import (
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
	// corkedClicks bounds the presses and releases in one write.
	corkedClicks = 100
	// Buttons that are the wheel's.
	wheelFirst, wheelLast = 4, 7
	// dragStep is the longest way between two positions of a drag. Toolkits
	// begin a drag only after the pointer has left a small area (8 pixels in
	// GTK), and look what is below it at each motion.
	dragStep  = 8
	dragSteps = 256 // per drag, beyond the path's own points
	// How long a drag takes: dragRest with the button down at either end, and
	// dragMotion between, in that many stages.
	dragRest   = 100 * time.Millisecond
	dragMotion = 250 * time.Millisecond
	dragStages = 24
	// dragWait bounds the wait for an application in a drag: it goes on
	// without it.
	dragWait = 300 * time.Millisecond
	// clickGap is the least time between two presses: Chromium takes those with
	// the same time stamp, which is in milliseconds, for one.
	clickGap = 2 * time.Millisecond
)

// Pointer is where the pointer is, and what is below it: the top-level window
// that a window manager manages, else the root's child, else the root.
func (in *Input) Pointer() (x, y, screen int, top Window, err error) {
	r, err := xproto.QueryPointer(in.c.x, in.c.root).Reply()
	if err != nil {
		return 0, 0, 0, 0, wrap("query pointer", err)
	}
	win := r.Root
	if r.Child != 0 {
		win = in.managed(r.Child)
	}
	return int(r.RootX), int(r.RootY), 0, Window(win), nil
}

// Move puts the pointer at a place on the screen.
func (in *Input) Move(x, y int) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if err := in.use(); err != nil {
		return err
	}
	in.c.wire.cork()
	in.motion(Point{x, y})
	if len(in.buttons) > 0 { // part of a drag
		in.unsettle()
		in.acted.note(in.acted.press)
	}
	return in.flush("move pointer")
}

func (in *Input) motion(p Point) {
	clamp := func(v int) int16 { return int16(min(max(v, math.MinInt16), math.MaxInt16)) }
	xtest.FakeInput(in.c.x, xproto.MotionNotify, 0, 0, in.c.root, clamp(p.X), clamp(p.Y), 0)
}

// Button presses or releases a button, numbered as X does: 1 left, 2 middle,
// 3 right, 8 back, 9 forward.
func (in *Input) Button(button int, down bool) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if err := in.checkButton(button); err != nil {
		return err
	}
	in.c.wire.cork()
	under := xproto.QueryPointer(in.c.x, in.c.root)
	in.setButton(byte(button), down)
	err := in.flush("press button")
	in.noteBelow(under, down)
	return err
}

// noteBelow notes the window that got a button, and with its release the one
// that got the press.
func (in *Input) noteBelow(under xproto.QueryPointerCookie, down bool) {
	r, err := under.Reply()
	if err != nil {
		return
	}
	in.acted.note(r.Child)
	if down {
		in.acted.press = r.Child
	} else {
		in.unsettle()
		in.acted.note(in.acted.press)
	}
}

func (in *Input) checkButton(button int) error {
	if button < 1 || button > 255 {
		return fmt.Errorf("pointer button %d: want 1 to 255", button)
	}
	return in.use()
}

func (in *Input) setButton(button byte, down bool) {
	if !down {
		in.fake(xproto.ButtonRelease, button)
		in.buttons = slices.DeleteFunc(in.buttons, func(b byte) bool { return b == button })
		return
	}
	delay := time.Duration(0) // which the server waits
	if button < wheelFirst || button > wheelLast {
		in.unsettled++
		if time.Since(in.pressed) < clickGap {
			delay = clickGap
		}
		in.pressed = time.Now()
	}
	xtest.FakeInput(in.c.x, xproto.ButtonPress, button, uint32(delay.Milliseconds()), 0, 0, 0, 0)
	if !slices.Contains(in.buttons, button) {
		in.buttons = append(in.buttons, button)
	}
}

// Click presses and releases a button count times where the pointer is.
func (in *Input) Click(button, count int) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if err := in.checkButton(button); err != nil {
		return err
	}
	return in.clicks(byte(button), count)
}

func (in *Input) clicks(button byte, count int) error {
	for count > 0 {
		n := min(count, corkedClicks)
		count -= n
		in.c.wire.cork()
		under := xproto.QueryPointer(in.c.x, in.c.root)
		for range n {
			in.setButton(button, true)
			in.setButton(button, false)
		}
		err := in.flush("click")
		in.noteBelow(under, true)
		if err != nil {
			return err
		}
	}
	return nil
}

// Scroll turns the wheel by clicks: dx to the right, dy down. A wheel click is
// one of buttons 4 to 7.
func (in *Input) Scroll(dx, dy int) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if err := in.use(); err != nil {
		return err
	}
	vertical, horizontal := byte(5), byte(7)
	if dy < 0 {
		vertical, dy = 4, -dy
	}
	if dx < 0 {
		horizontal, dx = 6, -dx
	}
	if err := in.clicks(vertical, dy); err != nil {
		return err
	}
	return in.clicks(horizontal, dx)
}

// Drag presses a button at the first point of a path, moves along it and
// releases the button at the last point, or where an error stopped it. It
// takes about half a second: the applications below both ends need to see each
// stage, and a browser's pages do so later than their windows.
func (in *Input) Drag(ctx context.Context, path []Point, button int) (err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if err := in.checkButton(button); err != nil {
		return err
	}
	if len(path) == 0 {
		return errors.New("drag: empty path")
	}
	in.c.wire.cork()
	in.motion(path[0])
	in.setButton(byte(button), true)
	defer func() {
		in.c.wire.cork()
		in.setButton(byte(button), false)
		err = errors.Join(err, in.flush("end drag"))
		in.unsettle()
		in.acted.note(in.acted.press)
	}()
	if err := in.flush("begin drag"); err != nil {
		return err
	}
	// What is dragged may be a window, by its title bar.
	if err := in.awaitManager(ctx); err != nil {
		return err
	}
	source := in.settle(0)
	in.acted.press = source
	in.rest(dragRest)
	steps := dragPath(path)
	size := min(max(len(steps)/dragStages, 1), corkedClicks)
	between := dragMotion / time.Duration(len(steps)/size+1)
	for stage := range slices.Chunk(steps, size) {
		in.c.wire.cork()
		for _, p := range stage {
			in.motion(p)
		}
		if err := in.flush("drag"); err != nil {
			return err
		}
		in.rest(between)
	}
	in.settle(source) // it sees the motion, and asks what is below
	in.settle(0)      // that answers
	in.settle(source)
	in.unsettle()
	if err := in.awaitManager(ctx); err != nil {
		return err
	}
	in.rest(dragRest)
	return nil
}

// rest lets time pass.
func (in *Input) rest(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-in.c.done:
	}
}

// settle waits a little for the application of a window to have taken its
// events; 0 stands for the window below the pointer, which is returned.
func (in *Input) settle(win xproto.Window) xproto.Window {
	if win == 0 {
		r, err := xproto.QueryPointer(in.c.x, in.c.root).Reply()
		if err != nil || r.Child == 0 {
			return 0
		}
		win = in.managed(r.Child)
	}
	ctx, cancel := context.WithTimeout(context.Background(), dragWait)
	defer cancel()
	if err := in.drainWindow(ctx, win); err != nil {
		in.c.log.Debug("drag goes on", "window", uint32(win), "error", err)
	}
	return win
}

// dragPath puts points between those of a path.
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
