package desktop

import (
	"bytes"
	"fmt"
	"image/png"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/deskhand/deskhand/internal/x11"
)

// Bounds of inputs.
const (
	maxClicks = 100
	maxScroll = 1000
	maxPath   = 10000
	maxText   = 1 << 20 // bytes
	maxDelay  = 10 * time.Second
)

// Validate returns the *InvalidError that [Desktop.Move] would return, without input. It
// does not check Observation.
func (m Move) Validate() error { return validPlace(&m.At, m.Modifiers) }

// Validate is like [Move.Validate], for [Desktop.Click].
func (c Click) Validate() error {
	if c.Count < 0 || c.Count > maxClicks {
		return &InvalidError{"Count", fmt.Sprintf("must be between 1 and %d", maxClicks)}
	}
	return ButtonPress{c.At, c.Button, c.Modifiers, c.Observation}.Validate()
}

// Validate is like [Move.Validate], for [Desktop.ButtonDown] and [Desktop.ButtonUp].
func (b ButtonPress) Validate() error {
	if _, _, err := buttonNumber(b.Button); err != nil {
		return err
	}
	return validPlace(b.At, b.Modifiers)
}

// Validate is like [Move.Validate], for [Desktop.Drag].
func (g Drag) Validate() error {
	switch _, _, err := buttonNumber(g.Button); {
	case err != nil:
		return err
	case len(g.Path) < 2:
		return &InvalidError{"Path", "must have at least two points"}
	case len(g.Path) > maxPath:
		return &InvalidError{"Path", fmt.Sprintf("must have at most %d points", maxPath)}
	}
	for _, p := range g.Path {
		if err := checkPoint(p); err != nil {
			return err
		}
	}
	return validModifiers(g.Modifiers)
}

// Validate is like [Move.Validate], for [Desktop.Scroll].
func (w Scroll) Validate() error {
	if w.DX < -maxScroll || w.DX > maxScroll || w.DY < -maxScroll || w.DY > maxScroll {
		return &InvalidError{"DY", fmt.Sprintf("deltaX and deltaY must be between -%d and %d", maxScroll, maxScroll)}
	}
	return validPlace(w.At, w.Modifiers)
}

// Validate is like [Move.Validate], for [Desktop.Type]. It does not check whether there is a
// secret of the name SecretName.
func (t Type) Validate() error {
	t, err := t.Resolve(func(string) (string, bool) { return "any", true })
	if err == nil {
		_, err = t.parse()
	}
	return err
}

func (t Type) parse() (text x11.Text, err error) {
	switch {
	case t.Text == "":
		return text, &InvalidError{"Text", "must not be empty"}
	case len(t.Text) > maxText:
		return text, &InvalidError{"Text", fmt.Sprintf("must be at most %d bytes; put longer text on the clipboard and paste it", maxText)}
	case t.Delay < 0 || t.Delay > maxDelay:
		return text, &InvalidError{"Delay", fmt.Sprintf("must be between 0 and %d", maxDelay.Milliseconds())}
	case t.Mode == TypePaste && t.Secret:
		return text, &InvalidError{"Mode", "must not be paste for a secret, which other programs could read on the clipboard"}
	case !slices.Contains([]TypeMode{"", TypeAuto, TypeKeys, TypePaste}, t.Mode):
		return text, &InvalidError{"Mode", "must be auto, keys or paste"}
	}
	if text, err = x11.ParseText(t.Text); err != nil {
		return text, &InvalidError{"Text", err.Error()}
	}
	return text, nil
}

// Validate is like [Move.Validate], for [Desktop.Press]. A key for [Desktop.KeyDown] and
// [Desktop.KeyUp] is valid as Keys.
func (p Press) Validate() error {
	if p.Keys == "" {
		return &InvalidError{"Keys", "must not be empty"}
	}
	if _, err := x11.ParseChord(p.Keys); err != nil {
		return keyError("Keys", err)
	}
	return validModifiers(p.Modifiers)
}

// Validate returns the error that [Desktop.Launch] would return for a Launch that no desktop
// can execute: an *InvalidError, or one that wraps ErrAppNotFound if App is empty.
func (l Launch) Validate() error {
	if l.App == "" {
		return fmt.Errorf("launch: no name: %w", ErrAppNotFound)
	}
	for field, list := range map[string][]string{"App": {l.App}, "Args": l.Args, "Env": l.Env, "Dir": {l.Dir}} {
		for _, v := range list {
			if strings.ContainsRune(v, 0) {
				return &InvalidError{field, "must not contain a NUL character"}
			}
		}
	}
	for _, kv := range l.Env {
		if name, _, ok := strings.Cut(kv, "="); !ok || name == "" {
			return &InvalidError{"Env", fmt.Sprintf("%q is not NAME=value", kv)}
		}
	}
	return nil
}

// Validate returns the *InvalidError that [Desktop.Screenshot] would return. It does not check
// Region.
func (o ScreenshotOptions) Validate() error {
	_, err := o.withDefaults()
	return err
}

// ValidateTarget is like [Move.Validate], for [Desktop.Open].
func ValidateTarget(target string) error {
	switch {
	case strings.TrimSpace(target) == "":
		return &InvalidError{"target", "must be a URL or a path"}
	case strings.HasPrefix(target, "-"):
		return &InvalidError{"target", "must not begin with a dash; write ./ before a file's name"}
	case strings.ContainsRune(target, 0):
		return &InvalidError{"target", "must not contain a NUL character"}
	}
	return nil
}

// Validate is like [Move.Validate], for [Desktop.SetClipboard].
func (c Content) Validate() error {
	contentType, err := checkType(c.Type)
	switch {
	case err != nil:
		return err
	case len(c.Data) > x11.MaxContent:
		return &InvalidError{"Data", fmt.Sprintf("must be at most %d bytes", x11.MaxContent)}
	case contentType == TypeText && !utf8.Valid(c.Data):
		return &InvalidError{"Data", "must be valid UTF-8"}
	case contentType == TypePNG:
		if _, err := png.DecodeConfig(bytes.NewReader(c.Data)); err != nil {
			return &InvalidError{"Data", "must be a PNG file"}
		}
	}
	return nil
}

func validPlace(at *Point, modifiers []string) error {
	if at != nil {
		if err := checkPoint(*at); err != nil {
			return err
		}
	}
	return validModifiers(modifiers)
}

func checkPoint(p Point) error {
	if p.X < 0 || p.Y < 0 {
		return &InvalidError{"X", "coordinates must be non-negative"}
	}
	return nil
}

func validModifiers(names []string) error {
	for _, name := range names {
		chord, err := x11.ParseChord(name)
		if err == nil && !chord.ModifiesOnly() {
			err = &x11.KeyError{Name: name, Problem: "is not a modifier"}
		}
		if err != nil {
			return keyError("Modifiers", err)
		}
	}
	return nil
}
