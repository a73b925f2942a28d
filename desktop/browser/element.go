package browser

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
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
// Click.Timeout, and a *desktop.DeadlineError if the whole call takes 10 s longer than that.
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
	err = b.inTurn(ctx, "click", func(ctx context.Context, turn *desktop.Turn) error {
		if err := b.show(ctx, session); err != nil {
			return err
		}
		f, at, err := b.awaitReady(ctx, turn, c, t, session, r)
		if err != nil {
			return err
		}
		point, err := b.reach(ctx, t, session, f, at)
		if err != nil {
			return err
		}
		if point != nil {
			done = Clicked{ViaPointer, point}
			_, err := b.cfg.Desktop.Click(ctx, desktop.Click{At: point, Button: c.Button, Count: c.Count, Modifiers: c.Modifiers})
			return err
		}
		done.Via = ViaBrowser
		return b.act(ctx, "click", c.Element.String(), func(context.Context) error {
			b.postClick(session, f.x+at.X, f.y+at.Y, c)
			return nil
		})
	})
	return done, err
}

// The times of awaitReady, in which an element that is not ready is tried again.
const (
	aimTime  = 200 * time.Millisecond // of a try
	aimPause = 50 * time.Millisecond  // in which other input can run
)

// awaitReady waits until an element can be clicked, at most for Click.Timeout, and returns its
// frame and its middle there.
func (b *elements) awaitReady(ctx context.Context, turn *desktop.Turn, c Click, t *tab, session string, r reference) (f frame, at aimed, err error) {
	end := time.Now().Add(c.Timeout.Duration())
	for {
		f, at, err = b.aim(ctx, c.Element, t, session, r)
		if !errors.Is(err, ErrNotReady) || time.Until(end) <= 0 {
			return f, at, err
		}
		pause := func(ctx context.Context) error {
			select {
			case <-time.After(aimPause):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if err := turn.Yield(ctx, pause); err != nil {
			return f, at, err
		}
	}
}

// aim scrolls an element into view and returns its frame and its middle there. It returns a
// *NotReadyError if the element cannot be clicked within aimTime.
func (b *elements) aim(ctx context.Context, e Element, t *tab, session string, r reference) (f frame, at aimed, err error) {
	if err := b.runOn(ctx, e, r, "aim", &at, aimTime.Milliseconds()); err != nil || r.frame.parent == "" {
		return r.frame, at, err
	}
	frames := b.frames(ctx, t, session) // the scrolling may have moved them
	i := slices.IndexFunc(frames, func(f frame) bool { return f.id == r.frame.id })
	if i < 0 {
		return f, at, &NotReadyError{e.String(), "in a frame that is not visible"}
	}
	f = frames[i]
	if f.bent || math.Abs(f.width-at.Width) > 2 || math.Abs(f.height-at.Height) > 2 {
		return f, at, &NotReadyError{e.String(), "in a frame that is scaled or turned; use the pointer of the desktop"}
	}
	why, err := b.hidden(ctx, session, frames, f, at)
	if err == nil && why != "" {
		err = &NotReadyError{e.String(), why}
	}
	return f, at, err
}

// show makes a tab the visible one of its window.
func (b *process) show(ctx context.Context, session string) error {
	return b.call(ctx, session, "Page.bringToFront", nil, nil)
}

// reach moves the pointer to a place in a frame and returns its position on the screen. It
// returns nil if the page does not get the pointer there: it is headless, or another window is
// in front of it.
func (b *elements) reach(ctx context.Context, t *tab, session string, f frame, at aimed) (*desktop.Point, error) {
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
		seen, err := b.hover(ctx, f, p)
		if err != nil || seen == nil {
			return nil, err
		}
		dx, dy := (at.X-seen.X)*base.Zoom, (at.Y-seen.Y)*base.Zoom
		if math.Abs(dx) <= 1 && math.Abs(dy) <= 1 {
			b.mu.Lock()
			t.origin = base
			b.mu.Unlock()
			return &p, nil
		}
		base.X += dx
		base.Y += dy
	}
	return nil, nil //nolint:nilnil // documented
}

// hover moves the pointer and returns where a frame sees it, or nil.
func (b *elements) hover(ctx context.Context, f frame, p desktop.Point) (*aimed, error) {
	now, err := b.cfg.Desktop.Pointer(ctx)
	if err != nil {
		return nil, err
	}
	if now.Point == p { // the page would not see a move
		if _, err := b.cfg.Desktop.Move(ctx, desktop.Move{At: desktop.Point{X: p.X - 1, Y: p.Y}}); err != nil {
			return nil, err
		}
	}
	if err := b.runScript(ctx, f, "hover", nil); err != nil {
		return nil, err
	}
	if _, err := b.cfg.Desktop.Move(ctx, desktop.Move{At: p}); err != nil {
		return nil, err
	}
	var seen *aimed
	err = b.runScript(ctx, f, "hovered", &seen)
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
	event("mouseMoved", 0)
	for n := 1; n <= c.Count; n++ {
		event("mousePressed", n)
		event("mouseReleased", n)
	}
}

// Fill replaces the content of a text field.
type Fill struct {
	Tab string `json:"tab,omitempty"`
	Element
	Text   string `json:"text,omitempty"`
	Secret string `json:"secret,omitempty"` // in place of Text: the name of a secret of desktop.Config.SecretValue
}

// maxFill bounds a text, in bytes.
const maxFill = 1 << 20

// Fill replaces the content of a text field, a date field or an editable element, as if a person
// had pasted a text. The desktop's event has the name of the secret, and neither its value nor
// the text. Fill returns a *NotReadyError if the element takes no text, and an error that wraps
// desktop.ErrSecretNotFound if there is no such secret.
func (b *Browser) Fill(ctx context.Context, f Fill) error {
	switch {
	case f.Secret != "" && f.Text != "":
		return &InvalidError{"Secret", "must not be given together with text"}
	case len(f.Text) > maxFill:
		return &InvalidError{"Text", "must have at most 1 MiB"}
	case f.Secret != "":
		value, ok := b.ext.Secret(f.Secret)
		if !ok {
			return fmt.Errorf("fill: %w", desktop.ErrSecretNotFound)
		}
		f.Text = value
	}
	ctx, cancel := Milliseconds(pageLimit).limit(ctx, "fill", 0)
	defer cancel()
	r, err := b.resolve(ctx, f.Tab, f.Element)
	if err != nil {
		return explain(ctx, err)
	}
	a := desktop.Action{Command: "fill", Target: f.Element.String(), Secret: f.Secret}
	return explain(ctx, b.inTurn(ctx, "fill", func(ctx context.Context, _ *desktop.Turn) error {
		return b.perform(ctx, a, func(ctx context.Context) error {
			var v struct{ Done bool }
			if err := b.runOn(ctx, f.Element, r, "fill", &v, f.Text); err != nil || v.Done {
				return err
			}
			return b.call(ctx, r.frame.session, "Input.insertText", map[string]any{"text": f.Text}, nil)
		})
	}))
}

// Select selects options of a list.
type Select struct {
	Tab string `json:"tab,omitempty"`
	Element
	Values []string `json:"values"` // values or labels of options
}

// Selected is what Select selected.
type Selected struct {
	Values []string `json:"values"`
}

// Select selects the options of a list that Select.Values names, and no others. It returns what
// is selected then, and a *NotReadyError if the element is no list or has no such option.
func (b *Browser) Select(ctx context.Context, s Select) (selected Selected, err error) {
	if s.Values == nil {
		s.Values = []string{}
	}
	ctx, cancel := Milliseconds(pageLimit).limit(ctx, "select", 0)
	defer cancel()
	r, err := b.resolve(ctx, s.Tab, s.Element)
	if err != nil {
		return selected, explain(ctx, err)
	}
	err = b.act(ctx, "select", s.Element.String(), func(ctx context.Context) error {
		return b.runOn(ctx, s.Element, r, "select", &selected, s.Values)
	})
	return selected, explain(ctx, err)
}

// Press presses a key or chord in a page.
type Press struct {
	Tab     string `json:"tab,omitempty"`
	Element        // gets the focus first; may be left out
	Keys    string `json:"keys"` // as in desktop.Press
}

// Press shows a page, gives an element the focus if one is named, and presses a key or chord with
// the desktop's keyboard. It returns a *NotReadyError if the page is not in the window that has
// the focus. A headless browser accepts only named keys and single characters.
func (b *Browser) Press(ctx context.Context, p Press) error {
	if p.Keys == "" {
		return &InvalidError{"Keys", "must name a key or chord"}
	}
	ctx, cancel := Milliseconds(pageLimit).limit(ctx, "press", 0)
	defer cancel()
	return explain(ctx, b.press(ctx, p))
}

func (b *elements) press(ctx context.Context, p Press) error {
	var r reference
	named := p.Element != (Element{})
	if named {
		var err error
		if r, err = b.resolve(ctx, p.Tab, p.Element); err != nil {
			return err
		}
		p.Tab = r.tab
	}
	t, session, err := b.tab(ctx, p.Tab)
	if err == nil && !named { // the wait for a page that hangs, as in resolve
		if err = b.awaitNoDialog(ctx, session); err == nil {
			err = b.evaluateIn(ctx, session, 0, "0", nil)
		}
	}
	if err != nil {
		return err
	}
	return b.inTurn(ctx, "press", func(ctx context.Context, _ *desktop.Turn) error {
		err := b.show(ctx, session)
		if err == nil && named {
			err = b.runOn(ctx, p.Element, r, "focus", nil)
		}
		if err != nil {
			return err
		}
		if b.cfg.Headless {
			return b.pressHeadless(ctx, session, p.Keys)
		}
		if err := b.awaitFocus(ctx, t, session); err != nil {
			return err
		}
		return b.cfg.Desktop.Press(ctx, desktop.Press{Keys: p.Keys})
	})
}

// keyCodes are the keys of headless browsers, by their names in lower case (UI Events, "Named key
// Attribute Values").
var keyCodes = map[string]struct {
	name, text string
	code       int
}{
	"return": {"Enter", "\r", 13}, "enter": {"Enter", "\r", 13}, "tab": {"Tab", "", 9}, "escape": {"Escape", "", 27},
	"backspace": {"Backspace", "", 8}, "delete": {"Delete", "", 46}, "space": {" ", " ", 32},
	"up": {"ArrowUp", "", 38}, "down": {"ArrowDown", "", 40}, "left": {"ArrowLeft", "", 37}, "right": {"ArrowRight", "", 39},
	"home": {"Home", "", 36}, "end": {"End", "", 35}, "page_up": {"PageUp", "", 33}, "page_down": {"PageDown", "", 34},
	"pageup": {"PageUp", "", 33}, "pagedown": {"PageDown", "", 34},
}

func (b *process) pressHeadless(ctx context.Context, session, keys string) error {
	parts := strings.Split(keys, "+")
	last := parts[len(parts)-1]
	key, known := keyCodes[strings.ToLower(last)]
	if r := []rune(last); !known && len(r) == 1 {
		key.name, key.text, known = last, last, true
		key.code = int([]rune(strings.ToUpper(last))[0])
	}
	if !known {
		return &InvalidError{"Keys", fmt.Sprintf("has the key %q, which headless browsers do not have here", last)}
	}
	bits := bitsOf(parts[:len(parts)-1])
	if bits&^modifierBits["shift"] != 0 {
		key.text = ""
	}
	return b.act(ctx, "press", "", func(ctx context.Context) error {
		for _, kind := range []string{"keyDown", "keyUp"} {
			params := map[string]any{"type": kind, "key": key.name, "windowsVirtualKeyCode": key.code, "modifiers": bits}
			if kind == "keyDown" && key.text != "" {
				params["text"] = key.text
			}
			if err := b.call(ctx, session, "Input.dispatchKeyEvent", params, nil); err != nil {
				return err
			}
		}
		return nil
	})
}

// Upload chooses files for a file field.
type Upload struct {
	Tab string `json:"tab,omitempty"`
	Element
	Files []string `json:"files"` // absolute paths, or paths in the desktop's home
}

// Upload chooses files for a file field, without a dialog. It returns an *InvalidError for a file
// that is not below the desktop's home or one of Config.UploadDirs, or not a regular file, and
// for more than 100 files.
func (b *Browser) Upload(ctx context.Context, u Upload) error {
	files, err := b.uploadable(u.Files)
	if err != nil {
		return err
	}
	ctx, cancel := Milliseconds(pageLimit).limit(ctx, "upload", 0)
	defer cancel()
	r, err := b.resolve(ctx, u.Tab, u.Element)
	if err != nil {
		return explain(ctx, err)
	}
	return explain(ctx, b.act(ctx, "upload", u.Element.String(), func(ctx context.Context) error {
		if err := b.runOn(ctx, u.Element, r, "focus", nil); err != nil {
			return err
		}
		contextID, err := b.world(ctx, r.frame)
		if err != nil {
			return err
		}
		var v struct{ Result remoteObject }
		err = b.call(ctx, r.frame.session, "Runtime.evaluate", map[string]any{
			"expression": fmt.Sprintf("deskhand.get(%d)", r.number), "contextId": contextID,
		}, &v)
		if err != nil {
			return err
		}
		return b.call(ctx, r.frame.session, "DOM.setFileInputFiles", map[string]any{"files": files, "objectId": v.Result.ObjectID}, nil)
	}))
}

// maxUploads bounds the files of an Upload.
const maxUploads = 100

func (b *process) uploadable(paths []string) ([]string, error) {
	if len(paths) > maxUploads {
		return nil, &InvalidError{"Files", fmt.Sprintf("must be at most %d", maxUploads)}
	}
	var dirs []string
	for _, dir := range append([]string{b.home}, b.cfg.UploadDirs...) {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			dirs = append(dirs, real)
		}
	}
	files := []string{}
	for _, path := range paths {
		// The same for all: a client must not learn which files of the server's user exist.
		refused := &InvalidError{"Files", fmt.Sprintf("has %s, which is no file in the desktop's home or below a root of the server", path)}
		if !filepath.IsAbs(path) {
			path = filepath.Join(b.home, path)
		}
		real, err := filepath.EvalSymlinks(path)
		if err != nil {
			return nil, refused
		}
		below := func(dir string) bool {
			rel, err := filepath.Rel(dir, real)
			return err == nil && filepath.IsLocal(rel)
		}
		if !slices.ContainsFunc(dirs, below) {
			return nil, refused
		}
		if info, err := os.Stat(real); err != nil || !info.Mode().IsRegular() {
			return nil, refused
		}
		files = append(files, real)
	}
	return files, nil
}
