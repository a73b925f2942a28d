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

	"github.com/deskhand/deskhand/internal/x11/quiesce"
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

// String returns the text.
func (t Text) String() string { return t.text }

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
	presses    bool // it may press a button
}

// waitsOfText bounds the time that Type waits for a program in one text.
const waitsOfText = time.Second

// TypePaced is like Type, and also waits for the program that gets the text, if that answers
// pings: after the first character, which may open a field for the text or a list, and before
// Return and Escape, which end what the text began. It waits for a second in all.
func (kb *Keyboard) TypePaced(ctx context.Context, t Text, delay time.Duration) (done int, err error) {
	return kb.typeText(ctx, t, &pace{delay: delay, waits: waitsOfText})
}

// Type types any Unicode text, whatever modifiers are held or locked and however slow the
// application is. It waits for delay between characters. It returns the number of
// characters that the server has delivered, and an error if that is not all of them: it
// wraps the error of ctx, ErrNoKeycodes, quiesce.ErrNotDrained or ErrConnClosed.
func (kb *Keyboard) Type(ctx context.Context, t Text, delay time.Duration) (done int, err error) {
	return kb.typeText(ctx, t, &pace{delay: delay})
}

func (kb *Keyboard) typeText(ctx context.Context, t Text, p *pace) (done int, err error) {
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
		n, err := kb.send(ctx, k, p)
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
	s := kb.slots.find(k, sym)
	if s == nil || !kb.slots.claimed {
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
		kb.strokes = append(kb.strokes, typed{at, characters, sym == keyReturn || sym == keyEscape, sym == keyReturn})
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

// pace says when the keys of a text are sent.
type pace struct {
	delay   time.Duration // between characters
	waits   time.Duration // time that is left for waits for the program
	buttons time.Duration // time that is left for buttons that keys press; 0: keys press none
	started bool          // a key was sent
}

// next returns how many of the keys to send without a pause, and whether to wait for the
// program before them.
func (p *pace) next(keys []typed) (n int, wait bool) {
	acts := func(s typed) bool { return s.acts }
	switch {
	case p.delay > 0:
		return 1, acts(keys[0])
	case p.waits <= 0:
		return len(keys), false
	case !p.started, p.buttons > 0, keys[0].presses:
		return 1, acts(keys[0])
	}
	n = 1 + slices.IndexFunc(keys[1:], acts)
	if n == 0 {
		n = len(keys)
	}
	return n, acts(keys[0])
}

// send presses the planned keys and returns the number of their characters.
func (kb *Keyboard) send(ctx context.Context, k *keymap, p *pace) (done int, err error) {
	for keys := kb.strokes; len(keys) > 0; {
		n, wait := p.next(keys)
		if p.started && p.delay > 0 {
			select {
			case <-ctx.Done():
				return done, ctx.Err()
			case <-time.After(p.delay):
			}
		}
		if err := kb.awaitBefore(ctx, p, wait); err != nil {
			return done, err
		}
		if err := kb.lookForButtons(ctx, p); err != nil {
			return done, err
		}
		if err := kb.strike(k, keys[:n]); err != nil {
			return done, err
		}
		for _, s := range keys[:n] {
			done += s.characters
		}
		keys = keys[n:]
		first := !p.started
		p.started = true
		if len(keys) == 0 {
			break
		}
		if first {
			if err := kb.await(ctx, p); err != nil {
				return done, err
			}
		}
		if err := kb.awaitButton(ctx, p, first); err != nil {
			return done, err
		}
	}
	return done, nil
}

// awaitBefore waits before keys of a text: while a key before them shows a button of a dialog as
// pressed, and before keys that act until the program has handled those before.
func (kb *Keyboard) awaitBefore(ctx context.Context, p *pace, acts bool) error {
	pressed := p.started && kb.last.presses
	if p.waits <= 0 || !pressed && !acts {
		return nil
	}
	begin := time.Now()
	waited, err := kb.awaitInDialog(ctx)
	p.waits -= time.Since(begin)
	if err != nil || !waited && !acts {
		return err
	}
	return kb.await(ctx, p)
}

// buttonsOfText bounds the time that Type waits for pressed buttons in one text.
const buttonsOfText = 5 * time.Second

// lookForButtons allows waits for buttons before the first key, unless the program uses such
// timers without keys.
func (kb *Keyboard) lookForButtons(ctx context.Context, p *pace) error {
	if p.started || p.waits <= 0 {
		return nil
	}
	shows, _, err := kb.programs.ShowsButton()
	if err == nil && shows && time.Since(kb.last.at) < quiesce.PressedTime { // of a key before the text
		_, err = kb.programs.AwaitButton(ctx, kb.last.at)
		shows = false
	}
	if err == nil && !shows {
		p.buttons = buttonsOfText
	}
	return err
}

// awaitButton waits while the key before shows a button as pressed, as in a calculator, which
// ignores the same key meanwhile. If it shows none, the keys of the text press no buttons.
func (kb *Keyboard) awaitButton(ctx context.Context, p *pace, first bool) error {
	if p.buttons <= 0 {
		return nil
	}
	begin := time.Now()
	if !first { // else it has
		if _, err := kb.programs.QuiesceFocus(ctx); err != nil {
			return err
		}
	}
	shown, err := kb.programs.AwaitButton(ctx, kb.last.at)
	if p.buttons -= time.Since(begin); !shown {
		p.buttons = 0
	}
	return err
}

// await waits until the program that gets the text has handled it, if the program answers
// pings and there is time left.
func (kb *Keyboard) await(ctx context.Context, p *pace) error {
	if p.waits <= 0 {
		return nil
	}
	begin := time.Now()
	answers, err := kb.programs.QuiesceFocus(ctx)
	if p.waits -= time.Since(begin); !answers {
		p.waits = 0
	}
	return err
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
	err := kb.sent(before, "press keys", acts)
	kb.last.presses = keys[len(keys)-1].presses
	return err
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
