package smallregexp_test

import (
	"strings"
	"testing"

	"github.com/deskhand/deskhand/internal/smallregexp"
)

func TestCompile(t *testing.T) {
	for _, expr := range []string{"", "^Save", "(?i)save|open", `\d{1,3}%`, ".{0,500}", strings.Repeat("x", 1000), `^\p{L}+ \p{L}+$`} {
		if _, err := smallregexp.Compile(expr); err != nil {
			t.Errorf("Compile(%.40q) = %v", expr, err)
		}
	}
	for _, expr := range []string{"(", ".{1001}", "(.{0,999}){2}", "((a{10}){10}){10}b{500}", strings.Repeat(".{0,999}", 3), "(?:abc){999,}"} {
		if re, err := smallregexp.Compile(expr); err == nil {
			t.Errorf("Compile(%.40q) = %d bytes, and no error", expr, len(re.String()))
		}
	}
}
