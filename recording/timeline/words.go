package timeline

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/deskhand/deskhand/desktop"
)

// maxQuote bounds what a caption quotes of a text or a title, in characters.
const maxQuote = 80

// scene is the known state of the windows at a position of a timeline. Entries have the
// place of a window when the window opens, gets the focus or changes its title, so a window
// that a person has moved since may be elsewhere.
type scene struct {
	stack  []desktop.Window // the window that opened or got the focus last is last
	focus  desktop.WindowID
	guests map[string]int // numbers of the viewers without a name, by id
}

func (s *scene) apply(e Entry) {
	switch e.Type {
	case TypeStarted:
		s.stack = slices.Clone(e.Windows)
		s.focus = 0
		for _, w := range e.Windows {
			if w.Active {
				s.raise(w)
				s.focus = w.ID
			}
		}
	case desktop.EventWindowOpened:
		if e.Window != nil {
			s.raise(*e.Window)
		}
	case desktop.EventWindowFocused:
		s.focus = 0
		if e.Window != nil {
			s.raise(*e.Window)
			s.focus = e.Window.ID
		}
	case desktop.EventWindowRenamed:
		if e.Window == nil {
			return
		}
		if old := s.find(e.Window.ID); old != nil {
			*old = *e.Window
		}
	case desktop.EventWindowClosed:
		if e.Window != nil {
			s.remove(e.Window.ID)
		}
	case desktop.EventRestarted:
		if e.Failure != nil && e.Failure.Code == "xserver_exited" {
			*s = scene{guests: s.guests} // the windows are gone, without entries
		}
	case desktop.EventAction:
		if e.Action != nil && e.Action.Error == "" {
			s.applyAction(*e.Action)
		}
	default: // not about windows
	}
}

// applyAction updates the place of a window.
func (s *scene) applyAction(a desktop.Action) {
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
	s.remove(w.ID)
	s.stack = append(s.stack, w)
}

func (s *scene) remove(id desktop.WindowID) {
	s.stack = slices.DeleteFunc(s.stack, func(w desktop.Window) bool { return w.ID == id })
}

func (s *scene) find(id desktop.WindowID) *desktop.Window {
	i := slices.IndexFunc(s.stack, func(w desktop.Window) bool { return w.ID == id })
	if i < 0 {
		return nil
	}
	return &s.stack[i]
}

// under returns the uppermost window at a place, or nil.
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

// windowName names the program of a window, such as "xterm".
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

// in returns " in xterm", or nothing if the window is not known.
func in(w *desktop.Window) string {
	if w == nil {
		return ""
	}
	return " in " + windowName(w)
}

func (s *scene) inFocus() string { return in(s.find(s.focus)) }

// describe puts an entry into a line of text. It returns "" for an entry that has no
// caption.
func (s *scene) describe(e Entry) string {
	switch e.Type {
	case desktop.EventAction:
		if e.Action != nil {
			return s.describeAction(*e.Action)
		}
	case TypeMarker:
		if e.Marker != nil {
			return plain(e.Marker.Title)
		}
	case desktop.EventControl:
		if e.Control == nil || e.Control.Holder == nil {
			return "No one is in control"
		}
		return s.actor(*e.Control.Holder) + " is in control"
	case desktop.EventBrowser:
		if e.Browser != nil {
			return describeBrowser(*e.Browser)
		}
	case desktop.EventFailed:
		if e.Failure != nil {
			return "Failure: " + plain(e.Failure.Message)
		}
	default: // an Event; other entries have no title
		return plain(e.Title)
	}
	return ""
}

// describeBrowser names what happened in a browser. It returns "" for its start and end, which
// are visible.
func describeBrowser(e desktop.BrowserEvent) string {
	switch e.Kind {
	case desktop.BrowserNavigated:
		return "Page: " + plain(cmp.Or(e.Title, e.URL))
	case desktop.BrowserDialog:
		return "Dialog " + plain(e.State) + ": " + plain(e.Message)
	case desktop.BrowserDownload:
		return "Download " + plain(e.State) + ": " + plain(path.Base(cmp.Or(e.Path, e.URL)))
	case desktop.BrowserStarted, desktop.BrowserEnded:
	}
	return ""
}

