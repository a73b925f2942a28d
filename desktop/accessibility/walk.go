package accessibility

import (
	"context"
	"image"
	"slices"
	"strings"
	"unicode"

	"github.com/deskhand/deskhand/desktop"
)

// Bounds of one walk. Programs may claim any number of children.
const (
	mostVisited  = 20000 // elements that a walk asks about
	mostChildren = 2000  // children of one element that a walk asks about
	mostDepth    = 100
	mostName     = 200  // characters of a name
	mostText     = 1000 // characters of a text
	mostEdge     = 1 << 15
)

// node is an element as a program describes it.
type node struct {
	at     address
	up     *node
	kids   []*node
	index  int // among the children of up
	role   role
	states states
	name   string
	box    desktop.Rect    // on the screen; empty: unknown
	clip   image.Rectangle // the part of the screen in which it can show; zero: all
	count  int             // of children, as the program claims
	value  string
	text   string

	actions []string

	stateBits []uint32
	roleBits  uint32
	extents   extents
	placed    bool  // the program has sent extents
	claimed   int32 // children
	label     string
	children  []address // until level returns
	listed    int       // bytes of children
}

// extents is a box as programs send it.
type extents struct{ X, Y, W, H int32 }

// walker reads the elements of one program.
type walker struct {
	bus    *bus
	all    bool // also elements that do not show
	screen desktop.Rect
	depth  int
	limit  int              // elements that are kept
	window func(*node) bool // whether a window is wanted; nil: all are

	hideFieldText bool // Query.HideFieldText

	kept      []*node // in the order in which they were found, which is by depth
	seen      map[address]bool
	visited   int
	used      int  // bytes that are kept; see keep
	answered  bool // the program has answered something
	truncated bool // a bound was reached, or the program did not answer in time
}

// walk reads the elements below an element, which it keeps in any case. It returns when all
// are read, a bound is reached, or ctx ends. The elements nearest to the root are read first.
func (w *walker) walk(ctx context.Context, root *node) {
	w.seen = map[address]bool{root.at: true}
	level := []*node{root}
	for depth := 0; len(level) > 0; depth++ {
		if depth > w.depth {
			return
		}
		level = w.level(ctx, level)
		if ctx.Err() != nil || len(w.kept) >= w.limit && len(level) > 0 {
			w.truncated = true
			break
		}
	}
}

// level reads the elements of one depth, and returns their children.
func (w *walker) level(ctx context.Context, nodes []*node) []*node {
	if room := mostVisited - w.visited; len(nodes) > room {
		nodes, w.truncated = nodes[:max(room, 0)], true
	}
	w.visited += len(nodes)
	shown := w.showing(ctx, nodes)
	if room := w.limit - len(w.kept); len(shown) > room {
		shown, w.truncated = shown[:room], true
	}
	w.describe(ctx, shown)
	var next []*node
	for _, n := range shown {
		children := w.unlist(n)
		if ctx.Err() != nil && !n.placed && n.up != nil {
			continue // the time was over before the program described it
		}
		if n.up != nil && !w.all && !n.visible(w.screen) || n.isWindow() && w.window != nil && !w.window(n) {
			continue
		}
		w.kept = append(w.kept, n)
		if n.up != nil {
			n.up.kids = append(n.up.kids, n)
		}
		for i, at := range children {
			if at.null() || w.seen[at] {
				continue
			}
			if i >= mostChildren {
				w.truncated = true
				break
			}
			if len(next) >= mostVisited-w.visited || !w.keep(nodeSize+at.size()) {
				w.truncated = true
				break
			}
			w.seen[at] = true
			next = append(next, &node{at: at, up: n, index: i})
		}
	}
	return next
}

// one reads one element alone, whether it shows or not.
func (w *walker) one(ctx context.Context, n *node) {
	defer w.release()
	w.all = true
	for _, n := range w.showing(ctx, []*node{n}) {
		n.count = 0 // children are not needed
		w.describe(ctx, []*node{n})
	}
}

// maxAsked is how many elements a walk asks about concurrently.
const maxAsked = 500

// showing asks for the states of elements, and returns those that show.
func (w *walker) showing(ctx context.Context, nodes []*node) (shown []*node) {
	for part := range slices.Chunk(nodes, maxAsked) {
		shown = w.appendShowing(ctx, shown, part)
	}
	return shown
}

