package httpapi

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
	"testing"
)

// TestDocsNameStatesAndEvents looks for every state, type of event and stage in
// the page about sessions: all that the packages declare.
func TestDocsNameStatesAndEvents(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/sessions.md")
	if err != nil {
		t.Fatal(err)
	}
	names := []string{
		"_adapter/agent_exited", "_adapter/invalid_stdout", "_adapter/unmatched_response",
		"session/restored", "session/problem", "session/ended", "opencomputer/configured",
	}
	for _, c := range []struct {
		file, prefix string
		least        int
	}{
		{"../agents/eventlog/sessions.go", "", 7}, {"../agents/eventlog/requests.go", "", 3}, {"../agents/universal/event.go", "", 13}, {"../agents/registry/install.go", "Stage", 6},
	} {
		found := constants(t, c.file, c.prefix)
		if len(found) < c.least {
			t.Errorf("%s declares %q", c.file, found)
		}
		names = append(names, found...)
	}
	for _, name := range names {
		if !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("docs/sessions.md says nothing of %s", name)
		}
	}
}

// constants are the values of the text constants that a file declares, of those
// whose names begin with a prefix.
func constants(t *testing.T, file, prefix string) (values []string) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range parsed.Decls {
		group, ok := d.(*ast.GenDecl)
		if !ok || group.Tok != token.CONST {
			continue
		}
		for _, spec := range group.Specs {
			spec := spec.(*ast.ValueSpec)
			for i, v := range spec.Values {
				if text, ok := v.(*ast.BasicLit); ok && text.Kind == token.STRING && strings.HasPrefix(spec.Names[i].Name, prefix) {
					value, err := strconv.Unquote(text.Value)
					if err != nil {
						t.Fatal(err)
					}
					values = append(values, value)
				}
			}
		}
	}
	return values
}
