package x11

import (
	"cmp"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/jezek/xgb/xproto"
)

// keysymTable finds keysyms by name.
type keysymTable struct {
	exact  map[string]xproto.Keysym // X names
	folded map[string]xproto.Keysym // without case and underscores; 0: several
	common map[string]xproto.Keysym // names of other programs, folded
	shown  map[xproto.Keysym]string // the X name to show
}

var keysyms = sync.OnceValue(func() *keysymTable {
	t := &keysymTable{
		exact: make(map[string]xproto.Keysym, 2500), folded: make(map[string]xproto.Keysym, 2500),
		common: make(map[string]xproto.Keysym, 200), shown: make(map[xproto.Keysym]string, 2300),
	}
	for line := range strings.Lines(keysymNames) {
		fields := strings.Fields(line)
		n, err := strconv.ParseUint(fields[0], 16, 32)
		if err != nil {
			panic("keysym table: " + err.Error()) // a constant
		}
		sym := xproto.Keysym(n)
		t.shown[sym] = fields[1]
		for _, name := range fields[1:] {
			t.add(name, sym)
		}
	}
	for pair := range strings.FieldsSeq(commonNames) {
		name, x, _ := strings.Cut(pair, "=")
		t.common[name] = t.exact[x]
	}
	return t
})

func (t *keysymTable) add(name string, sym xproto.Keysym) {
	t.exact[name] = sym
	f := foldName(name)
	if old, ok := t.folded[f]; ok && old != sym {
		sym = 0
	}
	t.folded[f] = sym
}

var spelling = strings.NewReplacer("_", "", " ", "")

// foldName removes differences of spelling.
func foldName(name string) string {
	return spelling.Replace(strings.ToLower(name))
}

func (t *keysymTable) lookup(name string) (xproto.Keysym, bool) {
	f := foldName(name)
	if sym := cmp.Or(t.exact[name], t.common[f], t.folded[f]); sym != 0 {
		return sym, true
	}
	return numberedKeysym(name)
}

// numberedKeysym parses names with the key in them: "KeyA", "Digit1" and "Numpad1" (UI
// Events KeyboardEvent code values), "num1", the code points "U+20AC" and "U20AC", and
// keysym numbers such as "0x20ac" (XStringToKeysym).
func numberedKeysym(name string) (xproto.Keysym, bool) {
	lower := strings.ToLower(name)
	for _, p := range []struct {
		prefix      string
		first, last byte
		sym         xproto.Keysym // of first
	}{
		{"key", 'a', 'z', 'a'},
		{"digit", '0', '9', '0'},
		{"numpad", '0', '9', keyKP0},
		{"num", '0', '9', keyKP0},
	} {
		if rest, ok := strings.CutPrefix(lower, p.prefix); ok && len(rest) == 1 && rest[0] >= p.first && rest[0] <= p.last {
			return p.sym + xproto.Keysym(rest[0]-p.first), true
		}
	}
	if hex, ok := strings.CutPrefix(lower, "0x"); ok {
		n, err := strconv.ParseUint(hex, 16, 32)
		return xproto.Keysym(n), err == nil && n >= 0x20 && n <= 0x1fffffff
	}
	if hex, ok := strings.CutPrefix(lower, "u"); ok {
		n, err := strconv.ParseUint(strings.TrimPrefix(hex, "+"), 16, 32)
		if err != nil || len(hex) < 2 || n > utf8.MaxRune || !utf8.ValidRune(rune(n)) {
			return 0, false
		}
		return charKeysym(rune(n))
	}
	return 0, false
}

// charKeysym returns the keysym of a character, if it has one.
func charKeysym(r rune) (xproto.Keysym, bool) {
	if sym := controlKey(r); sym != 0 {
		return sym, true
	}
	return runeKeysym(r), r >= 0x20 && (r < 0x7f || r >= 0xa0)
}

// keysymName returns the name of a keysym for errors and events.
func keysymName(sym xproto.Keysym) string {
	switch {
	case sym >= 0x21 && sym <= 0x7e || sym >= 0xa1 && sym <= 0xff:
		return string(rune(sym))
	case sym > keyUnicode && sym <= keyUnicode+utf8.MaxRune:
		return string(rune(sym - keyUnicode))
	case sym >= keyF1 && sym < keyF1+35:
		return "F" + strconv.Itoa(int(sym-keyF1)+1)
	}
	if name := keysyms().shown[sym]; name != "" {
		return name
	}
	return "0x" + strconv.FormatUint(uint64(sym), 16)
}

// suggest returns the known name that is nearest to an unknown one, or "".
func (t *keysymTable) suggest(name string) string {
	f := foldName(name)
	if len(f) < 3 || len(f) > 40 {
		return ""
	}
	best, bestName := min(2, len(f)/3)+1, ""
	consider := func(shown, folded string) {
		if d := editDistance(f, folded, best); d < best || d == best && bestName != "" && shown < bestName {
			best, bestName = d, shown
		}
	}
	for folded, sym := range t.common {
		consider(keysymName(sym), folded)
	}
	for exact := range t.exact {
		consider(exact, foldName(exact))
	}
	return bestName
}

// editDistance returns how many characters must be inserted, removed, replaced or swapped
// with their neighbour to make a into b. It may return any number above limit for more.
func editDistance(a, b string, limit int) int {
	if len(a)-len(b) > limit || len(b)-len(a) > limit {
		return limit + 1
	}
	older, old, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range old {
		old[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(old[j]+1, row[j-1]+1, old[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], older[j-2]+1)
			}
		}
		older, old, row = old, row, older
	}
	return old[len(b)]
}
