package x11

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/xfixes"
	"github.com/jezek/xgb/xproto"

	"github.com/deskhand/deskhand/internal/x11/request"
)

// SelectionName is one of the X server's clipboards (ICCCM 2.6.1).
type SelectionName string

const (
	// SelectionClipboard holds what was copied, for Ctrl+V.
	SelectionClipboard SelectionName = "CLIPBOARD"
	// SelectionPrimary holds what is marked, for the middle button.
	SelectionPrimary SelectionName = "PRIMARY"
)

// Types of Content.
const (
	TypeText = "text/plain;charset=utf-8"
	TypePNG  = "image/png"
)

// MaxContent is the most that is read from a selection or put on one, in bytes.
const MaxContent = 32 << 20

var (
	// ErrNoContent is returned when a selection is empty, or its owner does not
	// offer it as the type asked for.
	ErrNoContent = errors.New("selection holds nothing of that type")
	// ErrContentTooLarge is returned for content of more than MaxContent bytes, or
	// than the caller of Get wants.
	ErrContentTooLarge = errors.New("selection content is too large")
	// ErrTransferStalled is returned if the owner of a selection does not answer, or
	// stops in the middle of a transfer, for ten seconds.
	ErrTransferStalled = errors.New("selection owner does not answer")
)

// Content is the content of a selection.
type Content struct {
	// Type is TypeText, TypePNG or another MIME type.
	Type string
	// Data is the content, which nothing may modify. Text need not be valid UTF-8.
	Data []byte
}

// Clipboard reads and owns selections. Several transfers may run concurrently.
type Clipboard struct {
	c     *Conn
	win   xproto.Window
	atoms selectionAtoms
	chunk int           // most bytes in one property, so that a request can hold them
	stall time.Duration // how long a transfer may make no progress

	events  *queue[xgb.Event]
	tasks   chan func()
	quit    chan struct{}
	quitNow func()
	done    chan struct{} // closed when run has ended
	waiting atomic.Int32  // reads, sends and times

	changes  *queue[SelectionName]               // for OnChange
	onChange atomic.Pointer[func(SelectionName)] // nil: none
	calls    sync.WaitGroup                      // callOnChange

	unhandle func()

	// The goroutine of run owns the fields below.
	owned map[xproto.Atom]*holding
	sends map[transfer]*sending
	count int // of requests that were answered
	given int // of answers with content, or with its first piece
	reads map[xproto.Window]*reading
	spare []xproto.Window // requestors of finished reads
	times []func(xproto.Timestamp)
	timer *time.Timer
	armed bool
}

// selectionAtoms are names of ICCCM 2.6.2 and of toolkits.
type selectionAtoms struct {
	clipboard                                      xproto.Atom
	targets, timestamp, multiple, pair, incr       xproto.Atom
	utf8, textUTF8, text, textPlain, clock, landed xproto.Atom
}

// NewClipboard returns a clipboard that owns nothing.
func (c *Conn) NewClipboard() (*Clipboard, error) {
	cb := &Clipboard{
		c: c, events: newQueue[xgb.Event](1 << 14), changes: newQueue[SelectionName](1 << 14), tasks: make(chan func()),
		quit: make(chan struct{}), done: make(chan struct{}),
		owned: make(map[xproto.Atom]*holding), sends: make(map[transfer]*sending),
		reads: make(map[xproto.Window]*reading), timer: time.NewTimer(time.Hour), stall: stallLimit,
	}
	cb.timer.Stop()
	cb.quitNow = sync.OnceFunc(func() { close(cb.quit) })
	a := &cb.atoms
	if err := request.Atoms(c.x, map[string]*xproto.Atom{
		"CLIPBOARD": &a.clipboard, "TARGETS": &a.targets, "TIMESTAMP": &a.timestamp,
		"MULTIPLE": &a.multiple, "ATOM_PAIR": &a.pair, "INCR": &a.incr, "UTF8_STRING": &a.utf8, TypeText: &a.textUTF8,
		"TEXT": &a.text, "text/plain": &a.textPlain, "_DESKHAND_CLOCK": &a.clock, "_DESKHAND_SELECTION": &a.landed,
	}); err != nil {
		return nil, fmt.Errorf("open clipboard: %w", err)
	}
	// The longest request without BIG-REQUESTS, which xgb lacks, without the header of
	// ChangeProperty.
	cb.chunk = (int(xproto.Setup(c.x).MaximumRequestLength)*4 - 24) &^ 3
	var err error
	if cb.win, err = request.HiddenWindow(c.x, c.root, xproto.EventMaskPropertyChange|xproto.EventMaskStructureNotify); err != nil {
		return nil, fmt.Errorf("open clipboard: %w", err)
	}
	cb.unhandle = c.handle(cb.receive)
	for _, sel := range []xproto.Atom{a.clipboard, xproto.AtomPrimary} {
		const mask = xfixes.SelectionEventMaskSetSelectionOwner |
			xfixes.SelectionEventMaskSelectionWindowDestroy | xfixes.SelectionEventMaskSelectionClientClose
		if err := xfixes.SelectSelectionInputChecked(c.x, cb.win, sel, mask).Check(); err != nil {
			return nil, request.Wrap("watch selections", err)
		}
	}
	go cb.run()
	cb.calls.Go(cb.callOnChange)
	return cb, nil
}

