package x11_test

import (
	"context"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/xproto"

	"github.com/deskhand/deskhand/internal/testx11"
	"github.com/deskhand/deskhand/internal/x11"
)

// peer is a program that violates the conventions for selections.
type peer struct {
	tb   testing.TB
	conn *x11.Conn
	x    *xgb.Conn
	win  xproto.Window
}

func newPeer(tb testing.TB, s *testx11.Server) *peer {
	tb.Helper()
	p := &peer{tb: tb, conn: s.Dial(tb)}
	var root xproto.Window
	p.x, root = p.conn.Raw()
	var err error
	if p.win, err = xproto.NewWindowId(p.x); err != nil {
		tb.Fatal(err)
	}
	p.check(xproto.CreateWindowChecked(p.x, 0, p.win, root, 0, 0, 1, 1, 0, xproto.WindowClassInputOnly, 0, 0, nil))
	return p
}

func (p *peer) check(c interface{ Check() error }) {
	p.tb.Helper()
	if err := c.Check(); err != nil {
		p.tb.Fatal(err)
	}
}

func (p *peer) atom(name string) xproto.Atom {
	p.tb.Helper()
	r, err := xproto.InternAtom(p.x, false, uint16(len(name)), name).Reply()
	if err != nil {
		p.tb.Fatal(err)
	}
	return r.Atom
}

// own takes the selection and never answers requests.
func (p *peer) own(selection string) {
	p.tb.Helper()
	p.check(xproto.SetSelectionOwnerChecked(p.x, p.win, p.atom(selection), xproto.TimeCurrentTime))
}

// ask wants the clipboard as target, in the property P.
func (p *peer) ask(target string) {
	p.tb.Helper()
	p.check(xproto.ConvertSelectionChecked(p.x, p.win, p.atom("CLIPBOARD"), p.atom(target), p.atom("P"), xproto.TimeCurrentTime))
}

// property waits until there is a property, and returns it.
func (p *peer) property(name string) *xproto.GetPropertyReply {
	p.tb.Helper()
	var r *xproto.GetPropertyReply
	until(p.tb, "property "+name, func() bool {
		var err error
		if r, err = xproto.GetProperty(p.x, false, p.win, p.atom(name), 0, 0, 1<<20).Reply(); err != nil {
			p.tb.Fatal(err)
		}
		return r.Type != 0
	})
	return r
}

func (p *peer) put(name, typ string, words ...uint32) {
	p.tb.Helper()
	p.putOn(p.win, name, typ, words...)
}

func (p *peer) putOn(win xproto.Window, name, typ string, words ...uint32) {
	p.tb.Helper()
	var b []byte
	for _, w := range words {
		b = binary.LittleEndian.AppendUint32(b, w)
	}
	p.check(xproto.ChangePropertyChecked(p.x, xproto.PropModeReplace, win, p.atom(name), p.atom(typ), 32, uint32(len(words)), b))
}

// until polls for a condition that has no event.
func until(tb testing.TB, what string, cond func() bool) {
	tb.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for ctx := soon(tb); !cond(); {
		select {
		case <-tick.C:
		case <-ctx.Done():
			tb.Fatal("no ", what)
		}
	}
}

func TestSelectionSilentOwner(t *testing.T) {
	t.Parallel()
	s := testx11.Start(t, 320, 200)
	cb, p := openClipboard(t, s), newPeer(t, s)
	p.own("CLIPBOARD")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := cb.Get(ctx, x11.SelectionClipboard, x11.TypeText, x11.MaxContent); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Get() = %v, want the deadline", err)
	}
	cb.SetStall(100 * time.Millisecond)
	if _, err := cb.Get(soon(t), x11.SelectionClipboard, x11.TypeText, x11.MaxContent); !errors.Is(err, x11.ErrTransferStalled) {
		t.Errorf("Get() without deadline = %v, want ErrTransferStalled", err)
	}
	// The owner dies during a request.
	cb.SetStall(time.Minute)
	result := make(chan error, 1)
	go func() {
		_, err := cb.Get(soon(t), x11.SelectionClipboard, x11.TypeText, x11.MaxContent)
		result <- err
	}()
	until(t, "read", func() bool { _, reads, _ := cb.Transfers(); return reads > 0 })
	if err := p.conn.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-result; !errors.Is(err, x11.ErrNoContent) {
		t.Errorf("Get() from an owner that died = %v, want ErrNoContent", err)
	}
	if sends, reads, _ := cb.Transfers(); sends+reads != 0 {
		t.Errorf("%d sends and %d reads are left", sends, reads)
	}
}

