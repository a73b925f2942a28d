package deskhand_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// topLevel is everything that may lie in the module's root.
var topLevel = []string{
	"desktop", "webrtc", "recording", "agents", "process", "filesystem", "httpapi", "cmd", "npm", "deploy", "testdata", "docs", "examples", "internal",
	"go.mod", "go.sum", "doc.go", "README.md", "LICENSE", "CHANGELOG.md", "CONTRIBUTING.md", "AGENTS.md", "CLAUDE.md",
	"Makefile", "Dockerfile", ".dockerignore", ".gitignore", ".gitattributes", ".golangci.yml", ".ci", ".git", ".cache",
	".github", "bin", "dist", "coverage.out", "coverage.html",
}

func TestTopLevel(t *testing.T) {
	t.Parallel()
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !slices.Contains(topLevel, e.Name()) && !strings.HasSuffix(e.Name(), "_test.go") {
			t.Errorf("%s does not belong in the root folder", e.Name())
		}
	}
}

// TestFileLength keeps files to a length that one can hold in mind.
func TestFileLength(t *testing.T) {
	t.Parallel()
	goFiles(t, func(file string) {
		limit := 500
		if strings.HasSuffix(file, "_test.go") {
			limit = 700
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Error(err)
			return
		}
		if n := bytes.Count(text, []byte("\n")); n > limit && !bytes.Contains(text[:min(len(text), 200)], []byte("DO NOT EDIT")) {
			t.Errorf("%s has %d lines; split it by topic before it passes %d", file, n, limit)
		}
	})
}

// TestHTTPLayer keeps the domain out of httpapi and its rooms: a file with many lines of
// functions that imports no HTTP belongs in another package.
func TestHTTPLayer(t *testing.T) {
	t.Parallel()
	const limit = 150
	http := []string{"net/http", "github.com/gofiber/...", "github.com/danielgtaylor/...", "github.com/valyala/...", "github.com/fasthttp/..."}
	rooms(t, func(file string) {
		if strings.HasPrefix(file, "httpapi/internal/grants/") || strings.HasPrefix(file, "httpapi/internal/rest/") {
			return // they are below the routes
		}
		fset := token.NewFileSet()
		parsed, err := parser.ParseFile(fset, file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Error(err)
			return
		}
		for _, spec := range parsed.Imports {
			if slices.ContainsFunc(http, func(p string) bool { return matches(p, strings.Trim(spec.Path.Value, `"`)) }) {
				return
			}
		}
		lines := 0
		for _, decl := range parsed.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok {
				lines += fset.Position(f.End()).Line - fset.Position(f.Pos()).Line + 1
			}
		}
		if lines > limit {
			t.Errorf("%s imports no HTTP and has %d lines of functions; move it into a package of the domain before it passes %d", file, lines, limit)
		}
	})
}

// rooms calls f with each file of httpapi and of the packages below it, except tests.
func rooms(t *testing.T, f func(file string)) {
	t.Helper()
	goFiles(t, func(file string) {
		if strings.HasPrefix(file, "httpapi/") && !strings.HasSuffix(file, "_test.go") {
			f(file)
		}
	})
}

// TestRooms holds the walls of httpapi: its rooms import neither httpapi nor each other,
// except for those below the routes, of which grants knows nothing of HTTP, and for events, to
// which they add topics.
func TestRooms(t *testing.T) {
	t.Parallel()
	const inside = "httpapi/internal/"
	below := map[string][]string{"grants": nil, "rest": {"grants"}, "agenthost": {"rest"}, "events": {"grants", "rest"}}
	rooms(t, func(file string) {
		room, ours := strings.CutPrefix(path.Dir(file), inside)
		if !ours {
			return
		}
		allowed, ok := below[room]
		if !ok {
			allowed = []string{"agenthost", "events", "grants", "rest"}
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			t.Error(err)
			return
		}
		for _, spec := range parsed.Imports {
			pkg := strings.Trim(spec.Path.Value, `"`)
			other, isRoom := strings.CutPrefix(pkg, module+"/"+inside)
			if pkg == module+"/httpapi" || isRoom && !slices.Contains(allowed, other) {
				t.Errorf("%s imports %s", file, pkg)
			}
		}
	})
}

// The bounds of what one can hold in mind: methods of a type and of an interface, and files of a
// package. Rooms of httpapi are smaller.
const (
	mostMethods          = 45
	mostInterfaceMethods = 8
	mostFiles            = 45
	mostRoomMethods      = 39
	mostRoomFiles        = 29
)

// TestSizes keeps types, interfaces and packages to those bounds.
func TestSizes(t *testing.T) {
	t.Parallel()
	methods, files := map[string]int{}, map[string]int{}
	goFiles(t, func(file string) {
		if strings.HasSuffix(file, "_test.go") {
			return
		}
		folder := path.Dir(file)
		files[folder]++
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Error(err)
			return
		}
		for _, decl := range parsed.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv != nil {
				methods[folder+": "+receiver(f)]++
			}
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			if i, ok := n.(*ast.InterfaceType); ok && i.Methods.NumFields() > mostInterfaceMethods {
				t.Errorf("%s has an interface with %d methods; split it by what callers need", file, i.Methods.NumFields())
			}
			return true
		})
	})
	bound := func(folder string, most, ofRoom int) int {
		if strings.HasPrefix(folder, "httpapi") {
			return ofRoom
		}
		return most
	}
	for name, n := range methods {
		if most := bound(name, mostMethods, mostRoomMethods); n > most {
			t.Errorf("%s has %d methods; divide it before it passes %d", name, n, most)
		}
	}
	for folder, n := range files {
		if most := bound(folder, mostFiles, mostRoomFiles); n > most {
			t.Errorf("%s has %d files; it has %d at most", folder, n, most)
		}
	}
}

// TestSharedTestdata wants a file that several packages' tests read in testdata
// of the root folder, not a copy in each package.
func TestSharedTestdata(t *testing.T) {
	t.Parallel()
	first := make(map[string]string) // by content
	err := filepath.WalkDir(".", func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && path != "." && (strings.HasPrefix(e.Name(), ".") || e.Name() == "node_modules"):
			return filepath.SkipDir
		case !e.Type().IsRegular() || !strings.Contains("/"+path, "/testdata/"):
			return nil
		}
		text, err := os.ReadFile(path)
		if other, found := first[string(text)]; found {
			t.Errorf("%s is a copy of %s; put one into testdata of the root folder", path, other)
		}
		first[string(text)] = path
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
