package deskhand_test

import (
	"bytes"
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
	"desktop", "webrtc", "recording", "agents", "process", "filesystem", "httpapi", "cmd", "npm", "deploy", "testdata", "docs", "internal",
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

// domainInHTTP lists the files of httpapi that are too long for TestHTTPLayer.
var domainInHTTP = []string{"acp_connection.go", "acp_host.go", "config.go", "connlimit.go", "mcp_mount.go"}

// TestHTTPLayer keeps the domain out of httpapi: a long file that imports no HTTP
// belongs in another package.
func TestHTTPLayer(t *testing.T) {
	t.Parallel()
	const limit = 150
	http := []string{"net/http", "github.com/gofiber/...", "github.com/danielgtaylor/...", "github.com/valyala/...", "github.com/fasthttp/..."}
	goFiles(t, func(file string) {
		folder, name := path.Split(file)
		if folder != "httpapi/" || strings.HasSuffix(name, "_test.go") {
			return
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Error(err)
			return
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, text, parser.ImportsOnly)
		if err != nil {
			t.Error(err)
			return
		}
		for _, spec := range parsed.Imports {
			if slices.ContainsFunc(http, func(p string) bool { return matches(p, strings.Trim(spec.Path.Value, `"`)) }) {
				return
			}
		}
		if n := bytes.Count(text, []byte("\n")); n > limit && !slices.Contains(domainInHTTP, name) {
			t.Errorf("%s imports no HTTP and has %d lines; move it into a package of the domain before it passes %d", file, n, limit)
		}
	})
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
