package x11

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/jezek/xgb/xproto"
)

// TextError tells why a text cannot be typed. Nothing of it has been.
type TextError struct {
	Offset  int // in characters
	Problem string
}

func (e *TextError) Error() string { return fmt.Sprintf("character %d: %s", e.Offset+1, e.Problem) }

// CheckText says how many characters a text has, or with a *TextError why it
// cannot be typed: it must be UTF-8, and of the control characters only line
// feed, carriage return, tab, backspace and escape have a key.
func CheckText(text string) (characters int, err error) {
	for i, r := range text {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(text[i:], "\ufffd"):
			return 0, &TextError{characters, "is not UTF-8"}
		case unicode.IsControl(r) && controlKey(r) == 0:
			return 0, &TextError{characters, fmt.Sprintf("control character U+%04X has no key", r)}
		}
		characters++
	}
	return characters, nil
}

// controlKey is the key that a control character stands for.
func controlKey(r rune) xproto.Keysym {
	switch r {
	case '\n', '\r':
		return keyReturn
	case '\t':
		return keyTab
	case '\b':
		return keyBackSpace
	case 0x1b:
		return keyEscape
	}
	return 0
}

// nextKey is the keysym that text begins with, and how many bytes and
// characters it stands for: CR LF is one Return.
func nextKey(text string) (sym xproto.Keysym, size, characters int) {
	if strings.HasPrefix(text, "\r\n") {
		return keyReturn, 2, 2
	}
	r, size := utf8.DecodeRuneInString(text)
	if sym = controlKey(r); sym == 0 {
		sym = runeKeysym(r)
	}
	return sym, size, 1
}

// batchKeys bounds what is sent in one write: at four requests a key it stays
// below what xgb keeps without a round trip.
const batchKeys = 100

// aheadKeys bounds how far ahead characters without a key are looked for.
const aheadKeys = 4096

// typed is a stroke and how much of the text it is.
type typed struct {
	stroke
	characters int
	acts       bool // it may do more than change a text
}