func (w *walker) appendShowing(ctx context.Context, shown, nodes []*node) []*node {
	requests := make([]*request, 0, 3*len(nodes))
	for _, n := range nodes {
		count := propertyOf(n.at, ifaceAccessible, "ChildCount", &n.claimed)
		count.then = func() { n.count = int(n.claimed) }
		requests = append(requests,
			&request{to: n.at, method: ifaceAccessible + ".GetState", into: &n.stateBits, then: func() {
				n.stateBits = slices.Clone(n.stateBits[:min(len(n.stateBits), 2)])
			}},
			&request{to: n.at, method: ifaceAccessible + ".GetRole", into: &n.roleBits}, count)
	}
	_ = w.bus.all(ctx, requests)
	for i, n := range nodes {
		state, role := requests[3*i], requests[3*i+1]
		if state.err != nil && role.err != nil {
			continue
		}
		w.answered = true
		for i, bits := range n.stateBits {
			n.states |= states(bits) << (32 * i)
		}
		n.role = roleOf(n.roleBits)
		if w.all || n.up == nil || n.states.has(stateShowing) {
			shown = append(shown, n)
		}
	}
	return shown
}

// describe asks for names, boxes and children.
func (w *walker) describe(ctx context.Context, nodes []*node) {
	for part := range slices.Chunk(nodes, maxAsked) {
		w.describePart(ctx, part)
	}
}

func (w *walker) describePart(ctx context.Context, nodes []*node) {
	requests := make([]*request, 0, 3*len(nodes))
	for _, n := range nodes {
		name := propertyOf(n.at, ifaceAccessible, "Name", &n.label)
		name.then = func() {
			if label := strings.TrimSpace(clean(n.label, mostName)); w.keep(len(label)) { // menus of GTK pad names
				n.name = label
			}
			n.label = ""
		}
		requests = append(requests, name,
			&request{to: n.at, method: ifaceComponent + ".GetExtents", args: []any{uint32(0)}, into: &n.extents, then: func() { n.placed = true }})
		switch {
		case n.count <= 0:
		case n.count <= mostChildren:
			all := new([]address)
			requests = append(requests, &request{to: n.at, method: ifaceAccessible + ".GetChildren", into: all, then: func() {
				w.list(n, *all)
				*all = nil
			}})
		default: // GetChildren would list all
			w.truncated = true
		}
	}
	_ = w.bus.all(ctx, requests)
	for _, n := range nodes {
		if w.hideFieldText && n.repeatsField() {
			n.name = ""
		}
		n.box = boxOf(n.extents.X, n.extents.Y, n.extents.W, n.extents.H)
		if n.up != nil {
			n.clip = n.up.clipOfChildren()
		}
		if n.count > mostChildren {
			w.list(n, w.inView(ctx, n))
		}
		w.dropForeign(ctx, n)
	}
}

// dropForeign drops the children of an element that belong to another program. It keeps the only
// child of an element that this child calls its parent: so one program shows another one in its
// window (Plug and Socket of AT-SPI). Else a program could list the elements of another one as its
// own, and say where they are.
func (w *walker) dropForeign(ctx context.Context, n *node) {
	if len(n.children) == 1 && n.children[0].Name != n.at.Name && !n.children[0].null() {
		var parent address
		if w.bus.all(ctx, []*request{propertyOf(n.children[0], ifaceAccessible, "Parent", &parent)}) == nil && parent == n.at {
			return
		}
	}
	for i, at := range n.children {
		if at.Name != n.at.Name {
			n.children[i] = address{} // the others keep their index
		}
	}
}

// withText returns the elements that match by their texts, until ctx ends or they are more than
// limit.
func (w *walker) withText(ctx context.Context, nodes []*node, match *matcher, limit int) (list []*node) {
	for part := range slices.Chunk(nodes, maxAsked) {
		w.read(ctx, part, false)
		for _, n := range part {
			switch {
			case ctx.Err() == nil && match.matches(n, true):
				list = append(list, n)
			default:
				w.drop(len(n.text))
				n.text = ""
			}
		}
		if ctx.Err() != nil || len(list) > limit {
			break
		}
	}
	return list
}

// read asks for the texts and values of elements, and for their actions if that is wanted.
func (w *walker) read(ctx context.Context, nodes []*node, actions bool) {
	for part := range slices.Chunk(nodes, maxAsked) {
		w.readPart(ctx, part, actions)
	}
}

func (w *walker) readPart(ctx context.Context, nodes []*node, actions bool) {
	var requests []*request
	var textual []*node
	for _, n := range nodes {
		if actions {
			list := new([]action)
			requests = append(requests, &request{to: n.at, method: ifaceAction + ".GetActions", into: list, then: func() {
				n.actions, *list = w.actionNames(*list), nil
			}})
		}
		if n.role == rolePassword || n.text != "" {
			continue // the text of a password is secret
		}
		if n.role.ranged() {
			v := new(float64)
			value := propertyOf(n.at, ifaceValue, "CurrentValue", v)
			value.then = func() { n.value = formatValue(*v) }
			requests = append(requests, value)
		}
		if n.role == roleParagraph && len(n.kids) > 0 {
			continue // the children have the text
		}
		if w.hideFieldText && n.isField() {
			continue
		}
		if n.role.textual() || n.states.has(stateEditable) {
			textual = append(textual, n)
			requests = append(requests, w.textOf(n, mostText))
		}
	}
	if w.bus.all(ctx, requests) != nil || w.readShort(ctx, textual) != nil {
		w.truncated = true
	}
}

