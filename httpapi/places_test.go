package httpapi

import (
	"os"
	"os/user"
	"path/filepath"
	"strconv"
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

// TestReadOnlyHome is a server in a container with a read-only file system, where
// only the state directory can be written to.
func TestReadOnlyHome(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file") // below it, even root makes no directory
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_STATE_HOME", file)
	p, err := newPlaces(Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.cancel()
	if want := filepath.Join(file, "deskhand", "home"); p.mainHome != want {
		t.Errorf("the home is %q, want %q", p.mainHome, want)
	}
}
