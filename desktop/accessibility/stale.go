package accessibility

import (
	"context"
	"errors"

	"github.com/deskhand/deskhand/desktop"
)

// find returns the reference with a text. If the program has replaced the element by an equal
// one in the same place, the reference is for that from then on. It returns a *StaleError if
// the element is gone, an *InvalidError, or ErrTimeout.
func (t *Tree) find(ctx context.Context, b *bus, text string) (reference, error) {
	number, err := ParseRef(text)
	if err != nil {
		return reference{}, err
	}
	ref, ok := t.refs.get(number)
	stale := &StaleError{Ref: FormatRef(number)}
	if !ok {
		return ref, stale
	}
	alive, err := b.alive(ctx, ref.at, ref.role)
	if err != nil {
		return ref, err
	}
	if !alive {
		at, ok := b.replaced(ctx, ref)
		if !ok {
			return ref, stale
		}
		t.refs.move(number, at)
		ref.at = at
	}
	return ref, nil
}

// alive reports whether an element exists, has a role, and is on no old page.
func (b *bus) alive(ctx context.Context, at address, want role) (bool, error) {
	if at.null() {
		return false, nil
	}
	var bits []uint32
	var number uint32
	state, role := &request{to: at, method: ifaceAccessible + ".GetState", into: &bits}, &request{to: at, method: ifaceAccessible + ".GetRole", into: &number}
	if b.all(ctx, []*request{state, role}) != nil {
		return false, ErrTimeout
	}
	defunct := len(bits) > 0 && states(bits[0]).has(stateDefunct)
	if state.err != nil || role.err != nil || defunct || roleOf(number) != want {
		return false, nil
	}
	old, err := b.onOldPage(ctx, at)
	return !old, err
}

// onOldPage reports whether an element is on a page that its window does not show any more.
// Chromium keeps the elements of pages that it may go back to, with their states and boxes, but
// their document has no place among the children of its parent. Other elements without a place
// may show: scroll bars of GTK, and panels of LibreOffice, whose parents do not lead to the root.
func (b *bus) onOldPage(ctx context.Context, at address) (bool, error) {
	for range mostVisited { // the program may claim a cycle
		if at.null() || at.Path == rootPath {
			break
		}
		var parent address
		var number uint32
		var index int32
		up, role := propertyOf(at, ifaceAccessible, "Parent", &parent), &request{to: at, method: ifaceAccessible + ".GetRole", into: &number}
		own := &request{to: at, method: ifaceAccessible + ".GetIndexInParent", into: &index}
		if b.all(ctx, []*request{up, role, own}) != nil {
			return false, ErrTimeout
		}
		if roleOf(number) == roleDocumentWeb && index < 0 {
			return true, nil
		}
		at = parent
	}
	return false, nil
}

// replaced returns the element that is where a reference's was, if it has the same role and
// name.
func (b *bus) replaced(ctx context.Context, ref reference) (address, bool) {
	var at address
	if ref.parent.null() || b.do(ctx, ref.parent, ifaceAccessible+".GetChildAtIndex", &at, int32(ref.index)) != nil || at.null() || at.Name != ref.at.Name {
		return at, false
	}
	w := &walker{bus: b}
	n := &node{at: at}
	w.one(ctx, n)
	if !w.answered || n.role != ref.role || n.name != ref.name {
		return at, false
	}
	old, err := b.onOldPage(ctx, at)
	return at, !old && err == nil
}

// withNearest adds to a *StaleError the element that is most like the one that is gone: of the
// same role, if possible of the same name, and close to where it was.
func (t *Tree) withNearest(ctx context.Context, err error) error {
	var stale *StaleError
	if !errors.As(err, &stale) || stale.Nearest != nil {
		return err
	}
	number, _ := ParseRef(stale.Ref)
	ref, ok := t.refs.get(number)
	if !ok {
		return err
	}
	s, e := t.Snapshot(ctx, Query{Match: Match{Role: ref.role.String()}, HideFieldText: true})
	if e != nil {
		return err
	}
	least := 0
	for i := range s.Elements {
		e := &s.Elements[i]
		if d := ref.distance(e); stale.Nearest == nil || d < least {
			stale.Nearest, least = e, d
		}
	}
	return err
}

// distance returns how much an element differs from a reference.
func (r reference) distance(e *Element) (d int) {
	const other = 1 << 20 // more than any distance on a screen
	if e.Name != r.name {
		d += 2 * other
	}
	if e.Box == nil {
		return d + other
	}
	abs := func(n int) int { return max(n, -n) }
	middle := func(b desktop.Rect) (x, y int) { return b.X + b.Width/2, b.Y + b.Height/2 }
	x, y := middle(*e.Box)
	refX, refY := middle(r.box)
	return d + abs(x-refX) + abs(y-refY)
}