// textOf returns a request for the first characters of an element's text.
func (w *walker) textOf(n *node, count int32) *request {
	text := new(string)
	return &request{
		to: n.at, method: ifaceText + ".GetText", args: []any{int32(0), count}, into: text,
		then: func() {
			if cut := strings.TrimRight(clean(*text, mostText), " \n"); w.keep(len(cut)) {
				n.text = cut
			}
			*text = ""
		},
	}
}

// readShort asks again for texts that are empty, by their length. Qt returns an empty text if
// more characters are asked for than it has.
func (w *walker) readShort(ctx context.Context, nodes []*node) error {
	var lengths, texts []*request
	for _, n := range nodes {
		if n.text != "" {
			continue
		}
		count := new(int32)
		length := propertyOf(n.at, ifaceText, "CharacterCount", count)
		length.then = func() {
			if *count > 0 && *count < mostText {
				texts = append(texts, w.textOf(n, *count))
			}
		}
		lengths = append(lengths, length)
	}
	if err := w.bus.all(ctx, lengths); err != nil {
		return err
	}
	return w.bus.all(ctx, texts)
}

func roleOf(n uint32) role {
	if n >= uint32(len(roleNames)) {
		return roleUnknown
	}
	return role(n)
}

// boxOf returns a box that a program claims, or an empty one if no screen has it.
func boxOf(x, y, w, h int32) desktop.Rect {
	r := desktop.Rect{X: int(x), Y: int(y), Width: int(w), Height: int(h)}
	if r.Width <= 0 || r.Height <= 0 || r.X < -mostEdge || r.Y < -mostEdge || r.X > mostEdge || r.Y > mostEdge || r.Width > 1<<20 || r.Height > 1<<20 {
		return desktop.Rect{}
	}
	return r
}

// visible reports whether some of an element is on the screen. Elements without a box may be.
func (n *node) visible(screen desktop.Rect) bool {
	if n.box == (desktop.Rect{}) {
		return n.extents.W <= 0 && n.extents.H <= 0
	}
	shown := intersect(n.box, screen)
	if n.clip != (image.Rectangle{}) {
		shown = shown.Intersect(n.clip)
	}
	return !shown.Empty()
}

// clipOfChildren returns the part of the screen in which children of an element can show. Menus
// show outside the elements that they belong to.
func (n *node) clipOfChildren() image.Rectangle {
	if n.box.Width == 0 || !n.role.in(roleScrollPane, roleViewport, roleDocumentWeb, roleTable, roleTree, roleTreeTable, roleList, roleListBox) {
		return n.clip
	}
	r := rectangle(n.box)
	if n.clip != (image.Rectangle{}) {
		r = r.Intersect(n.clip)
	}
	if r.Empty() {
		return image.Rect(-1, -1, 0, 0) // not zero, which means all
	}
	return r
}

// isWindow reports whether an element is a window of a program that was read from its root.
func (n *node) isWindow() bool { return n.up != nil && n.up.up == nil && n.up.role == roleApplication }

// isField reports whether an element has text that can be scrolled out of view inside it.
func (n *node) isField() bool { return n.role.field() || n.states.has(stateEditable) }

// repeatsField reports whether the name of an element is text of the field that it belongs to.
func (n *node) repeatsField() bool {
	if !n.role.in(roleStatic, roleLabel, roleParagraph) {
		return false
	}
	for at := n; at != nil; at = at.up {
		if at.isField() {
			return true
		}
	}
	return false
}

// action is one of the things that an element can do.
type action struct{ Name, Description, Keys string }

// mostActions is how many actions of an element count.
const mostActions = 16

func (w *walker) actionNames(list []action) (names []string) {
	for _, a := range list[:min(len(list), mostActions)] {
		name := clean(a.Name, mostName)
		if !w.keep(stringSize + len(name)) {
			break
		}
		names = append(names, name)
	}
	return names
}

// clean shortens text to a number of characters, and replaces what cannot be shown.
func clean(s string, most int) string {
	var b strings.Builder
	n := 0
	for _, r := range s {
		if n == most {
			break
		}
		switch {
		case r == '\n' || r == '\ufffc': // the object replacement character stands for an element
		case r == unicode.ReplacementChar, !unicode.IsPrint(r) && r != ' ':
			r = ' '
		}
		if r != '\ufffc' {
			b.WriteRune(r)
		}
		n++
	}
	return b.String()
}
