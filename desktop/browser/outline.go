package browser

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"strconv"
	"strings"

	"github.com/deskhand/deskhand/desktop"
)

// Node is an element of a page, or a text of it, which has no Ref.
type Node struct {
	Ref    Ref          `json:"ref,omitempty"`
	Role   string       `json:"role"` // of ARIA, or "text"
	Name   string       `json:"name,omitempty"`
	Value  string       `json:"value,omitempty"`
	States []string     `json:"states,omitempty"`
	Box    desktop.Rect `json:"box"` // on the screen; of a headless browser, in the page
	Depth  int          `json:"depth"`
}

// line returns the node as a line of an outline.
func (n *Node) line() string {
	var s strings.Builder
	s.WriteString(strings.Repeat("  ", min(n.Depth, 10)))
	if n.Role == "text" {
		return s.String() + "text " + strconv.Quote(n.Name)
	}
	if n.Ref != 0 {
		fmt.Fprintf(&s, "%s ", n.Ref)
	}
	s.WriteString(n.Role)
	if n.Name != "" {
		s.WriteString(" " + strconv.Quote(n.Name))
	}
	if n.Value != "" {
		s.WriteString(" value " + strconv.Quote(n.Value))
	}
	fmt.Fprintf(&s, " [%d,%d %dx%d]", n.Box.X, n.Box.Y, n.Box.Width, n.Box.Height)
	if len(n.States) > 0 {
		s.WriteString(" " + strings.Join(n.States, " "))
	}
	return s.String()
}

// OutlineQuery selects what Outline returns.
type OutlineQuery struct {
	Tab     string       `json:"tab,omitempty"`       // empty: the active one
	All     bool         `json:"all,omitempty"`       // also elements outside of the window
	Limit   int          `json:"limit,omitempty"`     // of nodes; 0: 300; at most 5000
	Timeout Milliseconds `json:"timeoutMs,omitempty"` // of the search; 0: 300; at most 10000
}

// Outline lists the elements and texts of a page.
type Outline struct {
	Tab       string `json:"tab"`
	URL       string `json:"url"`
	Title     string `json:"title"`
	Nodes     []Node `json:"nodes"`
	Truncated bool   `json:"truncated"` // the limit, or the time, was too small for the page, or an element could not be read
}

// Text returns the outline as text, one node in each line.
func (o *Outline) Text() string {
	var s strings.Builder
	fmt.Fprintf(&s, "page %q %s\n", o.Title, o.URL)
	for i := range o.Nodes {
		s.WriteString(o.Nodes[i].line() + "\n")
	}
	if o.Truncated {
		s.WriteString("(truncated)\n")
	}
	return s.String()
}

// Outline lists the elements and texts of a page, with references to the elements. It searches
// for OutlineQuery.Timeout, and blocks for up to 10 s if the page does not answer. A page that is
// too large for the limit or the time is no error: see Outline.Truncated. It returns a *NotReadyError
// if the page has crashed.
func (b *Browser) Outline(ctx context.Context, q OutlineQuery) (Outline, error) {
	q.Limit, q.Timeout = cmp.Or(q.Limit, 300), cmp.Or(q.Timeout, 300)
	switch {
	case q.Limit < 0 || q.Limit > 5000:
		return Outline{}, &InvalidError{"Limit", "must be between 1 and 5000"}
	case q.Timeout < 0 || q.Timeout > 10_000:
		return Outline{}, &InvalidError{"Timeout", "must be between 1 and 10000"}
	}
	ctx, cancel := q.Timeout.limit(ctx, "outline", pageLimit)
	defer cancel()
	o, err := b.outline(ctx, q.Tab, outlineQuery{q.All, q.Limit, int(q.Timeout), nil})
	return o, explain(ctx, err)
}

// outlineQuery is an OutlineQuery as page.js takes it.
type outlineQuery struct {
	All          bool        `json:"all"`
	Limit        int         `json:"limit"`
	Milliseconds int         `json:"ms"`
	Find         *nodeFilter `json:"find,omitempty"`
}

