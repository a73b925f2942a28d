package browser

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/deskhand/deskhand/desktop"
)

// Fill replaces the content of a text field.
type Fill struct {
	Tab string `json:"tab,omitempty"`
	Element
	Text   string `json:"text,omitempty"`
	Secret string `json:"secret,omitempty"` // in place of Text: the name of a secret of desktop.Config.SecretValue
}

// maxFill bounds a text, in bytes.
const maxFill = 1 << 20

// Fill replaces the content of a text field, a date field or an editable element, as if a person
// had pasted a text. The desktop's event has the name of the secret, and neither its value nor
// the text. Fill returns a *NotReadyError if the element takes no text, and an error that wraps
// desktop.ErrSecretNotFound if there is no such secret.
func (b *Browser) Fill(ctx context.Context, f Fill) error {
	switch {
	case f.Secret != "" && f.Text != "":
		return &InvalidError{"Secret", "must not be given together with text"}
	case len(f.Text) > maxFill:
		return &InvalidError{"Text", "must have at most 1 MiB"}
	case f.Secret != "":
		value, ok := b.ext.Secret(f.Secret)
		if !ok {
			return fmt.Errorf("fill: %w", desktop.ErrSecretNotFound)
		}
		f.Text = value
	}
	ctx, cancel := Milliseconds(pageLimit).limit(ctx, "fill", 0)
	defer cancel()
	r, err := b.resolve(ctx, f.Tab, f.Element)
	if err != nil {
		return explain(ctx, err)
	}
	a := desktop.Action{Command: "fill", Target: f.Element.String(), Secret: f.Secret}
	return explain(ctx, b.inTurn(ctx, "fill", func(ctx context.Context, _ *desktop.Turn) error {
		return b.perform(ctx, a, func(ctx context.Context) error {
			return change(ctx, func(ctx context.Context, by int64) error {
				var v struct{ Insert bool }
				if err := b.runOn(ctx, f.Element, r, "fill", &v, f.Text, f.Secret != "", by); err != nil || !v.Insert {
					return err
				}
				if err := b.call(ctx, r.frame.session, "Input.insertText", map[string]any{"text": f.Text}, nil); err != nil {
					return err
				}
				return b.runOn(ctx, f.Element, r, "inserted", nil)
			})
		})
	}))
}

// Select selects options of a list.
type Select struct {
	Tab string `json:"tab,omitempty"`
	Element
	Values []string `json:"values"` // values or labels of options
}

// Selected is what Select selected.
type Selected struct {
	Values []string `json:"values"`
}

// Select selects the options of a list that Select.Values names, and no others. It returns what
// is selected then, and a *NotReadyError if the element is no list or has no such option.
func (b *Browser) Select(ctx context.Context, s Select) (selected Selected, err error) {
	if s.Values == nil {
		s.Values = []string{}
	}
	ctx, cancel := Milliseconds(pageLimit).limit(ctx, "select", 0)
	defer cancel()
	r, err := b.resolve(ctx, s.Tab, s.Element)
	if err != nil {
		return selected, explain(ctx, err)
	}
	err = b.act(ctx, "select", s.Element.String(), func(ctx context.Context) error {
		return change(ctx, func(ctx context.Context, by int64) error {
			return b.runOn(ctx, s.Element, r, "select", &selected, s.Values, by)
		})
	})
	return selected, explain(ctx, err)
}

// Press presses a key or chord in a page.
type Press struct {
	Tab     string `json:"tab,omitempty"`
	Element        // gets the focus first; may be left out
	Keys    string `json:"keys"` // as in desktop.Press
}

// Press shows a page, gives an element the focus if one is named, and presses a key or chord with
// the desktop's keyboard. It returns a *NotReadyError if the page is not in the window that has
// the focus, or if another element takes the focus or the key. A headless browser accepts only named
// keys and single characters.
func (b *Browser) Press(ctx context.Context, p Press) error {
	if p.Keys == "" {
		return &InvalidError{"Keys", "must name a key or chord"}
	}
	ctx, cancel := Milliseconds(pageLimit).limit(ctx, "press", 0)
	defer cancel()
	return explain(ctx, b.press(ctx, p))
}

