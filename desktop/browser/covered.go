package browser

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// hidden says why a place in a frame does not get a click: because something outside of the frame
// covers it, or because it is outside of what the page shows. It returns "" if the frame gets the
// click.
func (b *elements) hidden(ctx context.Context, page string, frames []frame, f frame, at aimed) (why string, err error) {
	x, y := f.x+at.X, f.y+at.Y
	top, why, err := b.hitTest(ctx, f, x-f.rootX, y-f.rootY)
	if err != nil || why != "" {
		return why, err
	}
	if !within(frames, top.FrameID, f.id) {
		return b.coveredBy(ctx, f, top)
	}
	for f.session != page {
		// The frame's process knows nothing about what is over it in the page that it is in.
		outer := frameOf(frames, frameOf(frames, f.root).parent)
		top, why, err = b.hitTest(ctx, outer, x-outer.rootX, y-outer.rootY)
		if err != nil || why != "" {
			return why, err
		}
		if top.BackendNodeID != f.rootOwner {
			return b.coveredBy(ctx, outer, top)
		}
		f = outer
	}
	return "", nil
}

// frameOf returns the frame of an id, or the page.
func frameOf(frames []frame, id string) frame {
	if i := slices.IndexFunc(frames, func(f frame) bool { return f.id == id }); i >= 0 {
		return frames[i]
	}
	return frames[0]
}

// within reports whether a frame is another one, or a frame of it.
func within(frames []frame, id, ancestor string) bool {
	for range frames {
		if id == ancestor {
			return true
		}
		for _, f := range frames {
			if f.id == id {
				id = f.parent
				break
			}
		}
	}
	return false
}

// hit is the element at a place.
type hit struct {
	BackendNodeID int    `json:"backendNodeId"`
	FrameID       string `json:"frameId"`
}

// hitTest returns the element at a place of the viewport of a frame's session, in whichever of the
// session's frames that is.
func (b *elements) hitTest(ctx context.Context, f frame, x, y float64) (top hit, why string, err error) {
	root := f
	root.id = f.root
	contextID, err := b.world(ctx, root)
	if err != nil {
		return top, "", err
	}
	var scrolled struct{ X, Y float64 }
	if err := b.evaluateIn(ctx, f.session, contextID, "({x: scrollX, y: scrollY})", &scrolled); err != nil {
		return top, "", err
	}
	err = b.call(ctx, f.session, "DOM.getNodeForLocation", map[string]any{"x": int(x + scrolled.X), "y": int(y + scrolled.Y)}, &top)
	if _, none := errors.AsType[*Fault](err); none {
		return top, "outside", nil
	}
	return top, "", err
}

// coveredBy names an element that covers another one.
func (b *elements) coveredBy(ctx context.Context, f frame, top hit) (why string, err error) {
	f.id = top.FrameID
	name := "an element of the page"
	contextID, err := b.world(ctx, f)
	var node struct{ Object remoteObject }
	if err == nil {
		err = b.call(ctx, f.session, "DOM.resolveNode", map[string]any{"backendNodeId": top.BackendNodeID, "executionContextId": contextID}, &node)
	}
	var v struct{ Result struct{ Value string } }
	if err == nil {
		err = b.call(ctx, f.session, "Runtime.callFunctionOn", map[string]any{
			"objectId": node.Object.ObjectID, "returnByValue": true,
			"functionDeclaration": fmt.Sprintf("function() { return %slabel(this) }", scriptPrefix),
		}, &v)
	}
	if ctx.Err() != nil {
		return "", err
	}
	if v.Result.Value != "" {
		name = limited(v.Result.Value)
	}
	return "covered by " + name, nil
}
