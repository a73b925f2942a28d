package rest

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzCheckText compares with what encoding/json makes of a string.
func FuzzCheckText(f *testing.F) {
	for _, text := range []string{`a`, `\ud83d\ude00`, `\ud83d`, `\\ud83d`, `\ude00\ud83d`, `\ud83d\n\ude00`, `\uD83D\uDE00\ud83d\uDe00`, "\xff", `\u00e9\\\\\ud800`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, inside string) {
		data := []byte(`"` + inside + `"`)
		var got string
		if json.Unmarshal(data, &got) != nil || strings.Contains(inside, "\ufffd") || strings.Contains(strings.ToLower(inside), "ufffd") {
			t.Skip("no JSON, or with the replacement character on purpose")
		}
		if err := CheckText(data); (err != nil) != strings.ContainsRune(got, utf8.RuneError) {
			t.Errorf("checkText(%q) = %v, but it is read as %q", data, err, got)
		}
	})
}