// nodeFilter selects nodes by their role and name.
type nodeFilter struct {
	Role string `json:"role"`
	Name string `json:"name"`
}

// nodeSize is how many bytes of an answer a node may take: page.js cuts its role, name and value.
const nodeSize = 500 * escaped

// origin is where a page is on the screen, as page.js guesses it.
type origin struct {
	X, Y, Zoom float64
	Key        string
	Visible    bool
}

func (b *elements) outline(ctx context.Context, tabID string, q outlineQuery) (o Outline, err error) {
	t, session, err := b.tab(ctx, tabID)
	if err != nil {
		return o, err
	}
	frames := b.frames(ctx, t, session)
	b.mu.Lock()
	o.Tab, o.URL, o.Title = t.id, t.info.URL, t.info.Title
	b.mu.Unlock()
	o.Nodes = []Node{}
	var base origin
	for i, f := range frames {
		var v struct {
			Nonce     string
			Nodes     []node
			Truncated bool
			Origin    origin
		}
		rest := q
		rest.Limit -= len(o.Nodes)
		if rest.Limit <= 0 {
			o.Truncated = q.Find == nil
			break
		}
		err := b.runLarge(ctx, f, maxAnswer+rest.Limit*nodeSize, "outline", &v, rest)
		if err == nil && len(v.Nonce) > maxID {
			err = errLongID
		}
		if err != nil {
			if i == 0 {
				return o, err
			}
			o.Truncated = o.Truncated || ctx.Err() != nil && q.Find == nil
			continue // a frame that is loading
		}
		o.Truncated = o.Truncated || (v.Truncated || len(v.Nodes) > rest.Limit) && q.Find == nil
		if i == 0 {
			base = b.calibrated(t, v.Origin)
		} else if q.Find == nil && len(v.Nodes) > 0 {
			o.Nodes = append(o.Nodes, Node{Role: "iframe", Name: f.url, Box: rectOf([4]float64{f.x, f.y, 0, 0}, base), Depth: f.depth - 1})
		}
		b.mu.Lock()
		for _, n := range v.Nodes[:min(len(v.Nodes), rest.Limit)] {
			n.Box[0] += f.x
			n.Box[1] += f.y
			out := Node{
				Role: limited(n.Role), Name: limited(n.Name), Value: limited(n.Value), States: n.States,
				Box: rectOf(n.Box, base), Depth: n.Depth + f.depth,
			}
			if n.N != 0 {
				out.Ref = b.refOf(reference{o.Tab, f, v.Nonce, n.N, out.Role, out.Name})
			}
			o.Nodes = append(o.Nodes, out)
		}
		b.mu.Unlock()
	}
	return o, nil
}

