package accessibility

import (
	"context"

	"github.com/deskhand/deskhand/desktop"
)

// selects selects the element, or its option with the name that was given.
func (u *use) selects(ctx context.Context) error {
	if u.value != "" {
		return u.option(ctx)
	}
	selected := func() bool { return u.node.states.has(stateSelected) || u.node.states.has(stateChecked) }
	if selected() {
		u.done.Via = ViaNothing
		return nil
	}
	if u.selectIn(ctx) && u.until(ctx, selected) {
		u.done.Via = ViaAction
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return u.click(ctx, desktop.ButtonLeft)
}

// selectIn asks the parent of the element to select it.
func (u *use) selectIn(ctx context.Context) bool {
	asked, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	var parent address
	var index int32
	up := propertyOf(u.ref.at, ifaceAccessible, "Parent", &parent)
	own := &request{to: u.ref.at, method: ifaceAccessible + ".GetIndexInParent", into: &index}
	if u.bus.all(asked, []*request{up, own}) != nil || up.err != nil || own.err != nil || parent.null() || parent.Name != u.ref.at.Name {
		return false
	}
	var ok bool
	err := u.perform(ctx, func(ctx context.Context) error {
		asked, cancel := context.WithTimeout(ctx, doLimit)
		defer cancel()
		return u.bus.do(asked, parent, ifaceSelection+".SelectChild", &ok, index)
	})
	return err == nil && ok
}

// option selects the first element with a name below the element, such as an entry of a combo
// box, which need not be open.
func (u *use) option(ctx context.Context) error {
	asked, cancel := context.WithTimeout(ctx, askLimit)
	root := &node{at: u.ref.at}
	w := &walker{bus: u.bus, all: true, depth: 4, limit: mostChildren}
	defer w.release()
	w.walk(asked, root)
	cancel()
	var found *node
	for _, n := range w.kept {
		if n != root && n.name == u.value && found == nil {
			found = n
		}
	}
	if found == nil {
		return u.refused("it has no option with this name")
	}
	combo := u.ref
	u.ref.at, u.ref.parent, u.ref.index, u.node = found.at, u.ref.at, found.index, found
	if u.selectIn(ctx) {
		u.done.Via = ViaAction
		return nil
	}
	u.value = ""
	err := u.click(ctx, desktop.ButtonLeft)
	u.ref = combo
	return err
}
