package x11_test

import (
	"context"
	"encoding/binary"
	"slices"
	"testing"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/randr"
	"github.com/jezek/xgb/xfixes"
	"github.com/jezek/xgb/xproto"

	"github.com/deskhand/deskhand/internal/testx11"
	"github.com/deskhand/deskhand/internal/x11"
)

// TestForgedKeycodeRecord: a program writes invalid keycodes into the property in which an
// Input records its slots.
func TestForgedKeycodeRecord(t *testing.T) {
	t.Parallel()
	s := testx11.Start(t, 100, 100)
	x, root := s.Dial(t).Raw()
	name := "_DESKHAND_KEYCODES"
	atom, err := xproto.InternAtom(x, false, uint16(len(name)), name).Reply()
	if err != nil {
		t.Fatal(err)
	}
	var record []byte
	for code := range uint32(300) {
		record = append(record, byte(code), byte(code>>8), 0, 0, 'a', 0, 0, 0, 'b', 0, 0, 0)
	}
	if err := xproto.ChangePropertyChecked(x, xproto.PropModeReplace, root, atom.Atom, xproto.AtomCardinal, 32,
		uint32(len(record)/4), record).Check(); err != nil {
		t.Fatal(err)
	}
	in, err := s.Dial(t).NewInput()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if _, err := in.Keyboard.Type(context.Background(), textOf("aé漢"), 0); err != nil {
		t.Errorf("type: %v", err)
	}
}

// TestForgedScreenSize has a program send a change of the screen's size to a window of the
// connection.
func TestForgedScreenSize(t *testing.T) {
	t.Parallel()
	s := testx11.Start(t, 320, 200)
	c := s.Dial(t)
	_, root := c.Raw()
	in, err := c.NewInput()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	p := newPeer(t, s)
	owner, err := xproto.GetSelectionOwner(p.x, p.atom("_DESKHAND_KEYCODES")).Reply()
	if err != nil {
		t.Fatal(err)
	}
	e, err := xproto.QueryExtension(p.x, 5, "RANDR").Reply()
	if err != nil {
		t.Fatal(err)
	}
	arrived := make(chan struct{})
	c.Handle(func(ev xgb.Event) {
		if m, ok := ev.(xproto.ClientMessageEvent); ok && m.Window == root {
			close(arrived)
		}
	})
	c.OnResize(func(w, h int) { t.Errorf("the size %dx%d is reported", w, h) })
	forged := randr.ScreenChangeNotifyEvent{Root: root, RequestWindow: root, Width: 1, Height: 1}.Bytes()
	forged[0] = e.FirstEvent + randr.ScreenChangeNotify
	p.check(xproto.SendEventChecked(p.x, false, owner.Owner, 0, string(forged)))
	p.forge(owner.Owner, forged)
	last := xproto.ClientMessageEvent{Format: 32, Window: root, Data: xproto.ClientMessageDataUnionData32New(make([]uint32, 5))}
	p.check(xproto.SendEventChecked(p.x, false, owner.Owner, 0, string(last.Bytes())))
	waitClosed(t, "the last event", arrived)
	if w, h, err := c.Size(); err != nil || w != 320 || h != 200 {
		t.Errorf("Size() = %d, %d, %v after a forged event, want 320, 200", w, h, err)
	}
}

// forge sends an event of an extension twice to the client of a window. The X server marks only
// the first as sent by a program (XSendExtensionEvent of the X Input Extension).
func (p *peer) forge(win xproto.Window, event []byte) {
	p.tb.Helper()
	name := "XInputExtension"
	e, err := xproto.QueryExtension(p.x, uint16(len(name)), name).Reply()
	if err != nil || !e.Present {
		p.tb.Fatal(e, err)
	}
	const units = 4 + 2*8
	b := []byte{e.MajorOpcode, 31, units, 0}
	b = binary.LittleEndian.AppendUint32(b, uint32(win))
	b = append(b, 2, 0, 0, 0, 2, 0, 0, 0) // the device; two events
	b = append(append(b, event...), event...)
	cookie := p.x.NewCookie(true, false)
	p.x.NewRequest(b, cookie)
	p.check(cookie)
}

