package x11

import (
	"context"
	"encoding/binary"
	"errors"
	"time"

	"github.com/jezek/xgb/xproto"

	"github.com/deskhand/deskhand/internal/x11/request"
)

const (
	// pieceLength is how much of a property is asked for at once, in units of
	// four bytes.
	pieceLength = 1 << 18
	// maxTargets bounds what is looked at of an owner's list.
	maxTargets = 512
	// maxTargetBytes bounds the list itself.
	maxTargetBytes = 64 << 10
	// morePieces and pieceAverage bound the pieces in which content comes: so many,
	// and one more for every so many bytes that are wanted at most. Programs send
	// pieces of 4 KiB and more.
	morePieces   = 256
	pieceAverage = 1024
	// maxSpare bounds the requestor windows that are kept for later.
	maxSpare = 8
)

// reading is a conversion that was asked for. Each has a window of its own, so
// that answers cannot be confused.
type reading struct {
	win         xproto.Window
	sel, target xproto.Atom
	asked       bool // the request was sent
	incr        bool // the content comes in pieces
	most        int  // bytes that are wanted
	pieces      int  // that were looked for
	got         converted
	last        time.Time
	result      chan<- conversion
}

// converted is content as its owner handed it over.
type converted struct {
	typ  xproto.Atom
	data []byte
}

type conversion struct {
	converted
	err error
}

// targets asks the owner what it offers. The list is nil when there is an owner
// that cannot tell; ErrNoContent says that there is none.
func (cb *Clipboard) targets(ctx context.Context, sel xproto.Atom) ([]xproto.Atom, error) {
	got, err := cb.convert(ctx, sel, cb.atoms.targets, maxTargetBytes)
	if errors.Is(err, ErrNoContent) {
		r, err := xproto.GetSelectionOwner(cb.c.x, sel).Reply()
		if err != nil {
			return nil, request.Wrap("ask for the owner", err)
		}
		if r.Owner == xproto.WindowNone {
			return nil, ErrNoContent
		}
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	list := []xproto.Atom{}
	for b := got.data; len(b) >= 4 && len(list) < maxTargets; b = b[4:] {
		list = append(list, xproto.Atom(binary.LittleEndian.Uint32(b)))
	}
	return list, nil
}

// convert asks the owner for the selection in one form, of at most so many bytes.
func (cb *Clipboard) convert(ctx context.Context, sel, target xproto.Atom, most int) (converted, error) {
	result := make(chan conversion, 1)
	r := &reading{sel: sel, target: target, most: most, last: time.Now(), result: result}
	if err := cb.do(ctx, func() { cb.beginRead(r) }); err != nil {
		return converted{}, err
	}
	select {
	case c := <-result:
		return c.converted, c.err
	case <-cb.done:
		return converted{}, ErrConnClosed
	case <-ctx.Done():
		_ = cb.do(context.WithoutCancel(ctx), func() { cb.endRead(r, ctx.Err()) })
		return converted{}, ctx.Err()
	}
}

func (cb *Clipboard) beginRead(r *reading) {
	if n := len(cb.spare); n > 0 {
		r.win = cb.spare[n-1]
		cb.spare = cb.spare[:n-1]
	} else {
		win, err := request.HiddenWindow(cb.c.x, cb.c.root, xproto.EventMaskPropertyChange)
		if err != nil {
			r.result <- conversion{err: err}
			return
		}
		r.win = win
	}
	cb.reads[r.win] = r
	cb.waiting.Add(1)
	cb.arm()
	cb.withTime(func(now xproto.Timestamp) {
		if cb.reads[r.win] == r {
			r.asked = true
			xproto.ConvertSelection(cb.c.x, r.win, r.sel, r.target, cb.atoms.landed, now)
		}
	})
}

// endRead delivers a result. A window on which an answer may still come is
// destroyed; the others are used again, since xgb never reuses their numbers.
func (cb *Clipboard) endRead(r *reading, err error) {
	if cb.reads[r.win] != r {
		return
	}
	delete(cb.reads, r.win)
	cb.waiting.Add(-1)
	clean := err == nil || !r.asked
	if clean && len(cb.spare) < maxSpare {
		cb.spare = append(cb.spare, r.win)
	} else {
		xproto.DestroyWindow(cb.c.x, r.win)
	}
	if err != nil {
		r.got = converted{}
	}
	r.result <- conversion{r.got, err}
}

// answered handles the owner's answer, or the server's if there is no owner.
func (cb *Clipboard) answered(e xproto.SelectionNotifyEvent) {
	r := cb.reads[e.Requestor]
	if r == nil || r.incr || e.Selection != r.sel {
		return
	}
	if e.Property == xproto.AtomNone {
		r.asked = false // nothing more will come
		cb.endRead(r, ErrNoContent)
		return
	}
	cb.collect(r)
}

// collect takes what is in the property: the content, the announcement that it
// comes in pieces, or a piece.
func (cb *Clipboard) collect(r *reading) {
	r.last = time.Now()
	if r.pieces++; r.pieces > morePieces+r.most/pieceAverage {
		cb.endRead(r, ErrContentTooLarge) // an owner that sends crumbs for ever
		return
	}
	before := len(r.got.data)
	for offset := uint32(0); ; offset += pieceLength {
		// Deleting takes effect with the last part, and asks for the next piece.
		p, err := xproto.GetProperty(cb.c.x, true, r.win, cb.atoms.landed, xproto.GetPropertyTypeAny, offset, pieceLength).Reply()
		switch {
		case err != nil:
			cb.endRead(r, request.Wrap("read a property", err))
			return
		case p.Type == xproto.AtomNone:
			if !r.incr {
				cb.endRead(r, ErrNoContent)
			}
			return
		case p.Type == cb.atoms.incr && !r.incr:
			cb.beginPieces(r, p.Value)
			return
		case len(r.got.data)+len(p.Value)+int(p.BytesAfter) > r.most:
			cb.endRead(r, ErrContentTooLarge)
			return
		}
		r.got.typ = p.Type
		if r.got.data == nil && p.BytesAfter == 0 {
			r.got.data = p.Value
		} else {
			r.got.data = append(r.got.data, p.Value...)
		}
		if p.BytesAfter == 0 {
			break
		}
	}
	if !r.incr || len(r.got.data) == before {
		cb.endRead(r, nil)
	}
}

// beginPieces prepares for content in pieces. size is a lower bound that the
// owner may tell.
func (cb *Clipboard) beginPieces(r *reading, size []byte) {
	r.incr = true
	if len(size) < 4 {
		return
	}
	n := binary.LittleEndian.Uint32(size)
	if uint64(n) > uint64(r.most) { //nolint:gosec // it is not negative
		cb.endRead(r, ErrContentTooLarge)
		return
	}
	// Trust it only so far: memory is for content that came.
	r.got.data = make([]byte, 0, min(n, 16<<20))
}
