package userhome

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestTemporary plants files that other users could make in the temporary directory.
func TestTemporary(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	dir := filepath.Join(tmp, "deskhand-"+strconv.Itoa(os.Geteuid()))
	for range 2 { // made, then found
		if got, err := Temporary(); err != nil || got != dir {
			t.Fatalf("Temporary() = %q, %v, want %q", got, err, dir)
		}
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("mode %v, %v, want 0700", info.Mode(), err)
	}
	plant := map[string]func() error{
		"a file":          func() error { return os.WriteFile(dir, nil, 0o700) },
		"a link":          func() error { return os.Symlink(t.TempDir(), dir) },
		"open to readers": func() error { return os.Mkdir(dir, 0o755) },
	}
	root := os.Geteuid() == 0
	if root {
		plant["another user's"] = func() error {
			if err := os.Mkdir(dir, 0o700); err != nil {
				return err
			}
			return os.Chown(dir, 65534, 65534)
		}
	}
	for what, f := range plant {
		if err := os.Remove(dir); err != nil {
			t.Fatal(err)
		}
		if err := f(); err != nil {
			t.Fatal(err)
		}
		got, err := Temporary()
		repaired := root || what == "open to readers"
		if repaired && (err != nil || !Belongs(dir, os.Geteuid(), 0o700)) {
			t.Errorf("%s: Temporary() = %q, %v, want its own", what, got, err)
		}
		if !repaired && (err == nil || !strings.Contains(err.Error(), dir)) {
			t.Errorf("%s: Temporary() = %q, %v, want an error that names it", what, got, err)
		}
	}
}

func TestWritable(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]bool{
		t.TempDir():                          true,
		filepath.Join(t.TempDir(), "a", "b"): true,
		filepath.Join(file, "below"):         false,
		"":                                   false,
		"relative":                           false,
	} {
		if got := Writable(dir); got != want {
			t.Errorf("Writable(%q) = %v, want %v", dir, got, want)
		}
	}
}
