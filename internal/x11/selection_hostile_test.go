package x11_test

import (
	"bytes"
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/xproto"

	"github.com/deskhand/deskhand/internal/testx11"
	"github.com/deskhand/deskhand/internal/x11"
)

// flooder owns the clipboard and sends endless content, or very much at a time.
type flooder struct {
	*peer
	piece int  // bytes of a piece; with whole, of the content
	whole bool // all comes in one property
	list  bool // it answers with that also when it is asked what it offers
	sent  atomic.Int64
}

// serve answers requests for the selection.
func (f *flooder) serve() {
	incr, utf8, targets := f.atom("INCR"), f.atom("UTF8_STRING"), f.atom("TARGETS")
	piece := make([]byte, min(f.piece, 200_000))
	f.conn.Handle(func(ev xgb.Event) {
		switch e := ev.(type) {
		case xproto.SelectionRequestEvent:
			xproto.ChangeWindowAttributes(f.x, e.Requestor, xproto.CwEventMask, []uint32{xproto.EventMaskPropertyChange})
			answer := xproto.SelectionNotifyEvent{Time: e.Time, Requestor: e.Requestor, Selection: e.Selection, Target: e.Target, Property: e.Property}
			switch {
			case e.Target == targets && !f.list:
				answer.Property = xproto.AtomNone
			case f.whole:
				for sent := 0; sent < f.piece; sent += len(piece) {
					xproto.ChangeProperty(f.x, xproto.PropModeAppend, e.Requestor, e.Property, utf8, 8, uint32(len(piece)), piece)
				}
			default:
				xproto.ChangeProperty(f.x, xproto.PropModeReplace, e.Requestor, e.Property, incr, 32, 1, []byte{1, 0, 0, 0})
			}
			xproto.SendEvent(f.x, false, e.Requestor, 0, string(answer.Bytes()))
		case xproto.PropertyNotifyEvent:
			if e.State == xproto.PropertyDelete && !f.whole {
				f.sent.Add(int64(len(piece)))
				xproto.ChangeProperty(f.x, xproto.PropModeReplace, e.Window, e.Atom, utf8, 8, uint32(len(piece)), piece)
			}
		}
	})
}

// TestSelectionHostileOwners reads from owners that send endlessly or far too much. A read
// needs no more memory than its limit.
func TestSelectionHostileOwners(t *testing.T) {
	const most = 1 << 20
	for name, f := range map[string]*flooder{
		"large pieces for ever": {piece: 200_000},
		"crumbs for ever":       {piece: 1},
		"8 MB in one":           {piece: 8_000_000, whole: true},
		"a list for ever":       {piece: 200_000, list: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := testx11.Start(t, 320, 200)
			cb := openClipboard(t, s)
			f.peer = newPeer(t, s)
			f.serve()
			f.own("CLIPBOARD")
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			if _, err := cb.Get(soon(t), x11.SelectionClipboard, x11.TypeText, most); !errors.Is(err, x11.ErrContentTooLarge) {
				t.Errorf("Get() = %v, want ErrContentTooLarge", err)
			}
			until(t, "end of the read", func() bool { _, reads, _ := cb.Transfers(); return reads == 0 })
			runtime.ReadMemStats(&after)
			if grown := after.TotalAlloc - before.TotalAlloc; grown > 64*most {
				t.Errorf("it took %d bytes of memory", grown)
			}
			if sent := f.sent.Load(); sent > 2*most {
				t.Errorf("%d bytes were taken", sent)
			}
		})
	}
}

// TestSelectionReplacedContents has programs begin to read each of many large contents, which
// are replaced. The transfers of the contents that were replaced last continue.
func TestSelectionReplacedContents(t *testing.T) {
	t.Parallel()
	s := testx11.Start(t, 320, 200)
	cb := openClipboard(t, s)
	const contents, kept = 5, 3 // the present content, and two of 64 MiB together
	var readers []*peer         // two of each content
	for range contents {
		text := x11.Content{Type: x11.TypeText, Data: bytes.Repeat([]byte("x"), x11.MaxContent)}
		if err := cb.Set(soon(t), x11.SelectionClipboard, text); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			p := newPeer(t, s)
			p.ask("UTF8_STRING")
			p.property("P")
			readers = append(readers, p)
		}
	}
	if sends, _, _ := cb.Transfers(); sends != 2*kept {
		t.Errorf("%d transfers, want %d", sends, 2*kept)
	}
	for i, p := range readers {
		r, err := xproto.GetWindowAttributes(p.x, p.win).Reply()
		if err != nil {
			t.Fatal(err)
		}
		if continues := r.AllEventMasks != 0; continues != (i >= 2*(contents-kept)) {
			t.Errorf("transfer %d of %d continues: %t", i, len(readers), continues)
		}
	}
	p := readers[2*(contents-kept)]
	p.check(xproto.DeletePropertyChecked(p.x, p.win, p.atom("P")))
	if r := p.property("P"); r.Type != p.atom("UTF8_STRING") || len(r.Value) < 200_000 {
		t.Errorf("a replaced content continues with type %d and %d bytes", r.Type, len(r.Value))
	}
}

// TestSelectionLatin1 reads text in Latin-1, which has more bytes in UTF-8. The limit of the read
// applies to both.
func TestSelectionLatin1(t *testing.T) {
	t.Parallel()
	const most = 1 << 16
	s := testx11.Start(t, 320, 200)
	cb := openClipboard(t, s)
	p := newPeer(t, s)
	var size atomic.Int64
	p.conn.Handle(func(ev xgb.Event) {
		if e, ok := ev.(xproto.SelectionRequestEvent); ok {
			answer := xproto.SelectionNotifyEvent{Time: e.Time, Requestor: e.Requestor, Selection: e.Selection, Target: e.Target}
			if e.Target == xproto.AtomString {
				answer.Property = e.Property
				data := bytes.Repeat([]byte{0xe9}, int(size.Load()))
				xproto.ChangeProperty(p.x, xproto.PropModeReplace, e.Requestor, e.Property, e.Target, 8, uint32(len(data)), data)
			}
			xproto.SendEvent(p.x, false, e.Requestor, 0, string(answer.Bytes()))
		}
	})
	p.own("CLIPBOARD")
	size.Store(most / 2)
	if b, err := cb.Get(soon(t), x11.SelectionClipboard, x11.TypeText, most); err != nil || string(b) != strings.Repeat("é", most/2) {
		t.Errorf("Get() = %d bytes, %v, want %d", len(b), err, most)
	}
	size.Store(most/2 + 1)
	if b, err := cb.Get(soon(t), x11.SelectionClipboard, x11.TypeText, most); !errors.Is(err, x11.ErrContentTooLarge) {
		t.Errorf("Get() = %d bytes, %v, want ErrContentTooLarge", len(b), err)
	}
}
