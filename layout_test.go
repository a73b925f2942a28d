package deskhand_test

import (
	"bytes"
	"io/fs"
	"os"
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
