package accessibility

import (
	"slices"
	"sync/atomic"
)

// Bounds of the bytes of answers that are kept. Programs may send much, and for long.
const (
	mostQueued = 64 << 20  // of a desktop, until they are decoded
	mostKept   = 128 << 20 // by all queries of a desktop
	mostWalked = 32 << 20  // by one query of one program
	mostResult = 4 << 20   // in the names, texts and actions of a Snapshot
)

// budget is a number of bytes in use. Its zero value is none.
type budget struct{ used atomic.Int64 }

// take adds to the bytes in use. It reports false, and adds nothing, if they would be more than most.
func (b *budget) take(n, most int) bool {
	if b.used.Add(int64(n)) <= int64(most) {
		return true
	}
	b.give(n)
	return false
}

// give returns bytes that take has added.
func (b *budget) give(n int) { b.used.Add(-int64(n)) }

// keep counts bytes that the walker keeps until release. It reports false if they are too many, and
// sets truncated.
func (w *walker) keep(n int) bool {
	if w.used+n > mostWalked || !w.bus.kept.take(n, mostKept) {
		w.truncated = true
		return false
	}
	w.used += n
	return true
}

// drop returns bytes that keep has counted.
func (w *walker) drop(n int) {
	w.used -= n
	w.bus.kept.give(n)
}

// release returns all bytes that keep has counted.
func (w *walker) release() {
	if w.used > 0 {
		w.drop(w.used)
	}
}

// The bytes that values take without their texts, about.
const (
	nodeSize   = 512 // a node, with its place in maps and lists
	stringSize = 32  // a string, with its place in a list
)

func (a address) size() int { return stringSize + len(a.Name) + len(a.Path) }

// textSize returns the bytes of the texts of an element.
func (n *node) textSize() int {
	size := len(n.name) + len(n.value) + len(n.text)
	for _, a := range n.actions {
		size += stringSize + len(a)
	}
	return size
}

// list keeps the addresses of the children of an element that a walk may ask about. The others
// become zero, so that these keep their index.
func (w *walker) list(n *node, children []address) {
	children = slices.Clone(children[:min(len(children), mostChildren+1)])
	size := 0
	for i, at := range children {
		if at.null() {
			children[i] = address{}
		}
		size += children[i].size()
	}
	if w.keep(size) {
		n.children, n.listed = children, size
	}
}

// unlist returns the children of an element, which does not keep them any more.
func (w *walker) unlist(n *node) []address {
	children := n.children
	w.drop(n.listed)
	n.children, n.listed = nil, 0
	return children
}
