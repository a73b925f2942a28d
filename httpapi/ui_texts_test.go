package httpapi

import (
	"bytes"
	"fmt"
	"html"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

const textsFile = "testdata/page-texts.txt"

// TestPageTexts keeps all texts of the page in one file, for reviewers.
func TestPageTexts(t *testing.T) {
	t.Parallel()
	files, err := pageFiles()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for name := range files {
		if !strings.HasPrefix(name, "lib/") { // of others
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var sheet bytes.Buffer
	for _, name := range names {
		var texts []string
		switch data := string(files[name].Data); {
		case path.Ext(name) == ".html":
			texts = textsOfHTML(data)
		case path.Ext(name) == ".js" && name != "keysyms.js" && name != "keys.js": // these have names of keys
			texts = textsOfScript(data)
		}
		if len(texts) > 0 {
			fmt.Fprintf(&sheet, "# %s\n\n%s\n\n", name, strings.Join(texts, "\n"))
		}
	}
	if *update {
		if err := os.WriteFile(textsFile, sheet.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(textsFile)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), sheet.String()); diff != "" {
		t.Errorf("the page's texts have changed; if that is meant, run go test ./httpapi -run TestPageTexts -update (-want +got):\n%s", diff)
	}
}

var htmlText = regexp.MustCompile(`(?s)(?:aria-label|aria-roledescription|title|placeholder|alt)="([^"]+)"|>([^<>]*\p{L}[^<>]*)<`)

// textsOfHTML returns the texts of a page and of its attributes, in their order.
func textsOfHTML(page string) (texts []string) {
	for _, m := range htmlText.FindAllStringSubmatch(page, -1) {
		texts = append(texts, strings.Join(strings.Fields(html.UnescapeString(m[1]+m[2])), " "))
	}
	return slices.Compact(texts)
}

var (
	// prose is a word with a capital, or two words.
	prose = regexp.MustCompile(`^[A-Z][A-Za-z']*[a-z…]$|[\p{L}\d,;.}…] [(\p{L}\d{]|^[ ,.]+[(\p{L}]|^Web`)
	// notProse are names of classes, elements and keys, and values of style sheets.
	notProse = regexp.MustCompile(`^(url|translate)\(|^(primary|button|small|plain|danger|h1|dim|entry|view|state|problem load|noopener) [a-z{…}-]+$|^[.#][a-z-]+$|^(Escape|Enter|Delete|Control|Alt|Meta|Backspace|Tab|PrintScreen|#keyrow button|[A-Z]\w*(Error|Left|Right))$`)
)

// textsOfScript returns the strings of a script that people read. What is put into a
// string is {…} in the text.
func textsOfScript(script string) (texts []string) {
	for _, s := range scriptStrings(script) {
		if prose.MatchString(s) && !notProse.MatchString(s) {
			texts = append(texts, strings.TrimSpace(s))
		}
	}
	return texts
}

// scriptStrings returns the strings of a script, also those within templates.
func scriptStrings(script string) (all []string) {
	last := byte('(') // before what is read, without spaces
	for i := 0; i < len(script); {
		rest := script[i:]
		switch c := script[i]; {
		case strings.HasPrefix(rest, "//"):
			i += strings.IndexByte(rest, '\n')
		case strings.HasPrefix(rest, "/*"):
			i += strings.Index(rest, "*/") + 2
		case c == '"' || c == '\'' || c == '`':
			text, inner, n := scriptString(rest)
			if text != "" {
				all = append(all, text)
			}
			all = append(all, inner...)
			last, i = c, i+n
		case c == '/' && strings.IndexByte("(,=:[!&|?{};", last) >= 0: // a regular expression
			i += len(regexp.MustCompile(`^/(\\.|\[(\\.|[^\]])*\]|[^/\\])+/`).FindString(rest))
			last = '/'
		default:
			if c != ' ' && c != '\n' {
				last = c
			}
			i++
		}
	}
	return all
}

// scriptString reads the string at the beginning of a script. inner has the strings
// within its expressions, and n is its length in the script.
func scriptString(script string) (text string, inner []string, n int) {
	var b strings.Builder
	quote := script[0]
	for n = 1; script[n] != quote; {
		switch {
		case script[n] == '\\':
			if script[n+1] == 'n' {
				b.WriteByte('\n')
			} else {
				b.WriteByte(script[n+1])
			}
			n += 2
		case quote == '`' && strings.HasPrefix(script[n:], "${"):
			length := expressionLength(script[n+2:])
			inner = append(inner, scriptStrings(script[n+2:n+2+length])...)
			b.WriteString("{…}")
			n += length + 3
		default:
			_, size := utf8.DecodeRuneInString(script[n:])
			b.WriteString(script[n : n+size])
			n += size
		}
	}
	return b.String(), inner, n + 1
}

// expressionLength returns how long the expression of a template is, up to its brace.
func expressionLength(script string) int {
	for i, depth := 0, 0; ; {
		switch c := script[i]; c {
		case '"', '\'', '`':
			_, _, n := scriptString(script[i:])
			i += n
			continue
		case '{':
			depth++
		case '}':
			if depth == 0 {
				return i
			}
			depth--
		}
		i++
	}
}
