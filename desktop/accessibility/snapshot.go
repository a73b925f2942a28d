package accessibility

import (
	"cmp"
	"context"
	"image"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/internal/panics"
)

// mostApps is how many programs a query asks.
const mostApps = 100

// program is a program on the accessibility bus, and what a query has read of it.
type program struct {
	at   address // of its root
	name string
	pid  int

	walker  walker
	root    *node
	ref     reference // of root, if a query names it
	nodes   []*node   // that are reported, each after its parent
	windows []desktop.Window
	skipped string // the reason; empty: all was read
}

// Snapshot returns the elements that a query selects. If the query has a Match, it returns only
// the elements that match, and not those that contain them.
//
// It blocks for Query.Timeout, and for up to 10 s more if it must connect to a bus that was
// restarted. A program that does not answer is no error: it is in Snapshot.Skipped.
//
// The error is an *InvalidError, a *StaleError or ErrTimeout of Query.Root,
// desktop.ErrWindowNotFound of Query.Window, ErrUnavailable, ErrClosed, the error of ctx, or
// another error of the desktop.
func (t *Tree) Snapshot(ctx context.Context, q Query) (Snapshot, error) {
	q = q.withDefaults()
	match, err := q.Match.compile()
	if err = cmp.Or(q.validate(), err); err != nil {
		return Snapshot{}, err
	}
	b, err := t.connect(ctx)
	if err != nil {
		return Snapshot{}, err
	}
	asked, cancel := context.WithTimeout(ctx, q.Timeout)
	defer cancel()
	windows, err := t.cfg.Desktop.Windows(ctx, desktop.WindowFilter{All: true})
	if err != nil {
		return Snapshot{}, err
	}
	if q.Window != 0 {
		windows = slices.DeleteFunc(windows, func(w desktop.Window) bool { return w.ID != q.Window })
		if len(windows) == 0 {
			return Snapshot{}, desktop.ErrWindowNotFound
		}
	}
	programs, err := t.programs(asked, b, q, windows)
	if err != nil {
		return Snapshot{}, cmp.Or(ctx.Err(), err)
	}
	defer func() {
		for _, p := range programs {
			p.walker.release()
		}
	}()
	listed := asked.Err() == nil
	err = t.read(asked, b, q, match, programs)
	if err := cmp.Or(ctx.Err(), err); err != nil {
		return Snapshot{}, err
	}
	s := t.snapshot(q, programs, windows)
	s.Truncated = s.Truncated || !listed
	return s, nil
}