// calibrated returns where a page is on the screen: as it was measured by the pointer, if its
// window has not moved since.
func (b *elements) calibrated(t *tab, guess origin) origin {
	if b.cfg.Headless {
		return origin{Zoom: 1, Key: guess.Key, Visible: guess.Visible}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if t.origin.Key == guess.Key {
		guess.X, guess.Y = t.origin.X, t.origin.Y
	}
	return guess
}

func rectOf(box [4]float64, base origin) desktop.Rect {
	round := func(v float64) int { return int(math.Round(max(-1e6, min(1e6, v)))) }
	return desktop.Rect{
		X: round(base.X + box[0]*base.Zoom), Y: round(base.Y + box[1]*base.Zoom), Width: round(box[2] * base.Zoom), Height: round(box[3] * base.Zoom),
	}
}

// frameTree is a tree of frames, as in the protocol.
type frameTree struct {
	Frame struct {
		ID  string `json:"id"`
		URL string `json:"url"`
	} `json:"frame"`
	ChildFrames []frameTree `json:"childFrames"`
}

// frames returns the page and its frames, with their places, at most maxFrames. It leaves out
// the frames that do not answer.
func (b *elements) frames(ctx context.Context, t *tab, session string) []frame {
	b.mu.Lock()
	id := t.id
	sessions := make(map[string]string, len(t.frames))
	maps.Copy(sessions, t.frames)
	b.mu.Unlock()
	all := []frame{{id: id, session: session, root: id}}
	var visit func(tree frameTree, f frame)
	load := func(f frame) {
		var v struct {
			FrameTree frameTree `json:"frameTree"`
		}
		if b.callPage(ctx, f.session, "Page.getFrameTree", nil, &v) == nil {
			visit(v.FrameTree, f)
		}
	}
	visit = func(tree frameTree, f frame) {
		for _, child := range tree.ChildFrames {
			if len(all) >= maxFrames {
				return
			}
			if len(child.Frame.ID) > maxID {
				continue
			}
			if c, ok := b.place(ctx, f, child.Frame.ID); ok {
				c.url = limited(child.Frame.URL)
				all = append(all, c)
				visit(child, c)
			}
		}
	}
	load(all[0])
	roots := []frame{all[0]}
	for len(roots) > 0 { // which may have frames in other processes
		root := roots[0]
		roots = roots[1:]
		for id, s := range sessions {
			if len(all) >= maxFrames {
				return all
			}
			if c, ok := b.place(ctx, root, id); ok {
				delete(sessions, id)
				c.session, c.rootX, c.rootY, c.root, c.rootOwner = s, c.x, c.y, id, c.owner
				all, roots = append(all, c), append(roots, c)
				load(c)
			}
		}
	}
	return all
}

// place finds where a frame is in its parent's page.
func (b *tabs) place(ctx context.Context, parent frame, id string) (f frame, ok bool) {
	var owner struct {
		BackendNodeID int `json:"backendNodeId"`
	}
	if b.callPage(ctx, parent.session, "DOM.getFrameOwner", map[string]any{"frameId": id}, &owner) != nil {
		return f, false
	}
	var v struct {
		Model struct {
			Content, Border quad
			Width, Height   float64
		} `json:"model"`
	}
	if b.callPage(ctx, parent.session, "DOM.getBoxModel", map[string]any{"backendNodeId": owner.BackendNodeID}, &v) != nil || len(v.Model.Content) < 8 || len(v.Model.Border) < 8 {
		return f, false
	}
	f = parent
	f.id, f.parent, f.depth, f.owner = id, parent.id, parent.depth+1, owner.BackendNodeID
	f.x, f.y = f.rootX+v.Model.Content[0], f.rootY+v.Model.Content[1]
	width, height, straight := v.Model.Border.size()
	f.bent = f.bent || !straight || math.Abs(width-v.Model.Width) > 2 || math.Abs(height-v.Model.Height) > 2
	f.width, f.height, _ = v.Model.Content.size()
	return f, true
}

// quad are the corners of a box, from the upper left clockwise: x, y, x, y, ...
type quad []float64

// size returns the size of a box, and whether it stands straight.
func (q quad) size() (width, height float64, straight bool) {
	near := func(a, b float64) bool { return math.Abs(a-b) < 1 }
	width, height = q[4]-q[0], q[5]-q[1]
	straight = near(q[1], q[3]) && near(q[2], q[4]) && near(q[5], q[7]) && near(q[0], q[6]) && width > 0 && height > 0
	return width, height, straight
}

// Milliseconds is a duration in requests.
type Milliseconds int64

// pageLimit bounds calls to a page that need no wait.
const pageLimit = 10_000

// limit returns a context that ends after m, with at least least milliseconds.
func (m Milliseconds) limit(ctx context.Context, op string, least Milliseconds) (context.Context, context.CancelFunc) {
	d := max(m, least).Duration()
	return context.WithTimeoutCause(ctx, d, &desktop.DeadlineError{Op: op, After: d})
}

// explain returns the cause of the context's end instead of its bare error.
func explain(ctx context.Context, err error) error {
	if err != nil && errors.Is(err, context.DeadlineExceeded) {
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
	}
	return err
}
