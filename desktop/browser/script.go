package browser

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

//go:embed page.js
var pageScript string

// frame is a frame of a page, and where its document can be reached.
type frame struct {
	id, session   string
	url           string
	parent        string // empty: the page itself
	owner         int    // the element that has it, as a backendNodeId
	depth         int
	x, y          float64 // of its viewport in the page's
	width, height float64 // of its viewport in the page's, as far as bent is false
	bent          bool    // it, or a frame that it is in, is scaled or turned
	rootX, rootY  float64 // of the session's viewport in the page's
	root          string  // the frame that the session's viewport shows
	rootOwner     int     // the owner of root
}

// runScript calls a function of page.js in a frame.
func (b *tabs) runScript(ctx context.Context, f frame, function string, result any, args ...any) error {
	return b.runLarge(ctx, f, maxAnswer, function, result, args...)
}

// runLarge is like runScript for a result of at most most bytes.
func (b *tabs) runLarge(ctx context.Context, f frame, most int, function string, result any, args ...any) error {
	contextID, err := b.world(ctx, f)
	if err != nil {
		return err
	}
	return b.evaluateLarge(ctx, f.session, contextID, scriptCall(function, args...), result, most)
}

// world returns the execution context of page.js in a frame.
func (b *tabs) world(ctx context.Context, f frame) (contextID int, err error) {
	var v struct {
		ExecutionContextID int `json:"executionContextId"`
	}
	if err := b.awaitNoDialog(ctx, f.session); err != nil {
		return 0, err
	}
	err = b.callPage(ctx, f.session, "Page.createIsolatedWorld", map[string]any{"frameId": f.id, "worldName": "deskhand"}, &v)
	return v.ExecutionContextID, err
}

// scriptCall returns the call of a function of page.js. An element can have the name of a variable
// that is not set yet.
func scriptCall(function string, args ...any) string {
	texts := make([]string, len(args))
	for i, arg := range args {
		texts[i] = string(encode(arg))
	}
	return `(Object.hasOwn(globalThis, "deskhand") ? deskhand : globalThis.deskhand = ` + strings.TrimSpace(pageScript) + ")." + function + "(" + strings.Join(texts, ",") + ")"
}

// Ref is a reference to an element of a page, "@e12". It is valid while the element lives.
type Ref int

func (r Ref) String() string { return "@e" + strconv.Itoa(int(r)) }

// MarshalText returns the text form.
func (r Ref) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText accepts "@e12" and "e12".
func (r *Ref) UnmarshalText(text []byte) error {
	n, err := strconv.Atoi(strings.TrimPrefix(strings.TrimPrefix(string(text), "@"), "e"))
	if err != nil || n <= 0 {
		return &InvalidError{"Ref", "must be a reference such as @e12"}
	}
	*r = Ref(n)
	return nil
}

// Errors about elements.
var (
	// ErrStale is wrapped by *StaleError.
	ErrStale = errors.New("the element is gone")
	// ErrNotFound is returned if no element matches a selector.
	ErrNotFound = errors.New("no such element")
	// ErrNotReady is wrapped by *NotReadyError.
	ErrNotReady = errors.New("the element cannot be used")
)

// StaleError says that an element is gone. It wraps ErrStale.
type StaleError struct {
	Ref     Ref
	Nearest *Node // an element like it; nil: none
}

func (e *StaleError) Error() string {
	text := fmt.Sprintf("%s is gone", e.Ref)
	if e.Nearest != nil {
		text += "; the nearest like it is " + e.Nearest.line()
	}
	return text
}

// Unwrap returns ErrStale.
func (e *StaleError) Unwrap() error { return ErrStale }

// NotReadyError says why an element cannot be used. It wraps ErrNotReady.
type NotReadyError struct {
	Element string // as it was named
	Reason  string // such as "disabled", or "covered by dialog "Cookies""
}

func (e *NotReadyError) Error() string { return e.Element + " cannot be used: it is " + e.Reason }

// Unwrap returns ErrNotReady.
func (e *NotReadyError) Unwrap() error { return ErrNotReady }

// reference is what a Ref stands for.
type reference struct {
	tab        string
	frame      frame
	nonce      string // of the script that has the element
	number     int    // in that script
	role, name string
}

const (
	// maxRefs bounds the references that are kept, also to elements of closed tabs. The oldest ones become
	// stale.
	maxRefs = 50_000

	// maxRefText bounds the bytes of their texts.
	maxRefText = 32 << 20
)

// text returns the number of bytes of a reference's texts.
func (r reference) text() int {
	return len(r.tab) + len(r.frame.id) + len(r.frame.session) + len(r.frame.url) + len(r.nonce) + len(r.role) + len(r.name)
}

type refKey struct {
	nonce  string
	number int
}

// refOf returns the reference to an element, which is always the same. The caller has mu.
func (b *elements) refOf(r reference) Ref {
	key := refKey{r.nonce, r.number}
	if ref, ok := b.refsByKey[key]; ok {
		return ref
	}
	var ref Ref
	if b.cfg.NextRef != nil {
		ref = Ref(b.cfg.NextRef())
	} else {
		ref = Ref(b.refs.Add(1))
	}
	b.refText += r.text()
	for len(b.refOrder) >= maxRefs || b.refText > maxRefText && len(b.refOrder) > 0 {
		old := b.refOrder[0]
		b.refOrder = b.refOrder[1:]
		b.refText -= b.references[old].text()
		delete(b.refsByKey, refKey{b.references[old].nonce, b.references[old].number})
		delete(b.references, old)
	}
	b.refsByKey[key], b.references[ref] = ref, r
	b.refOrder = append(b.refOrder, ref)
	return ref
}

// maxSelector bounds a selector, in bytes.
const maxSelector = 4 << 10