// programs returns the programs that a query asks. The program of the active window is first.
func (t *Tree) programs(ctx context.Context, b *bus, q Query, windows []desktop.Window) ([]*program, error) {
	if q.Root != "" {
		ref, err := t.find(ctx, b, q.Root)
		if err != nil {
			return nil, t.withNearest(ctx, err)
		}
		p := &program{at: ref.at, windows: windows, ref: ref}
		p.root = &node{at: ref.at, index: ref.index, up: &node{at: ref.parent}}
		return []*program{p}, nil
	}
	var roots []address
	if err := b.do(ctx, rootOf("org.a11y.atspi.Registry"), ifaceAccessible+".GetChildren", &roots); err != nil && !gone(err) && ctx.Err() == nil {
		return nil, err
	}
	var programs []*program
	seen := map[string]bool{}
	for _, at := range roots[:min(len(roots), mostApps)] {
		if !at.null() && !seen[at.Name] {
			seen[at.Name] = true
			programs = append(programs, &program{at: at, root: &node{at: at}})
		}
	}
	b.identify(ctx, programs)
	for _, p := range programs {
		for _, w := range windows {
			if w.PID != 0 && w.PID == p.pid {
				p.windows = append(p.windows, w)
			}
		}
	}
	if q.Window != 0 {
		programs = slices.DeleteFunc(programs, func(p *program) bool { return len(p.windows) == 0 })
	}
	active := func(p *program) int {
		if slices.ContainsFunc(p.windows, func(w desktop.Window) bool { return w.Active }) {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(programs, func(p, q *program) int { return active(p) - active(q) })
	return programs, nil
}

// identify asks the bus for the processes of programs.
func (b *bus) identify(ctx context.Context, programs []*program) {
	pids := make([]uint32, len(programs))
	requests := make([]*request, 0, len(programs))
	for i, p := range programs {
		requests = append(requests, &request{to: busDaemon, method: "org.freedesktop.DBus.GetConnectionUnixProcessID", args: []any{p.at.Name}, into: &pids[i]})
	}
	_ = b.all(ctx, requests)
	for i, p := range programs {
		p.pid = int(pids[i])
	}
}

// read reads the elements of all programs, concurrently. It fails only if that panics.
func (t *Tree) read(ctx context.Context, b *bus, q Query, match *matcher, programs []*program) error {
	size := t.cfg.Desktop.Status().Size
	var all errgroup.Group
	for _, p := range programs {
		p.walker = walker{bus: b, all: q.All, screen: desktop.Rect{Width: size.Width, Height: size.Height}, depth: q.Depth, limit: q.Limit, hideFieldText: q.HideFieldText}
		if match != nil {
			p.walker.limit = mostVisited
		}
		if q.Window != 0 {
			p.walker.window = func(n *node) bool { return windowOf(n, p.windows).ID == q.Window }
		}
		all.Go(func() error {
			return panics.Catch(t.cfg.Logger, "read elements", func() error {
				p.read(ctx, q, match)
				return nil
			})
		})
	}
	return all.Wait()
}

// read reads the elements of a program.
func (p *program) read(ctx context.Context, q Query, match *matcher) {
	w := &p.walker
	if q.Root == "" && !q.All && w.unusable(ctx, p) {
		return
	}
	w.walk(ctx, p.root)
	p.name = cmp.Or(p.name, p.root.name)
	switch {
	case !w.answered:
		p.skipped = ReasonHangs
		return
	case w.truncated:
		p.skipped = ReasonBudget
	}
	if q.Root != "" {
		p.nodes = appendShown(ctx, nil, p.root, match)
	}
	for _, top := range p.root.kids {
		if q.Root == "" {
			p.nodes = appendShown(ctx, p.nodes, top, match)
		}
	}
	if match != nil && match.text != nil {
		p.nodes = w.withText(ctx, p.nodes, match, q.Limit)
	}
	if match != nil && ctx.Err() != nil {
		w.truncated = true
	}
	if len(p.nodes) > q.Limit {
		p.nodes, w.truncated, p.skipped = p.nodes[:q.Limit], true, ReasonBudget
	}
	w.read(ctx, p.nodes, q.Actions)
	if w.truncated {
		p.skipped = ReasonBudget
	}
}

// unusable reports whether a program reports no usable elements, and sets skipped to the reason.
func (w *walker) unusable(ctx context.Context, p *program) bool {
	var kit, number, name, direct string
	const iface = "org.a11y.atspi.Application"
	err := w.bus.all(ctx, []*request{
		propertyOf(p.at, iface, "ToolkitName", &kit), propertyOf(p.at, iface, "Version", &number), propertyOf(p.at, ifaceAccessible, "Name", &name),
		{to: p.at, method: iface + ".GetApplicationBusAddress", into: &direct},
	})
	p.name = clean(name, mostName)
	if err != nil {
		p.skipped = ReasonHangs
		return true
	}
	if (kit == "GTK" || kit == "gtk") && len(number) > 1 && number[:2] == "4." {
		p.skipped = ReasonNoState
		return true
	}
	w.bus.links.open(ctx, p.at.Name, direct, w.bus.uid, &w.bus.queued)
	return false
}

// appendShown appends an element and those below it, except containers without a name, and
// texts that only repeat the name of what they are in. With a match, it appends elements that
// match, until ctx ends.
func appendShown(ctx context.Context, list []*node, n *node, match *matcher) []*node {
	if match != nil && ctx.Err() != nil {
		return list
	}
	if match == nil && !n.folds() || match != nil && match.matches(n, false) {
		list = append(list, n)
	}
	for _, kid := range n.kids {
		list = appendShown(ctx, list, kid, match)
	}
	return list
}

// folds reports whether an outline leaves an element out.
func (n *node) folds() bool {
	switch {
	case n.role == roleStatic && n.up != nil && n.up.name == n.name:
		return true
	case n.name != "" || n.states.has(stateEditable):
		return false
	case n.role == roleLabel || n.role == roleParagraph:
		return len(n.kids) > 0
	}
	return n.role.container() || n.role == roleSeparator
}

// snapshot makes the result of a query.
func (t *Tree) snapshot(q Query, programs []*program, windows []desktop.Window) Snapshot {
	var s Snapshot
	size := 0 // of the texts in s
	for _, p := range programs {
		if p.skipped != "" {
			s.Skipped = append(s.Skipped, Skipped{App: p.name, PID: p.pid, Reason: p.skipped})
			s.Truncated = s.Truncated || p.skipped != ReasonNoState
		}
		room := 0
		for room < min(len(p.nodes), q.Limit-len(s.Elements)) && size+p.nodes[room].textSize() <= mostResult {
			size += p.nodes[room].textSize()
			room++
		}
		if len(p.nodes) > room {
			p.nodes, s.Truncated = p.nodes[:room], true
			if p.skipped == "" {
				s.Skipped = append(s.Skipped, Skipped{App: p.name, PID: p.pid, Reason: ReasonBudget})
			}
		}
		t.report(&s, q, p)
	}
	if q.Root == "" {
		s.Skipped = append(s.Skipped, absent(programs, windows)...)
	}
	return s
}

// absent returns the windows of programs that are not on the bus.
func absent(programs []*program, windows []desktop.Window) (list []Skipped) {
	for _, w := range windows {
		known := slices.ContainsFunc(programs, func(p *program) bool {
			return p.pid == w.PID && (p.skipped != "" || len(p.root.kids) > 0)
		})
		if !known {
			list = append(list, Skipped{App: cmp.Or(w.Class, w.Title), PID: w.PID, Window: w.ID, Reason: ReasonNoAccessibility})
		}
	}
	return list
}

// report adds the elements of a program to a result.
func (t *Tree) report(s *Snapshot, q Query, p *program) {
	at := make(map[*node]int, len(p.nodes)) // index in s.Elements
	windows, shifts := make([]desktop.WindowID, len(p.nodes)), make([]image.Point, len(p.nodes))
	for i, n := range p.nodes { // before a box moves, because place compares boxes
		win, shift := p.place(n)
		if windows[i], shifts[i] = win.ID, shift; q.Root != "" {
			windows[i], shifts[i] = p.ref.window, p.ref.shift
		}
	}
	for i, n := range p.nodes {
		n.box = moved(n.box, shifts[i])
		e := Element{
			Ref: FormatRef(t.refs.of(n, windows[i], shifts[i])), Role: n.role.String(), Name: n.name, Value: n.value, Text: n.text, Actions: n.actions,
			States: n.states.names(), Window: windows[i], states: n.states, at: n.at,
		}
		if box, ok := q.inPicture(n.box); ok && n.states.has(stateShowing) {
			e.Box = &box
		}
		for up := n.up; up != nil; up = up.up {
			if above, ok := at[up]; ok {
				parent := &s.Elements[above]
				e.Parent, e.depth = parent.Ref, parent.depth+1
				parent.Children = append(parent.Children, e.Ref)
				break
			}
		}
		at[n] = len(s.Elements)
		s.Elements = append(s.Elements, e)
	}
}

// place returns the window of an element, and how far the boxes that its program claims are
// from the truth.
func (p *program) place(n *node) (desktop.Window, image.Point) {
	top := n
	for ; top.up != nil && top.up.up != nil; top = top.up {
		if top.role == roleDialog { // the dialogs of Qt are below their parents
			if w := windowOf(top, p.windows); w.ID != 0 && (w.Title == top.name || sameSize(top.box, w.Bounds)) {
				return w, shiftOf(top, w)
			}
		}
	}
	w := windowOf(top, p.windows)
	return w, shiftOf(top, w)
}

// inPicture returns a box in the coordinates of the picture of a query. It reports whether any
// of it is there.
func (q Query) inPicture(r desktop.Rect) (desktop.Rect, bool) {
	if q.Picture == nil || r.Width == 0 {
		return r, r.Width > 0
	}
	cut := intersect(r, q.Picture.Region)
	if cut.Empty() {
		return desktop.Rect{}, false
	}
	return q.Picture.RectFromScreen(desktop.Rect{X: cut.Min.X, Y: cut.Min.Y, Width: cut.Dx(), Height: cut.Dy()}), true
}
