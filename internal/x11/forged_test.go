package x11_test

import (
	"context"
	"slices"
	"testing"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/randr"
	"github.com/jezek/xgb/xproto"

	"github.com/deskhand/deskhand/internal/testx11"
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
	x, _ := s.Dial(t).Raw()
	name := "_DESKHAND_KEYCODES"
	mark, err := xproto.InternAtom(x, false, uint16(len(name)), name).Reply()
	if err != nil {
		t.Fatal(err)
	}
	owner, err := xproto.GetSelectionOwner(x, mark.Atom).Reply()
	if err != nil {
		t.Fatal(err)
	}
	e, err := xproto.QueryExtension(x, 5, "RANDR").Reply()
	if err != nil {
		t.Fatal(err)
	}
	arrived := make(chan struct{})
	c.Handle(func(ev xgb.Event) {
		if m, ok := ev.(xproto.ClientMessageEvent); ok && m.Window == root {
			close(arrived)
		}
	})
	forged := randr.ScreenChangeNotifyEvent{Root: root, RequestWindow: root, Width: 1, Height: 1}.Bytes()
	forged[0] = e.FirstEvent + randr.ScreenChangeNotify
	last := xproto.ClientMessageEvent{Format: 32, Window: root, Data: xproto.ClientMessageDataUnionData32New(make([]uint32, 5))}
	for _, b := range [][]byte{forged, last.Bytes()} {
		if err := xproto.SendEventChecked(x, false, owner.Owner, 0, string(b)).Check(); err != nil {
			t.Fatal(err)
		}
	}
	waitClosed(t, "the last event", arrived)
	if w, h, err := c.Size(); err != nil || w != 320 || h != 200 {
		t.Errorf("Size() = %d, %d, %v after a forged event, want 320, 200", w, h, err)
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
