package supervise

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func TestEnviron(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name            string
		base, set, want []string
	}{
		{"empty", nil, nil, []string{}},
		{"later wins", []string{"A=1", "B=2", "A=3"}, []string{"B=4"}, []string{"A=3", "B=4"}},
		{"added", []string{"A=1"}, []string{"C=3", "C=4"}, []string{"A=1", "C=4"}},
		{"removed", []string{"A=1", "B=2"}, []string{"A"}, []string{"B=2"}},
		{"removed and set again", []string{"A=1", "B=2"}, []string{"A", "A=5"}, []string{"B=2", "A=5"}},
		{"removed what is not there", []string{"A=1"}, []string{"Z"}, []string{"A=1"}},
		{"empty value", []string{"A=1"}, []string{"A="}, []string{"A="}},
		{"value with =", nil, []string{"A=b=c"}, []string{"A=b=c"}},
		{"not an entry", []string{"nonsense", "A=1"}, nil, []string{"A=1"}},
	} {
		base := append([]string(nil), tt.base...)
		got := Environ(tt.base, tt.set...)
		if d := cmp.Diff(tt.want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, d)
		}
		if !cmp.Equal(base, append([]string(nil), tt.base...)) {
			t.Errorf("%s: base was changed", tt.name)
		}
	}
}

func TestLookPath(t *testing.T) {
	t.Parallel()
	a, b := t.TempDir(), t.TempDir()
	for path, mode := range map[string]os.FileMode{
		filepath.Join(a, "prog"): 0o600, filepath.Join(b, "prog"): 0o700, filepath.Join(a, "data"): 0o600,
	} {
		if err := os.WriteFile(path, nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(a, "dir"), 0o700); err != nil {
		t.Fatal(err)
	}
	env := []string{"PATH=/nowhere", "PATH=:.:" + a + ":" + b}
	for _, tt := range []struct {
		file string
		env  []string
		want string
		err  error
	}{
		{"prog", env, filepath.Join(b, "prog"), nil},
		{"data", env, "", os.ErrPermission},
		{"dir", env, "", os.ErrPermission},
		{"none", env, "", ErrNotFound},
		{"", env, "", ErrNotFound},
		{"environ.go", env, "", ErrNotFound}, // it is in ".", which is skipped
		{filepath.Join(b, "prog"), env, filepath.Join(b, "prog"), nil},
		{filepath.Join(a, "prog"), env, "", os.ErrPermission},
		{filepath.Join(a, "prog", "x"), env, "", ErrNotFound},
		{"sh", []string{"PATH="}, "", ErrNotFound},
	} {
		got, err := LookPath(tt.file, tt.env)
		if got != tt.want || !errors.Is(err, tt.err) {
			t.Errorf("LookPath(%q) = %q, %v, want %q, %v", tt.file, got, err, tt.want, tt.err)
		}
	}
	for _, env := range [][]string{nil, {}} {
		if got, err := LookPath("sh", env); err != nil || !filepath.IsAbs(got) {
			t.Errorf("LookPath(sh, %v) = %q, %v", env, got, err)
		}
	}
}

// A directory of PATH that this user may not search hides no program of the others.
func TestLookPathUnsearchable(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	t.Cleanup(func() { _ = os.Chmod(parent, 0o700) }) //nolint:gosec // a directory
	if err := os.Chmod(parent, 0); err != nil {
		t.Fatal(err)
	}
	env := []string{"PATH=" + filepath.Join(parent, "bin") + ":/bin"}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and no unlock: the thread ends with its user
		if os.Geteuid() == 0 {
			_ = unix.Setfsuid(65534)
		}
		if got, err := LookPath("sh", env); got != "/bin/sh" || err != nil {
			t.Errorf("LookPath(sh): %q, %v", got, err)
		}
		if got, err := LookPath("no-such-program", env); !errors.Is(err, ErrNotFound) {
			t.Errorf("LookPath(no-such-program): %q, %v, want ErrNotFound", got, err)
		}
	}()
	<-done
}

func TestTag(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		tag, lineage string
		want         bool
	}{
		{"t", "t.1", true},
		{"t", "t", true},
		{"t.1", "t.1", true},
		{"t.1", "t.12", false},
		{"t", "tt.1", false},
		{"t", "o.3,t.1,u.2", true},
		{"t.1", "o.3,t.1,u.2", true},
		{"t", "", false},
		{"t", "x.t", false},
	} {
		if got := (tag{text: tt.tag}).in(tt.lineage); got != tt.want {
			t.Errorf("%q in %q: %v", tt.tag, tt.lineage, got)
		}
	}
}