// Readers that vanish or stop in the middle of a transfer.
func TestSelectionBadReaders(t *testing.T) {
	t.Parallel()
	s := testx11.Start(t, 320, 200)
	cb, vanishes, stops := openClipboard(t, s), newPeer(t, s), newPeer(t, s)
	text := longText(1_000_000)
	if err := cb.Set(soon(t), x11.SelectionClipboard, x11.Content{Type: x11.TypeText, Data: text}); err != nil {
		t.Fatal(err)
	}
	for _, p := range []*peer{vanishes, stops} {
		p.ask("UTF8_STRING")
		if r := p.property("P"); r.Type != p.atom("INCR") || r.Format != 32 {
			t.Fatalf("a long text begins with %+v, want INCR", r)
		}
		p.check(xproto.DeletePropertyChecked(p.x, p.win, p.atom("P")))
		if r := p.property("P"); r.Type != p.atom("UTF8_STRING") || len(r.Value) < 200_000 {
			t.Fatalf("the first piece has type %d and %d bytes", r.Type, len(r.Value))
		}
	}
	if sends, _, _ := cb.Transfers(); sends != 2 {
		t.Errorf("%d transfers, want 2", sends)
	}
	vanishes.check(xproto.DestroyWindowChecked(vanishes.x, vanishes.win))
	until(t, "end of the transfer", func() bool { sends, _, _ := cb.Transfers(); return sends == 1 })
	// A running transfer keeps its memory. A lost selection does not.
	stops.own("CLIPBOARD")
	until(t, "loss of the selection", func() bool { _, _, owned := cb.Transfers(); return owned == 0 })
	cb.SetStall(50 * time.Millisecond)
	if err := cb.Set(soon(t), x11.SelectionClipboard, x11.Content{Type: x11.TypeText, Data: text}); err != nil {
		t.Fatal(err)
	}
	until(t, "end of the stalled transfer", func() bool { sends, _, _ := cb.Transfers(); return sends == 0 })
	until(t, "end of watching the reader's window", func() bool {
		r, err := xproto.GetWindowAttributes(stops.x, stops.win).Reply()
		return err == nil && r.AllEventMasks == 0
	})
	// Others are served as before, in the time that they take on a busy machine.
	cb.SetStall(time.Minute)
	got, err := openClipboard(t, s).Get(soon(t), x11.SelectionClipboard, x11.TypeText, x11.MaxContent)
	if err != nil {
		t.Fatal(err)
	}
	wantBytes(t, got, text)
}

