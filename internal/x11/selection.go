package x11

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/xfixes"
	"github.com/jezek/xgb/xproto"
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
	// than the caller of GetAtMost wants.
	ErrContentTooLarge = errors.New("selection content is too large")
	// ErrTransferStalled is returned when the owner of a selection stopped in
	// the middle of handing it over, or never began, for ten seconds.
	ErrTransferStalled = errors.New("selection owner does not answer")
)

// Content is one form of what is on a clipboard.
type Content struct {
	// Type is TypeText, TypePNG or another MIME type.
	Type string
	// Data is the content. Text is handed on byte by byte, in both directions:
	// nobody checks that it is UTF-8.
	Data []byte
}

// Clipboard reads and owns selections. Several transfers may run at once.
type Clipboard struct {
	c     *Conn
	win   xproto.Window
	atoms selectionAtoms
	chunk int           // most bytes in one property, so that a request can hold them
	stall time.Duration // how long a transfer may stand still

	events  *queue[xgb.Event]
	tasks   chan func()
	quit    chan struct{}
	quitNow func()
	done    chan struct{} // closed when run has ended
	changes changes
	waiting atomic.Int32 // how many read, send, or want the time

	unhandle func()

	// What follows belongs to the goroutine of run.
	owned map[xproto.Atom]*holding
	sends map[transfer]*sending
	count int // of requests that were answered
	reads map[xproto.Window]*reading
	spare []xproto.Window // requestors of finished reads
	times []func(xproto.Timestamp)
	timer *time.Timer
	armed bool
}

// selectionAtoms are the names of ICCCM 2.6.2 and what toolkits added to them.
type selectionAtoms struct {
	clipboard, primary                             xproto.Atom
	targets, timestamp, multiple, pair, incr       xproto.Atom
	utf8, textUTF8, text, textPlain, clock, landed xproto.Atom
}

// NewClipboard makes a clipboard. It owns nothing at first.
func (c *Conn) NewClipboard() (*Clipboard, error) {
	cb := &Clipboard{
		c: c, events: newQueue[xgb.Event](1 << 14), tasks: make(chan func()),
		quit: make(chan struct{}), done: make(chan struct{}),
		owned: make(map[xproto.Atom]*holding), sends: make(map[transfer]*sending),
		reads: make(map[xproto.Window]*reading), timer: time.NewTimer(time.Hour), stall: stallLimit,
	}
	cb.timer.Stop()
	cb.quitNow = sync.OnceFunc(func() { close(cb.quit) })
	cb.changes.ready = make(chan struct{}, 1)
	cb.changes.done = make(chan struct{})
	a := &cb.atoms
	if err := c.internAll(map[string]*xproto.Atom{
		"CLIPBOARD": &a.clipboard, "PRIMARY": &a.primary, "TARGETS": &a.targets, "TIMESTAMP": &a.timestamp,
		"MULTIPLE": &a.multiple, "ATOM_PAIR": &a.pair, "INCR": &a.incr, "UTF8_STRING": &a.utf8, TypeText: &a.textUTF8,
		"TEXT": &a.text, "text/plain": &a.textPlain, "_DESKHAND_CLOCK": &a.clock, "_DESKHAND_SELECTION": &a.landed,
	}); err != nil {
		return nil, fmt.Errorf("open clipboard: %w", err)
	}
	// A request without BIG-REQUESTS, which xgb does not speak, has at most so
	// many bytes; ChangeProperty needs 24 of them.
	cb.chunk = (int(xproto.Setup(c.x).MaximumRequestLength)*4 - 24) &^ 3
	var err error
	if cb.win, err = c.newRequestor(); err != nil {
		return nil, fmt.Errorf("open clipboard: %w", err)
	}
	cb.unhandle = c.handle(cb.receive)
	for _, sel := range []xproto.Atom{a.clipboard, a.primary} {
		const mask = xfixes.SelectionEventMaskSetSelectionOwner |
			xfixes.SelectionEventMaskSelectionWindowDestroy | xfixes.SelectionEventMaskSelectionClientClose
		if err := xfixes.SelectSelectionInputChecked(c.x, cb.win, sel, mask).Check(); err != nil {
			return nil, wrap("watch selections", err)
		}
	}
	go cb.run()
	go cb.tell()
	return cb, nil
}

// Close gives up what the clipboard owns, which empties those selections, and
// ends its goroutines. It must not be called from an OnChange function.
func (cb *Clipboard) Close() error {
	cb.unhandle()
	cb.quitNow()
	select {
	case <-cb.done:
	case <-time.After(time.Second): // a server that hangs; closing the connection ends it
		return nil
	}
	<-cb.changes.done
	return nil
}

// newRequestor makes a window that others put properties on.
func (c *Conn) newRequestor() (xproto.Window, error) {
	win, err := xproto.NewWindowId(c.x)
	if err != nil {
		return 0, wrap("new window id", err)
	}
	err = xproto.CreateWindowChecked(c.x, 0, win, c.root, -10, -10, 1, 1, 0, xproto.WindowClassInputOnly, 0,
		xproto.CwOverrideRedirect|xproto.CwEventMask, []uint32{1, xproto.EventMaskPropertyChange}).Check()
	return win, wrap("create window", err)
}