// Element names an element of a page by a reference or a CSS selector of at most 4 KiB. One of both is
// set.
type Element struct {
	Ref      Ref    `json:"ref,omitempty"`
	Selector string `json:"selector,omitempty"`
}

func (e Element) String() string {
	if e.Ref != 0 {
		return e.Ref.String()
	}
	return e.Selector
}

func (e Element) check() error {
	if (e.Ref == 0) == (e.Selector == "") {
		return &InvalidError{"Ref", "or selector must name the element, and not both"}
	}
	if len(e.Selector) > maxSelector {
		return &InvalidError{"Selector", "must have at most 4 KiB"}
	}
	return nil
}

// node is an element as page.js describes it.
type node struct {
	N      int        `json:"n"`
	Role   string     `json:"role"`
	Name   string     `json:"name"`
	Value  string     `json:"value"`
	States []string   `json:"states"`
	Box    [4]float64 `json:"box"`
	Depth  int        `json:"depth"`
}

// resolve finds an element.
func (b *elements) resolve(ctx context.Context, tabID string, e Element) (r reference, err error) {
	if err := e.check(); err != nil {
		return r, err
	}
	if e.Ref != 0 {
		b.mu.Lock()
		r, known := b.references[e.Ref]
		gone := known && b.find(r.tab) == nil
		b.mu.Unlock()
		if !known || gone || tabID != "" && tabID != r.tab {
			return r, &StaleError{Ref: e.Ref}
		}
		if _, _, err := b.tab(ctx, r.tab); err != nil {
			return r, err
		}
		// The wait for a page that hangs is here: a caller that acts on the element holds the turn.
		err := b.evaluateIn(ctx, r.frame.session, 0, "0", nil)
		if _, gone := errors.AsType[*Fault](err); gone {
			err = nil // runOn returns a *StaleError
		}
		return r, err
	}
	t, session, err := b.tab(ctx, tabID)
	if err != nil {
		return r, err
	}
	main := frame{id: t.id, session: session}
	var v struct {
		Nonce, Error string
		Node         node
	}
	if err := b.runScript(ctx, main, "query", &v, e.Selector); err != nil {
		return r, err
	}
	switch v.Error {
	case "selector":
		return r, &InvalidError{"Selector", "is not a CSS selector"}
	case "none":
		return r, fmt.Errorf("%w: %s", ErrNotFound, e.Selector)
	}
	return reference{t.id, main, v.Nonce, v.Node.N, limited(v.Node.Role), limited(v.Node.Name)}, nil
}

// runOn calls a function of page.js that takes an element. It returns a *StaleError if the
// element is gone, and a *NotReadyError if the function says why the element cannot be used.
func (b *elements) runOn(ctx context.Context, e Element, r reference, function string, result any, args ...any) error {
	contextID, err := b.world(ctx, r.frame)
	if err != nil {
		if f, ok := errors.AsType[*Fault](err); ok {
			b.cfg.Logger.Debug("element of a frame that is gone", "error", f)
			return b.stale(ctx, e, r)
		}
		return err
	}
	call := fmt.Sprintf("globalThis.deskhand?.nonce === %s ? deskhand.%s : {error: 'stale'}", encode(r.nonce),
		strings.TrimPrefix(scriptCall(function, append([]any{r.number}, args...)...), scriptPrefix))
	raw := json.RawMessage("null")
	if err := b.evaluateIn(ctx, r.frame.session, contextID, call, &raw); err != nil {
		return err
	}
	var v struct{ Error string }
	if err := json.Unmarshal(raw, &v); err != nil {
		return err
	}
	switch {
	case v.Error == "stale":
		return b.stale(ctx, e, r)
	case v.Error != "":
		return &NotReadyError{e.String(), limited(v.Error)}
	case result != nil:
		return json.Unmarshal(raw, result)
	}
	return nil
}

const (
	// timely is how long a page may take at first to begin what changes it. After that it is asked
	// again, and may take twice as long, up to mostTimely.
	timely     = 250 * time.Millisecond
	mostTimely = time.Second
	// answering is how long it may take to answer if it begins in the last moment.
	answering = 250 * time.Millisecond
)

// change calls f, which changes a page by functions of page.js, with the time until which they may
// begin, in milliseconds of Unix time. If they are late, change calls f again. When ctx has ended,
// the page begins nothing any more.
func change(ctx context.Context, f func(ctx context.Context, by int64) error) error {
	for most := timely; ; most = min(2*most, mostTimely) {
		by := time.Now().Add(most)
		asked, cancel := context.WithCancel(context.WithoutCancel(ctx))
		stop := context.AfterFunc(ctx, func() { time.AfterFunc(time.Until(by)+answering, cancel) })
		err := f(asked, by.UnixMilli())
		stop()
		cancel()
		failed, ok := errors.AsType[*NotReadyError](err)
		switch late := ok && failed.Reason == "late"; {
		case err != nil && (late || asked.Err() != nil) && ctx.Err() != nil:
			return ctx.Err()
		case !late:
			return err
		}
	}
}

// scriptPrefix is what scriptCall begins with.
var scriptPrefix = strings.TrimSuffix(scriptCall(""), "()")

// stale returns a *StaleError with the nearest element like the one that is gone.
func (b *elements) stale(ctx context.Context, e Element, r reference) error {
	stale := &StaleError{Ref: e.Ref}
	if e.Ref == 0 {
		return fmt.Errorf("%w: %s", ErrNotFound, e.Selector)
	}
	if o, err := b.outline(ctx, r.tab, outlineQuery{All: true, Limit: 1, Milliseconds: 200, Find: &nodeFilter{r.role, r.name}}); err == nil && len(o.Nodes) > 0 {
		stale.Nearest = &o.Nodes[0]
	}
	return stale
}
