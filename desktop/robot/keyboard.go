//go:build robotgo

package robot

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-vgo/robotgo"

	"github.com/deskhand/deskhand/desktop"
)

const maxText = 1 << 20

// Type types ASCII text. A line feed is Return, a tab is Tab. It returns a
// *desktop.InterruptedError if ctx ends first, or if ReleaseAll or Close is called.
func (d *Desktop) Type(ctx context.Context, t desktop.Type) error {
	t, err := t.Resolve(d.cfg.SecretValue)
	if err != nil {
		return err
	}
	if t.Text == "" || len(t.Text) > maxText {
		return &desktop.InvalidError{Field: "Text", Reason: fmt.Sprintf("must have 1 to %d bytes", maxText)}
	}
	if t.Delay < 0 || t.Delay > 10*time.Second {
		return &desktop.InvalidError{Field: "Delay", Reason: "must be between 0 and 10000"}
	}
	for _, r := range t.Text {
		if (r < ' ' || r > '~') && r != '\n' && r != '\t' {
			if t.SecretName != "" {
				return &desktop.InvalidError{Field: "SecretName", Reason: "must name a secret of ASCII characters to be typed through robotgo"}
			}
			return &desktop.InvalidError{Field: "Text", Reason: fmt.Sprintf(
				"must be ASCII to be typed through robotgo, not %q; put it on the clipboard and press ctrl+v", r)}
		}
	}
	a := desktop.Action{Name: desktop.ActionType, Length: len(t.Text)}
	switch {
	case t.SecretName != "":
		a.Secret, a.Length = t.SecretName, 0
	case !t.Secret:
		a.Text = t.Text[:min(len(t.Text), 4096)]
	}
	typing, done := d.interruptible(ctx)
	defer done()
	return d.act(ctx, a, func(*desktop.Action) error {
		pause := time.NewTimer(0)
		defer pause.Stop()
		for i := range len(t.Text) {
			select {
			case <-pause.C:
			case <-typing.Done():
			}
			if typing.Err() != nil {
				cut := &desktop.InterruptedError{Op: "type", Cause: context.Cause(typing)}
				if t.SecretName == "" {
					cut.Done = fmt.Sprintf("%d of %d characters were typed", i, len(t.Text))
				}
				return cut
			}
			if err := tap(t.Text[i]); err != nil {
				return err
			}
			pause.Reset(t.Delay)
		}
		return nil
	})
}

var errReleased = errors.New("all input was released")

