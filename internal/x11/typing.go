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

// typed is a stroke and how much of the text it is.
type typed struct {
	stroke
	characters int
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
	k, err := in.begin()
	if err != nil {
		return 0, err
	}
	restore := in.neutralise(k, true)
	defer func() { err = errors.Join(err, restore()) }()
	for text != "" {
		if err := ctx.Err(); err != nil {
			return done, fmt.Errorf("type text: %w", err)
		}
		size, need := in.batch(k, text)
		if err := in.assign(ctx, k, need); err != nil {
			return done, fmt.Errorf("type text: %w", err)
		}
		in.plan(k, text[:size])
		n, err := in.send(ctx, k, delay, done > 0)
		done += n
		if err != nil {
			return done, fmt.Errorf("type text: %w", err)
		}
		text = text[size:]
	}
	return done, nil
}

// begin reads the keymap for an operation.
func (in *Input) begin() (*keymap, error) {
	if err := in.use(); err != nil {
		return nil, err
	}
	return in.readKeymap()
}

// batch says how much of text can be typed with one state of the slots, and
// which keysyms need one.
func (in *Input) batch(k *keymap, text string) (size int, need []xproto.Keysym) {
	room := 0 // held slots stay as they are
	for i := range in.slots {
		if !in.holding(in.slots[i].code) {
			room++
		}
	}
	for keys := 0; size < len(text) && keys < batchKeys; keys++ {
		sym, n, _ := nextKey(text[size:])
		if _, ok := k.where[sym]; !ok && !slices.Contains(need, sym) && !in.holdsSlot(sym) {
			if len(need) == room && room > 0 {
				break
			}
			need = append(need, sym)
		}
		size += n
	}
	return size, need
}

// plan turns text into strokes.
func (in *Input) plan(k *keymap, text string) {
	in.strokes = in.strokes[:0]
	for text != "" {
		sym, size, n := nextKey(text)
		at, ok := k.where[sym]
		if !ok {
			s := in.slotFor(sym)
			in.touch(s)
			at.code = s.code
		}
		in.strokes = append(in.strokes, typed{at, n})
		text = text[size:]
	}
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
	after := xproto.GetInputFocus(c.x)
	if err := c.wire.uncork(); err != nil {
		return wrap("press keys", err)
	}
	for _, cookie := range []xproto.GetInputFocusCookie{before, after} {
		r, err := cookie.Reply()
		if err != nil {
			return wrap("press keys", err)
		}
		in.await(r.Focus)
	}
	return nil
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
		}
		return in.flush("restore modifiers")
	}
}
