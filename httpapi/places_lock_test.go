package httpapi

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

// unclaimed is newServer without a state directory of the test's own.
func unclaimed(t *testing.T, cfg Config) *Server {
	t.Helper()
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// claimed is a server with a state directory, which it must get at once.
func claimed(t *testing.T, cfg Config) (*Server, string) {
	t.Helper()
	s := unclaimed(t, cfg)
	dir, home, err := s.desktops.places.of("main")
	if err != nil || filepath.Base(home) != "home" {
		t.Fatalf("of main = %s, %s, %v", dir, home, err)
	}
	return s, dir
}

// TestStateDirectoryInUse: two servers must not write the same files, and none
// may go on with others than those that it was told.
func TestStateDirectoryInUse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	one, got := claimed(t, Config{StateDir: dir})
	if got != dir {
		t.Errorf("the first uses %s, want %s", got, dir)
	}
	two := newServer(t, Config{StateDir: dir, StateName: "port-1"})
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
	if _, err := two.desktops.places.claim(); !errors.Is(err, ErrClosed) {
		t.Errorf("a closed server: %v, want %v", err, ErrClosed)
	}
}

// TestStateDirectoryOfOneThatEnds waits for a server that is closing, and says so.
func TestStateDirectoryOfOneThatEnds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	one, _ := claimed(t, Config{StateDir: dir})
	if err := one.begin(); err != nil { // a call that keeps it from closing
		t.Fatal(err)
	}
	closed := make(chan error, 1)
	go func() { closed <- one.Close() }()
	var log testlog.Buffer
	two := newServer(t, Config{StateDir: dir, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	got := make(chan string, 1)
	go func() {
		dir, err := two.desktops.places.claim()
		got <- fmt.Sprint(dir, err)
	}()
	want := fmt.Sprintf("process=%d", os.Getpid())
	for begun := time.Now(); !strings.Contains(log.String(), want); {
		if time.Since(begun) > 10*time.Second {
			t.Fatalf("it does not say what it waits for: %s", &log)
		}
		<-time.After(time.Millisecond)
	}
	// Who waits can be told to end as well.
	three := newServer(t, Config{StateDir: dir})
	ended := make(chan error, 1)
	go func() {
		_, err := three.desktops.places.claim()
		ended <- err
	}()
	if err := three.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, ErrClosed) {
		t.Errorf("a server that ends while it waits: %v", err)
	}
	select {
	case g := <-got:
		t.Errorf("the next server has %s before the first has ended", g)
	default:
	}
	one.serving.Done()
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if g := <-got; g != fmt.Sprint(dir, error(nil)) {
		t.Errorf("the next server has %s", g)
	}
}

// TestServersShareTheUsualStateDirectory: of two servers at a time the second
// has a directory of its own, and each has its own again whichever is started
// first, and whatever other servers there are.
func TestServersShareTheUsualStateDirectory(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	usual := filepath.Join(os.Getenv("XDG_STATE_HOME"), "deskhand")
	end := func(all ...*Server) {
		t.Helper()
		for _, s := range all {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	var log testlog.Buffer
	start := func(name, want string) *Server {
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
		t.Errorf("the log does not tell of %s: %s", own, &log)
	}
	end(one, two)
	two, one = start("two", own), start("one", usual)
	end(one)
	three := start("three", usual) // it sees what one has made
	one = unclaimed(t, Config{StateName: "one"})
	if _, err := one.Sweep(); !errors.Is(err, ErrInUse) {
		t.Errorf("a server whose directory another has: %v, want %v", err, ErrInUse)
	}
	nameless := unclaimed(t, Config{})
	if _, err := nameless.Sweep(); !errors.Is(err, ErrInUse) {
		t.Errorf("a server without a name: %v, want %v", err, ErrInUse)
	}
	end(two, three, one, nameless)
	if _, err := New(Config{StateName: "../x"}); err == nil {
		t.Error("a name with a slash is accepted")
	}
}
