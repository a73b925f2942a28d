package recording

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/deskhand/deskhand/desktop"
)

// mostWords bounds what a caption quotes of a text or a title, in characters.
const mostWords = 80

// scene is what is known of the windows while one goes through a timeline in the
// order of time. Windows tell of their place when they open, get the focus or
// another title, so that one that a person has moved since may be elsewhere.
type scene struct {
	stack  []desktop.Window // the latest that opened or got the focus is last
	focus  desktop.WindowID
	guests map[string]int // numbers of the viewers without a name, by their ids
}

// follow takes note of what an entry tells of the windows.
func (s *scene) follow(e Entry) {
	switch e.Type {
	case EntryStarted:
		s.stack = slices.Clone(e.Windows)
		s.focus = 0
		for _, w := range e.Windows {
			if w.Active {
				s.raise(w)
				s.focus = w.ID
			}
		}
	case EntryType(desktop.EventWindowOpened):
		if e.Window != nil {
			s.raise(*e.Window)
		}
	case EntryType(desktop.EventWindowFocused):
		s.focus = 0
		if e.Window != nil {
			s.raise(*e.Window)
			s.focus = e.Window.ID
		}
	case EntryType(desktop.EventWindowRenamed):
		if e.Window != nil {
			s.replace(*e.Window)
		}
	case EntryType(desktop.EventWindowClosed):
		if e.Window != nil {
			s.stack = slices.DeleteFunc(s.stack, func(w desktop.Window) bool { return w.ID == e.Window.ID })
		}
	case EntryType(desktop.EventRestarted):
		if e.Failure != nil && e.Failure.Code == "xserver_exited" {
			*s = scene{guests: s.guests} // its windows died with it, untold
		}
	case EntryType(desktop.EventAction):
		if e.Action != nil && e.Action.Error == "" {
			s.act(*e.Action)
		}
	default: // nothing about windows
	}
}

// act takes note of where an action puts a window.
func (s *scene) act(a desktop.Action) {
	switch {
	case a.Name == desktop.ActionMoveWindow && a.To != nil:
		if w := s.find(a.Window); w != nil {
			shift(w, a.To.X-w.Bounds.X, a.To.Y-w.Bounds.Y)
		}
	case a.Name == desktop.ActionResizeWindow && a.Size != nil:
		if w := s.find(a.Window); w != nil {
			w.Frame.Width += a.Size.Width - w.Bounds.Width
			w.Frame.Height += a.Size.Height - w.Bounds.Height
			w.Bounds.Width, w.Bounds.Height = a.Size.Width, a.Size.Height
		}
	case a.Name == desktop.ActionDrag && a.At != nil && a.To != nil:
		if w := s.under(*a.At); w != nil && a.At.Y < w.Bounds.Y { // its title bar
			shift(w, a.To.X-a.At.X, a.To.Y-a.At.Y)
		}
	}
}

func shift(w *desktop.Window, dx, dy int) {
	for _, r := range []*desktop.Rect{&w.Bounds, &w.Frame} {
		r.X += dx
		r.Y += dy
	}
}

func (s *scene) raise(w desktop.Window) {
	s.stack = append(slices.DeleteFunc(s.stack, func(o desktop.Window) bool { return o.ID == w.ID }), w)
}

func (s *scene) replace(w desktop.Window) {
	if old := s.find(w.ID); old != nil {
		*old = w
	}
}

func (s *scene) find(id desktop.WindowID) *desktop.Window {
	i := slices.IndexFunc(s.stack, func(w desktop.Window) bool { return w.ID == id })
	if i < 0 {
		return nil
	}
	return &s.stack[i]
}

// under is the uppermost window at a place, or nil.
func (s *scene) under(p desktop.Point) *desktop.Window {
	for i := len(s.stack) - 1; i >= 0; i-- {
		w := &s.stack[i]
		r := w.Frame
		if !w.Minimised && p.X >= r.X && p.X < r.X+r.Width && p.Y >= r.Y && p.Y < r.Y+r.Height {
			return w
		}
	}
	return nil
}

