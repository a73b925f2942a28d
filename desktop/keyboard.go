package desktop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/deskhand/deskhand/internal/x11"
)

// Bounds of typing.
const (
	maxText      = 1 << 20 // bytes
	maxDelay     = 10 * time.Second
	maxEventText = 4096 // characters, in events
	// perRune is how long a character may take on a busy machine. It may have to wait
	// until the application has handled the previous characters.
	perRune  = 50 * time.Millisecond
	typeBase = 30 * time.Second
	typeMost = time.Hour
	// longTyping is the longest typing for which ReleaseAll and changes of control
	// wait. They end longer typing.
	longTyping = time.Second
)

// Type types any Unicode text into the window that has the focus. A line feed is Return,
// and a tab is Tab.
//
// It blocks until all keys are sent, or for at most 30 s, and Type.Delay and 50 ms for each
// character: an hour in all. If Type fails after it began, its error has the number of
// characters that were typed, unless the X server hangs. The error is a *DeadlineError
// after that time, and an *InterruptedError if ctx is cancelled. Typing that may take
// longer than a second also ends with an *InterruptedError if another actor takes control
// or calls ReleaseAll.
func (d *Desktop) Type(ctx context.Context, t Type) error {
	switch {
	case t.Text == "":
		return &InvalidError{"Text", "must not be empty"}
	case len(t.Text) > maxText:
		return &InvalidError{"Text", fmt.Sprintf("must be at most %d bytes; put longer text on the clipboard and paste it", maxText)}
	case t.Delay < 0 || t.Delay > maxDelay:
		return &InvalidError{"Delay", fmt.Sprintf("must be between 0 and %d", maxDelay.Milliseconds())}
	}
	text, err := x11.ParseText(t.Text)
	if err != nil {
		return &InvalidError{"Text", err.Error()}
	}
	a := &Action{Name: ActionType, Length: text.Len()}
	if !t.Secret {
		a.Text = beginning(t.Text, text.Len())
	}
	expected := time.Duration(text.Len()) * (perRune + t.Delay)
	a.long = expected > longTyping
	limit := min(typeBase+expected, typeMost)
	return d.act(ctx, "type text", limit, a, func(ctx context.Context, s *session) error {
		typed, err := s.input.Keyboard.Type(ctx, text, t.Delay)
		if err == nil {
			return nil
		}
		a.Typed = &typed
		return err
	})
}

// beginning returns the first maxEventText characters of a text with n characters.
func beginning(text string, n int) string {
	if n <= maxEventText {
		return text
	}
	return string([]rune(text)[:maxEventText])
}

// Press presses and releases a key or a chord. It returns an *InvalidError if Keys or
// Modifiers name no key.
func (d *Desktop) Press(ctx context.Context, p Press) error {
	if p.Keys == "" {
		return &InvalidError{"Keys", "must not be empty"}
	}
	chord, err := x11.ParseChord(p.Keys)
	if err != nil {
		return keyError("Keys", err)
	}
	return d.act(ctx, "press key", inputLimit, &Action{Name: ActionPress, Keys: chordText(p), chord: &chord}, func(ctx context.Context, s *session) error {
		release, err := s.hold(ctx, p.Modifiers)
		if err != nil {
			return err
		}
		return errors.Join(s.input.Keyboard.Press(ctx, chord), release())
	})
}

func chordText(p Press) string {
	return strings.Join(append(slices.Clone(p.Modifiers), p.Keys), "+")
}

// KeyDown presses a key until KeyUp, ReleaseAll or Close.
func (d *Desktop) KeyDown(ctx context.Context, key string) error {
	return d.key(ctx, ActionKeyDown, key, (*x11.Keyboard).KeyDown)
}

// KeyUp releases a key.
func (d *Desktop) KeyUp(ctx context.Context, key string) error {
	return d.key(ctx, ActionKeyUp, key, (*x11.Keyboard).KeyUp)
}

func (in *inputs) key(ctx context.Context, name ActionName, key string, f func(*x11.Keyboard, context.Context, x11.Chord) error) error {
	if key == "" {
		return &InvalidError{"key", "must not be empty"}
	}
	chord, err := x11.ParseChord(key)
	if err != nil {
		return keyError("key", err)
	}
	return in.act(ctx, name.words(), inputLimit, &Action{Name: name, Keys: key, chord: &chord}, func(ctx context.Context, s *session) error {
		return f(s.input.Keyboard, ctx, chord)
	})
}
