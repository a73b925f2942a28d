package deskhand_test

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strings"
	"testing"
)

// docLines is how many lines a package comment may have.
const docLines = 60

// TestPublicPackages wants a short manual of every package that a program can import,
// and an example that go test runs.
func TestPublicPackages(t *testing.T) {
	t.Parallel()
	fset := token.NewFileSet()
	comments, tests := map[string]string{}, map[string][]*ast.File{} // by folder
	goFiles(t, func(file string) {
		folder := path.Dir(file)
		if folder == "." || slices.ContainsFunc([]string{"internal", "cmd", "deploy"}, func(p string) bool { return matches(p+"/...", folder) }) ||
			strings.Contains(folder, "/internal/") {
			return
		}
		f, err := parser.ParseFile(fset, file, nil, parser.ParseComments)
		switch {
		case err != nil:
			t.Error(err)
		case strings.HasSuffix(file, "_test.go"):
			tests[folder] = append(tests[folder], f)
		default:
			comments[folder] += f.Doc.Text()
		}
	})
	if len(comments) < 10 {
		t.Errorf("only %d public packages found", len(comments))
	}
	for folder, comment := range comments {
		if n := strings.Count(comment, "\n"); n > docLines {
			t.Errorf("%s: the package comment has %d lines; move what is longer than %d to a type or to docs", folder, n, docLines)
		}
		if !strings.Contains(comment, "\n# Usage\n") {
			t.Errorf("%s: the package comment has no section Usage", folder)
		}
		if !slices.ContainsFunc(doc.Examples(tests[folder]...), func(e *doc.Example) bool {
			return e.Name == "" && (e.Output != "" || e.EmptyOutput)
		}) {
			t.Errorf("%s: no func Example with an Output comment; go test does not run examples without one", folder)
		}
	}
}