// TestForgedOwner has the owner of a selection report its own end, before it answers.
func TestForgedOwner(t *testing.T) {
	t.Parallel()
	s := testx11.Start(t, 320, 200)
	cb, p := openClipboard(t, s), newPeer(t, s)
	e, err := xproto.QueryExtension(p.x, 6, "XFIXES").Reply()
	if err != nil {
		t.Fatal(err)
	}
	forged := xfixes.SelectionNotifyEvent{Window: cb.Owner(), Selection: p.atom("CLIPBOARD"), Subtype: xfixes.SelectionEventSelectionWindowDestroy}.Bytes()
	forged[0] = e.FirstEvent + xfixes.SelectionNotify
	requests := make(chan xproto.SelectionRequestEvent, 10)
	p.conn.Handle(func(ev xgb.Event) {
		if e, ok := ev.(xproto.SelectionRequestEvent); ok {
			requests <- e
		}
	})
	p.own("CLIPBOARD")
	type answer struct {
		text string
		err  error
	}
	got := make(chan answer, 1)
	go func() {
		b, err := cb.Get(soon(t), x11.SelectionClipboard, x11.TypeText, x11.MaxContent)
		got <- answer{string(b), err}
	}()
	for {
		select {
		case e := <-requests:
			p.forge(cb.Owner(), forged)
			notify := xproto.SelectionNotifyEvent{Time: e.Time, Requestor: e.Requestor, Selection: e.Selection, Target: e.Target}
			if e.Target == p.atom("UTF8_STRING") {
				notify.Property = e.Property
				xproto.ChangeProperty(p.x, xproto.PropModeReplace, e.Requestor, e.Property, e.Target, 8, 4, []byte("text"))
			}
			xproto.SendEvent(p.x, false, e.Requestor, 0, string(notify.Bytes()))
		case a := <-got:
			if a.err != nil || a.text != "text" {
				t.Errorf("Get() = %q, %v, want the text", a.text, a.err)
			}
			return
		}
	}
}

// TestLostKeys: a program turns on keyboard controls that lose keys.
func TestLostKeys(t *testing.T) {
	t.Parallel()
	b := newBoard(t)
	want := []string{"a", "a", "Return", "Return"}
	for _, send := range []func() error{
		func() error { _, err := b.in.Keyboard.Type(t.Context(), textOf("aa\n\n"), 0); return err },
		func() error {
			for _, key := range want {
				if err := b.in.Keyboard.Press(t.Context(), chordOf(key)); err != nil {
					return err
				}
			}
			return nil
		},
	} {
		if err := b.viewer.LoseKeys(); err != nil {
			t.Fatal(err)
		}
		if err := send(); err != nil {
			t.Fatal(err)
		}
		if names, _ := b.keys(t, len(want)); !slices.Equal(names, want) {
			t.Errorf("%q arrived, want %q", names, want)
		}
	}
}

// TestDivertedInput: a program assigns another pointer and keyboard to the connection of an
// Input.
func TestDivertedInput(t *testing.T) {
	t.Parallel()
	b := newBoard(t)
	x, root := b.viewer.Raw()
	name := "_DESKHAND_KEYCODES"
	mark, err := xproto.InternAtom(x, false, uint16(len(name)), name).Reply()
	if err != nil {
		t.Fatal(err)
	}
	owner, err := xproto.GetSelectionOwner(x, mark.Atom).Reply()
	if err != nil {
		t.Fatal(err)
	}
	name = "XInputExtension"
	e, err := xproto.QueryExtension(x, uint16(len(name)), name).Reply()
	if err != nil || !e.Present {
		t.Fatal(e, err)
	}
	send := func(request ...byte) error {
		cookie := x.NewCookie(true, false)
		x.NewRequest(append([]byte{e.MajorOpcode}, request...), cookie)
		return cookie.Check()
	}
	// XIChangeHierarchy: add the master devices "evil".
	if err := send(43, 5, 0, 1, 0, 0, 0, 1, 0, 3, 0, 4, 0, 1, 1, 'e', 'v', 'i', 'l'); err != nil {
		t.Fatal(err)
	}
	diverted := false
	for id := byte(3); id < 30; id++ { // the one master pointer among them
		var request [12]byte
		xgb.Put32(request[4:], uint32(owner.Owner))
		copy(request[1:], []byte{44, 3, 0})
		request[8] = id
		diverted = send(request[1:]...) == nil || diverted
	}
	if !diverted {
		t.Fatal("no other pointer could be given to the connection")
	}
	if err := b.in.Pointer.Move(150, 100); err != nil {
		t.Fatal(err)
	}
	p, err := xproto.QueryPointer(x, root).Reply()
	if err != nil || p.RootX != 150 || p.RootY != 100 {
		t.Errorf("the pointer is at %d,%d, %v, want 150,100", p.RootX, p.RootY, err)
	}
	b.typed(t, "ab")
	if names, _ := b.keys(t, 2); !slices.Equal(names, []string{"a", "b"}) {
		t.Errorf("%q arrived", names)
	}
}
