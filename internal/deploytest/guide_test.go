package deploytest

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

type codeBlock struct {
	mark string // the comment before the block, without <!-- and -->
	line int
	text string
}

var fence = regexp.MustCompile("^```\\w*\n$")

// parse returns the code blocks of a document.
func parse(t *testing.T, file string) []codeBlock {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../..", file))
	if err != nil {
		t.Fatal(err)
	}
	var all []codeBlock
	inside, before, n := false, "", 0
	for line := range strings.Lines(string(text)) {
		n++
		switch {
		case inside && line == "```\n":
			inside = false
		case inside:
			all[len(all)-1].text += line
		case fence.MatchString(line):
			inside = true
			mark, _ := strings.CutPrefix(before, "<!-- ")
			mark, found := strings.CutSuffix(mark, " -->\n")
			if !found {
				mark = ""
			}
			all = append(all, codeBlock{mark: mark, line: n})
		case strings.Contains(line, "```"):
			t.Errorf("%s:%d: a fence that this test does not understand", file, n)
		}
		before = line
	}
	return all
}

// block returns the text of a guide's code block, with replacements as for
// strings.NewReplacer. The text must contain each string to be replaced.
func block(t *testing.T, file, name string, replace ...string) string {
	t.Helper()
	for _, b := range parse(t, file) {
		if _, found, _ := strings.Cut(b.mark, " "); found != name {
			continue
		}
		for i := 0; i < len(replace); i += 2 {
			if !strings.Contains(b.text, replace[i]) {
				t.Fatalf("%s:%d: the block %q does not contain %q:\n%s", file, b.line, name, replace[i], b.text)
			}
		}
		return strings.NewReplacer(replace...).Replace(b.text)
	}
	t.Fatalf("%s has no block %q", file, name)
	return ""
}

// elsewhere are guides whose commands tests of other packages run.
var elsewhere = []string{"docker.md", "systemd.md", "local.md", "cloud.md"}

// otherTests returns the tests of the packages that run the guides in elsewhere.
func otherTests(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, dir := range []string{"deploy", "cmd/deskhand", "internal/containertest", "internal/npmtest"} {
		files, err := filepath.Glob(filepath.Join("../..", dir, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			all.Write(text)
		}
	}
	return all.String()
}

// TestEveryBlock wants each code block of the guides to name the test that runs
// it, or the reason why none does.
func TestEveryBlock(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../docs/deploy/*.md")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	tests, everyTest := source(t), otherTests(t)
	steps, err := filepath.Glob("../../docs/first-steps.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(files, steps...) {
		other := slices.Contains(elsewhere, filepath.Base(file))
		file = strings.TrimPrefix(file, "../../")
		for _, b := range parse(t, file) {
			test, name, _ := strings.Cut(b.mark, " ")
			if reason, ok := strings.CutPrefix(b.mark, "not run: "); ok && reason != "" {
				continue
			}
			if other && test != "" && strings.Contains(everyTest, "func "+test+"(") {
				continue
			}
			if name == "" || !strings.Contains(tests, "func "+test+"(") || !strings.Contains(tests, fmt.Sprintf("block(t, %q, %q", file, name)) {
				t.Errorf("%s:%d: the comment before the block is %q; want a test and the name by which it uses the block, or not run: REASON", file, b.line, b.mark)
			}
		}
	}
}

// source returns the text of this package's tests.
func source(t *testing.T) string {
	t.Helper()
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}
