package desktop

import (
	"slices"
	"testing"
)

// TestLocale makes the encoding of programs UTF-8 unless the environment has another one.
func TestLocale(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ env, want []string }{
		{nil, []string{"LANG=C.UTF-8"}},
		{[]string{"LANG=POSIX"}, []string{"LANG=C.UTF-8"}},
		{[]string{"LANG=de_DE.UTF-8"}, nil},
		{[]string{"LANG=C", "LC_CTYPE=en_US.UTF-8"}, nil},
		{[]string{"LANG=de_DE.UTF-8", "LC_CTYPE=C"}, []string{"LC_CTYPE=C.UTF-8"}},
		{[]string{"LC_CTYPE=de_DE.UTF-8", "LC_ALL=C"}, []string{"LC_ALL=C.UTF-8"}},
		{[]string{"LC_CTYPE=C", "LC_ALL=ja_JP.eucJP"}, nil},
		{[]string{"LANG=C", "LANG=fr_FR.UTF-8"}, nil}, // the last entry counts
	} {
		if got := locale(c.env); !slices.Equal(got, c.want) {
			t.Errorf("locale(%q) = %q, want %q", c.env, got, c.want)
		}
	}
}

// TestBrowserCommands quotes the paths of browsers for scripts and desktop entries, and
// adds flags where there is no wrapper.
func TestBrowserCommands(t *testing.T) {
	t.Parallel()
	for path, want := range map[string][2]string{ // in a script, in a desktop entry
		"/usr/bin/chromium":  {"'/usr/bin/chromium'", "/usr/bin/chromium"},
		"/opt/my web/chrome": {"'/opt/my web/chrome'", `"/opt/my web/chrome"`},
		"/opt/it's/chrome":   {`'/opt/it'\''s/chrome'`, `"/opt/it's/chrome"`},
		"/opt/$a/`b`/chrome": {"'/opt/$a/`b`/chrome'", "\"/opt/\\\\$a/\\\\`b\\\\`/chrome\""},
		`/opt/a"b\c/chrome`:  {`'/opt/a"b\c/chrome'`, `"/opt/a\\"b\\\\c/chrome"`},
	} {
		if script, entry := shellQuote(path), execQuote(path); script != want[0] || entry != want[1] {
			t.Errorf("%s is %s in a script and %s in a desktop entry, want %s and %s", path, script, entry, want[0], want[1])
		}
	}
	args := []string{"about:blank"}
	wrapped, direct := programs{}, programs{chromium: []string{"--no-sandbox"}}
	for _, c := range []struct {
		p    programs
		path string
		want []string
	}{
		{wrapped, "/usr/bin/chromium", args},
		{direct, "/usr/bin/chromium", []string{"--no-sandbox", "about:blank"}},
		{direct, "/usr/bin/google-chrome-stable", []string{"--no-sandbox", "about:blank"}},
		{direct, "/usr/bin/firefox", args},
	} {
		if got := c.p.browserArgs(c.path, args); !slices.Equal(got, c.want) {
			t.Errorf("%s with the flags %q gets %q, want %q", c.path, c.p.chromium, got, c.want)
		}
	}
}