// Close empties the selections that the clipboard owns and ends its goroutines. The
// function of OnChange must not call it.
func (cb *Clipboard) Close() error {
	cb.unhandle()
	cb.quitNow()
	select {
	case <-cb.done:
	case <-time.After(time.Second): // the server hangs; the end of the connection ends run
		return nil
	}
	cb.calls.Wait()
	return nil
}

// Set puts content on a selection, in place of the former content. It returns when the X
// server has confirmed that this clipboard owns the selection. The data is kept, not copied:
// it must not be changed afterwards.
func (cb *Clipboard) Set(ctx context.Context, sel SelectionName, content Content) error {
	name, err := cb.selection(sel)
	if err != nil {
		return err
	}
	h, err := cb.newHolding(content)
	if err != nil {
		return fmt.Errorf("set %s: %w", sel, err)
	}
	failure, err := askLoop(ctx, cb, func(result chan<- error) { cb.own(name, h, result, 3) })
	if err = errors.Join(err, failure); err != nil {
		return fmt.Errorf("set %s: %w", sel, err)
	}
	return nil
}

// Get reads a selection as typ: TypeText, TypePNG or another MIME type. It returns
// ErrNoContent if there is nothing of that type, ErrTransferStalled if the owner does not
// answer for ten seconds, and ErrContentTooLarge if the content has more than most bytes:
// it stops reading there, even if the owner sends more. The limit also applies to text in UTF-8
// that the owner sent in Latin-1.
func (cb *Clipboard) Get(ctx context.Context, sel SelectionName, typ string, most int) ([]byte, error) {
	name, err := cb.selection(sel)
	if err != nil {
		return nil, err
	}
	data, err := cb.get(ctx, name, typ, most)
	if err != nil {
		return nil, fmt.Errorf("read %s as %s: %w", sel, typ, err)
	}
	return data, nil
}

func (cb *Clipboard) get(ctx context.Context, sel xproto.Atom, typ string, most int) ([]byte, error) {
	own, err := askLoop(ctx, cb, func(result chan<- *holding) { result <- cb.owned[sel] })
	if err != nil {
		return nil, err
	}
	isText := isTextType(typ)
	if own != nil {
		switch content := own.content; {
		case content.Type != typ && !(isText && isTextType(content.Type)):
			return nil, ErrNoContent
		case len(content.Data) > most:
			return nil, ErrContentTooLarge
		default:
			return content.Data, nil
		}
	}
	offered, err := cb.targets(ctx, sel)
	if err != nil {
		return nil, err
	}
	candidates := cb.textTargets()
	if !isText {
		a, err := cb.c.atom(typ)
		if err != nil {
			return nil, err
		}
		candidates = []xproto.Atom{a}
	}
	for _, target := range candidates {
		if offered != nil && !slices.Contains(offered, target) {
			continue
		}
		got, err := cb.convert(ctx, sel, target, most)
		switch {
		case errors.Is(err, ErrNoContent):
			continue
		case err != nil:
			return nil, err
		case isText && got.typ == xproto.AtomString:
			if latin1Length(got.data) > most {
				return nil, ErrContentTooLarge
			}
			return decodeLatin1(got.data), nil
		case got.typ == target, isText && slices.Contains(candidates, got.typ):
			return got.data, nil
		}
	}
	return nil, ErrNoContent
}

// OnChange calls f when a selection gets another owner or other content, also by Set. It
// joins changes that come faster than f returns. It also calls f without a change, if a program
// forges an event or has caused more events than the clipboard keeps. f runs on a goroutine of the
// clipboard and may call everything but Close.
func (cb *Clipboard) OnChange(f func(sel SelectionName)) { cb.onChange.Store(&f) }

func (cb *Clipboard) selection(sel SelectionName) (xproto.Atom, error) {
	switch sel {
	case SelectionClipboard:
		return cb.atoms.clipboard, nil
	case SelectionPrimary:
		return xproto.AtomPrimary, nil
	}
	return 0, fmt.Errorf("no selection is called %q", string(sel))
}

// textTargets are the targets that text can be read as, the best first.
func (cb *Clipboard) textTargets() []xproto.Atom {
	return []xproto.Atom{cb.atoms.utf8, cb.atoms.textUTF8, xproto.AtomString, cb.atoms.textPlain}
}

// isTextType reports whether a MIME type is plain text.
func isTextType(typ string) bool {
	base, _, _ := strings.Cut(typ, ";")
	return typ == "" || base == "text/plain"
}

// decodeLatin1 converts Latin-1, the encoding of STRING (ICCCM 2.7.1), to UTF-8. It returns b
// if that is ASCII.
func decodeLatin1(b []byte) []byte {
	n := latin1Length(b)
	if n == len(b) {
		return b
	}
	text := make([]byte, 0, n)
	for _, c := range b {
		text = utf8.AppendRune(text, rune(c))
	}
	return text
}

// latin1Length returns the length of the UTF-8 that decodeLatin1 returns.
func latin1Length(b []byte) int {
	n := len(b)
	for _, c := range b {
		if c >= utf8.RuneSelf {
			n++
		}
	}
	return n
}
