package x11_test

import (
	"testing"
	"time"

	"github.com/jezek/xgb/xproto"

	"github.com/deskhand/deskhand/internal/x11"
)

// TestQuiescePaste pastes and types without a pause while what is pasted comes late: it
// must come first even so, unless it comes later than is waited for.
func TestQuiescePaste(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.in.Follow(d.windows)
	cb, err := d.conn.NewClipboard()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cb.Close() })
	d.in.FollowClipboard(cb)
	at, received := d.twoTerminals(t)
	if err := d.in.Pointer.Move(at[1].X, at[1].Y); err != nil {
		t.Fatal(err)
	}
	want := ""
	paste := func(text string, limit time.Duration, release func()) {
		t.Helper()
		if err := d.in.Quiesce(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := d.in.Pointer.Click(2, 1); err != nil {
			t.Fatal(err)
		}
		begin, late := time.Now(), false
		goOn := func() { release(); late = time.Since(begin) > limit }
		if err := heldUp(t, text, goOn, func() error { return d.in.Quiesce(t.Context()) }); err != nil {
			t.Fatal(err)
		}
		if _, err := d.in.Keyboard.Type(t.Context(), textOf("!"), 0); err != nil {
			t.Fatal(err)
		}
		want += text + "!"
		poll(t, "text", func() bool { return len(received[1]()) >= len(want) })
		if got := received[1](); late && got != want && len(got) == len(want) {
			t.Logf("the machine was too slow for what is tested: %q", got)
			want = got
		}
		sameText(t, received[1](), want)
	}
	for range 5 {
		serveXclip(t, d.server, cb, []byte("theirs"), "-selection", "primary")
		x := d.conn.X()
		owner, err := xproto.GetSelectionOwner(x, xproto.AtomPrimary).Reply()
		if err != nil {
			t.Fatal(err)
		}
		paste("theirs", 250*time.Millisecond, stopped(t, d.in.ProcessOf(owner.Owner)))
		if err := cb.Set(t.Context(), x11.SelectionPrimary, x11.Content{Type: x11.TypeText, Data: []byte("ours")}); err != nil {
			t.Fatal(err)
		}
		paste("ours", 1900*time.Millisecond, cb.Occupy())
	}
}

// TestQuiescePieces waits until a program has read content that arrives in pieces.
func TestQuiescePieces(t *testing.T) {
	t.Parallel()
	b := newBoard(t)
	cb, err := b.conn.NewClipboard()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cb.Close() })
	b.in.FollowClipboard(cb)
	if err := cb.Set(t.Context(), x11.SelectionClipboard, x11.Content{Type: x11.TypeText, Data: longText(600_000)}); err != nil {
		t.Fatal(err)
	}
	if err := b.in.Pointer.Move(200, 200); err != nil {
		t.Fatal(err)
	}
	if err := b.in.Pointer.Click(1, 1); err != nil {
		t.Fatal(err)
	}
	p := newPeer(t, b.server)
	p.ask("UTF8_STRING")
	read := func() {
		for n := 1; n > 0; {
			r := p.property("P")
			n = len(r.Value)
			p.check(xproto.DeletePropertyChecked(p.x, p.win, p.atom("P")))
		}
	}
	if err := heldUp(t, "pieces", read, func() error { return b.in.Quiesce(t.Context()) }); err != nil {
		t.Fatal(err)
	}
	if sends, _, _ := cb.Transfers(); sends != 0 {
		t.Errorf("%d transfers are under way", sends)
	}
}
