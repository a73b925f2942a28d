package x11_test

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/xproto"

	"github.com/deskhand/deskhand/internal/testx11"
	"github.com/deskhand/deskhand/internal/x11"
)

// TestCorkManyRequests sends more requests than xgb sends without a reply, and more bytes
// than a cork holds back.
func TestCorkManyRequests(t *testing.T) {
	t.Parallel()
	s := testx11.Start(t, 100, 100)
	c := s.Dial(t)
	p := newPainter(t, c)
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.Cork()
		for i := range 5000 {
			p.fill(uint32(i), 0, 0, 10, 10)
		}
		if err := c.Uncork(); err != nil {
			t.Error(err)
		}
	}()
	waitClosed(t, "5000 requests while corked", done)
	p.sync()
	if got := p.screen(1, 1); got[0] != 4999%256 || got[1] != 4999/256 {
		t.Errorf("pixel is %x after the last request", got)
	}
}

func TestHandleRemove(t *testing.T) {
	t.Parallel()
	s := testx11.Start(t, 100, 100)
	c := s.Dial(t)
	var first, second int
	removeFirst := c.Handle(func(xgb.Event) { first++ })
	removeSecond := c.Handle(func(xgb.Event) { second++ })
	drain(t, c)
	removeFirst()
	removeFirst()
	drain(t, c)
	removeSecond()
	drain(t, c)
	drain(t, c) // the handlers were removed, so both counters are final
	if first != 1 || second != 2 {
		t.Errorf("handlers ran %d and %d times, want 1 and 2", first, second)
	}
}

// TestServerGone ends the server below a connection that waits for a reply.
func TestServerGone(t *testing.T) {
	t.Parallel()
	s := testx11.Start(t, 100, 100)
	c := s.Dial(t)
	pid, err := c.ServerPID()
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	synced := make(chan error, 1)
	go func() { synced <- c.Sync() }()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-synced:
		if !errors.Is(err, x11.ErrConnClosed) {
			t.Errorf("Sync: %v", err)
		}
	case <-time.After(patience):
		t.Fatal("Sync still waits for a server that is gone")
	}
	waitClosed(t, "Done", c.Done())
	x, root := c.Raw()
	if _, err := xproto.GetGeometry(x, xproto.Drawable(root)).Reply(); err == nil {
		t.Error("a reply from a server that is gone")
	}
}

// TestHungServer dials a server that does not answer, and closes a connection to one.
func TestHungServer(t *testing.T) {
	t.Parallel()
	s := testx11.Start(t, 100, 100)
	c := s.Dial(t)
	pid, err := c.ServerPID()
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGCONT) })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := x11.Dial(ctx, x11.Config{Display: s.Display, Cookie: s.Cookie}); err == nil {
		t.Error("Dial succeeded")
	}
	synced := make(chan error, 1)
	go func() { synced <- c.Sync() }()
	closed := make(chan struct{})
	go func() { _ = c.Close(); close(closed) }()
	waitClosed(t, "Close", closed)
	if err := <-synced; !errors.Is(err, x11.ErrConnClosed) {
		t.Errorf("Sync: %v", err)
	}
}
