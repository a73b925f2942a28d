package browser

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/deskhand/deskhand/desktop"
)

// Click clicks an element.
type Click struct {
	Tab string `json:"tab,omitempty"` // of a selector; empty: the active one
	Element
	Button    desktop.Button `json:"button,omitempty"`    // empty: left
	Count     int            `json:"count,omitempty"`     // 0: 1; at most 3
	Modifiers []string       `json:"modifiers,omitempty"` // held meanwhile: "ctrl", "shift", "alt", "super"
	Timeout   Milliseconds   `json:"timeoutMs,omitempty"` // until the element is at rest, enabled and uncovered; 0: 5000
}

// The ways in which an element is clicked.
const (
	ViaPointer = "pointer" // the desktop's pointer
	ViaBrowser = "browser" // the DevTools protocol: the element is not visible on the screen
)

// Clicked says how Click has clicked.
type Clicked struct {
	Via string         `json:"via"`
	At  *desktop.Point `json:"at,omitempty"` // on the screen, by the pointer
}

// aimed is where page.js found the middle of an element, in its frame.
type aimed struct {
	X, Y          float64
	Width, Height float64 // of the frame's viewport
}

// Click scrolls an element into view, waits until it can be clicked, and clicks its middle: with
// the desktop's pointer if the element is visible on the screen, and otherwise by the
// protocol. Other input can run while the element is not ready. Click does not wait for what the
// page does then. It returns a *NotReadyError if the element cannot be clicked within
// Click.Timeout, or if something else got the click, and a *desktop.DeadlineError if the whole
// call takes 10 s longer than that.
func (b *Browser) Click(ctx context.Context, c Click) (Clicked, error) {
	c.Button, c.Count, c.Timeout = cmp.Or(c.Button, desktop.ButtonLeft), cmp.Or(c.Count, 1), cmp.Or(c.Timeout, 5000)
	if c.Count < 0 || c.Count > 3 {
		return Clicked{}, &InvalidError{"Count", "must be between 1 and 3"}
	}
	if err := checkTimeout(c.Timeout); err != nil {
		return Clicked{}, err
	}
	ctx, cancel := (c.Timeout + pageLimit).limit(ctx, "click", 0)
	defer cancel()
	done, err := b.click(ctx, c)
	return done, explain(ctx, err)
}

func (b *elements) click(ctx context.Context, c Click) (done Clicked, err error) {
	r, err := b.resolve(ctx, c.Tab, c.Element)
	if err != nil {
		return done, err
	}
	t, session, err := b.tab(ctx, r.tab)
	if err != nil {
		return done, err
	}
	end := time.Now().Add(c.Timeout.Duration())
	err = b.inTurn(ctx, "click", func(ctx context.Context, turn *desktop.Turn) error {
		if err := b.show(ctx, session); err != nil {
			return err
		}
		for {
			var err error
			done, err = b.tryClick(ctx, c, t, session, r)
			if !errors.Is(err, ErrNotReady) || done.Via != "" || time.Until(end) <= 0 {
				return err
			}
			pause := func(ctx context.Context) error { return pause(ctx, aimPause) }
			if err := turn.Yield(ctx, pause); err != nil {
				return err
			}
		}
	})
	return done, err
}

// The times in which an element that is not ready is tried again.
const (
	aimTime  = 200 * time.Millisecond // of a try
	aimPause = 50 * time.Millisecond  // in which other input can run
)

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// tryClick clicks an element if it is ready. If it returns a *NotReadyError and no Clicked.Via, it
// has not clicked.
func (b *elements) tryClick(ctx context.Context, c Click, t *tab, session string, r reference) (done Clicked, err error) {
	f, at, err := b.aim(ctx, c.Element, t, session, r)
	if err != nil {
		return done, err
	}
	point, err := b.reach(ctx, c, t, session, r, f, at)
	if err != nil {
		return done, err
	}
	if point == nil {
		return b.clickHidden(ctx, c, session, r, f, at)
	}
	if err := b.still(ctx, c.Element, t, session, r, at); err != nil {
		return done, err
	}
	done = Clicked{ViaPointer, point}
	return done, b.watched(ctx, c.Element, r, func() error {
		_, err := b.cfg.Desktop.Click(ctx, desktop.Click{At: point, Button: c.Button, Count: c.Count, Modifiers: c.Modifiers})
		return err
	})
}

