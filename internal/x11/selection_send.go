package x11

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jezek/xgb/xproto"
)

const (
	// maxSends bounds the concurrent transfers in pieces.
	maxSends = 256
	// maxReplaced bounds the bytes of replaced contents that are still sent in pieces.
	maxReplaced = 64 << 20
	// maxPairs bounds the pairs of a MULTIPLE request.
	maxPairs = 64
	// watchRequestor selects events of a program that reads in pieces.
	watchRequestor = xproto.EventMaskPropertyChange | xproto.EventMaskStructureNotify
)

// holding is the content of a selection that this clipboard owns.
type holding struct {
	time    xproto.Timestamp
	content Content
	values  map[xproto.Atom]value // by target
	targets []xproto.Atom
}

// value is the content for a target.
type value struct {
	typ    xproto.Atom
	data   []byte
	encode bool // data is UTF-8 and must become Latin-1 for the first request
}

// transfer identifies a transfer in pieces: a property of the reader's window.
type transfer struct {
	win  xproto.Window
	prop xproto.Atom
}

// sending is a transfer, which continues after the selection is lost (ICCCM 2.7.2).
type sending struct {
	typ   xproto.Atom
	data  []byte
	sent  int // bytes of data
	began time.Time
	last  time.Time
	gone  bool // the window was destroyed
}

func (cb *Clipboard) newHolding(c Content) (*holding, error) {
	if len(c.Data) > MaxContent {
		return nil, fmt.Errorf("%d bytes: %w", len(c.Data), ErrContentTooLarge)
	}
	h := &holding{
		content: c,
		values:  make(map[xproto.Atom]value),
		targets: []xproto.Atom{cb.atoms.targets, cb.atoms.timestamp, cb.atoms.multiple},
	}
	if isTextType(c.Type) {
		cb.addText(h, c.Data)
		return h, nil
	}
	target, err := cb.c.atom(c.Type)
	h.add(target, value{typ: target, data: c.Data})
	return h, err
}

// addText offers text under all target names with which programs request it.
func (cb *Clipboard) addText(h *holding, text []byte) {
	for _, target := range []xproto.Atom{cb.atoms.utf8, cb.atoms.textUTF8, cb.atoms.textPlain} {
		h.add(target, value{typ: target, data: text})
	}
	ascii, latin1 := isLatin1(text)
	if !latin1 {
		h.add(cb.atoms.text, value{typ: cb.atoms.utf8, data: text})
		return
	}
	v := value{typ: xproto.AtomString, data: text, encode: !ascii}
	h.add(xproto.AtomString, v)
	h.add(cb.atoms.text, v)
}

func (h *holding) add(target xproto.Atom, v value) {
	h.values[target] = v
	h.targets = append(h.targets, target)
}

// answer serves a request for a selection. Unlike ICCCM 2.2, and like other programs, it
// serves requests from before this clipboard took the selection: a paste would fail.
func (cb *Clipboard) answer(e xproto.SelectionRequestEvent) {
	cb.count++
	prop := e.Property
	if prop == xproto.AtomNone {
		prop = e.Target // an obsolete client (ICCCM 2.2)
	}
	h := cb.owned[e.Selection]
	ok := false
	switch {
	case h == nil:
	case e.Target == cb.atoms.multiple:
		ok = e.Property != xproto.AtomNone && cb.answerMultiple(h, transfer{e.Requestor, prop})
	default:
		ok = cb.put(h, transfer{e.Requestor, prop}, e.Target)
	}
	if !ok {
		prop = xproto.AtomNone
	}
	notify := xproto.SelectionNotifyEvent{
		Time: e.Time, Requestor: e.Requestor, Selection: e.Selection, Target: e.Target, Property: prop,
	}
	xproto.SendEvent(cb.c.x, false, e.Requestor, 0, string(notify.Bytes()))
}

// answerMultiple converts to each target of a list of targets and properties, and clears
// the properties of targets that it lacks (ICCCM 2.6.2).
func (cb *Clipboard) answerMultiple(h *holding, to transfer) bool {
	r, err := xproto.GetProperty(cb.c.x, false, to.win, to.prop, xproto.GetPropertyTypeAny, 0, 2*maxPairs).Reply()
	if err != nil || r.Format != 32 || r.BytesAfter > 0 {
		return false
	}
	pairs := r.Value
	for ; len(pairs) >= 8; pairs = pairs[8:] {
		target := xproto.Atom(binary.LittleEndian.Uint32(pairs))
		prop := xproto.Atom(binary.LittleEndian.Uint32(pairs[4:]))
		if prop == 0 || target == cb.atoms.multiple || !cb.put(h, transfer{to.win, prop}, target) {
			clear(pairs[4:8])
		}
	}
	xproto.ChangeProperty(cb.c.x, xproto.PropModeReplace, to.win, to.prop, cb.atoms.pair, 32, uint32(len(r.Value)/4), r.Value)
	return true
}

