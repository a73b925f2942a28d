package computer

import (
	"context"
	"fmt"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/batch"
)

// Elements is the elements of the programs on a desktop: buttons, menus, fields.
type Elements interface {
	// List returns an outline of elements, a line for each, and what it lacks.
	List(ctx context.Context, q ElementQuery) (string, error)
	// Act does what an action says, and returns how: "action", "pointer" or "nothing".
	Act(ctx context.Context, a batch.Element) (via string, err error)
}

// ElementQuery selects elements. The zero value selects all that show.
type ElementQuery struct {
	Role, Name string // exact; Name is a regular expression after a tilde
	Limit      int    // zero: 300

	// Picture is the picture in which positions are. Nil: the screen.
	Picture *desktop.Observation
}

// elementTools are offered with Config.Elements.
var elementTools = []tool{
	{
		name: "elements", title: "List elements", reads: true, closed: true,
		own: object{
			"role":  text(`Only this role, such as "button", "entry", "menu item"`),
			"name":  text(`Only this name or, after a tilde, names that a regular expression matches, such as "~^Save"`),
			"limit": object{"type": "integer", "minimum": 1, "maximum": 5000, "description": "300 when left out"},
		},
		description: "Lists the buttons, fields, menus and other elements on the screen, one per line: reference, role, name, " +
			"position [x,y WxH] in the latest screenshot, states. The tool element takes the reference.",
	},
	{
		name: "element", title: "Use an element", required: []string{"ref", "do"}, parameters: []string{"screenshot"},
		own: object{
			"ref": text("Reference from elements, such as @e12"),
			"do": object{"type": "string", "enum": []string{
				"click", "focus", "setText", "setValue", "select", "expand", "collapse", "scrollIntoView", "menu",
			}},
			"value": text("For setText and setValue: the new value. For select: the name of an option"),
		},
		description: "Clicks an element, sets its text or value, selects, expands or collapses it, without coordinates.",
	},
}

// errNoElements is returned for actions with elements if the server has none.
var errNoElements = &inputError{"action: this desktop offers no elements; use coordinates"}

func (s *seat) listElements(ctx context.Context, in *input) (outcome, error) {
	if s.cfg.Elements == nil {
		return outcome{}, errNoElements
	}
	of, err := s.view(ctx)
	if err != nil {
		return outcome{}, err
	}
	q := ElementQuery{Role: in.Role, Name: in.Name, Picture: &of}
	if in.Limit != nil {
		if q.Limit, err = integer("limit", *in.Limit); err != nil || q.Limit < 1 {
			return outcome{}, badf("limit: must be a whole number from 1 to 5000, and is %v", *in.Limit)
		}
	}
	list, err := s.cfg.Elements.List(ctx, q)
	if err == nil && list == "" {
		list = "No element matches. A program may offer none; then use screenshots and coordinates."
	}
	return outcome{text: list}, err
}

func (s *seat) useElement(ctx context.Context, in *input) (outcome, error) {
	switch {
	case s.cfg.Elements == nil:
		return outcome{}, errNoElements
	case in.Ref == "" || in.Do == "":
		return outcome{}, badf("ref: ref and do must be given, such as @e12 and click")
	}
	via, err := s.cfg.Elements.Act(ctx, batch.Element{Ref: in.Ref, Do: in.Do, Value: in.Value})
	if err != nil {
		return outcome{}, err
	}
	how := map[string]string{"action": "by the program's own action", "pointer": "with pointer or keyboard"}[via]
	if how == "" {
		how = "which it was already"
	}
	return outcome{text: fmt.Sprintf("%s: %s, %s.", in.Ref, in.Do, how), acted: true}, nil
}
