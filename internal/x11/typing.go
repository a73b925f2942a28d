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

// TextError is returned for a text that cannot be typed.
type TextError struct {
	Offset  int // in characters
	Problem string
}

func (e *TextError) Error() string { return fmt.Sprintf("character %d: %s", e.Offset+1, e.Problem) }

// Text is a text that can be typed. ParseText makes one.
type Text struct {
	text       string
	characters int
}

// Len returns the number of characters.
func (t Text) Len() int { return t.characters }

// ParseText checks a text. It returns a *TextError unless the text is UTF-8 without control
// characters other than line feed, carriage return, tab, backspace and escape.
func ParseText(text string) (Text, error) {
	n := 0
	for i, r := range text {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(text[i:], "\ufffd"):
			return Text{}, &TextError{n, "is not UTF-8"}
		case unicode.IsControl(r) && controlKey(r) == 0:
			return Text{}, &TextError{n, fmt.Sprintf("control character U+%04X has no key", r)}
		}
		n++
	}
	return Text{text, n}, nil
}

// controlKey returns the key of a control character, or 0.
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

// nextKey returns the first keysym of text, and the number of its bytes and characters: CR
// LF is one Return.
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

// batchKeys bounds the keys in one write. With four requests for each key, that is less
// than xgb sends without a round trip.
const batchKeys = 100

// aheadKeys bounds how far lookAhead looks.
const aheadKeys = 4096

// typed is a stroke for characters of a text.
type typed struct {
	stroke
	characters int
	acts       bool // it may do more than change a text
}

// Type types any Unicode text, whatever modifiers are held or locked and however slow the
// application is. It waits for delay between characters. It returns the number of
// characters that the server has delivered, and an error if that is not all of them: it
// wraps the error of ctx, ErrNoKeycodes, quiesce.ErrNotDrained or ErrConnClosed.
func (kb *Keyboard) Type(ctx context.Context, t Text, delay time.Duration) (done int, err error) {
	text := t.text
	kb.mu.Lock()
	defer kb.mu.Unlock()
	k, err := kb.begin(ctx)
	if err != nil {
		return 0, err
	}
	restore := kb.neutralise(k, true)
	defer func() { err = errors.Join(err, restore()) }()
	if err := kb.programs.AwaitManager(ctx); err != nil {
		return 0, fmt.Errorf("type text: %w", err)
	}
	for text != "" {
		if err := ctx.Err(); err != nil {
			return done, fmt.Errorf("type text: %w", err)
		}
		size := kb.plan(k, text)
		if size == 0 { // the next character has no key yet
			if err := kb.slots.assign(ctx, k, kb.lookAhead(k, text), kb.holding); err != nil {
				return done, fmt.Errorf("type text: %w", err)
			}
			continue
		}
		n, err := kb.send(ctx, k, delay, done > 0)
		done += n
		if err != nil {
			return done, fmt.Errorf("type text: %w", err)
		}
		text = text[size:]
	}
	return done, nil
}

// begin waits for the focus and reads the keymap. It turns off controls that lose keys,
// which a program may have turned on.
func (kb *Keyboard) begin(ctx context.Context) (*keymap, error) {
	if err := kb.use(); err != nil {
		return nil, err
	}
	if err := kb.programs.AwaitManager(ctx); err != nil {
		return nil, err
	}
	kb.xkb.setControls(xkbSlowKeys|xkbBounceKeys, 0)
	return kb.readKeymap()
}

// strokeFor returns the stroke for a keysym, if it has a key or a slot.
func (kb *Keyboard) strokeFor(k *keymap, sym xproto.Keysym) (stroke, bool) {
	if at, ok := k.where[sym]; ok {
		return at, true
	}
	s := kb.slots.find(sym)
	if s == nil || !kb.slots.claimed || s.shift && k.shift == 0 {
		return stroke{}, false
	}
	kb.slots.touch(s)
	return s.stroke, true
}

// plan makes strokes of the beginning of text, as far as it has keys and fits in one write.
// It returns its length in bytes.
func (kb *Keyboard) plan(k *keymap, text string) (size int) {
	kb.strokes = kb.strokes[:0]
	for size < len(text) && len(kb.strokes) < batchKeys {
		sym, bytes, characters := nextKey(text[size:])
		at, ok := kb.strokeFor(k, sym)
		if !ok {
			break
		}
		kb.strokes = append(kb.strokes, typed{at, characters, sym == keyReturn || sym == keyEscape})
		size += bytes
	}
	return size
}

// lookAhead returns the next keysyms of text without a key, at most one for each slot, so
// that one change of the keymap serves all of them.
func (kb *Keyboard) lookAhead(k *keymap, text string) (need []xproto.Keysym) {
	for keys := 0; text != "" && keys < aheadKeys && len(need) < len(kb.slots.all); keys++ {
		sym, size, _ := nextKey(text)
		if _, ok := k.where[sym]; !ok && !slices.Contains(need, sym) {
			need = append(need, sym)
		}
		text = text[size:]
	}
	return need
}

// send presses the planned keys and returns the number of their characters.
func (kb *Keyboard) send(ctx context.Context, k *keymap, delay time.Duration, started bool) (done int, err error) {
	size := len(kb.strokes) // of a group of keys without a pause
	if delay > 0 {
		size = 1
	}
	for keys := range slices.Chunk(kb.strokes, size) {
		if delay > 0 && (started || done > 0) {
			select {
			case <-ctx.Done():
				return done, ctx.Err()
			case <-time.After(delay):
			}
		}
		if err := kb.strike(k, keys); err != nil {
			return done, err
		}
		for _, s := range keys {
			done += s.characters
		}
	}
	return done, nil
}

// strike presses and releases keys in one write, because the server repeats a key until
// its release.
func (kb *Keyboard) strike(k *keymap, keys []typed) error {
	c := kb.c
	c.wire.cork()
	before := xproto.GetInputFocus(c.x)
	shift := false
	for _, s := range keys {
		if s.shift != shift {
			shift = s.shift
			kind := byte(xproto.KeyRelease)
			if shift {
				kind = xproto.KeyPress
			}
			kb.fake(kind, byte(k.shift))
		}
		kb.fake(xproto.KeyPress, byte(s.code))
		kb.fake(xproto.KeyRelease, byte(s.code))
	}
	if shift {
		kb.fake(xproto.KeyRelease, byte(k.shift))
	}
	acts := slices.ContainsFunc(keys, func(s typed) bool { return s.acts })
	return kb.sent(before, "press keys", acts)
}

// neutralise turns off locked modifiers and, for text, latched modifiers and held
// ones. restore turns all but the latched ones on again.
func (kb *Keyboard) neutralise(k *keymap, text bool) (restore func() error) {
	c, st := kb.c, k.state
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
		kb.fake(xproto.KeyRelease, byte(code))
		kb.programs.ManagerMayAct()
	}
	if locks {
		group := st.lockedGroup
		if st.group != k.group {
			group = k.group
		}
		kb.xkb.lock(st.locked, 0, latches, group)
	}
	_ = c.wire.uncork() // the next request has the error
	return func() error {
		c.wire.cork()
		if locks {
			kb.xkb.lock(st.locked, st.locked, 0, st.lockedGroup)
		}
		for _, code := range codes {
			kb.fake(xproto.KeyPress, byte(code))
			kb.programs.ManagerMayAct()
		}
		return kb.flush("restore modifiers")
	}
}