// put writes the content for a target to a property, or begins a transfer in pieces. It
// returns false if the content lacks the target.
func (cb *Clipboard) put(h *holding, to transfer, target xproto.Atom) bool {
	change := func(typ xproto.Atom, format byte, data []byte) bool {
		xproto.ChangeProperty(cb.c.x, xproto.PropModeReplace, to.win, to.prop, typ, format,
			uint32(len(data)/(int(format)/8)), data)
		return true
	}
	switch target {
	case cb.atoms.targets:
		list := make([]byte, 0, 4*len(h.targets))
		for _, a := range h.targets {
			list = binary.LittleEndian.AppendUint32(list, uint32(a))
		}
		return change(xproto.AtomAtom, 32, list)
	case cb.atoms.timestamp:
		return change(xproto.AtomInteger, 32, binary.LittleEndian.AppendUint32(nil, uint32(h.time)))
	}
	v, ok := h.values[target]
	if !ok {
		return false
	}
	if v.encode {
		v.data, v.encode = encodeLatin1(v.data), false
		h.values[target] = v
	}
	if len(v.data) > cb.chunk && !cb.beginSend(to, v) {
		return false
	}
	if len(v.data) <= cb.chunk {
		change(v.typ, 8, v.data)
	}
	cb.given++
	return true
}

// Owner implements quiesce.Clipboard.
func (cb *Clipboard) Owner() xproto.Window { return cb.win }

// Served implements quiesce.Clipboard.
func (cb *Clipboard) Served(ctx context.Context) (count int, sending bool, err error) {
	return cb.progress(ctx, &cb.count)
}

// Given is like Served, but counts only answers with content. Most programs first ask which
// forms there are.
func (cb *Clipboard) Given(ctx context.Context) (count int, sending bool, err error) {
	return cb.progress(ctx, &cb.given)
}

// progress returns a count, after all requests before the call are answered.
func (cb *Clipboard) progress(ctx context.Context, of *int) (count int, sending bool, err error) {
	type answer struct {
		count   int
		sending bool
	}
	a, err := askLoop(ctx, cb, func(result chan<- answer) {
		cb.withTime(func(xproto.Timestamp) { result <- answer{*of, len(cb.sends) > 0} })
	})
	return a.count, a.sending, err
}

// beginSend announces content in pieces (ICCCM 2.7.2). The reader deletes the property for
// each piece.
func (cb *Clipboard) beginSend(to transfer, v value) bool {
	if old := cb.sends[to]; old != nil {
		cb.endSend(to, old)
	}
	if len(cb.sends) >= maxSends || cb.c.selectEvents(to.win, watchRequestor) != nil {
		return false
	}
	cb.waiting.Add(1)
	now := time.Now()
	cb.sends[to] = &sending{typ: v.typ, data: v.data, began: now, last: now}
	cb.arm()
	size := binary.LittleEndian.AppendUint32(nil, uint32(len(v.data)))
	xproto.ChangeProperty(cb.c.x, xproto.PropModeReplace, to.win, to.prop, cb.atoms.incr, 32, 1, size)
	return true
}

// sendNext writes the next piece. A piece of no bytes ends the transfer.
func (cb *Clipboard) sendNext(to transfer, s *sending) {
	piece := s.data[s.sent:min(len(s.data), s.sent+cb.chunk)]
	s.sent += len(piece)
	s.last = time.Now()
	xproto.ChangeProperty(cb.c.x, xproto.PropModeReplace, to.win, to.prop, s.typ, 8, uint32(len(piece)), piece)
	if len(piece) == 0 {
		cb.endSend(to, s)
	}
}

func (cb *Clipboard) endSend(to transfer, s *sending) {
	delete(cb.sends, to)
	cb.waiting.Add(-1)
	if s.gone {
		cb.c.forgetEvents(to.win)
		return
	}
	cb.c.unselectEvents(to.win, watchRequestor)
}

// endOldSends ends the oldest transfers of replaced contents if these contents have more
// than maxReplaced bytes.
func (cb *Clipboard) endOldSends() {
	keeps := make(map[*byte]bool) // by the first byte of a content
	for _, h := range cb.owned {
		for _, v := range h.values {
			if len(v.data) > 0 {
				keeps[&v.data[0]] = true
			}
		}
	}
	newestFirst := slices.SortedFunc(maps.Keys(cb.sends), func(a, b transfer) int {
		return cb.sends[b].began.Compare(cb.sends[a].began)
	})
	size := 0
	for _, key := range newestFirst {
		s := cb.sends[key]
		content := &s.data[0]
		if _, known := keeps[content]; !known {
			size += len(s.data)
			keeps[content] = size <= maxReplaced
		}
		if !keeps[content] {
			cb.c.log.Debug("a program reads a replaced selection too slowly", "window", uint32(key.win))
			cb.endSend(key, s)
		}
	}
}

// isLatin1 reports whether UTF-8 text is ASCII, and whether it can be Latin-1, the
// encoding of STRING.
func isLatin1(text []byte) (ascii, latin1 bool) {
	i := slices.IndexFunc(text, func(c byte) bool { return c >= 0x80 })
	if i < 0 {
		return true, true
	}
	for _, r := range string(text[i:]) {
		if r > 0xff {
			return false, false
		}
	}
	return false, true
}

func encodeLatin1(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for _, r := range string(text) {
		out = append(out, byte(r))
	}
	return out
}
