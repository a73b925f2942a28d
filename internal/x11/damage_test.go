package x11_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/xproto"

	"github.com/deskhand/deskhand/internal/testx11"
)

func TestDamaged(t *testing.T) {
	t.Parallel()
	s := testx11.Start(t, 200, 100)
	c := s.Dial(t)
	p := newPainter(t, s.Dial(t))
	cp := capture(t, c)
	waitClosed(t, "damage before the first frame", cp.Damaged())
	frame(t, cp).Release()
	for i := range 200 {
		quiet := cp.Damaged()
		frame(t, cp).Release()
		drain(t, c)
		if isClosed(quiet) || isClosed(cp.Damaged()) {
			t.Fatal("Damaged is closed, but nothing was drawn")
		}
		p.fill(uint32(i), 0, 0, 10, 10)
		p.sync()
		if i%2 == 0 { // the event is waited for, else it races with Frame
			waitClosed(t, "damage", quiet)
		}
		frame(t, cp).Release()
		waitClosed(t, "damage that a Frame has seen", quiet)
	}
}

// TestDamagedLateEvents: a frame arrives before the events of the damage in it.
func TestDamagedLateEvents(t *testing.T) {
	t.Parallel()
	s := testx11.Start(t, 100, 100)
	c := s.Dial(t)
	p := newPainter(t, s.Dial(t))
	var gate sync.RWMutex // write-locked: events wait
	t.Cleanup(c.Handle(func(xgb.Event) {
		gate.RLock()
		defer gate.RUnlock()
	}))
	cp := capture(t, c)
	frame(t, cp).Release()
	for i := range 50 {
		early := cp.Damaged()
		gate.Lock()
		p.fill(uint32(3*i+1), 0, 0, 10, 10)
		p.sync()
		frame(t, cp).Release()
		if !isClosed(early) {
			t.Error("Damaged is open after a frame with damage")
		}
		late := cp.Damaged()
		if i%2 == 0 {
			p.fill(uint32(3*i+2), 0, 0, 10, 10)
			p.sync()
		}
		gate.Unlock()
		drain(t, c)
		if got, want := isClosed(late), i%2 == 0; got != want {
			t.Fatalf("round %d: Damaged is closed: %v, want %v", i, got, want)
		}
		frame(t, cp).Release()
	}
}

// TestDamagedManyRequests lets the 16 bits of the sequence numbers go round
// between a frame and the damage.
func TestDamagedManyRequests(t *testing.T) {
	t.Parallel()
	s := testx11.Start(t, 100, 100)
	c := s.Dial(t)
	p := newPainter(t, s.Dial(t))
	cp := capture(t, c)
	x, _ := c.Raw()
	for i, n := range []int{32760, 32775, 65530, 40000} {
		p.fill(uint32(2*i+1), 0, 0, 10, 10)
		p.sync()
		frame(t, cp).Release() // its event may still be on the way
		damaged := cp.Damaged()
		for range n {
			xproto.NoOperation(x)
		}
		if err := c.Sync(); err != nil {
			t.Fatal(err)
		}
		p.fill(uint32(2*i+2), 0, 0, 10, 10)
		waitClosed(t, fmt.Sprintf("damage after %d requests", n), damaged)
	}
}
