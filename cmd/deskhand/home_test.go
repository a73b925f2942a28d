package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestEmptyNames plants what another user could leave in the place of the file of names.
func TestEmptyNames(t *testing.T) {
	t.Parallel()
	const entry = "other::1000:65533::/:/bin/sh\n"
	kept := filepath.Join(t.TempDir(), "kept")
	if err := os.WriteFile(kept, []byte(entry), 0o600); err != nil {
		t.Fatal(err)
	}
	for what, plant := range map[string]func(path string) error{
		"nothing": func(string) error { return nil },
		"a file":  func(path string) error { return os.WriteFile(path, []byte(entry), 0o666) },
		"a link":  func(path string) error { return os.Symlink(kept, path) },
		"a pipe":  func(path string) error { return syscall.Mkfifo(path, 0o666) },
	} {
		path := filepath.Join(t.TempDir(), "passwd")
		if err := plant(path); err != nil {
			t.Fatal(err)
		}
		old, oldErr := os.Open(os.DevNull)
		if what == "a file" { // its writer may have it open still
			old, oldErr = os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
		}
		if oldErr != nil {
			t.Fatal(oldErr)
		}
		if err := emptyNames(path); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		_, _ = old.WriteString(entry)
		_ = old.Close()
		info, err := os.Lstat(path)
		if err != nil || info.Mode() != 0o644 || info.Size() != 0 {
			t.Errorf("in the place of %s is %v, %v, want an empty file of mode 0644", what, info, err)
		}
	}
	if data, err := os.ReadFile(kept); err != nil || string(data) != entry {
		t.Errorf("where the link led is %q, %v", data, err)
	}
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := emptyNames(full); err == nil || !strings.Contains(err.Error(), "remove "+full) {
		t.Errorf("a directory with files: %v, want an error that names it", err)
	}
}

// TestImageWithoutSetuid wants no image where users can name users to have programs that
// believe those names and change the user.
func TestImageWithoutSetuid(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	stages := 0
	for stage := range strings.SplitSeq(string(text), "\nFROM ") {
		_, after, names := strings.Cut(stage, "extrausers/' /etc/nsswitch.conf")
		if !names {
			continue
		}
		stages++
		if !strings.Contains(after, "find / -xdev -type f -perm /6000 -exec chmod a-s {} +") || strings.Contains(after, "apt-get install") {
			t.Errorf("after the last package, setuid bits stay in the stage %.40q", stage)
		}
	}
	if stages != 2 {
		t.Errorf("%d stages use the file of names, want 2", stages)
	}
}
