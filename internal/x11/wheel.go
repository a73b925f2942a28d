package x11

import (
	"context"
	"time"

	"github.com/jezek/xgb/xproto"
)

const (
	// wheelGap is the time between clicks of the wheel over a browser. A browser joins
	// clicks that come within a picture, and scrolls by at most a page for each picture.
	wheelGap = 35 * time.Millisecond
	// wheelMost bounds the time of one Scroll. Faster clicks are joined.
	wheelMost = 4 * time.Second
)

// Scroll turns the wheel: dx clicks to the right, dy down.
func (pt *Pointer) Scroll(dx, dy int) error {
	return pt.scroll(dx, dy, func(button byte, n int) error { return pt.clicks(button, n) })
}

// ScrollPaced is like Scroll, but gives a browser the time to count each click.
func (pt *Pointer) ScrollPaced(ctx context.Context, dx, dy int) error {
	return pt.scroll(dx, dy, func(button byte, n int) error {
		if n < 2 || !pt.overBrowser() {
			return pt.clicks(button, n)
		}
		gap := min(wheelGap, wheelMost/time.Duration(n))
		for i := range n {
			if i > 0 {
				select {
				case <-time.After(gap):
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			if err := pt.clicks(button, 1); err != nil {
				return err
			}
		}
		return nil
	})
}

func (pt *Pointer) scroll(dx, dy int, turn func(button byte, n int) error) error {
	vertical, horizontal := byte(5), byte(7)
	if dy < 0 {
		vertical, dy = 4, -dy
	}
	if dx < 0 {
		horizontal, dx = 6, -dx
	}
	return pt.locked(func() error {
		if err := turn(vertical, dy); err != nil {
			return err
		}
		return turn(horizontal, dx)
	})
}

// overBrowser reports whether the program of the window under the pointer has several
// processes, as browsers have.
func (pt *Pointer) overBrowser() bool {
	r, err := xproto.QueryPointer(pt.c.x, pt.c.root).Reply()
	return err == nil && r.Child != 0 && pt.programs.IsFamily(r.Child)
}
