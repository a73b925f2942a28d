package x11_test

import (
	"testing"

	"github.com/jezek/xgb/xproto"
)

// TestTypePaced waits for a program that answers pings after the first character of a text,
// and before Return.
func TestTypePaced(t *testing.T) {
	t.Parallel()
	b := newBoard(t)
	pings, answer := b.answersPings(t)
	if _, err := b.in.Unheard(); err != nil {
		t.Fatal(err)
	}
	typed := make(chan error, 1)
	go func() { _, err := b.in.Keyboard.TypePaced(t.Context(), textOf("abc\nd"), 0); typed <- err }()
	for i, want := range []int{1, 3} { // characters before each ping
		m := <-pings
		b.take(t, 2*(want-i)) // the first time 1, then 2: presses and releases
		b.takeNone(t)
		answer(m)
	}
	b.take(t, 4)
	if err := <-typed; err != nil {
		t.Fatal(err)
	}
	xproto.DestroyWindow(b.viewer.X(), b.win)
}

// takeNone checks that no event is there.
func (b *board) takeNone(t *testing.T) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.events) > 0 {
		t.Fatalf("events %v came before the program answered", b.events)
	}
}