// interruptible returns a context that interrupt ends. The caller must call done.
func (d *Desktop) interruptible(ctx context.Context) (_ context.Context, done func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	d.typing.Lock()
	defer d.typing.Unlock()
	stop := context.AfterFunc(d.uninterrupted, func() { cancel(errReleased) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// interrupt ends all typing that runs or waits for its turn.
func (d *Desktop) interrupt() {
	d.typing.Lock()
	defer d.typing.Unlock()
	d.endTyping()
	d.uninterrupted, d.endTyping = context.WithCancel(context.Background())
}

// shifted has pairs of characters of a US keyboard: without Shift, and with it.
const shifted = "`~1!2@3#4$5%6^7&8*9(0)-_=+[{]}\\|;:'\",<.>/?"

// tap presses and releases the key of a character.
func tap(c byte) error {
	switch c {
	case '\n':
		return press("enter")
	case '\t':
		return press("tab")
	case ' ':
		return press("space")
	}
	if c >= 'A' && c <= 'Z' {
		return press(string(c|0x20), "shift")
	}
	if i := strings.IndexByte(shifted, c); i%2 == 1 {
		return press(shifted[i-1:i], "shift")
	}
	return press(string(c))
}

// press presses and releases a key with modifiers held.
func press(key string, modifiers ...string) (err error) {
	return hold(modifiers, robotgo.KeyUp, func() error { return errors.Join(robotgo.KeyDown(key), robotgo.KeyUp(key)) })
}

// hold calls f between the press and release of keys.
func hold(keys []string, release func(string, ...any) error, f func() error) (err error) {
	for i, k := range keys {
		if err = robotgo.KeyDown(k); err != nil {
			keys = keys[:i]
			break
		}
	}
	if err == nil {
		err = f()
	}
	for _, k := range slices.Backward(keys) {
		err = errors.Join(err, release(k))
	}
	return err
}

// Press presses and releases a key or a chord.
func (d *Desktop) Press(ctx context.Context, p desktop.Press) error {
	keys, err := chordOf(p.Keys)
	if err != nil {
		return err
	}
	mods, err := modifierNames(p.Modifiers)
	if err != nil {
		return err
	}
	a := desktop.Action{Name: desktop.ActionPress, Keys: strings.Join(append(slices.Clone(p.Modifiers), p.Keys), "+")}
	last := len(keys) - 1
	return d.act(ctx, a, func(*desktop.Action) error { return press(keys[last], append(mods, keys[:last]...)...) })
}

// KeyDown presses a key and leaves it pressed.
func (d *Desktop) KeyDown(ctx context.Context, key string) error {
	return d.key(ctx, desktop.ActionKeyDown, key, func(name string) error {
		d.held[name] = true
		return robotgo.KeyDown(name)
	})
}

// KeyUp releases a key.
func (d *Desktop) KeyUp(ctx context.Context, key string) error {
	return d.key(ctx, desktop.ActionKeyUp, key, func(name string) error {
		delete(d.held, name)
		return robotgo.KeyUp(name)
	})
}

func (d *Desktop) key(ctx context.Context, action desktop.ActionName, key string, f func(string) error) error {
	name, err := keyName("key", key)
	if err != nil {
		return err
	}
	return d.act(ctx, desktop.Action{Name: action, Keys: key}, func(*desktop.Action) error { return f(name) })
}

// withHeld calls f while keys are held. The caller has mu.
func (d *Desktop) withHeld(keys []string, f func() error) (err error) {
	return hold(keys, func(k string, _ ...any) error {
		if d.held[k] {
			return nil
		}
		return robotgo.KeyUp(k)
	}, f)
}

// names maps the names of keys in X and other programs, in lower case, to robotgo's.
var names = map[string]string{
	"return": "enter", "enter": "enter", "kp_enter": "num_enter", "escape": "esc", "esc": "esc", "tab": "tab", "space": "space",
	"backspace": "backspace", "delete": "delete", "del": "delete", "insert": "insert", "home": "home", "end": "end",
	"page_up": "pageup", "pageup": "pageup", "prior": "pageup", "page_down": "pagedown", "pagedown": "pagedown", "next": "pagedown",
	"up": "up", "down": "down", "left": "left", "right": "right",
	"arrowup": "up", "arrowdown": "down", "arrowleft": "left", "arrowright": "right",
	"ctrl": "lctrl", "control": "lctrl", "control_l": "lctrl", "control_r": "rctrl", "shift": "lshift", "shift_l": "lshift", "shift_r": "rshift",
	"alt": "lalt", "alt_l": "lalt", "alt_r": "ralt", "option": "lalt", "super": "lcmd", "super_l": "lcmd", "super_r": "rcmd",
	"meta": "lcmd", "cmd": "lcmd", "command": "lcmd", "win": "lcmd", "caps_lock": "capslock", "capslock": "capslock",
	"print": "printscreen", "printscreen": "printscreen", "menu": "menu", "plus": "=", "minus": "-",
}

// keyName returns robotgo's name of a key.
func keyName(field, key string) (string, error) {
	lower := strings.ToLower(key)
	if name, ok := names[lower]; ok {
		return name, nil
	}
	if n := 0; len(lower) > 1 && lower[0] == 'f' {
		if _, err := fmt.Sscanf(lower, "f%d", &n); err == nil && n >= 1 && n <= 24 && lower == fmt.Sprintf("f%d", n) {
			return lower, nil
		}
	}
	// A character that needs Shift is the chord shift+KEY.
	if len(lower) == 1 && lower[0] > ' ' && lower[0] <= '~' && strings.IndexByte(shifted, lower[0])%2 != 1 {
		return lower, nil
	}
	return "", &desktop.InvalidError{Field: field, Reason: fmt.Sprintf("must name keys that robotgo has, as ctrl+c, Return or F5; it has no %.64q", key)}
}

// chordOf returns robotgo's names of the keys of a chord, modifiers first.
func chordOf(text string) ([]string, error) {
	parts := strings.Split(text, "+")
	keys := make([]string, len(parts))
	for i, part := range parts {
		var err error
		if keys[i], err = keyName("Keys", part); err != nil {
			return nil, err
		}
	}
	if last := parts[len(parts)-1]; len(last) == 1 && last[0] >= 'A' && last[0] <= 'Z' && len(parts) == 1 {
		keys = append([]string{"lshift"}, keys...)
	}
	return keys, nil
}

// modifierNames returns robotgo's names of modifiers.
func modifierNames(modifiers []string) ([]string, error) {
	var list []string
	for _, m := range modifiers {
		switch strings.ToLower(m) {
		case "ctrl", "control", "shift", "alt", "super", "meta", "cmd":
			name, err := keyName("Modifiers", m)
			if err != nil {
				return nil, err
			}
			list = append(list, name)
		default:
			return nil, &desktop.InvalidError{Field: "Modifiers", Reason: fmt.Sprintf("must be ctrl, shift, alt or super, not %.64q", m)}
		}
	}
	return list, nil
}
