package accessibility

import (
	"container/list"
	"image"
	"strconv"
	"strings"
	"sync"

	"github.com/deskhand/deskhand/desktop"
)

// mostRefs is how many references a Tree keeps. It drops those that were not used for longest.
const mostRefs = 20000

// reference is an element that has a number, as it was when it was last read.
type reference struct {
	number int
	at     address
	parent address
	index  int // among the children of parent
	role   role
	name   string
	typed  bool // the name is text of a field
	box    desktop.Rect
	window desktop.WindowID // zero: unknown
	shift  image.Point      // from the boxes that the program claims to the screen
}

// refs numbers elements. An element keeps its number while it lives.
type refs struct {
	next func() int // nil: count

	mu        sync.Mutex // guards the fields below
	count     int
	byNumber  map[int]*list.Element // of *reference
	byAddress map[address]*list.Element
	used      list.List // the reference that was used last is at the front
}

// of returns the number of an element. The element gets a new number if it has none, or if an
// element with another role had its address before.
func (r *refs) of(n *node, window desktop.WindowID, shift image.Point) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.byAddress[n.at]
	if e != nil && held(e).role != n.role {
		r.drop(e)
		e = nil
	}
	if e == nil {
		e = r.add(n.at)
	}
	ref := held(e)
	ref.index, ref.role, ref.name, ref.box, ref.window, ref.shift = n.index, n.role, n.name, n.box, window, shift
	ref.typed = n.repeatsField()
	if n.up != nil {
		ref.parent = n.up.at
	}
	r.used.MoveToFront(e)
	return ref.number
}

// add numbers an address. The caller has mu.
func (r *refs) add(at address) *list.Element {
	if r.byNumber == nil {
		r.byNumber, r.byAddress = map[int]*list.Element{}, map[address]*list.Element{}
	}
	if r.used.Len() >= mostRefs {
		r.drop(r.used.Back())
	}
	r.count++
	ref := &reference{number: r.count, at: at}
	if r.next != nil {
		ref.number = r.next()
	}
	e := r.used.PushFront(ref)
	r.byNumber[ref.number], r.byAddress[at] = e, e
	return e
}

// drop forgets a reference. The caller has mu.
func (r *refs) drop(e *list.Element) {
	ref := held(e)
	delete(r.byNumber, ref.number)
	delete(r.byAddress, ref.at)
	r.used.Remove(e)
}

// get returns a copy of a reference.
func (r *refs) get(number int) (reference, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.byNumber[number]
	if e == nil {
		return reference{}, false
	}
	r.used.MoveToFront(e)
	return *held(e), true
}

// move gives a reference a new address, because the program has replaced its object.
func (r *refs) move(number int, at address) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.byNumber[number]
	if e == nil {
		return
	}
	if other := r.byAddress[at]; other != nil && other != e {
		r.drop(other)
	}
	delete(r.byAddress, held(e).at)
	held(e).at = at
	r.byAddress[at] = e
}

// forget makes all addresses unusable. The numbers remain known as numbers of elements
// that have ended.
func (r *refs) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.byAddress)
	for e := r.used.Front(); e != nil; e = e.Next() {
		held(e).at, held(e).parent = address{}, address{}
	}
}

func held(e *list.Element) *reference {
	ref, _ := e.Value.(*reference)
	return ref
}

// FormatRef returns the text of a reference: "@e12".
func FormatRef(number int) string { return "@e" + strconv.Itoa(number) }

// ParseRef returns the number of a reference. It accepts "@e12" and "e12", and returns an
// *InvalidError for any other text.
func ParseRef(ref string) (int, error) {
	digits, ok := strings.CutPrefix(strings.TrimPrefix(ref, "@"), "e")
	n, err := strconv.ParseUint(digits, 10, 31)
	if !ok || err != nil || n == 0 || digits[0] == '0' {
		return 0, &InvalidError{"Ref", "must be a reference such as @e12"}
	}
	return int(n), nil
}