// Type types text: any Unicode text, exactly, whatever modifiers are held or
// locked and however slow the application is. Characters are delay apart; zero
// is as fast as can be. It returns how many characters the server has
// delivered, and an error when that is not all: a *TextError, ctx's error,
// ErrNoKeycodes, ErrNotDrained, or that of the connection.
func (in *Input) Type(ctx context.Context, text string, delay time.Duration) (done int, err error) {
	if _, err := CheckText(text); err != nil {
		return 0, err
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	k, err := in.begin(ctx)
	if err != nil {
		return 0, err
	}
	restore := in.neutralise(k, true)
	defer func() { err = errors.Join(err, restore()) }()
	if err := in.awaitManager(ctx); err != nil {
		return 0, fmt.Errorf("type text: %w", err)
	}
	for text != "" {
		if err := ctx.Err(); err != nil {
			return done, fmt.Errorf("type text: %w", err)
		}
		size := in.plan(k, text)
		if size == 0 { // the next character has no key yet
			if err := in.assign(ctx, k, in.lookAhead(k, text)); err != nil {
				return done, fmt.Errorf("type text: %w", err)
			}
			continue
		}
		n, err := in.send(ctx, k, delay, done > 0)
		done += n
		if err != nil {
			return done, fmt.Errorf("type text: %w", err)
		}
		text = text[size:]
	}
	return done, nil
}

// begin waits for the focus and reads the keymap for an operation.
func (in *Input) begin(ctx context.Context) (*keymap, error) {
	if err := in.use(); err != nil {
		return nil, err
	}
	if err := in.awaitManager(ctx); err != nil {
		return nil, err
	}
	return in.readKeymap()
}

// strokeFor is the stroke for a keysym, if it has a key or a slot.
func (in *Input) strokeFor(k *keymap, sym xproto.Keysym) (stroke, bool) {
	if at, ok := k.where[sym]; ok {
		return at, true
	}
	s := in.slotFor(sym)
	if s == nil || !in.claimed || s.shift && k.shift == 0 {
		return stroke{}, false
	}
	in.touch(s)
	return s.stroke, true
}

// plan turns the beginning of text into strokes: as much as has keys and goes
// in one write. It returns how many bytes that is.
func (in *Input) plan(k *keymap, text string) (size int) {
	in.strokes = in.strokes[:0]
	for size < len(text) && len(in.strokes) < batchKeys {
		sym, bytes, characters := nextKey(text[size:])
		at, ok := in.strokeFor(k, sym)
		if !ok {
			break
		}
		in.strokes = append(in.strokes, typed{at, characters, sym == keyReturn || sym == keyEscape})
		size += bytes
	}
	return size
}

// lookAhead is the keysyms without a key that come next in text, as many as
// there are slots. One change of the keymap then does for all of them, and
// what is given away is what is needed last.
func (in *Input) lookAhead(k *keymap, text string) (need []xproto.Keysym) {
	for keys := 0; text != "" && keys < aheadKeys && len(need) < len(in.slots); keys++ {
		sym, size, _ := nextKey(text)
		if _, ok := k.where[sym]; !ok && !slices.Contains(need, sym) {
			need = append(need, sym)
		}
		text = text[size:]
	}
	return need
}

// send presses the planned keys and says how many characters that was.
func (in *Input) send(ctx context.Context, k *keymap, delay time.Duration, started bool) (done int, err error) {
	if delay <= 0 {
		if err := in.strike(k, in.strokes); err != nil {
			return 0, err
		}
		for _, s := range in.strokes {
			done += s.characters
		}
		return done, nil
	}
	for i, s := range in.strokes {
		if started || i > 0 {
			if err := pause(ctx, delay); err != nil {
				return done, err
			}
		}
		if err := in.strike(k, in.strokes[i:i+1]); err != nil {
			return done, err
		}
		done += s.characters
	}
	return done, nil
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// strike presses and releases keys, all in one write: the server repeats a key
// whose release comes late.
func (in *Input) strike(k *keymap, keys []typed) error {
	c := in.c
	c.wire.cork()
	before := xproto.GetInputFocus(c.x)
	shift := false
	for _, s := range keys {
		if s.shift != shift {
			shift = s.shift
			in.fake(kindOf(shift), byte(k.shift))
		}
		in.fake(xproto.KeyPress, byte(s.code))
		in.fake(xproto.KeyRelease, byte(s.code))
	}
	if shift {
		in.fake(xproto.KeyRelease, byte(k.shift))
	}
	acts := slices.ContainsFunc(keys, func(s typed) bool { return s.acts })
	return in.sent(before, "press keys", acts)
}

func kindOf(down bool) byte {
	if down {
		return xproto.KeyPress
	}
	return xproto.KeyRelease
}

// neutralise takes away what would change the meaning of keys: locked modifiers
// and, for text, latched ones and the modifiers whose keys are down. The
// returned function brings all but latches back.
func (in *Input) neutralise(k *keymap, text bool) (restore func() error) {
	c, st := in.c, k.state
	latches := byte(0)
	var codes []xproto.Keycode
	if text {
		latches = st.latched
		for i := range k.codes() {
			if code := k.first + xproto.Keycode(i); st.base != 0 && k.pressed(code) && k.modifiers[code] != 0 {
				codes = append(codes, code)
			}
		}
	}
	locks := st.locked|latches != 0 || st.group != k.group
	if !locks && len(codes) == 0 {
		return func() error { return nil }
	}
	c.wire.cork()
	for _, code := range codes {
		in.fake(xproto.KeyRelease, byte(code))
		in.unsettle()
	}
	if locks {
		group := st.lockedGroup
		if st.group != k.group {
			group = k.group
		}
		in.xkb.lock(st.locked, 0, latches, group)
	}
	_ = c.wire.uncork() // the next request tells
	return func() error {
		c.wire.cork()
		if locks {
			in.xkb.lock(st.locked, st.locked, 0, st.lockedGroup)
		}
		for _, code := range codes {
			in.fake(xproto.KeyPress, byte(code))
			in.unsettle()
		}
		return in.flush("restore modifiers")
	}
}
