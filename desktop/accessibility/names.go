package accessibility

import "slices"

// roleNames are the names of AT-SPI's roles, by number (AtspiRole in atspi-constants.h).
var roleNames = []string{
	"invalid", "accelerator label", "alert", "animation", "arrow", "calendar", "canvas", "check box", "check menu item", "color chooser",
	"column header", "combo box", "date editor", "desktop icon", "desktop frame", "dial", "dialog", "directory pane", "drawing area", "file chooser",
	"filler", "focus traversable", "font chooser", "frame", "glass pane", "html container", "icon", "image", "internal frame", "label",
	"layered pane", "list", "list item", "menu", "menu bar", "menu item", "option pane", "page tab", "page tab list", "panel",
	"password text", "popup menu", "progress bar", "button", "radio button", "radio menu item", "root pane", "row header", "scroll bar", "scroll pane",
	"separator", "slider", "spin button", "split pane", "status bar", "table", "table cell", "table column header", "table row header", "tearoff menu item",
	"terminal", "text", "toggle button", "tool bar", "tool tip", "tree", "tree table", "unknown", "viewport", "window",
	"extended", "header", "footer", "paragraph", "ruler", "application", "autocomplete", "editbar", "embedded", "entry",
	"chart", "caption", "document frame", "heading", "page", "section", "redundant object", "form", "link", "input method window",
	"table row", "tree item", "document spreadsheet", "document presentation", "document text", "document web", "document email", "comment", "list box", "grouping",
	"image map", "notification", "info bar", "level bar", "title bar", "block quote", "audio", "video", "definition", "article",
	"landmark", "log", "marquee", "math", "rating", "timer", "static", "math fraction", "math root", "subscript",
	"superscript", "description list", "description term", "description value", "footnote", "content deletion", "content insertion", "mark", "suggestion", "push button menu",
}

// The roles that this package treats specially.
const (
	roleCheckBox      role = 7
	roleComboBox      role = 11
	roleDialog        role = 16
	roleFiller        role = 20
	roleFrame         role = 23
	roleInternalFrame role = 28
	roleLabel         role = 29
	roleList          role = 31
	roleMenu          role = 33
	roleMenuItem      role = 35
	rolePanel         role = 39
	rolePassword      role = 40
	rolePopupMenu     role = 41
	roleProgressBar   role = 42
	roleButton        role = 43
	roleRootPane      role = 46
	roleScrollBar     role = 48
	roleScrollPane    role = 49
	roleSeparator     role = 50
	roleSlider        role = 51
	roleSpinButton    role = 52
	roleSplitPane     role = 53
	roleTable         role = 55
	roleTerminal      role = 60
	roleTree          role = 65
	roleTreeTable     role = 66
	roleText          role = 61
	roleToolTip       role = 64
	roleUnknown       role = 67
	roleViewport      role = 68
	roleWindow        role = 69
	roleParagraph     role = 73
	roleApplication   role = 75
	roleAutocomplete  role = 76
	roleEntry         role = 79
	roleSection       role = 85
	roleRedundant     role = 86
	roleDocumentWeb   role = 95
	roleListBox       role = 98
	roleGrouping      role = 99
	roleLevelBar      role = 103
	roleStatic        role = 116
)

type role uint32

// String returns the name of a role. Roles that are newer than this package are "unknown".
func (r role) String() string {
	if int(r) < len(roleNames) {
		return roleNames[r]
	}
	return roleNames[roleUnknown]
}

// roleAliases maps other names of roles to the names in this package.
var roleAliases = map[string]string{"push button": "button", "textbox": "entry", "checkbox": "check box", "tab": "page tab"}

// in reports whether a role is in a list.
func (r role) in(list ...role) bool { return slices.Contains(list, r) }

// container reports whether elements of a role only arrange others.
func (r role) container() bool {
	return r.in(rolePanel, roleFiller, roleInternalFrame, roleRootPane, roleScrollPane, roleSplitPane, roleUnknown, roleViewport,
		roleSection, roleRedundant, roleGrouping)
}

// ranged reports whether elements of a role have a numeric value that a user sees.
func (r role) ranged() bool {
	return r.in(roleProgressBar, roleSlider, roleSpinButton, roleLevelBar)
}

// textual reports whether elements of a role have text that differs from their name.
func (r role) textual() bool {
	return r.in(roleTerminal, roleText, roleParagraph, roleAutocomplete, roleEntry, roleSpinButton, roleComboBox)
}

// field reports whether people type into elements of a role, or read long texts in them.
func (r role) field() bool {
	return r.in(roleTerminal, roleText, roleAutocomplete, roleEntry, roleSpinButton)
}

// stateNames are the names of AT-SPI's states, by bit (AtspiStateType in atspi-constants.h).
var stateNames = []string{
	"invalid", "active", "armed", "busy", "checked", "collapsed", "defunct", "editable", "enabled", "expandable",
	"expanded", "focusable", "focused", "has-tooltip", "horizontal", "iconified", "modal", "multi-line", "multiselectable", "opaque",
	"pressed", "resizable", "selectable", "selected", "sensitive", "showing", "single-line", "stale", "transient", "vertical",
	"visible", "manages-descendants", "indeterminate", "required", "truncated", "animated", "invalid-entry", "supports-autocompletion", "selectable-text", "is-default",
	"visited", "checkable", "has-popup", "read-only",
}

// The states that this package treats specially.
const (
	stateActive     state = 1
	stateBusy       state = 3
	stateChecked    state = 4
	stateCollapsed  state = 5
	stateDefunct    state = 6
	stateEditable   state = 7
	stateEnabled    state = 8
	stateExpandable state = 9
	stateExpanded   state = 10
	stateFocusable  state = 11
	stateFocused    state = 12
	stateModal      state = 16
	stateMultiLine  state = 17
	statePressed    state = 20
	stateSelected   state = 23
	stateSensitive  state = 24
	stateShowing    state = 25
)

// outlined are the states that an outline shows.
const outlined states = 1<<stateActive | 1<<stateBusy | 1<<stateChecked | 1<<stateCollapsed | 1<<stateExpanded | 1<<stateFocused |
	1<<stateModal | 1<<statePressed | 1<<stateSelected | 1<<32 | 1<<33 | 1<<36 // indeterminate, required, invalid entry

type state uint

// states is a set of states.
type states uint64

func (s states) has(st state) bool { return s>>st&1 == 1 }

// enabled reports whether an element can be used. Toolkits set one of two states, or both.
func (s states) enabled() bool { return s.has(stateEnabled) || s.has(stateSensitive) }

// names returns the names of states in the order of their bits.
func (s states) names() []string {
	list := make([]string, 0, 8)
	for i, name := range stateNames {
		if s.has(state(i)) {
			list = append(list, name)
		}
	}
	return list
}

// stateNamed returns the state with a name.
func stateNamed(name string) (state, bool) {
	i := slices.Index(stateNames, name)
	return state(max(i, 0)), i >= 0
}
