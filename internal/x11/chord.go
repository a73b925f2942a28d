package x11

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/jezek/xgb/xproto"
)

// Bounds of a chord's text.
const (
	maxChord     = 256 // bytes
	maxChordKeys = 16
)

// Chord is keys that are pressed together, in order: modifiers first.
type Chord struct {
	keys []xproto.Keysym
}

// KeyError is returned for a name without a key.
type KeyError struct {
	Name       string
	Problem    string // empty: no such key
	Suggestion string // a name that may have been meant, or empty
}

func (e *KeyError) Error() string {
	name := e.Name
	if len(name) > 64 {
		name = strings.ToValidUTF8(name[:64], "") + "..."
	}
	if e.Problem != "" {
		return fmt.Sprintf("key %q %s", name, e.Problem)
	}
	if e.Suggestion != "" {
		return fmt.Sprintf("unknown key %q: did you mean %q?", name, e.Suggestion)
	}
	return fmt.Sprintf("unknown key %q", name)
}

// ParseChord reads keys joined by '+': "ctrl+shift+t", "Return", "ctrl++". A
// key is a character, a name of X ("Page_Down"), one that xdotool, Playwright
// or pyautogui uses ("pagedown", "ArrowLeft", "KeyA", "cmd"), a code point
// ("U+00E9") or a keysym's number ("0xff0d"). Names are not sensitive to case
// if only one key matches. An upper-case letter means Shift and the letter, except together
// with Control, Alt or Super, where case is ignored: "Control+A" selects all. The error is a
// *KeyError.
func ParseChord(s string) (Chord, error) {
	var ch Chord
	if len(s) > maxChord || !utf8.ValidString(s) {
		return Chord{}, &KeyError{Name: strings.ToValidUTF8(s[:min(len(s), maxChord)], "\ufffd"), Problem: "is too long or not UTF-8"}
	}
	names, ok := splitChord(s)
	if !ok || len(names) > maxChordKeys {
		return Chord{}, &KeyError{Name: s, Problem: "is not keys joined by '+'"}
	}
	for _, name := range names {
		sym, err := parseKey(name)
		if err != nil {
			return Chord{}, err
		}
		ch.keys = append(ch.keys, sym)
	}
	if slices.ContainsFunc(ch.keys, isCommand) {
		for i, sym := range ch.keys {
			ch.keys[i] = lowerKeysym(sym)
		}
	}
	return ch, nil
}

// splitChord splits at '+', which is a key where a name should begin.
func splitChord(s string) (names []string, ok bool) {
	for {
		end := strings.IndexByte(s, '+')
		switch {
		case end == 0:
			end = 1
		case end < 0:
			end = len(s)
		}
		if end == 0 {
			return nil, false
		}
		if n := codePoint(s); n > 0 {
			end = n
		}
		names = append(names, s[:end])
		if s = s[end:]; s == "" {
			return names, true
		}
		if s[0] != '+' {
			return nil, false
		}
		s = s[1:]
	}
}

// codePoint returns the length of a code point, such as "U+20AC", at the beginning of s, or
// 0.
func codePoint(s string) int {
	if len(s) < 2 || s[0]|0x20 != 'u' || s[1] != '+' {
		return 0
	}
	n := 2
	for n < len(s) && s[n] != '+' {
		if c := s[n] | 0x20; (s[n] < '0' || s[n] > '9') && (c < 'a' || c > 'f') {
			return 0
		}
		n++
	}
	if n < len("U+0000") {
		return 0 // "u+f" is two keys
	}
	return n
}

func parseKey(name string) (xproto.Keysym, error) {
	if trimmed := strings.TrimFunc(name, func(r rune) bool { return r == ' ' }); trimmed != "" {
		name = trimmed // "ctrl + a"
	}
	if r, size := utf8.DecodeRuneInString(name); size == len(name) && size > 0 {
		if sym, ok := charKeysym(r); ok {
			return sym, nil
		}
		return 0, &KeyError{Name: name}
	}
	t := keysyms()
	if sym, ok := t.lookup(name); ok {
		return sym, nil
	}
	return 0, &KeyError{Name: name, Suggestion: t.suggest(name)}
}

// isCommand reports whether a modifier makes other keys commands.
func isCommand(sym xproto.Keysym) bool {
	return sym >= keyControlL && sym <= keyControlL+1 || sym >= keyControlL+4 && sym <= keyHyperR // Meta, Alt, Super, Hyper
}

func lowerKeysym(sym xproto.Keysym) xproto.Keysym {
	switch {
	case sym < 0x100:
		return runeKeysym(unicode.ToLower(rune(sym)))
	case sym > keyUnicode && sym <= keyUnicode+utf8.MaxRune:
		return runeKeysym(unicode.ToLower(rune(sym - keyUnicode)))
	}
	return sym
}

// locks reports whether the chord has a key that locks a modifier.
func (ch Chord) locks() bool {
	return slices.ContainsFunc(ch.keys, func(sym xproto.Keysym) bool {
		return sym == keyCapsLock || sym == keyShiftLock || sym == keyNumLock
	})
}

// ModifiesOnly reports whether all keys of the chord are modifiers.
func (ch Chord) ModifiesOnly() bool {
	return !slices.ContainsFunc(ch.keys, func(sym xproto.Keysym) bool { return !isModifier(sym) })
}

// Confirms reports whether a key of the chord is Return or Enter.
func (ch Chord) Confirms() bool {
	return slices.Contains(ch.keys, keyReturn) || slices.Contains(ch.keys, keyEnter)
}

// pressesButton reports whether the chord may press a button of a dialog: Return or Space.
func (ch Chord) pressesButton() bool { return ch.Confirms() || slices.Contains(ch.keys, ' ') }

// deletes reports whether the keys, without modifiers, only change a text. Cursor keys may do more:
// LibreOffice Calc would take a character that follows one at once first.
func (ch Chord) deletes() bool {
	return !slices.ContainsFunc(ch.keys, func(sym xproto.Keysym) bool {
		return !isModifier(sym) && sym != keyBackSpace && sym != keyDelete
	})
}

// String returns the chord with X's names of keys.
func (ch Chord) String() string {
	names := make([]string, len(ch.keys))
	for i, sym := range ch.keys {
		names[i] = keysymName(sym)
	}
	return strings.Join(names, "+")
}