func (b *elements) press(ctx context.Context, p Press) error {
	var r reference
	named := p.Element != (Element{})
	if named {
		var err error
		if r, err = b.resolve(ctx, p.Tab, p.Element); err != nil {
			return err
		}
		p.Tab = r.tab
	}
	t, session, err := b.tab(ctx, p.Tab)
	if err == nil && !named { // the wait for a page that hangs, as in resolve
		if err = b.awaitNoDialog(ctx, session); err == nil {
			err = b.evaluateIn(ctx, session, 0, "0", nil)
		}
	}
	if err != nil {
		return err
	}
	return b.inTurn(ctx, "press", func(ctx context.Context, _ *desktop.Turn) error {
		err := b.show(ctx, session)
		if err == nil && named {
			err = b.focus(ctx, p.Element, r)
		}
		if err != nil {
			return err
		}
		if !b.cfg.Headless {
			err = b.awaitFocus(ctx, t, session)
		}
		if err == nil && named {
			err = b.runOn(ctx, p.Element, r, "focused", nil)
		}
		switch {
		case err != nil:
			return err
		case b.cfg.Headless:
			err = b.pressHeadless(ctx, session, p.Keys)
		default:
			err = b.cfg.Desktop.Press(ctx, desktop.Press{Keys: p.Keys})
		}
		if err == nil && named && !keptByBrowser(p.Keys) {
			err = b.typed(ctx, p.Element, r)
		}
		return err
	})
}

// focus gives an element the focus in its page.
func (b *elements) focus(ctx context.Context, e Element, r reference) error {
	return change(ctx, func(ctx context.Context, by int64) error { return b.runOn(ctx, e, r, "focus", nil, by) })
}

// keptByBrowser reports whether the browser may keep a key from the page.
func keptByBrowser(keys string) bool {
	parts := strings.Split(strings.ToLower(keys), "+")
	last := parts[len(parts)-1]
	return bitsOf(parts[:len(parts)-1])&^modifierBits["shift"] != 0 || len(last) > 1 && last[0] == 'f' && strings.Trim(last[1:], "0123456789") == ""
}

// typedLimit is how long a page may take to say whether an element got a key.
const typedLimit = 2 * time.Second

// typed returns a *NotReadyError if an element did not get the key that was pressed.
func (b *elements) typed(ctx context.Context, e Element, r reference) error {
	ctx, cancel := context.WithTimeout(ctx, typedLimit)
	defer cancel()
	var v struct{ Heard bool }
	// An error comes from what the key did: the page has gone, or shows a dialog.
	if err := b.runOn(ctx, e, r, "typed", &v); err == nil && !v.Heard {
		return &NotReadyError{e.String(), "without the key: another element or window may have got it"}
	}
	return nil
}

// keyCodes are the keys of headless browsers, by their names in lower case (UI Events, "Named key
// Attribute Values").
var keyCodes = map[string]struct {
	name, text string
	code       int
}{
	"return": {"Enter", "\r", 13}, "enter": {"Enter", "\r", 13}, "tab": {"Tab", "", 9}, "escape": {"Escape", "", 27},
	"backspace": {"Backspace", "", 8}, "delete": {"Delete", "", 46}, "space": {" ", " ", 32},
	"up": {"ArrowUp", "", 38}, "down": {"ArrowDown", "", 40}, "left": {"ArrowLeft", "", 37}, "right": {"ArrowRight", "", 39},
	"home": {"Home", "", 36}, "end": {"End", "", 35}, "page_up": {"PageUp", "", 33}, "page_down": {"PageDown", "", 34},
	"pageup": {"PageUp", "", 33}, "pagedown": {"PageDown", "", 34},
}

func (b *process) pressHeadless(ctx context.Context, session, keys string) error {
	parts := strings.Split(keys, "+")
	last := parts[len(parts)-1]
	key, known := keyCodes[strings.ToLower(last)]
	if r := []rune(last); !known && len(r) == 1 {
		key.name, key.text, known = last, last, true
		key.code = int([]rune(strings.ToUpper(last))[0])
	}
	if !known {
		return &InvalidError{"Keys", fmt.Sprintf("has the key %q, which headless browsers do not have here", last)}
	}
	bits := bitsOf(parts[:len(parts)-1])
	if bits&^modifierBits["shift"] != 0 {
		key.text = ""
	}
	return b.act(ctx, "press", "", func(ctx context.Context) error {
		for _, kind := range []string{"keyDown", "keyUp"} {
			params := map[string]any{"type": kind, "key": key.name, "windowsVirtualKeyCode": key.code, "modifiers": bits}
			if kind == "keyDown" && key.text != "" {
				params["text"] = key.text
			}
			if err := b.call(ctx, session, "Input.dispatchKeyEvent", params, nil); err != nil {
				return err
			}
		}
		return nil
	})
}
