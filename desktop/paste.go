package desktop

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/deskhand/deskhand/internal/x11"
)

// textPart is a part of a text that is typed or pasted.
type textPart struct {
	text   x11.Text
	pasted bool
}

// parts divides a parsed text by its mode. losesAstral reports whether the program with the
// focus cannot get characters beyond U+FFFF from keys.
func (t Type) parts(text x11.Text, losesAstral func() bool) []textPart {
	astral := func(r rune) bool { return r > 0xffff }
	switch {
	case t.Mode == TypePaste:
		return []textPart{{text, true}}
	case t.Mode == TypeKeys, t.Secret, !strings.ContainsFunc(t.Text, astral), !losesAstral():
		return []textPart{{text, false}}
	}
	var all []textPart
	for rest := t.Text; rest != ""; {
		first, _ := utf8.DecodeRuneInString(rest)
		pasted := !unicode.IsControl(first)
		end := strings.IndexFunc(rest, func(r rune) bool { return unicode.IsControl(r) == pasted })
		if end < 0 {
			end = len(rest)
		}
		part, _ := x11.ParseText(rest[:end]) // a part of a text that was parsed
		all = append(all, textPart{part, pasted && strings.ContainsFunc(rest[:end], astral)})
		rest = rest[end:]
	}
	return all
}

// Bounds of a paste.
const (
	pasteLimit = 3 * time.Second // until the program has read the clipboard
	pastePace  = 5 * time.Millisecond
	keepLimit  = time.Second // for reading the content that is put back
)

// pasteChords are the chords that paste in terminals, by their classes in lower case. Other
// programs paste by Ctrl+V.
var pasteChords = []struct {
	chord   string
	classes []string
}{
	{"shift+Insert", []string{"xterm", "uxterm", "urxvt"}}, // of the primary selection
	{"ctrl+shift+v", []string{
		"xfce4-terminal", "gnome-terminal", "gnome-terminal-server", "konsole", "mate-terminal", "lxterminal", "qterminal",
		"terminator", "tilix", "kitty", "alacritty", "kgx",
	}},
}

// paste puts a text on the clipboard, pastes it, and puts back what was there. It returns the
// number of characters that were pasted.
func (s *session) paste(ctx context.Context, text x11.Text) (n int, err error) {
	chord := "ctrl+v"
	w, activeErr := s.windows.Active()
	if activeErr == nil {
		for _, p := range pasteChords {
			if slices.Contains(p.classes, strings.ToLower(w.Class)) {
				chord = p.chord
			}
		}
	}
	keys, err := x11.ParseChord(chord)
	if err != nil {
		return 0, err
	}
	selections := []x11.SelectionName{x11.SelectionClipboard}
	if chord == "shift+Insert" {
		selections = append(selections, x11.SelectionPrimary)
	}
	for _, name := range selections {
		before := s.kept(ctx, name)
		if err := s.clipboard.Set(ctx, name, x11.Content{Type: TypeText, Data: []byte(text.String())}); err != nil {
			return 0, err
		}
		defer func() {
			back, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepLimit)
			defer cancel()
			err = errors.Join(err, s.clipboard.Set(back, name, before))
		}()
	}
	given, _, err := s.clipboard.Given(ctx)
	if err != nil {
		return 0, err
	}
	if err := s.input.Keyboard.Press(ctx, keys); err != nil {
		return 0, err
	}
	if err := s.awaitGiven(ctx, given); err != nil {
		return 0, err
	}
	if activeErr == nil {
		s.input.Shown(w.ID) // it may have asked long after the keys
	}
	return text.Len(), s.input.Quiesce(ctx)
}

// kept returns the content of a selection that is put back, an empty text if that is not known.
func (s *session) kept(ctx context.Context, name x11.SelectionName) x11.Content {
	ctx, cancel := context.WithTimeout(ctx, keepLimit)
	defer cancel()
	for _, kind := range []string{TypeText, TypePNG} {
		data, err := s.clipboard.Get(ctx, name, kind, x11.MaxContent)
		if err == nil {
			return x11.Content{Type: kind, Data: data}
		}
	}
	return x11.Content{Type: TypeText}
}

// awaitGiven waits until a program has got the content of the clipboard, which given others had
// before.
func (s *session) awaitGiven(ctx context.Context, given int) error {
	limited, cancel := context.WithTimeout(ctx, pasteLimit)
	defer cancel()
	for {
		count, sending, err := s.clipboard.Given(limited)
		if err == nil && count > given && !sending {
			return nil
		}
		if err == nil {
			err = sleep(limited, pastePace)
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case limited.Err() != nil:
			return ErrNotPasted
		case err != nil:
			return err
		}
	}
}