// windowName names a window's program: "xterm".
func windowName(w *desktop.Window) string {
	switch {
	case w == nil:
		return ""
	case w.Class != "":
		return plain(strings.ToLower(w.Class))
	case w.Title != "":
		return plain(w.Title)
	}
	return fmt.Sprintf("window %d", w.ID)
}

// in says in which window something happened, if that is known.
func in(w *desktop.Window) string {
	if name := windowName(w); name != "" {
		return " in " + name
	}
	return ""
}

// words tells an entry in a line of text; "" when it is nothing that a person
// who watches needs to be told.
func (s *scene) words(e Entry) string {
	switch e.Type {
	case EntryType(desktop.EventAction):
		if e.Action == nil {
			return ""
		}
		return s.told(*e.Action)
	case EntryMarker:
		if e.Marker == nil {
			return ""
		}
		return plain(e.Marker.Title)
	case EntryType(desktop.EventControl):
		if e.Control == nil || e.Control.Holder == nil {
			return "Nobody has control"
		}
		return s.name(*e.Control.Holder) + " has control"
	case EntryType(desktop.EventFailed):
		if e.Failure == nil {
			return ""
		}
		return "Failure: " + plain(e.Failure.Message)
	default: // of callers' own types; others have no title
		return plain(e.Title)
	}
}

// told names an action and its actor.
func (s *scene) told(a desktop.Action) string {
	text := s.by(a.Actor, s.actionWords(a))
	if a.Name == desktop.ActionType && a.Actor.Kind == desktop.ActorViewer {
		text = fmt.Sprintf("%s typed %s%s", s.name(a.Actor), characters(a.Length), in(s.find(s.focus)))
	}
	if text != "" && a.Error != "" {
		text += " (failed)"
	}
	return text
}

// by puts the actor in front, unless it is one without a name.
func (s *scene) by(a desktop.Actor, text string) string {
	if text == "" || a.Name == "" && a.ID == "" && (a.Kind == desktop.ActorAPI || a.Kind == "") {
		return text
	}
	return s.name(a) + ": " + text
}

// name names an actor. A viewer is known by its own name or, without one, by a
// number in the order in which captions tell of viewers.
func (s *scene) name(a desktop.Actor) string {
	switch {
	case a.Kind != desktop.ActorViewer:
		return plain(a.String())
	case a.Name != "":
		return plain(a.Name)
	}
	n, known := s.guests[a.ID]
	if !known {
		if s.guests == nil {
			s.guests = map[string]int{}
		}
		n = len(s.guests) + 1
		s.guests[a.ID] = n
	}
	return fmt.Sprintf("Viewer %d", n)
}

func characters(n int) string {
	if n == 1 {
		return "1 character"
	}
	return fmt.Sprintf("%d characters", n)
}

// actionWords names an action. Moves are left out, since the pointer is seen
// moving, and so is what only ends another action.
func (s *scene) actionWords(a desktop.Action) string {
	switch a.Name {
	case desktop.ActionClick, desktop.ActionButtonDown, desktop.ActionButtonUp, desktop.ActionDrag, desktop.ActionScroll:
		return s.pointerWords(a)
	case desktop.ActionType:
		return typed(a, in(s.find(s.focus)))
	case desktop.ActionPress, desktop.ActionKeyDown:
		return "Press " + plain(a.Keys) + in(s.find(s.focus))
	case desktop.ActionLaunch:
		return "Launch " + plain(a.App)
	case desktop.ActionSetClipboard:
		return "Set the clipboard"
	case desktop.ActionResize:
		if a.Size != nil {
			return fmt.Sprintf("Resize the desktop to %d x %d", a.Size.Width, a.Size.Height)
		}
	case desktop.ActionMove, desktop.ActionKeyUp, desktop.ActionReleaseAll:
		return ""
	default: // an action on a window
	}
	if what, ok := strings.CutSuffix(string(a.Name), "_window"); ok {
		return s.windowWords(what, a)
	}
	return sentence(plain(strings.ReplaceAll(string(a.Name), "_", " ")))
}

