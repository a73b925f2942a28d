package x11

import (
	"os"
	"regexp"
	"strconv"
	"testing"

	"github.com/jezek/xgb/xproto"
)

// TestKeysymNames compares the table with X's own headers.
func TestKeysymNames(t *testing.T) {
	t.Parallel()
	for file, prefix := range map[string]string{"keysymdef.h": "", "XF86keysym.h": "XF86"} {
		text, err := os.ReadFile("/usr/include/X11/" + file)
		if err != nil {
			if os.Getenv("REQUIRE_TOOLS") != "" {
				t.Fatal(err)
			}
			t.Skip("the headers of X are missing: ", err)
		}
		defined := regexp.MustCompile(`(?m)^#define ` + prefix + `XK_(\w+)\s+0x([0-9a-fA-F]+)`)
		all := defined.FindAllSubmatch(text, -1)
		if len(all) < 100 {
			t.Errorf("%s defines only %d keysyms", file, len(all))
		}
		for _, m := range all {
			name := prefix + string(m[1])
			n, err := strconv.ParseUint(string(m[2]), 16, 32)
			if err != nil {
				t.Fatal(err)
			}
			if len(name) == 1 || n < 0x20 || n == 0xffffff { // characters and VoidSymbol
				continue
			}
			if got, ok := keysyms().lookup(name); !ok || got != xproto.Keysym(n) {
				t.Errorf("%s is %#x, %t, want %#x", name, got, ok, n)
			}
		}
	}
	for sym, want := range map[xproto.Keysym]string{
		0x20: "space", 'a': "a", 0xe9: "é", 0xffc8: "F11", 0xffe0: "F35", 0xff55: "Page_Up", 0xffaa: "KP_Multiply", 0x10020ac: "€", 0xff0d: "Return", 0xd0: "Ð",
	} {
		if got := keysymName(sym); got != want {
			t.Errorf("keysymName(%#x) = %q, want %q", sym, got, want)
		}
	}
}
