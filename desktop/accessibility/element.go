package accessibility

import (
	"fmt"
	"strings"

	"github.com/deskhand/deskhand/desktop"
)

// Element is an element of a program, such as a button.
type Element struct {
	Ref      string           `json:"ref"` // "@e12"
	Role     string           `json:"role"`
	Name     string           `json:"name,omitempty"`
	Value    string           `json:"value,omitempty"`   // of sliders and progress bars: a number
	States   []string         `json:"states,omitempty"`  // AT-SPI's names: "focused", "checked"
	Box      *desktop.Rect    `json:"box,omitempty"`     // on the screen; nil: unknown, or not shown
	Window   desktop.WindowID `json:"window,omitempty"`  // zero: unknown
	Actions  []string         `json:"actions,omitempty"` // the names of its actions, if they were asked for
	Text     string           `json:"text,omitempty"`    // at most 1000 characters; never a password
	Parent   string           `json:"parent,omitempty"`
	Children []string         `json:"children,omitempty"`

	depth  int // below its window
	states states
	at     address
}

// mostLineText is how many characters of a text a line of an outline has.
const mostLineText = 80

// line describes an element in one line: @e12 button "Save" [812,40 64x28] focused.
func (e *Element) line() string {
	var b strings.Builder
	b.WriteString(e.Ref + " " + e.Role)
	if e.Name != "" {
		fmt.Fprintf(&b, " %q", e.Name)
	}
	if e.Value != "" {
		b.WriteString(" = " + e.Value)
	}
	if e.Text != "" && e.Text != e.Name {
		fmt.Fprintf(&b, " text %q", shorten(e.Text, mostLineText))
	}
	if e.Box != nil {
		fmt.Fprintf(&b, " [%d,%d %dx%d]", e.Box.X, e.Box.Y, e.Box.Width, e.Box.Height)
	}
	for _, name := range (e.states & outlined).names() {
		b.WriteString(" " + name)
	}
	if !e.states.enabled() && e.states != 0 {
		b.WriteString(" disabled")
	}
	return b.String()
}

// shorten returns at most most characters of s.
func shorten(s string, most int) string {
	for i := range s {
		if most == 0 {
			return s[:i] + "…"
		}
		most--
	}
	return s
}