// watched runs click, after the page was asked for hover. It returns a *NotReadyError if something
// other than the element got the click.
func (b *elements) watched(ctx context.Context, e Element, r reference, click func() error) (err error) {
	asked, cancel := context.WithCancel(ctx)
	defer cancel()
	got := make(chan error, 1)
	go func() { got <- b.runOn(asked, e, r, "pressed", nil) }() // asked before: the click may open a dialog
	if err := click(); err != nil {
		return err
	}
	select {
	case err = <-got:
	case <-time.After(pressedLimit):
		cancel()
		asked, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		err = b.runOn(asked, e, r, "lost", nil)
	}
	// Any other error comes from what the click did: the page has gone, or shows a dialog.
	if failed, ok := errors.AsType[*NotReadyError](err); ok {
		return failed
	}
	return nil
}

// pressedLimit is how long a click may take to reach its page.
const pressedLimit = 2 * time.Second

// still returns a *NotReadyError if an element is no longer where aim found it, or is covered there.
func (b *elements) still(ctx context.Context, e Element, t *tab, session string, r reference, at aimed) error {
	err := b.runOn(ctx, e, r, "still", nil, at.X, at.Y)
	if err != nil || r.frame.parent == "" {
		return err
	}
	_, err = b.inFrame(ctx, e, t, session, r, at)
	return err
}

// clickHidden clicks an element by the protocol.
func (b *elements) clickHidden(ctx context.Context, c Click, session string, r reference, f frame, at aimed) (done Clicked, err error) {
	err = b.act(ctx, "click", c.Element.String(), func(ctx context.Context) error {
		if err := b.runOn(ctx, c.Element, r, "hover", nil, c.Count); err != nil {
			return err
		}
		moved, cancel := context.WithTimeout(ctx, aimTime) // the page may show a dialog
		defer cancel()
		_ = b.call(moved, session, "Input.dispatchMouseEvent", map[string]any{
			"type": "mouseMoved", "x": f.x + at.X, "y": f.y + at.Y, "modifiers": bitsOf(c.Modifiers),
		}, nil)
		if err := b.runOn(ctx, c.Element, r, "still", nil, at.X, at.Y); err != nil {
			return err
		}
		done.Via = ViaBrowser
		return b.watched(ctx, c.Element, r, func() error {
			b.postClick(session, f.x+at.X, f.y+at.Y, c)
			return nil
		})
	})
	return done, err
}

// aim scrolls an element into view and returns its frame and its middle there. It returns a
// *NotReadyError if the element cannot be clicked within aimTime.
func (b *elements) aim(ctx context.Context, e Element, t *tab, session string, r reference) (f frame, at aimed, err error) {
	if err := b.runOn(ctx, e, r, "aim", &at, aimTime.Milliseconds()); err != nil || r.frame.parent == "" {
		return r.frame, at, err
	}
	f, err = b.inFrame(ctx, e, t, session, r, at) // the scrolling may have moved it
	return f, at, err
}

// inFrame returns the frame of an element as it is now. It returns a *NotReadyError if the middle of
// the element cannot be clicked there.
func (b *elements) inFrame(ctx context.Context, e Element, t *tab, session string, r reference, at aimed) (f frame, err error) {
	frames := b.frames(ctx, t, session)
	i := slices.IndexFunc(frames, func(f frame) bool { return f.id == r.frame.id })
	if i < 0 {
		return f, &NotReadyError{e.String(), "in a frame that is not visible"}
	}
	f = frames[i]
	if f.bent || math.Abs(f.width-at.Width) > 2 || math.Abs(f.height-at.Height) > 2 {
		return f, &NotReadyError{e.String(), "in a frame that is scaled or turned; use the pointer of the desktop"}
	}
	why, err := b.hidden(ctx, session, frames, f, at)
	if err == nil && why != "" {
		err = &NotReadyError{e.String(), why}
	}
	return f, err
}