// sentence begins a text with a capital letter.
func sentence(text string) string {
	r, n := utf8.DecodeRuneInString(text)
	if n == 0 {
		return ""
	}
	return string(unicode.ToUpper(r)) + text[n:]
}

func (s *scene) pointerWords(a desktop.Action) string {
	var where string
	if a.At != nil {
		where = fmt.Sprintf(" at %d, %d", a.At.X, a.At.Y) + in(s.under(*a.At))
	}
	switch a.Name {
	case desktop.ActionClick:
		return clicks(a) + where
	case desktop.ActionButtonDown:
		return "Hold the " + string(a.Button) + " button" + where
	case desktop.ActionButtonUp:
		return "Release the " + string(a.Button) + " button" + where
	case desktop.ActionScroll:
		return "Scroll" + direction(a.Delta) + where
	default: // a drag
	}
	if a.At == nil || a.To == nil {
		return "Drag"
	}
	return fmt.Sprintf("Drag from %d, %d to %d, %d", a.At.X, a.At.Y, a.To.X, a.To.Y) + in(s.under(*a.At))
}

// clicks names a click by its button and count.
func clicks(a desktop.Action) string {
	what := "click"
	if a.Button != "" && a.Button != desktop.ButtonLeft {
		what = string(a.Button) + "-click"
	}
	switch {
	case a.Count == 2:
		what = "double-" + what
	case a.Count == 3:
		what = "triple-" + what
	case a.Count > 3:
		return fmt.Sprintf("%s %d times", sentence(what), a.Count)
	}
	return sentence(what)
}

func direction(d *desktop.Point) string {
	if d == nil {
		return ""
	}
	var parts []string
	for _, axis := range []struct {
		n          int
		minus, pos string
	}{{d.Y, "up", "down"}, {d.X, "left", "right"}} {
		switch {
		case axis.n < 0:
			parts = append(parts, fmt.Sprintf("%s %d", axis.minus, -axis.n))
		case axis.n > 0:
			parts = append(parts, fmt.Sprintf("%s %d", axis.pos, axis.n))
		}
	}
	return " " + strings.Join(parts, ", ")
}

// typed quotes what was typed. Of a secret only the length is known.
func typed(a desktop.Action, where string) string {
	switch {
	case a.Text != "":
		return "Type" + where + ": " + plain(a.Text)
	case a.Length == 1:
		return "Type 1 hidden character" + where
	}
	return fmt.Sprintf("Type %d hidden characters%s", a.Length, where)
}

func (s *scene) windowWords(what string, a desktop.Action) string {
	name := windowName(s.find(a.Window))
	if name == "" {
		name = fmt.Sprintf("window %d", a.Window)
	}
	text := sentence(plain(what)) + " " + name
	switch {
	case a.To != nil:
		text += fmt.Sprintf(" to %d, %d", a.To.X, a.To.Y)
	case a.Size != nil:
		text += fmt.Sprintf(" to %d x %d", a.Size.Width, a.Size.Height)
	}
	return text
}

// plain makes any text a short piece of one line: line ends show as ⏎, as far as
// anything follows, and other characters that are not seen become blanks.
func plain(text string) string {
	text = strings.TrimRight(strings.ToValidUTF8(text, "\uFFFD"), "\r\n")
	var b strings.Builder
	n := 0
	for _, r := range strings.ReplaceAll(text, "\r\n", "\n") {
		if n++; n > mostWords {
			return b.String() + "…"
		}
		switch {
		case r == '\n' || r == '\r':
			b.WriteRune('⏎')
		case !unicode.IsGraphic(r) || unicode.IsSpace(r):
			b.WriteByte(' ')
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
