package httpapi

import (
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

func TestStateHome(t *testing.T) {
	for _, tt := range []struct{ state, home, want string }{
		{"/var/state", "/home/x", "/var/state"},
		{"", "/home/x", "/home/x/.local/state"},
		{"relative", "/home/x", "/home/x/.local/state"}, // the specification has it ignored
	} {
		t.Setenv("XDG_STATE_HOME", tt.state)
		t.Setenv("HOME", tt.home)
		if got, err := stateHome(); err != nil || got != tt.want {
			t.Errorf("XDG_STATE_HOME=%q HOME=%q: %q, %v, want %q", tt.state, tt.home, got, err, tt.want)
		}
	}
}

// TestNoHome is a server in a container whose user has no HOME.
func TestNoHome(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", "")
	t.Setenv("HOME", "")
	t.Setenv("TMPDIR", t.TempDir())
	got, err := stateHome()
	if err != nil {
		t.Fatal(err)
	}
	want := filepath.Join(os.TempDir(), "deskhand-"+strconv.Itoa(os.Geteuid()))
	if u, err := user.LookupId(strconv.Itoa(os.Geteuid())); err == nil {
		if probe, err := os.CreateTemp(u.HomeDir, "probe"); err == nil {
			probe.Close()
			os.Remove(probe.Name())
			want = filepath.Join(u.HomeDir, ".local", "state")
		}
	}
	if got != want {
		t.Errorf("stateHome() = %q, want %q", got, want)
	}
	if s, err := New(Config{}); err != nil {
		t.Error(err)
	} else if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestTemporaryState plants what others could plant where everybody may write.
func TestTemporaryState(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	dir := filepath.Join(tmp, "deskhand-"+strconv.Itoa(os.Geteuid()))
	for range 2 { // made, then found
		if got, err := temporaryState(); err != nil || got != dir {
			t.Fatalf("temporaryState() = %q, %v, want %q", got, err, dir)
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
	if os.Geteuid() == 0 {
		plant["somebody else's"] = func() error {
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
		if got, err := temporaryState(); err == nil || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: temporaryState() = %q, %v, want an error that names it", what, got, err)
		}
	}
}
