package desktops

import (
	"context"
	"fmt"
	"strings"

	"github.com/deskhand/deskhand/agents/computer"
	"github.com/deskhand/deskhand/desktop/accessibility"
	"github.com/deskhand/deskhand/desktop/batch"
)

// batchElements is the elements of a desktop for lists of actions and for tools. The first use
// connects to the accessibility bus.
type batchElements struct {
	area *Area
	id   string // of the desktop
}

// Act does something with an element.
func (b batchElements) Act(ctx context.Context, e batch.Element) (via string, err error) {
	tree, err := elementsOf(ctx, b.area, b.id)
	if err != nil {
		return "", err
	}
	done, err := tree.Do(ctx, accessibility.Action{Ref: e.Ref, Do: accessibility.Verb(e.Do), Value: e.Value})
	return done.Via, err
}

// Find returns the reference of the first element with a role and a name, or "".
func (b batchElements) Find(ctx context.Context, role, name string) (string, error) {
	tree, err := elementsOf(ctx, b.area, b.id)
	if err != nil {
		return "", err
	}
	s, err := tree.Snapshot(ctx, accessibility.Query{Match: accessibility.Match{Role: role, Name: name}, Limit: 1})
	if err != nil || len(s.Elements) == 0 {
		return "", err
	}
	return s.Elements[0].Ref, nil
}

// List returns an outline for models, with what it lacks.
func (b batchElements) List(ctx context.Context, q computer.ElementQuery) (string, error) {
	tree, err := elementsOf(ctx, b.area, b.id)
	if err != nil {
		return "", err
	}
	s, err := tree.Snapshot(ctx, accessibility.Query{
		Match: accessibility.Match{Role: q.Role, Name: q.Name}, Limit: q.Limit, Picture: q.Picture,
	})
	if err != nil {
		return "", err
	}
	var text strings.Builder
	text.WriteString(s.Outline())
	if s.Truncated {
		text.WriteString("More elements exist: name a role or a name, or a larger limit.\n")
	}
	for _, k := range s.Skipped {
		text.WriteString(fmt.Sprintf("The elements of %s are missing, wholly or in part: %s.\n", k.App, k.Reason))
	}
	return text.String(), nil
}

// Outline returns an outline of what is on the screen.
func (b batchElements) Outline(ctx context.Context, o batch.Outlines) (batch.Outline, error) {
	tree, err := elementsOf(ctx, b.area, b.id)
	if err != nil {
		return batch.Outline{}, err
	}
	s, err := tree.Snapshot(ctx, accessibility.Query{Window: o.Window, Limit: o.Limit, Picture: o.Picture})
	return batch.Outline{Text: s.Outline(), Truncated: s.Truncated}, err
}
