package accessibility

import (
	"errors"
	"testing"
)

// FuzzParseRef checks that only the text of a number is a reference.
func FuzzParseRef(f *testing.F) {
	for _, s := range []string{"@e12", "e12", "@e0", "@e01", "@@e1", "e+1", "e-1", "e1 ", "@e2147483648", "e", "@", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := ParseRef(s)
		switch {
		case err != nil && !errors.Is(err, ErrInvalid):
			t.Errorf("%q: %v", s, err)
		case err == nil && s != FormatRef(n) && "@"+s != FormatRef(n):
			t.Errorf("%q is %d, which is %s", s, n, FormatRef(n))
		}
	})
}

// FuzzMatch checks that a Match is refused or matches texts, and that an exact name matches
// itself alone.
func FuzzMatch(f *testing.F) {
	for _, s := range [][5]string{
		{"button", "Save", "", "enabled", "Save"},
		{"knob", "~^S", "~(", "sleepy", "S"},
		{"", "~", "~\\p{L}+", "disabled", ""},
		{"tab", "~(a*)*b", "x", "checked", "aaaaaaaaaaaaaaaaaaaa"},
		{"", "~(?i)\xff", "", "", "\xff"},
	} {
		f.Add(s[0], s[1], s[2], s[3], s[4])
	}
	f.Fuzz(func(t *testing.T, role, name, text, state, subject string) {
		match := Match{Role: role, Name: name, Text: text}
		if state != "" {
			match.States = []string{state}
		}
		m, err := match.compile()
		if m == nil {
			if err != nil && !errors.Is(err, ErrInvalid) {
				t.Errorf("%+v: %v", match, err)
			}
			return
		}
		m.matches(&node{role: roleButton, name: subject, text: subject}, true)
		if name == "" || name[0] == '~' {
			return
		}
		if !m.name(name) || m.name(name+"x") {
			t.Errorf("the name %q does not match itself alone", name)
		}
	})
}
