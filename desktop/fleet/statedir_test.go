package fleet

import (
	"log/slog"
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

// TestNoHome runs in a container whose user has no HOME.
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
	if f, err := Open(t.Context(), Config{}); err != nil {
		t.Error(err)
	} else if err := f.Close(); err != nil {
		t.Error(err)
	}
}

// TestReadOnlyHome runs in a container with a read-only file system, where
// only the state directory can be written to.
func TestReadOnlyHome(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file") // below it, even root makes no directory
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_STATE_HOME", file)
	d, err := newStateDir(Config{})
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(file, "deskhand", "home"); d.mainHome != want {
		t.Errorf("the home is %q, want %q", d.mainHome, want)
	}
}

// TestUsualDirectories opens a fleet without Config.StateDir.
func TestUsualDirectories(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	base := os.Getenv("XDG_STATE_HOME")
	d, err := newStateDir(Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.release() }()
	for id, want := range map[string][2]string{
		"main":  {filepath.Join(base, "deskhand"), filepath.Join(base, "sandbox-agent", "desktop", "home")},
		"other": {filepath.Join(base, "deskhand", "desktops", "other"), filepath.Join(base, "deskhand", "desktops", "other", "home")},
	} {
		if state, home, err := d.claimFor(id); err != nil || state != want[0] || home != want[1] {
			t.Errorf("claimFor(%s) = %s, %s, %v, want %v", id, state, home, err, want)
		}
	}
}
