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
	// pieceLength is the most of a property in one reply, in units of four bytes.
	pieceLength = 1 << 18
	// maxTargets and maxTargetBytes bound an owner's list of targets.
	maxTargets     = 512
	maxTargetBytes = 64 << 10
	// Content may arrive in morePieces pieces, and in one more piece for each pieceAverage
	// bytes of the limit. Programs send pieces of 4 KiB and more.
	morePieces   = 256
	pieceAverage = 1024
	// maxSpare bounds the requestor windows that are kept.
	maxSpare = 8
)

// reading is a running conversion. Each has its own window, which identifies answers.
type reading struct {
	win         xproto.Window
	sel, target xproto.Atom
	asked       bool // the request was sent
	incr        bool // the content comes in pieces
	most        int  // bytes
	pieces      int  // that were read
	got         converted
	last        time.Time
	result      chan<- conversion
}

// converted is content in a type of its owner.
type converted struct {
	typ  xproto.Atom
	data []byte
}

type conversion struct {
	converted
	err error
}

// targets asks the owner which targets it offers. The list is nil if the owner does not
// support the question. The error is ErrNoContent if there is no owner.
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

// convert asks the owner for the selection as a target, of at most that many bytes.
func (cb *Clipboard) convert(ctx context.Context, sel, target xproto.Atom, most int) (converted, error) {
	r := &reading{sel: sel, target: target, most: most, last: time.Now()}
	c, err := askLoop(ctx, cb, func(result chan<- conversion) {
		r.result = result
		cb.beginRead(r)
	})
	if err == nil {
		return c.converted, c.err
	}
	_ = cb.onLoop(context.WithoutCancel(ctx), func() { cb.endRead(r, err) })
	return converted{}, err
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

// endRead delivers a result. It destroys a window to which an answer may still come, and
// keeps others, because xgb never reuses their numbers.
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

// collect reads the property: the content, the announcement of pieces, or a piece.
func (cb *Clipboard) collect(r *reading) {
	r.last = time.Now()
	if r.pieces++; r.pieces > morePieces+r.most/pieceAverage {
		cb.endRead(r, ErrContentTooLarge)
		return
	}
	before := len(r.got.data)
	for offset := uint32(0); ; offset += pieceLength {
		// The property is deleted with its last part, which asks for the next piece.
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

// beginPieces prepares for content in pieces. size has a lower bound if it is not empty.
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
	// The owner may announce more than it sends.
	r.got.data = make([]byte, 0, min(n, 16<<20))
}