// describeAction names an action and its actor.
func (s *scene) describeAction(a desktop.Action) string {
	text := s.by(a.Actor, s.action(a))
	if a.Name == desktop.ActionType && a.Actor.Kind == desktop.ActorViewer && a.Secret == "" {
		text = s.actor(a.Actor) + " typed " + characters(a.Length, "") + s.inFocus()
	}
	if text != "" && a.Error != "" {
		text += " (failed)"
	}
	return text
}

// by puts the actor in front of a text, except an API caller without a name.
func (s *scene) by(a desktop.Actor, text string) string {
	if text == "" || a.Name == "" && a.ID == "" && (a.Kind == desktop.ActorAPI || a.Kind == "") {
		return text
	}
	return s.actor(a) + ": " + text
}

// actor names an actor. A viewer without a name has a number, in the order in which
// captions name viewers.
func (s *scene) actor(a desktop.Actor) string {
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

// characters returns "2 hidden characters", where kind is "hidden ".
func characters(n int, kind string) string {
	if n == 1 {
		return "1 " + kind + "character"
	}
	return fmt.Sprintf("%d %scharacters", n, kind)
}

// action names an action. It returns "" for movements of the pointer, which are visible,
// and for actions that only end another one.
func (s *scene) action(a desktop.Action) string {
	switch a.Name {
	case desktop.ActionClick, desktop.ActionButtonDown, desktop.ActionButtonUp, desktop.ActionDrag, desktop.ActionScroll:
		return s.pointerAction(a)
	case desktop.ActionType:
		if a.Secret != "" {
			return "Type secret " + plain(a.Secret) + s.inFocus()
		}
		if a.Text != "" {
			return "Type" + s.inFocus() + ": " + plain(a.Text)
		}
		return "Type " + characters(a.Length, "hidden ") + s.inFocus()
	case desktop.ActionPress, desktop.ActionKeyDown:
		return "Press " + plain(a.Keys) + s.inFocus()
	case desktop.ActionLaunch:
		return "Launch " + plain(a.App)
	case desktop.ActionSetClipboard:
		return "Set the clipboard"
	case desktop.ActionResize:
		if a.Size != nil {
			return fmt.Sprintf("Resize the desktop to %d x %d", a.Size.Width, a.Size.Height)
		}
	case desktop.ActionBrowser:
		text := strings.TrimSpace("Browser: " + plain(a.Command) + " " + plain(a.Target))
		if a.Secret != "" {
			text += " with secret " + plain(a.Secret)
		}
		return text
	case desktop.ActionElement:
		return sentence(plain(words(a.Command)+" "+a.Target)) + setTo(a)
	case desktop.ActionMove, desktop.ActionKeyUp, desktop.ActionReleaseAll, desktop.ActionExclusive:
		return ""
	default: // an action on a window
	}
	if what, ok := strings.CutSuffix(string(a.Name), "_window"); ok {
		return s.windowAction(what, a)
	}
	return sentence(plain(strings.ReplaceAll(string(a.Name), "_", " ")))
}

// words splits a command: "set text" for "setText".
func words(command string) string {
	var b strings.Builder
	for _, r := range command {
		if unicode.IsUpper(r) {
			b.WriteByte(' ')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// setTo says which text an action gave to an element.
func setTo(a desktop.Action) string {
	switch {
	case a.Text != "":
		return " to " + plain(a.Text)
	case a.Length > 0:
		return " to " + characters(a.Length, "hidden ")
	}
	return ""
}

func sentence(text string) string {
	r, n := utf8.DecodeRuneInString(text)
	if n == 0 {
		return ""
	}
	return string(unicode.ToUpper(r)) + text[n:]
}

func (s *scene) pointerAction(a desktop.Action) string {
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

func (s *scene) windowAction(what string, a desktop.Action) string {
	w := s.find(a.Window)
	if w == nil {
		w = &desktop.Window{ID: a.Window}
	}
	text := sentence(plain(what)) + " " + windowName(w)
	switch {
	case a.To != nil:
		text += fmt.Sprintf(" to %d, %d", a.To.X, a.To.Y)
	case a.Size != nil:
		text += fmt.Sprintf(" to %d x %d", a.Size.Width, a.Size.Height)
	}
	return text
}

// plain makes a short line of any text. Line breaks become ⏎, except at the end, and other
// invisible characters become blanks.
func plain(text string) string {
	text = strings.TrimRight(strings.ToValidUTF8(text, "\uFFFD"), "\r\n")
	var b strings.Builder
	n := 0
	for _, r := range strings.ReplaceAll(text, "\r\n", "\n") {
		if n++; n > maxQuote {
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
