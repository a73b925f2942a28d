package fleet

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/deskhand/deskhand/internal/testlog"
)

// claimed returns a fleet that has claimed its state directory.
func claimed(t *testing.T, cfg Config) (*Fleet, string) {
	t.Helper()
	f := openUsual(t, cfg)
	dir, home, err := f.stateDir.claimFor(Main)
	if err != nil || filepath.Base(home) != "home" {
		t.Fatalf("of main = %s, %s, %v", dir, home, err)
	}
	return f, dir
}

// TestStateDirectoryInUse refuses a directory that another program uses. It does not fall
// back to another directory.
func TestStateDirectoryInUse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	one, got := claimed(t, Config{StateDir: dir})
	if got != dir {
		t.Errorf("the first uses %s, want %s", got, dir)
	}
	two := open(t, Config{StateDir: dir, StateName: "port-1"})
	_, err := two.Sweep()
	if !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), fmt.Sprintf("%s, process %d;", dir, os.Getpid())) {
		t.Errorf("the second: %v, want %v with the process", err, ErrInUse)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(left) != 1 {
		t.Errorf("in the directory: %v, %v, want the lock alone", left, err)
	}
	if err := one.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := two.Sweep(); err != nil {
		t.Errorf("the second, after the first: %v", err)
	}
	if err := two.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := two.stateDir.Claim(); !errors.Is(err, ErrClosed) {
		t.Errorf("a closed server: %v, want %v", err, ErrClosed)
	}
}

// TestStateDirOfOneThatCloses: a fleet waits for another fleet that is closing, and logs that.
func TestStateDirOfOneThatCloses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	one, _ := claimed(t, Config{StateDir: dir})
	one.stateDir.BeginClose() // and it goes on using the directory
	var log testlog.Buffer
	two := open(t, Config{StateDir: dir, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	got := make(chan string, 1)
	go func() {
		dir, err := two.stateDir.Claim()
		got <- fmt.Sprint(dir, err)
	}()
	want := fmt.Sprintf("process=%d", os.Getpid())
	until(t, "it says what it waits for", func() bool { return strings.Contains(log.String(), want) })
	// A fleet that waits can be closed, too.
	three := open(t, Config{StateDir: dir})
	closed := make(chan error, 1)
	go func() {
		_, err := three.stateDir.Claim()
		closed <- err
	}()
	if err := three.Close(); err != nil {
		t.Error(err)
	}
	if err := <-closed; !errors.Is(err, ErrClosed) {
		t.Errorf("a fleet that is closed while it waits: %v", err)
	}
	if _, err := one.stateDir.Claim(); err != nil {
		t.Errorf("Claim of a directory that is claimed, after BeginClose: %v", err)
	}
	select {
	case g := <-got:
		t.Errorf("the next fleet has %s before the first has closed", g)
	default:
	}
	if err := one.Close(); err != nil {
		t.Error(err)
	}
	if g := <-got; g != fmt.Sprint(dir, error(nil)) {
		t.Errorf("the next fleet has %s", g)
	}
}

// until waits until a condition holds.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for begun := time.Now(); !holds(); {
		if time.Since(begun) > 10*time.Second {
			t.Fatalf("not so after 10s: %s", what)
		}
		<-time.After(time.Millisecond)
	}
}

// TestFleetsShareTheUsualStateDirectory gives the second of two fleets a directory of its
// own. Each gets the same directory again, whichever starts first and whatever other
// servers there are.
func TestFleetsShareTheUsualStateDirectory(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	usual := filepath.Join(os.Getenv("XDG_STATE_HOME"), "deskhand")
	end := func(all ...*Fleet) {
		t.Helper()
		for _, s := range all {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	var log testlog.Buffer
	start := func(name, want string) *Fleet {
		t.Helper()
		s, dir := claimed(t, Config{StateName: name, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if dir != want {
			t.Errorf("%s uses %s, want %s", name, dir, want)
		}
		return s
	}
	own := filepath.Join(usual, "two")
	one, two := start("one", usual), start("two", own)
	if !strings.Contains(log.String(), "level=WARN") || !strings.Contains(log.String(), "directory="+own) {
		t.Errorf("the log does not name %s: %s", own, &log)
	}
	end(one, two)
	two, one = start("two", own), start("one", usual)
	end(one)
	three := start("three", usual) // it sees what one has made
	one = openUsual(t, Config{StateName: "one"})
	if _, err := one.Sweep(); !errors.Is(err, ErrInUse) {
		t.Errorf("a server whose directory another has: %v, want %v", err, ErrInUse)
	}
	nameless := openUsual(t, Config{})
	if _, err := nameless.Sweep(); !errors.Is(err, ErrInUse) {
		t.Errorf("a server without a name: %v, want %v", err, ErrInUse)
	}
	end(two, three, one, nameless)
}