// show makes a tab the visible one of its window.
func (b *process) show(ctx context.Context, session string) error {
	return b.call(ctx, session, "Page.bringToFront", nil, nil)
}

// reach moves the pointer to a place in a frame and returns its position on the screen. It
// returns nil if the page does not get the pointer there: it is headless, or another window is
// in front of it.
func (b *elements) reach(ctx context.Context, c Click, t *tab, session string, r reference, f frame, at aimed) (*desktop.Point, error) {
	if b.cfg.Headless {
		return nil, nil //nolint:nilnil // documented
	}
	var guess origin
	if err := b.runScript(ctx, frame{id: t.id, session: session}, "origin", &guess); err != nil {
		return nil, err
	}
	if !guess.Visible {
		return nil, nil //nolint:nilnil // documented
	}
	base := b.calibrated(t, guess)
	size := b.cfg.Desktop.Status().Size
	for range 3 {
		p := desktop.Point{
			X: int(math.Round(base.X + (f.x+at.X)*base.Zoom)), Y: int(math.Round(base.Y + (f.y+at.Y)*base.Zoom)),
		}
		if p.X < 1 || p.Y < 1 || p.X >= size.Width || p.Y >= size.Height {
			return nil, nil //nolint:nilnil // documented
		}
		seen, err := b.hover(ctx, c, r, p)
		if err != nil || seen == nil {
			return nil, err
		}
		dx, dy := (at.X-seen.X)*base.Zoom, (at.Y-seen.Y)*base.Zoom
		if math.Abs(dx) <= 1 && math.Abs(dy) <= 1 {
			b.mu.Lock()
			if len(base.Key) <= maxID {
				t.origin = base
			}
			b.mu.Unlock()
			return &p, nil
		}
		base.X += dx
		base.Y += dy
	}
	return nil, nil //nolint:nilnil // documented
}

// hover moves the pointer and returns where a frame sees it, or nil.
func (b *elements) hover(ctx context.Context, c Click, r reference, p desktop.Point) (*aimed, error) {
	now, err := b.cfg.Desktop.Pointer(ctx)
	if err != nil {
		return nil, err
	}
	if now.Point == p { // the page would not see a move
		if _, err := b.cfg.Desktop.Move(ctx, desktop.Move{At: desktop.Point{X: p.X - 1, Y: p.Y}}); err != nil {
			return nil, err
		}
	}
	if err := b.runOn(ctx, c.Element, r, "hover", nil, c.Count); err != nil {
		return nil, err
	}
	if _, err := b.cfg.Desktop.Move(ctx, desktop.Move{At: p}); err != nil {
		return nil, err
	}
	var seen *aimed
	err = b.runScript(ctx, r.frame, "hovered", &seen)
	return seen, err
}

// modifierBits are the modifiers of the protocol.
var modifierBits = map[string]int{"alt": 1, "ctrl": 2, "control": 2, "meta": 4, "super": 4, "shift": 8}

func bitsOf(modifiers []string) (bits int) {
	for _, m := range modifiers {
		bits |= modifierBits[strings.ToLower(m)]
	}
	return bits
}

// postClick clicks by the protocol. It does not wait, because a click can open a dialog, which
// stops the page.
func (b *elements) postClick(session string, x, y float64, c Click) {
	b.mu.Lock()
	defer b.mu.Unlock()
	event := func(kind string, count int) {
		b.post(session, "Input.dispatchMouseEvent", map[string]any{
			"type": kind, "x": x, "y": y, "button": c.Button, "clickCount": count, "modifiers": bitsOf(c.Modifiers),
		})
	}
	for n := 1; n <= c.Count; n++ {
		event("mousePressed", n)
		event("mouseReleased", n)
	}
}