// TestSelectionOwnWindow has a program set a property of the clipboard's window, and name that as a window of the desktop
// and as a reader. The clipboard keeps the events of its window.
func TestSelectionOwnWindow(t *testing.T) {
	t.Parallel()
	text := x11.Content{Type: x11.TypeText, Data: longText(1_000_000)}
	for name, attack := range map[string]func(t *testing.T, s *testx11.Server, p *peer, own xproto.Window){
		"listed": func(t *testing.T, s *testx11.Server, p *peer, own xproto.Window) {
			_, root := p.conn.Raw()
			other := newPeer(t, s)
			list := func(watched *peer, windows ...uint32) {
				t.Helper()
				p.putOn(root, "_NET_CLIENT_LIST", "WINDOW", windows...)
				until(t, "watch of a listed window", func() bool {
					r, err := xproto.GetWindowAttributes(watched.x, watched.win).Reply()
					return err == nil && r.AllEventMasks != 0
				})
			}
			list(p, uint32(own), uint32(p.win))
			list(other, uint32(other.win))
		},
		"clock": func(_ *testing.T, _ *testx11.Server, p *peer, own xproto.Window) {
			p.putOn(own, "_DESKHAND_CLOCK", "STRING", 1)
		},
		"reader": func(t *testing.T, _ *testx11.Server, p *peer, own xproto.Window) {
			p.check(xproto.ConvertSelectionChecked(p.x, own, p.atom("CLIPBOARD"), p.atom("UTF8_STRING"), p.atom("P"), xproto.TimeCurrentTime))
			p.ask("TARGETS")
			p.property("P")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := testx11.Start(t, 320, 200)
			c, p := s.Dial(t), newPeer(t, s)
			if _, err := c.NewWindows(); err != nil {
				t.Fatal(err)
			}
			cb, err := c.NewClipboard()
			if err != nil {
				t.Fatal(err)
			}
			defer cb.Close()
			cb.SetStall(50 * time.Millisecond)
			if err := cb.Set(soon(t), x11.SelectionClipboard, text); err != nil {
				t.Fatal(err)
			}
			attack(t, s, p, cb.Owner())
			until(t, "end of the transfer", func() bool { sends, _, _ := cb.Transfers(); return sends == 0 })
			if err := cb.Set(soon(t), x11.SelectionClipboard, text); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestSelectionDroppedEvents drops the events of a time and of a lost selection, as in a flood.
func TestSelectionDroppedEvents(t *testing.T) {
	t.Parallel()
	s := testx11.Start(t, 320, 200)
	cb, p := openClipboard(t, s), newPeer(t, s)
	text := x11.Content{Type: x11.TypeText, Data: []byte("text")}
	if err := cb.Set(soon(t), x11.SelectionClipboard, text); err != nil {
		t.Fatal(err)
	}
	cb.LimitEvents(0)
	p.check(xproto.SetSelectionOwnerChecked(p.x, p.win, p.atom("CLIPBOARD"), xproto.TimeCurrentTime))
	until(t, "a dropped event", func() bool { return cb.Drops() > 0 })
	before := cb.Drops()
	set := make(chan error, 1)
	go func() { set <- cb.Set(soon(t), x11.SelectionPrimary, text) }()
	until(t, "another one", func() bool { return cb.Drops() > before })
	cb.LimitEvents(1000)
	if err := <-set; err != nil {
		t.Error(err)
	}
	if _, _, owned := cb.Transfers(); owned != 1 {
		t.Errorf("the clipboard owns %d selections, want 1", owned)
	}
}

// TestSelectionDroppedOwners drops the events of a new owner, and of the end of an owner that a read
// waits for.
func TestSelectionDroppedOwners(t *testing.T) {
	t.Parallel()
	s := testx11.Start(t, 320, 200)
	cb, p := openClipboard(t, s), newPeer(t, s)
	heard := make(chan x11.SelectionName, 100)
	cb.OnChange(func(sel x11.SelectionName) { heard <- sel })
	cb.SetStall(time.Minute)
	cb.LimitEvents(0)
	p.own("CLIPBOARD")
	select {
	case <-heard:
	case <-soon(t).Done():
		t.Error("the new owner is not reported")
	}
	cb.LimitEvents(1000)
	result := make(chan error, 1)
	go func() {
		_, err := cb.Get(soon(t), x11.SelectionClipboard, x11.TypeText, x11.MaxContent)
		result <- err
	}()
	until(t, "read", func() bool { _, reads, _ := cb.Transfers(); return reads > 0 })
	cb.LimitEvents(0)
	before := cb.Drops()
	if err := p.conn.Close(); err != nil {
		t.Fatal(err)
	}
	until(t, "dropped event", func() bool { return cb.Drops() > before })
	cb.LimitEvents(1000)
	if err := <-result; !errors.Is(err, x11.ErrNoContent) {
		t.Errorf("Get() from an owner that died = %v, want ErrNoContent", err)
	}
}

func TestSelectionMultiple(t *testing.T) {
	t.Parallel()
	s := testx11.Start(t, 320, 200)
	cb, p := openClipboard(t, s), newPeer(t, s)
	if err := cb.Set(soon(t), x11.SelectionClipboard, x11.Content{Type: x11.TypeText, Data: []byte("é")}); err != nil {
		t.Fatal(err)
	}
	utf8, latin1, png := uint32(p.atom("UTF8_STRING")), uint32(p.atom("STRING")), uint32(p.atom("image/png"))
	p.put("P", "ATOM_PAIR", utf8, uint32(p.atom("A")), png, uint32(p.atom("B")), latin1, uint32(p.atom("C")), uint32(p.atom("TIMESTAMP")), uint32(p.atom("D")))
	p.ask("MULTIPLE")
	if got := p.property("A").Value; string(got) != "é" {
		t.Errorf("UTF8_STRING is %q", got)
	}
	if got := p.property("C").Value; string(got) != "\xe9" {
		t.Errorf("STRING is %q", got)
	}
	if r := p.property("D"); r.Format != 32 || binary.LittleEndian.Uint32(r.Value) == 0 {
		t.Errorf("TIMESTAMP is %+v", r)
	}
	until(t, "the refusal of a target", func() bool {
		r := p.property("P")
		return binary.LittleEndian.Uint32(r.Value[12:]) == 0
	})
}

func TestTitleCompound(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		in, want string
		whole    bool
	}{
		{"plain", "plain", true},
		{"t\xe9rm", "térm", true},
		{"\x1b-At\xe9rm\x1b(B", "térm", true},
		{"a \x1b%G\xf0\x9f\x98\x80\x1b%@ b", "a 😀 b", true},
		{"\x1b%Gcut off \xf0\x9f", "cut off �", true},
		{"x \x1b$(B4A\x1b(B y", "x �� y", false},
		{"\x1b-b\xa4 \x1b-A\xe9", "� é", false},
		{"\x1b", "", true},
		{"\x1b$", "", true},
	} {
		if got, whole := x11.DecodeCompound([]byte(tt.in)); got != tt.want || whole != tt.whole {
			t.Errorf("DecodeCompound(%q) = %q, %v, want %q, %v", tt.in, got, whole, tt.want, tt.whole)
		}
	}
}
