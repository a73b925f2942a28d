package httpapi

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/deskhand/deskhand/desktop/fleet"
	"github.com/deskhand/deskhand/internal/testlog"
)

// claimed is a server with a state directory, which it must get.
func claimed(t *testing.T, cfg Config) (*Server, string) {
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
	dir, err := s.fleet.StateDir().Claim()
	if err != nil {
		t.Fatal(err)
	}
	return s, dir
}

// TestNoHome is a server in a container whose user has no HOME.
func TestNoHome(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", "")
	t.Setenv("HOME", "")
	t.Setenv("TMPDIR", t.TempDir())
	if s, err := New(Config{}); err != nil {
		t.Error(err)
	} else if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestStateDirectoryOfOneThatEnds waits for a server that is closing, and says so.
func TestStateDirectoryOfOneThatEnds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	one, _ := claimed(t, Config{StateDir: dir})
	if err := one.rest.Begin(); err != nil { // a call that keeps it from closing
		t.Fatal(err)
	}
	closed := make(chan error, 1)
	go func() { closed <- one.Close() }()
	var log testlog.Buffer
	two := newServer(t, Config{StateDir: dir, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	got := make(chan string, 1)
	go func() {
		dir, err := two.fleet.StateDir().Claim()
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
		_, err := three.fleet.StateDir().Claim()
		ended <- err
	}()
	if err := three.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, fleet.ErrClosed) {
		t.Errorf("a server that ends while it waits: %v", err)
	}
	select {
	case g := <-got:
		t.Errorf("the next server has %s before the first has ended", g)
	default:
	}
	one.rest.Serving.Done()
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if g := <-got; g != fmt.Sprint(dir, error(nil)) {
		t.Errorf("the next server has %s", g)
	}
}
