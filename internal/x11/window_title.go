package x11

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/jezek/xgb/xproto"
)

// title decodes WM_NAME, for windows without _NET_WM_NAME. It returns false if it cannot
// decode all of it.
func (w *Windows) title(r *xproto.GetPropertyReply) (string, bool) {
	switch {
	case r.Format != 8:
		return "", true
	case r.Type == w.atoms.compound:
		return decodeCompound(bytes.TrimRight(r.Value, "\x00"))
	}
	return w.text(r), true
}

// text decodes a property: UTF-8 if it has that type or is valid UTF-8, else Latin-1.
func (w *Windows) text(r *xproto.GetPropertyReply) string {
	if r.Format != 8 {
		return ""
	}
	b := r.Value
	if r.BytesAfter > 0 {
		for n := 0; n < utf8.UTFMax && len(b) > 0 && !utf8.Valid(b); n++ { // cut within a rune
			b = b[:len(b)-1]
		}
	}
	s := strings.TrimRight(string(b), "\x00")
	if r.Type != w.atoms.utf8 && !utf8.ValidString(s) {
		return string(decodeLatin1([]byte(s)))
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// bounded cuts a text to titleLength characters and replaces control characters by spaces.
// s must be valid UTF-8.
func bounded(s string) string {
	n := 0
	return strings.Map(func(r rune) rune {
		switch n++; {
		case n > titleLength:
			return -1
		case unicode.IsControl(r):
			return ' '
		}
		return r
	}, s)
}

// Escape sequences of compound text ("Compound Text Encoding", X Consortium standard,
// sections 4 to 7).
const (
	compoundASCII  = "\x1b(B"
	compoundLatin1 = "\x1b-A"
	compoundUTF8   = "\x1b%G"
	compoundReturn = "\x1b%@"
)

// decodeCompound decodes compound text in ASCII, Latin-1 and UTF-8. It replaces text in
// other encodings by U+FFFD and returns false.
func decodeCompound(b []byte) (string, bool) {
	var out []byte
	low, high, whole := true, true, true // ASCII below 128, Latin-1 above
	for len(b) > 0 {
		switch {
		case bytes.HasPrefix(b, []byte(compoundUTF8)):
			text, rest, _ := bytes.Cut(b[len(compoundUTF8):], []byte(compoundReturn))
			out, b = append(out, text...), rest
		case b[0] == 0x1b:
			n := 1 // an escape sequence: intermediate bytes, then a final one
			for n < len(b) && b[n] >= 0x20 && b[n] < 0x30 {
				n++
			}
			n = min(n+1, len(b))
			switch sequence := string(b[:n]); {
			case sequence == compoundASCII:
				low = true
			case sequence == compoundLatin1:
				high = true
			case strings.ContainsAny(sequence, ")-"):
				high = false
			default:
				low = false
			}
			b = b[n:]
		default:
			known := low
			if b[0] >= 0x80 {
				known = high
			}
			if known || b[0] < 0x21 {
				out = utf8.AppendRune(out, rune(b[0]))
			} else {
				out, whole = append(out, "\uFFFD"...), false
			}
			b = b[1:]
		}
	}
	return strings.ToValidUTF8(string(out), "\uFFFD"), whole
}
