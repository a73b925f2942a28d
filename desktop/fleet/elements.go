package fleet

import (
	"context"
	"errors"
	"slices"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/accessibility"
)

// elementSlot holds the elements of a desktop.
type elementSlot struct {
	slot // guards the fields below; taken while the connection is made

	desk Desktop // that the elements are on
	tree *accessibility.Tree
}

// ErrNoElements is wrapped by an *Error if the kind of a desktop has no elements.
var ErrNoElements = errors.New("this kind of desktop has no elements")

// Elements returns the elements of the programs on the running desktop. The first call connects
// to the accessibility bus of the desktop, which starts the bus. The Tree lives until Stop. It
// returns a *StateError if the desktop does not run, an error that wraps ErrNoElements if it is
// not a *desktop.Desktop, or the error of accessibility.Start or of ctx.
func (in *Instance) Elements(ctx context.Context) (*accessibility.Tree, error) {
	ctx, d, release, err := in.take(ctx, &in.elements.slot)
	if err != nil {
		return nil, err
	}
	defer release()
	return in.elementsOf(ctx, d)
}

// elementsOf returns the elements of d, the latest desktop of the Instance. The caller has the
// slot.
func (in *Instance) elementsOf(ctx context.Context, d Desktop) (*accessibility.Tree, error) {
	desk, ok := d.(*desktop.Desktop)
	if !ok {
		return nil, &Error{in.id, ErrNoElements}
	}
	s := &in.elements
	if s.tree != nil && s.desk == d {
		return s.tree, nil
	}
	if err := s.end(); err != nil {
		return nil, err
	}
	tree, err := accessibility.Start(ctx, accessibility.Config{Desktop: desk, NextRef: in.NextRef, Logger: in.fleet.cfg.Logger})
	if err != nil {
		return nil, err
	}
	s.desk, s.tree = d, tree
	return tree, nil
}

// startWithElements starts a desktop and its accessibility bus.
func (in *Instance) startWithElements(ctx context.Context, cfg desktop.Config) (Desktop, error) {
	cfg.Env = append(slices.Clip(cfg.Env), accessibility.Environ()...)
	cfg.BrowserArgs = append(slices.Clip(cfg.BrowserArgs), accessibility.BrowserArg)
	d, err := in.fleet.cfg.Start(ctx, in.id, cfg)
	if err != nil {
		return nil, err
	}
	in.elements.held <- struct{}{} // no other caller keeps it, as the desktop does not run
	defer func() { <-in.elements.held }()
	if _, err := in.elementsOf(ctx, d); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

func (s *elementSlot) close() error {
	defer s.takeOver()()
	return s.end()
}

// end disconnects. The caller has the slot.
func (s *elementSlot) end() error {
	if s.tree == nil {
		return nil
	}
	tree := s.tree
	s.tree = nil
	return tree.Close()
}
