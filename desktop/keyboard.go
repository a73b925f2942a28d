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
	maxEventText = 4096 // characters, in events
	// perRune is how long a character may take on a busy machine. It may have to wait
	// until the application has handled the previous characters.
	perRune  = 50 * time.Millisecond
	typeBase = 30 * time.Second
	typeMost = time.Hour
	// shortTyping is how long ReleaseAll and changes of control wait for typing that is expected to
	// take no longer.
	shortTyping = time.Second
)

// Type types any Unicode text into the window that has the focus. A line feed is Return,
// and a tab is Tab.
//
// It blocks until all keys are sent, or for at most 30 s, and Type.Delay and 50 ms for each
// character: an hour in all. If Type fails after it began, its error has the number of
// characters that were typed, unless the X server hangs. The error is a *DeadlineError
// after that time, and an *InterruptedError if ctx is cancelled, another actor takes control, or
// ReleaseAll is called. The last two wait a second for a text that is expected to take less.
//
// Type returns ErrSecretNotFound if there is no secret with the name Type.SecretName. Errors
// about a named secret do not say how much of it was typed.
func (d *Desktop) Type(ctx context.Context, t Type) error {
	t, err := t.Resolve(d.cfg.SecretValue)
	if err != nil {
		return err
	}
	text, err := t.parse()
	if err != nil {
		return err
	}
	a, limit := t.typing(text.Len())
	return d.act(ctx, "type text", limit, a, func(ctx context.Context, s *session) error {
		enter := s.input.Keyboard.TypePaced
		if d.cfg.paced(a.Actor) {
			enter = s.input.Keyboard.Type
		}
		typed := 0
		for _, part := range t.parts(text, s.input.LosesAstral) {
			var n int
			if part.pasted {
				n, err = s.paste(ctx, part.text)
			} else {
				n, err = enter(ctx, part.text, t.Delay)
			}
			if typed += n; err != nil {
				break
			}
		}
		if err != nil && a.Secret == "" {
			a.Typed = &typed
		}
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
	if err := p.Validate(); err != nil {
		return err
	}
	chord, err := x11.ParseChord(p.Keys)
	if err != nil {
		return err
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

// KeyDown presses a key until KeyUp, ReleaseAll or Close. It returns an [*InvalidError] if
// key names no key.
func (d *Desktop) KeyDown(ctx context.Context, key string) error {
	return d.key(ctx, ActionKeyDown, key, (*x11.Keyboard).KeyDown)
}

// KeyUp releases a key. It returns an [*InvalidError] if key names no key.
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

// Resolve returns t with the text of the secret that SecretName names, if it names one. valueOf
// is Config.SecretValue, or nil. The error is an *InvalidError or wraps ErrSecretNotFound, and
// has no part of the secret.
func (t Type) Resolve(valueOf func(name string) (value string, ok bool)) (Type, error) {
	switch {
	case t.SecretName == "":
		return t, nil
	case t.Text != "":
		return t, &InvalidError{"SecretName", "must not be given together with a text"}
	case valueOf == nil:
		return t, fmt.Errorf("type text: %w", ErrSecretNotFound)
	}
	value, ok := valueOf(t.SecretName)
	if !ok {
		return t, fmt.Errorf("type text: %w", ErrSecretNotFound)
	}
	if _, err := x11.ParseText(value); err != nil || value == "" || len(value) > maxText {
		return t, &InvalidError{"SecretName", "must name a secret that can be typed: this one has characters without a key, or too many"}
	}
	t.Text, t.Secret = value, true
	return t, nil
}

// typing returns the action of typing a text, and the deadline of the call. Neither reveals the
// length of a named secret.
func (t Type) typing(characters int) (a *Action, limit time.Duration) {
	expected := time.Duration(characters) * (perRune + t.Delay)
	a = &Action{Name: ActionType, Length: characters}
	if !t.Secret {
		a.Text = beginning(t.Text, characters)
	}
	if expected <= shortTyping {
		a.keep = shortTyping
	}
	limit = min(typeBase+expected, typeMost)
	if t.SecretName != "" {
		a.Secret, a.Length, a.keep = t.SecretName, 0, 0
		limit = min(limit.Truncate(typeBase)+typeBase, typeMost)
	}
	return a, limit
}
