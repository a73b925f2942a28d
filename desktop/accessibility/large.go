package accessibility

import (
	"context"
	"image"
)

const ifaceTable = "org.a11y.atspi.Table"

// mostInView is how many children inView returns if it does not know the last one.
const mostInView = 600

// inView returns children of an element that has too many to list, such as a spreadsheet with
// 2^30 cells: those between the child in its top left corner and the child in its bottom right
// corner, or the first ones if the program does not report these corners.
func (w *walker) inView(ctx context.Context, n *node) []address {
	shown := intersect(n.box, w.screen)
	if n.clip != (image.Rectangle{}) {
		shown = shown.Intersect(n.clip)
	}
	if shown.Empty() {
		return w.childrenAt(ctx, n, 0, mostInView)
	}
	const inset = 4 // of borders
	first, ok := w.childNear(ctx, n, shown.Min.Add(image.Pt(inset, inset)))
	last, ok2 := w.childNear(ctx, n, shown.Max.Sub(image.Pt(inset, inset)))
	switch {
	case !ok:
		return w.childrenAt(ctx, n, 0, mostInView)
	case !ok2 || last < first:
		last = first + mostInView - 1
	}
	if cells := w.cells(ctx, n, first, last); len(cells) > 0 {
		return cells
	}
	return w.childrenAt(ctx, n, first, last-first+1)
}

// childNear returns the index of the child at a point of the screen.
func (w *walker) childNear(ctx context.Context, n *node, p image.Point) (index int, ok bool) {
	var at, parent address
	if w.bus.do(ctx, n.at, ifaceComponent+".GetAccessibleAtPoint", &at, int32(p.X), int32(p.Y), uint32(0)) != nil || at.null() {
		return 0, false
	}
	for range mostDepth { // it may be below a child
		var i int32
		up := propertyOf(at, ifaceAccessible, "Parent", &parent)
		own := &request{to: at, method: ifaceAccessible + ".GetIndexInParent", into: &i}
		if w.bus.all(ctx, []*request{up, own}) != nil || up.err != nil || own.err != nil {
			return 0, false
		}
		if parent == n.at {
			return int(i), i >= 0 && int(i) < n.count
		}
		if at = parent; at.null() {
			return 0, false
		}
	}
	return 0, false
}

// cells returns the cells of a table in the rectangle between two of them, or nil if the
// element is no table.
func (w *walker) cells(ctx context.Context, n *node, first, last int) []address {
	var rows, columns [2]int32
	var requests []*request
	for i, index := range []int{first, last} {
		requests = append(requests,
			&request{to: n.at, method: ifaceTable + ".GetRowAtIndex", args: []any{int32(index)}, into: &rows[i]},
			&request{to: n.at, method: ifaceTable + ".GetColumnAtIndex", args: []any{int32(index)}, into: &columns[i]})
	}
	if w.bus.all(ctx, requests) != nil {
		return nil
	}
	for _, r := range requests {
		if r.err != nil {
			return nil
		}
	}
	var list []address
	requests = requests[:0]
	wide := min(max(int(columns[1])-int(columns[0])+1, 0), mostChildren)
	high := min(max(int(rows[1])-int(rows[0])+1, 0), mostChildren)
	count := min(wide*high, mostChildren)
	list = make([]address, count)
	for i := range list {
		row, column := rows[0]+int32(i/wide), columns[0]+int32(i%wide)
		requests = append(requests, &request{to: n.at, method: ifaceTable + ".GetAccessibleAt", args: []any{row, column}, into: &list[i]})
	}
	_ = w.bus.all(ctx, requests)
	return list
}

// childrenAt returns children by their index.
func (w *walker) childrenAt(ctx context.Context, n *node, first, count int) []address {
	list := make([]address, max(min(count, n.count-first, mostChildren), 0))
	requests := make([]*request, len(list))
	for i := range list {
		requests[i] = &request{to: n.at, method: ifaceAccessible + ".GetChildAtIndex", args: []any{int32(first + i)}, into: &list[i]}
	}
	_ = w.bus.all(ctx, requests)
	return list
}
