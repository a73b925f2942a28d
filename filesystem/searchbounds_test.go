package filesystem_test

import (
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
