package filesystem

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestExtractSweeps checks that Extract removes what a program that was killed
// left of an earlier one.
func TestExtractSweeps(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	left := filepath.Join(dir, ".deskhand-LEFT.tmp")
	if err := os.MkdirAll(filepath.Join(left, "sub", "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := Open(Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}()
	var archive bytes.Buffer
	if err := tar.NewWriter(&archive).Close(); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		later time.Duration
		stays bool
	}{{23 * time.Hour, true}, {48 * time.Hour, false}} {
		f.now = func() time.Time { return time.Now().Add(step.later) }
		if _, err := f.Extract(t.Context(), dir, bytes.NewReader(archive.Bytes()), ExtractOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(left); (err == nil) != step.stays {
			t.Errorf("after %v: %v, want it to be there: %v", step.later, err, step.stays)
		}
	}
}