// Set puts content, in one or several forms, on a selection, in place of what
// was there. It returns when the X server says that this clipboard owns the
// selection. The data is kept, not copied: it must not be changed afterwards.
// Without contents, the selection is emptied.
func (cb *Clipboard) Set(ctx context.Context, sel SelectionName, contents ...Content) error {
	name, err := cb.selection(sel)
	if err != nil {
		return err
	}
	h, err := cb.newHolding(contents)
	if err != nil {
		return fmt.Errorf("set %s: %w", sel, err)
	}
	result := make(chan error, 1)
	err = cb.do(ctx, func() { cb.own(name, h, result, 3) })
	if err == nil {
		select {
		case err = <-result:
		case <-ctx.Done():
			err = ctx.Err()
		case <-cb.done:
			err = ErrConnClosed
		}
	}
	if err != nil {
		return fmt.Errorf("set %s: %w", sel, err)
	}
	return nil
}

// Get reads a selection as typ: TypeText, TypePNG or another MIME type that
// Types lists. It returns ErrNoContent when there is nothing of that type, and
// ErrTransferStalled when the owner does not answer for ten seconds.
func (cb *Clipboard) Get(ctx context.Context, sel SelectionName, typ string) ([]byte, error) {
	return cb.GetAtMost(ctx, sel, typ, MaxContent)
}

// GetAtMost is like Get but returns ErrContentTooLarge if the content has more than
// most bytes. It stops reading there, even if the owner sends more.
func (cb *Clipboard) GetAtMost(ctx context.Context, sel SelectionName, typ string, most int) ([]byte, error) {
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
	own, err := cb.holding(ctx, sel)
	if err != nil {
		return nil, err
	}
	isText := isTextType(typ)
	if own != nil {
		if isText {
			typ = TypeText
		}
		i := slices.IndexFunc(own.contents, func(c Content) bool { return c.Type == typ })
		if i < 0 {
			return nil, ErrNoContent
		}
		if len(own.contents[i].Data) > most {
			return nil, ErrContentTooLarge
		}
		return bytes.Clone(own.contents[i].Data), nil
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
			continue // an owner that lists no targets is asked for each
		}
		got, err := cb.convert(ctx, sel, target, most)
		switch {
		case errors.Is(err, ErrNoContent):
			continue
		case err != nil:
			return nil, err
		case isText && got.typ == xproto.AtomString:
			return decodeLatin1(got.data), nil
		case got.typ == target, isText && slices.Contains(candidates, got.typ):
			return got.data, nil
		}
	}
	return nil, ErrNoContent
}

// Types lists the types a selection can be read as: TypeText if it holds text
// in whatever encoding, and the MIME types its owner offers. It is empty when
// the selection is.
func (cb *Clipboard) Types(ctx context.Context, sel SelectionName) ([]string, error) {
	name, err := cb.selection(sel)
	if err != nil {
		return nil, err
	}
	types, err := cb.types(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("types of %s: %w", sel, err)
	}
	return types, nil
}

func (cb *Clipboard) types(ctx context.Context, sel xproto.Atom) ([]string, error) {
	own, err := cb.holding(ctx, sel)
	if err != nil {
		return nil, err
	}
	var types []string
	if own != nil {
		for _, c := range own.contents {
			types = append(types, c.Type)
		}
		return types, nil
	}
	offered, err := cb.targets(ctx, sel)
	if errors.Is(err, ErrNoContent) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	text := cb.textTargets()
	if slices.ContainsFunc(offered, func(a xproto.Atom) bool { return slices.Contains(text, a) }) {
		types = append(types, TypeText)
	}
	names, err := cb.c.atomNames(offered)
	if err != nil {
		return nil, err
	}
	for _, n := range names {
		if strings.Contains(n, "/") && !isTextType(n) && !slices.Contains(types, n) {
			types = append(types, n)
		}
	}
	return types, nil
}

// OnChange has f called when a selection got another owner or other content,
// also by Set. Changes that come faster than f returns are put together. f runs
// on a goroutine of the clipboard and may call everything but Close.
func (cb *Clipboard) OnChange(f func(sel SelectionName)) {
	cb.changes.mu.Lock()
	defer cb.changes.mu.Unlock()
	cb.changes.funcs = append(slices.Clone(cb.changes.funcs), f)
}

func (cb *Clipboard) selection(sel SelectionName) (xproto.Atom, error) {
	switch sel {
	case SelectionClipboard:
		return cb.atoms.clipboard, nil
	case SelectionPrimary:
		return cb.atoms.primary, nil
	}
	return 0, fmt.Errorf("no selection is called %q", string(sel))
}

// textTargets are the targets that text can be read as, the best first.
func (cb *Clipboard) textTargets() []xproto.Atom {
	return []xproto.Atom{cb.atoms.utf8, cb.atoms.textUTF8, xproto.AtomString, cb.atoms.textPlain}
}

// isTextType says whether a MIME type is plain text.
func isTextType(typ string) bool {
	base, _, _ := strings.Cut(typ, ";")
	return typ == "" || base == "text/plain"
}

// decodeLatin1 makes UTF-8 of the encoding of STRING (ICCCM 2.7.1).
func decodeLatin1(b []byte) []byte {
	out := make([]byte, 0, len(b))
	for _, c := range b {
		out = appendRune(out, c)
	}
	return out
}

func appendRune(out []byte, latin1 byte) []byte {
	if latin1 < 0x80 {
		return append(out, latin1)
	}
	return append(out, 0xc0|latin1>>6, 0x80|latin1&0x3f)
}
