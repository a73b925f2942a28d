package desktop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/deskhand/deskhand/internal/x11"
)

// Bounds of typing.
const (
	maxText  = 1 << 20 // bytes
	maxDelay = 10 * time.Second
	maxTold  = 4096 // characters, in events
	// perRune is what a character may take on a busy machine, when each one
	// has to wait for the application to have handled those before.
	perRune  = 50 * time.Millisecond
	typeBase = 30 * time.Second
	typeMost = time.Hour
	// longTyping is how long typing may be expected to take before a release of
	// all input, or control that another takes, ends it instead of waiting.
	longTyping = time.Second
)

// Type types text into the window that has the focus: any Unicode text, at any
// load of the machine. A line feed is Return, a tab is Tab.
//
// When it fails, the *DeadlineError, the *InterruptedError or the error's text
// tells how many characters had been typed.
func (d *Desktop) Type(ctx context.Context, t Type) error {
	n := utf8.RuneCountInString(t.Text)
	switch {
	case t.Text == "":
		return &InvalidError{"text", "must not be empty"}
	case !utf8.ValidString(t.Text):
		return &InvalidError{"text", "must be valid UTF-8"}
	case len(t.Text) > maxText:
		return &InvalidError{"text", fmt.Sprintf("must be at most %d bytes; put longer text on the clipboard and paste it", maxText)}
	case t.Delay < 0 || t.Delay > maxDelay:
		return &InvalidError{"delayMs", fmt.Sprintf("must be between 0 and %d", maxDelay.Milliseconds())}
	}
	if _, err := x11.CheckText(t.Text); err != nil {
		return &InvalidError{"text", err.Error()}
	}
	a := &Action{Name: "type", Text: beginning(t.Text), Length: n}
	if t.Secret {
		a.Text = ""
	}
	expected := time.Duration(n) * (perRune + t.Delay)
	a.long = expected > longTyping
	limit := min(typeBase+expected, typeMost)
	return d.act(ctx, "type text", limit, a, func(ctx context.Context, s *session) error {
		typed, err := s.input.Type(ctx, t.Text, t.Delay)
		if err == nil {
			return nil
		}
		a.Typed = &typed
		return err
	})
}

// beginning is what events keep of a text: many are kept.
func beginning(text string) string {
	if utf8.RuneCountInString(text) <= maxTold {
		return text
	}
	return string([]rune(text)[:maxTold])
}

// Press presses and releases a key or a chord.
func (d *Desktop) Press(ctx context.Context, p Press) error {
	if p.Keys == "" {
		return &InvalidError{"key", "must not be empty"}
	}
	chord, err := x11.ParseChord(p.Keys)
	if err != nil {
		return keyError("key", err)
	}
	return d.act(ctx, "press key", inputLimit, &Action{Name: "press", Keys: chordText(p)}, func(ctx context.Context, s *session) error {
		release, err := s.hold(ctx, p.Modifiers)
		if err != nil {
			return err
		}
		err = s.input.Press(ctx, chord)
		return errors.Join(keyError("key", err), release())
	})
}

// chordText is a chord as events show it.
func chordText(p Press) string {
	return strings.Join(append(slices.Clone(p.Modifiers), p.Keys), "+")
}

// KeyDown presses a key and leaves it pressed, until KeyUp, ReleaseAll or Close.
func (d *Desktop) KeyDown(ctx context.Context, key string) error {
	return d.key(ctx, "key_down", key, (*x11.Input).KeyDown)
}

// KeyUp releases a key.
func (d *Desktop) KeyUp(ctx context.Context, key string) error {
	return d.key(ctx, "key_up", key, (*x11.Input).KeyUp)
}

func (d *Desktop) key(ctx context.Context, name, key string, f func(*x11.Input, context.Context, string) error) error {
	if key == "" {
		return &InvalidError{"key", "must not be empty"}
	}
	if _, err := x11.ParseChord(key); err != nil {
		return keyError("key", err)
	}
	return d.act(ctx, strings.ReplaceAll(name, "_", " "), inputLimit, &Action{Name: name, Keys: key}, func(ctx context.Context, s *session) error {
		return keyError("key", f(s.input, ctx, key))
	})
}
