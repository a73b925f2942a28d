package accessibility

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/internal/smallregexp"
)

// Defaults and bounds of queries.
const (
	DefaultLimit   = 300
	DefaultTimeout = 300 * time.Millisecond
	MaxLimit       = 5000
	MaxTimeout     = time.Minute
)

// Match selects elements. An element must match all fields that are set, so the zero value
// selects all elements. Name and Text are the whole text or, after a tilde, a regular expression:
// "~^Save".
type Match struct {
	Role   string   // "button"
	Name   string   // "Save", "~^Save"
	Text   string   // of the element
	States []string // all of which it has: "checked", "enabled"
}

// Query selects elements of the programs on a desktop. The zero value selects the elements on
// the screen.
type Query struct {
	Match
	Window desktop.WindowID // zero: all windows
	Root   string           // a reference: this element and those below; empty: all
	All    bool             // also elements that are not on the screen
	Depth  int              // below the windows, or below Root; zero: 100, the largest
	Limit  int              // of the elements in the result; zero: 300

	// Timeout bounds the query, which asks all programs concurrently. At most a minute. Zero:
	// 300 ms.
	Timeout time.Duration

	// Actions adds the names of the elements' actions.
	Actions bool

	// HideFieldText leaves out the text of fields and terminals, of which the screen may show
	// only a part. Match.Text does not match it either.
	HideFieldText bool

	// Picture is the observation in whose picture boxes are. Nil: boxes are on the screen.
	Picture *desktop.Observation
}

// Snapshot is the result of a query.
type Snapshot struct {
	Elements  []Element // each after its parent
	Truncated bool      // the result lacks elements or texts, because of a bound or of time
	Skipped   []Skipped // the programs that are missing
}

// Skipped is a program whose elements are missing, wholly or in part.
type Skipped struct {
	App    string           `json:"app"`
	PID    int              `json:"pid,omitempty"`
	Window desktop.WindowID `json:"window,omitempty"`
	Reason string           `json:"reason"`
}

// The reasons of Skipped.
const (
	ReasonHangs           = "hangs"            // the program did not answer in time
	ReasonNoAccessibility = "no accessibility" // the program is not on the bus, or offers nothing
	ReasonBudget          = "budget"           // Query.Timeout, Query.Limit or a bound of memory was reached before all was read
	ReasonNoState         = "no states"        // GTK 4 reports neither states nor boxes
)

// Outline returns the elements as text, one line for each, below the line of its parent.
func (s Snapshot) Outline() string {
	var b strings.Builder
	for i := range s.Elements {
		e := &s.Elements[i]
		b.WriteString(strings.Repeat("  ", min(e.depth, 20)) + e.line() + "\n")
	}
	return b.String()
}

func (q Query) withDefaults() Query {
	q.Limit = cmp.Or(q.Limit, DefaultLimit)
	q.Timeout = cmp.Or(q.Timeout, DefaultTimeout)
	q.Depth = cmp.Or(q.Depth, mostDepth)
	return q
}

func (q Query) validate() error {
	switch {
	case q.Limit < 1 || q.Limit > MaxLimit:
		return &InvalidError{"Limit", fmt.Sprintf("must be between 1 and %d", MaxLimit)}
	case q.Timeout < 0 || q.Timeout > MaxTimeout:
		return &InvalidError{"Timeout", fmt.Sprintf("must be between 1 ms and %v", MaxTimeout)}
	case q.Depth < 1 || q.Depth > mostDepth:
		return &InvalidError{"Depth", fmt.Sprintf("must be between 1 and %d", mostDepth)}
	}
	return nil
}

// matcher is a Match that was parsed.
type matcher struct {
	role       string
	name, text func(string) bool // nil: any
	states     states
	off        states // that it must not have
}

// mostPattern is the largest length of a name or text to match.
const mostPattern = 1000

// compile parses a Match. It returns nil if the Match selects all.
func (m Match) compile() (*matcher, error) {
	if m.Role == "" && m.Name == "" && m.Text == "" && len(m.States) == 0 {
		return nil, nil
	}
	c := &matcher{role: cmp.Or(roleAliases[m.Role], m.Role)}
	if c.role != "" && !slices.Contains(roleNames, c.role) {
		return nil, &InvalidError{"Role", fmt.Sprintf("%.40q is not a role of AT-SPI, such as button, entry or menu item", m.Role)}
	}
	var err error
	if c.name, err = pattern("Name", m.Name); err != nil {
		return nil, err
	}
	if c.text, err = pattern("Text", m.Text); err != nil {
		return nil, err
	}
	for _, name := range m.States {
		st, ok := stateNamed(name)
		switch {
		case ok:
			c.states |= 1 << st
		case name == "disabled":
			c.off |= 1<<stateEnabled | 1<<stateSensitive
		default:
			return nil, &InvalidError{"States", fmt.Sprintf("%.40q is not a state of AT-SPI, such as focused, checked or enabled", name)}
		}
	}
	return c, nil
}

// pattern returns a function that matches a text.
func pattern(field, p string) (func(string) bool, error) {
	expr, isExpr := strings.CutPrefix(p, "~")
	switch {
	case p == "":
		return nil, nil
	case len(p) > mostPattern:
		return nil, &InvalidError{field, fmt.Sprintf("must have at most %d bytes", mostPattern)}
	case !isExpr:
		return func(s string) bool { return s == p }, nil
	}
	re, err := smallregexp.Compile(expr)
	if err != nil {
		return nil, &InvalidError{field, "is not a regular expression: " + err.Error()}
	}
	return re.MatchString, nil
}

// matches reports whether an element matches. It does not consider the text if that has not
// been read.
func (c *matcher) matches(n *node, withText bool) bool {
	if c == nil {
		return true
	}
	st := n.states
	if st.enabled() {
		st |= 1<<stateEnabled | 1<<stateSensitive // toolkits set one, or both
	}
	return (c.role == "" || c.role == n.role.String()) && st&c.states == c.states && st&c.off == 0 &&
		(c.name == nil || c.name(n.name)) && (c.text == nil || !withText || c.text(cmp.Or(n.text, n.name)))
}
