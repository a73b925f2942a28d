package filesystem_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/deskhand/deskhand/filesystem"
)

// TestSearchSpanningMatches searches lines that do not match, although each begins a match that
// spans all lines after it.
func TestSearchSpanningMatches(t *testing.T) {
	t.Parallel()
	f := openFS(t)
	dir := realTempDir(t)
	put(t, filepath.Join(dir, "lines"), strings.Repeat("x\n", 32<<10))
	put(t, filepath.Join(dir, "more"), strings.Repeat(strings.Repeat("x\n", 32)+"z\n", 1000))
	begun := time.Now()
	result := search(t, f, dir, filesystem.SearchOptions{Regexp: `[xy][^q]*[^q]{20}[xzw]`, Timeout: 200 * time.Millisecond})
	if took := time.Since(begun); took > 5*time.Second || len(result.Matches) != 0 {
		t.Errorf("the search took %v and found %d files", took, len(result.Matches))
	}
}

// TestSearchResultBytes checks that a search ends after 8 MiB of names, paths, targets and lines.
func TestSearchResultBytes(t *testing.T) {
	t.Parallel()
	f := openFS(t)
	links, texts := realTempDir(t), realTempDir(t)
	for i := range 5000 {
		symlink(t, strings.Repeat("t", 4000), filepath.Join(links, fmt.Sprintf("%05d", i)))
	}
	line := strings.Repeat("x", 400) + "\n"
	for i := range 100 {
		put(t, filepath.Join(texts, fmt.Sprintf("%05d", i)), strings.Repeat(line, 1000))
	}
	must(t, os.Mkdir(filepath.Join(texts, "z"), 0o777))
	put(t, filepath.Join(texts, "z", "last"), line)
	for dir, options := range map[string]filesystem.SearchOptions{
		links: {MaxResults: 100_000}, texts: {MaxResults: 100_000, Text: "x"},
	} {
		result := search(t, f, dir, options)
		size := 0
		for i, m := range result.Matches {
			if m.Entry.Name != fmt.Sprintf("%05d", i) {
				t.Fatalf("match %d is %s", i, m.Entry.Name)
			}
			size += len(m.Entry.Name) + len(m.Entry.Path) + len(m.Entry.Target)
			for _, l := range m.Lines {
				size += len(l.Text)
			}
		}
		if size > 8<<20 || size < 8<<20-5000 || !result.Truncated || result.Limit != filesystem.LimitResults {
			t.Errorf("%d bytes were found, truncated: %v, limit: %q", size, result.Truncated, result.Limit)
		}
	}
}
