package x11

import (
	"errors"
	"testing"
)

func TestParseChord(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"ctrl+shift+t": "Control_L+Shift_L+t", "Return": "Return", "Control_L+a": "Control_L+a",
		"ControlOrMeta+A": "Control_L+a", "pagedown": "Page_Down", "PageDown": "Page_Down", "Page_Down": "Page_Down",
		"Next": "Page_Down", "Prior": "Page_Up", "ArrowLeft": "Left", "Left": "Left", "left": "Left", "esc": "Escape",
		"Escape": "Escape", "enter": "Return", "space": "space", " ": "space", "plus": "+", "ctrl++": "Control_L++",
		"+": "+", "ctrl+plus": "Control_L++", "+++": "+++", "KeyA": "a", "Digit1": "1", "F1": "F1", "F24": "F24", "f5": "F5",
		"cmd": "Super_L", "super": "Super_L", "win": "Super_L", "meta": "Super_L", "Meta": "Super_L", "option": "Alt_L",
		"XF86AudioPlay": "XF86AudioPlay", "xf86audioplay": "XF86AudioPlay", "é": "é", "U+00E9": "é", "u+00e9": "é", "U20AC": "€",
		"0x20ac": "EuroSign", "A": "A", "shift+A": "Shift_L+A", "alt+F4": "Alt_L+F4", "ctrl + a": "Control_L+a",
		"ctrl+U+00C9": "Control_L+é", "ctrl+U+00E9+b": "Control_L+é+b", "bracketleft": "[", "BracketLeft": "[", "quoteright": "'",
		"num1": "KP_1", "Numpad1": "KP_1", "NumpadEnter": "KP_Enter", "KP_Enter": "KP_Enter", "backspace": "BackSpace",
		"\n": "Return", "\t": "Tab", "Eth": "Ð", "eth": "ð", "Meta_L": "Meta_L", "u": "u", "ctrl+u": "Control_L+u", "u+0": "u+0", "u+f+f": "u+f+f",
		"漢": "漢", "😀": "😀", "Delete": "Delete", "delete": "Delete", "printscreen": "Print", "altgr": "ISO_Level3_Shift",
		"exclam": "!", "multiply": "×", "Backspace": "BackSpace", "ContextMenu": "Menu", "Control+Shift+ArrowUp": "Control_L+Shift_L+Up",
	} {
		got, err := ParseChord(in)
		if err != nil {
			t.Errorf("ParseChord(%q): %v", in, err)
		} else if got.String() != want {
			t.Errorf("ParseChord(%q) = %s, want %s", in, got, want)
		}
	}
}

func TestParseChordUnknown(t *testing.T) {
	t.Parallel()
	for in, suggestion := range map[string]string{
		"": "", "a b": "", "--help": "", "NoSuchKey": "", "Retrun": "Return", "ctrl+Eascpe": "Escape", "cntrl+a": "Control_L",
		"ctrl+": "", "a+": "", "\x00": "", "\x7f": "", "\xff": "", "U+D800": "", "U+110000": "", "0x0": "",
		"F36": "", "-a": "", "pagedwon": "Page_Down",
	} {
		ch, err := ParseChord(in)
		var unknown *KeyError
		if !errors.As(err, &unknown) {
			t.Errorf("ParseChord(%q) = %s, %v, want a *KeyError", in, ch, err)
			continue
		}
		if suggestion != "" && unknown.Suggestion != suggestion {
			t.Errorf("ParseChord(%q) suggests %q, want %q", in, unknown.Suggestion, suggestion)
		}
	}
}

// TestCommonNames looks every name of the table up: a wrong X name there would
// give keysym 0.
func TestCommonNames(t *testing.T) {
	t.Parallel()
	for name, sym := range keysyms().common {
		if sym == 0 {
			t.Errorf("%q has no X name", name)
		}
	}
}

func FuzzParseChord(f *testing.F) {
	for _, s := range []string{"ctrl+shift+t", "+", "ctrl++", "U+00E9", "0x20ac", "a b", "é", "KeyA", "\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		ch, err := ParseChord(s)
		if err != nil {
			var unknown *KeyError
			if !errors.As(err, &unknown) || unknown.Error() == "" {
				t.Fatalf("ParseChord(%q): %v, want a *KeyError", s, err)
			}
			return
		}
		if len(ch.keys) == 0 || len(ch.keys) > maxChordKeys {
			t.Fatalf("ParseChord(%q) has %d keys", s, len(ch.keys))
		}
		again, err := ParseChord(ch.String())
		if err != nil || again.String() != ch.String() {
			t.Fatalf("ParseChord(%q) = %s, which reads as %s, %v", s, ch, again, err)
		}
	})
}
