package timeline

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/deskhand/deskhand/desktop"
)

func point(x, y int) *desktop.Point { return &desktop.Point{X: x, Y: y} }

// twoWindows is a scene with a terminal, which has the focus, in front of a browser.
func twoWindows() *scene {
	return &scene{focus: 1, stack: []desktop.Window{
		{ID: 2, Class: "Chromium", Bounds: desktop.Rect{Y: 20, Width: 800, Height: 580}, Frame: desktop.Rect{Width: 800, Height: 600}},
		{ID: 1, Class: "XTerm", Bounds: desktop.Rect{X: 100, Y: 120, Width: 200, Height: 100}, Frame: desktop.Rect{X: 100, Y: 100, Width: 200, Height: 120}},
	}}
}

func TestDescribeActions(t *testing.T) {
	t.Parallel()
	ann, guest := desktop.Actor{Kind: desktop.ActorViewer, Name: "Ann"}, desktop.Actor{Kind: desktop.ActorViewer, ID: "v1"}
	for _, tc := range []struct {
		action desktop.Action
		want   string
	}{
		{desktop.Action{Name: desktop.ActionClick, At: point(150, 150), Count: 1}, "Click at 150, 150 in xterm"},
		{desktop.Action{Name: desktop.ActionClick, At: point(10, 150), Count: 2}, "Double-click at 10, 150 in chromium"},
		{desktop.Action{Name: desktop.ActionClick, At: point(900, 9), Count: 3}, "Triple-click at 900, 9"},
		{desktop.Action{Name: desktop.ActionClick, Button: desktop.ButtonRight, Count: 5}, "Right-click 5 times"},
		{desktop.Action{Name: desktop.ActionButtonDown, Button: desktop.ButtonLeft, At: point(150, 150)}, "Hold the left button at 150, 150 in xterm"},
		{desktop.Action{Name: desktop.ActionButtonUp, Button: desktop.ButtonLeft}, "Release the left button"},
		{desktop.Action{Name: desktop.ActionScroll}, "Scroll"},
		{desktop.Action{Name: desktop.ActionScroll, Delta: point(-2, 3)}, "Scroll down 3, left 2"},
		{desktop.Action{Name: desktop.ActionScroll, Delta: point(2, -3)}, "Scroll up 3, right 2"},
		{desktop.Action{Name: desktop.ActionDrag, At: point(1, 2)}, "Drag"},
		{desktop.Action{Name: desktop.ActionDrag, At: point(1, 2), To: point(3, 4)}, "Drag from 1, 2 to 3, 4 in chromium"},
		{desktop.Action{Name: desktop.ActionType, Text: "ls\n", Length: 3}, "Type in xterm: ls"},
		{desktop.Action{Name: desktop.ActionType, Length: 1}, "Type 1 hidden character in xterm"},
		{desktop.Action{Name: desktop.ActionType, Length: 9}, "Type 9 hidden characters in xterm"},
		{desktop.Action{Name: desktop.ActionType, Length: 1, Actor: ann}, "Ann typed 1 character in xterm"},
		{desktop.Action{Name: desktop.ActionType, Length: 7, Actor: guest}, "Viewer 1 typed 7 characters in xterm"},
		{desktop.Action{Name: desktop.ActionPress, Keys: "ctrl+c"}, "Press ctrl+c in xterm"},
		{desktop.Action{Name: desktop.ActionLaunch, App: "xterm", Actor: ann}, "Ann: Launch xterm"},
		{desktop.Action{Name: desktop.ActionSetClipboard}, "Set the clipboard"},
		{desktop.Action{Name: desktop.ActionResize}, "Resize"},
		{desktop.Action{Name: desktop.ActionResize, Size: &desktop.Size{Width: 8, Height: 6}}, "Resize the desktop to 8 x 6"},
		{desktop.Action{Name: desktop.ActionElement, Command: "click", Target: `button "Save"`}, `Click button "Save"`},
		{desktop.Action{Name: desktop.ActionElement, Command: "setText", Target: "entry", Text: "hi", Length: 2}, "Set text entry to hi"},
		{desktop.Action{Name: desktop.ActionElement, Command: "setText", Target: "password text", Length: 1}, "Set text password text to 1 hidden character"},
		{desktop.Action{Name: desktop.ActionMove, At: point(1, 1)}, ""},
		{desktop.Action{Name: desktop.ActionKeyUp, Keys: "a", Error: "timeout"}, ""},
		{desktop.Action{Name: desktop.ActionReleaseAll}, ""},
		{desktop.Action{Name: desktop.ActionMoveWindow, Window: 1, To: point(5, 6)}, "Move xterm to 5, 6"},
		{desktop.Action{Name: desktop.ActionResizeWindow, Window: 2, Size: &desktop.Size{Width: 8, Height: 6}}, "Resize chromium to 8 x 6"},
		{desktop.Action{Name: "close_window", Window: 7, Error: "no such window"}, "Close window 7 (failed)"},
		{desktop.Action{Name: "take_a_nap", Actor: desktop.Actor{Kind: desktop.ActorAgent, Name: "claude"}}, "agent claude: Take a nap"},
		{desktop.Action{}, ""},
	} {
		e := Entry{Type: desktop.EventAction, Action: &tc.action}
		if got := twoWindows().describe(e); got != tc.want {
			t.Errorf("describe(%+v) = %q, want %q", tc.action, got, tc.want)
		}
	}
}

func TestDescribeEntries(t *testing.T) {
	t.Parallel()
	agent := &desktop.Actor{Kind: desktop.ActorAgent, Name: "claude"}
	for want, e := range map[string]Entry{
		"Signed in":                   {Type: TypeMarker, Marker: &Marker{Title: "Signed in"}},
		"No one is in control":        {Type: desktop.EventControl, Control: &desktop.Control{}},
		"agent claude is in control":  {Type: desktop.EventControl, Control: &desktop.Control{Holder: agent}},
		"Failure: Xvfb was killed":    {Type: desktop.EventFailed, Failure: &Failure{"xserver_exited", "Xvfb was\tkilled"}},
		"run":                         {Type: "tool_call", Title: "run"},
		strings.Repeat("x", 80) + "…": {Type: "tool_call", Title: strings.Repeat("x", 81)},
		"one⏎two three":               {Type: "tool_call", Title: "one\r\ntwo\u2028three\n"},
		"\uFFFD and more":             {Type: "tool_call", Title: "\xff and more"},
	} {
		if got := twoWindows().describe(e); got != want {
			t.Errorf("describe(%+v) = %q, want %q", e, got, want)
		}
	}
	for _, kind := range []desktop.EventType{desktop.EventAction, TypeMarker, desktop.EventFailed, TypeStarted, desktop.EventResized} {
		if got := twoWindows().describe(Entry{Type: kind}); got != "" {
			t.Errorf("describe of a %s without content = %q", kind, got)
		}
	}
}

// TestViewerNumbers numbers viewers without names in the order of their entries, also after a
// restart of the X server.
func TestViewerNumbers(t *testing.T) {
	t.Parallel()
	s := twoWindows()
	restarted := Entry{Type: desktop.EventRestarted, Failure: &Failure{Code: "xserver_exited"}}
	for i, id := range []string{"b", "a", "b", "", "c", "a"} {
		if i == 3 {
			s.apply(restarted)
			continue
		}
		want := []string{"Viewer 1", "Viewer 2", "Viewer 1", "", "Viewer 3", "Viewer 2"}[i]
		if got := s.actor(desktop.Actor{Kind: desktop.ActorViewer, ID: id}); got != want {
			t.Errorf("name %d of %s = %q, want %q", i, id, got, want)
		}
	}
	if len(s.stack) != 0 || s.focus != 0 {
		t.Errorf("after a restart of the X server there are %v, focus %d", s.stack, s.focus)
	}
}

// TestSceneFollowsWindows applies entries to a scene and checks the window at a position.
func TestSceneFollowsWindows(t *testing.T) {
	t.Parallel()
	action := func(a desktop.Action) Entry { return Entry{Type: desktop.EventAction, Action: &a} }
	window := func(kind desktop.EventType, w desktop.Window) Entry { return Entry{Type: kind, Window: &w} }
	third := desktop.Window{ID: 3, Title: "Editor", Bounds: desktop.Rect{X: 140, Y: 140, Width: 20, Height: 20}, Frame: desktop.Rect{X: 140, Y: 140, Width: 20, Height: 20}}
	hiddenThird := third
	hiddenThird.Minimised = true
	for name, tc := range map[string]struct {
		entries []Entry
		at      *desktop.Point
		want    string // under the place
		focus   desktop.WindowID
	}{
		"unchanged":       {nil, point(150, 150), "xterm", 1},
		"opened":          {[]Entry{window(desktop.EventWindowOpened, third)}, point(150, 150), "Editor", 1},
		"minimised":       {[]Entry{window(desktop.EventWindowOpened, hiddenThird)}, point(150, 150), "xterm", 1},
		"focused":         {[]Entry{window(desktop.EventWindowFocused, desktop.Window{ID: 2, Class: "C", Frame: desktop.Rect{Width: 800, Height: 600}})}, point(150, 150), "c", 2},
		"no focus":        {[]Entry{{Type: desktop.EventWindowFocused}}, point(150, 150), "xterm", 0},
		"renamed":         {[]Entry{window(desktop.EventWindowRenamed, desktop.Window{ID: 1, Title: "vim", Frame: desktop.Rect{X: 100, Y: 100, Width: 200, Height: 120}})}, point(150, 150), "vim", 1},
		"unknown renamed": {[]Entry{window(desktop.EventWindowRenamed, third)}, point(150, 150), "xterm", 1},
		"closed":          {[]Entry{window(desktop.EventWindowClosed, desktop.Window{ID: 1})}, point(150, 150), "chromium", 1},
		"moved":           {[]Entry{action(desktop.Action{Name: desktop.ActionMoveWindow, Window: 1, To: point(400, 420)})}, point(450, 405), "xterm", 1},
		"move failed":     {[]Entry{action(desktop.Action{Name: desktop.ActionMoveWindow, Window: 1, To: point(400, 420), Error: "x"})}, point(450, 405), "chromium", 1},
		"unknown moved":   {[]Entry{action(desktop.Action{Name: desktop.ActionMoveWindow, Window: 9, To: point(400, 420)})}, point(150, 150), "xterm", 1},
		"resized":         {[]Entry{action(desktop.Action{Name: desktop.ActionResizeWindow, Window: 1, Size: &desktop.Size{Width: 600, Height: 100}})}, point(650, 150), "xterm", 1},
		"dragged":         {[]Entry{action(desktop.Action{Name: desktop.ActionDrag, At: point(150, 110), To: point(450, 410)})}, point(450, 410), "xterm", 1},
		"dragged inside":  {[]Entry{action(desktop.Action{Name: desktop.ActionDrag, At: point(150, 150), To: point(450, 450)})}, point(450, 450), "chromium", 1},
		"started": {[]Entry{{Type: TypeStarted, Windows: []desktop.Window{
			{ID: 5, Title: "front", Active: true, Frame: desktop.Rect{Width: 9, Height: 9}}, {ID: 6, Title: "back", Frame: desktop.Rect{Width: 9, Height: 9}},
		}}}, point(5, 5), "front", 5},
		"other restart": {[]Entry{{Type: desktop.EventRestarted, Failure: &Failure{Code: "openbox_exited"}}}, point(150, 150), "xterm", 1},
		"empty entries": {[]Entry{{Type: desktop.EventWindowOpened}, {Type: desktop.EventWindowRenamed}, {Type: desktop.EventWindowClosed}, {Type: desktop.EventAction}}, point(150, 150), "xterm", 1},
		"no window":     {nil, point(5000, 5), "", 1},
	} {
		s := twoWindows()
		for _, e := range tc.entries {
			s.apply(e)
		}
		if got := windowName(s.under(*tc.at)); got != tc.want || s.focus != tc.focus {
			t.Errorf("%s: under %v is %q and %d has the focus, want %q and %d", name, *tc.at, got, s.focus, tc.want, tc.focus)
		}
	}
	if got := windowName(&desktop.Window{ID: 4}); got != "window 4" {
		t.Errorf("a window without a title and a class is %q", got)
	}
}

// TestJoinGestures joins button and wheel events. Each event is 10 ms long.
func TestJoinGestures(t *testing.T) {
	t.Parallel()
	viewer := desktop.Actor{Kind: desktop.ActorViewer, ID: "v"}
	down := func(ms Milliseconds, x int) Entry {
		return Entry{At: ms, Type: desktop.EventAction, Action: &desktop.Action{Name: desktop.ActionButtonDown, Button: desktop.ButtonLeft, At: point(x, 0), Actor: viewer}}
	}
	up := func(ms Milliseconds, x int) Entry {
		e := down(ms, x)
		e.Action.Name = desktop.ActionButtonUp
		return e
	}
	wheel := func(ms Milliseconds, dx, dy int) Entry {
		return Entry{At: ms, Type: desktop.EventAction, Action: &desktop.Action{Name: desktop.ActionScroll, At: point(0, 0), Delta: point(dx, dy), Actor: viewer}}
	}
	failed := up(10, 0)
	failed.Action.Error = "timeout"
	byAgent := wheel(10, 0, 1)
	byAgent.Action.Actor = desktop.Actor{Kind: desktop.ActorAgent}
	for name, tc := range map[string]struct {
		entries []Entry
		want    string
	}{
		"click":               {[]Entry{down(0, 0), up(10, 3)}, "click 1"},
		"double click":        {[]Entry{down(0, 0), up(10, 0), down(200, 0), up(210, 0)}, "click 2"},
		"triple click":        {[]Entry{down(0, 0), up(10, 0), down(200, 0), up(210, 0), down(400, 0), up(410, 0)}, "click 3"},
		"four clicks":         {[]Entry{down(0, 0), up(10, 0), down(200, 0), up(210, 0), down(400, 0), up(410, 0), down(600, 0), up(610, 0)}, "click 3, click 1"},
		"two places":          {[]Entry{down(0, 0), up(10, 0), down(200, 50), up(210, 50)}, "click 1, click 1"},
		"two clicks":          {[]Entry{down(0, 0), up(10, 0), down(2000, 0), up(2010, 0)}, "click 1, click 1"},
		"drag":                {[]Entry{down(0, 0), up(900, 50)}, "drag to 50"},
		"held":                {[]Entry{down(0, 0), up(900, 0)}, "button_down, button_up"},
		"only up":             {[]Entry{up(0, 0)}, "button_up"},
		"failed":              {[]Entry{down(0, 0), failed}, "button_down, button_up"},
		"scroll":              {[]Entry{wheel(0, 0, 1), wheel(100, 1, 2), wheel(200, 0, 3)}, "scroll 1,6"},
		"scroll back":         {[]Entry{wheel(0, 0, 1), wheel(100, 0, -1)}, "scroll 0,1, scroll 0,-1"},
		"pause":               {[]Entry{wheel(0, 0, 1), wheel(1500, 0, 1)}, "scroll 0,1, scroll 0,1"},
		"long scroll":         {[]Entry{wheel(0, 0, 1), wheel(900, 0, 1), wheel(1800, 0, 1), wheel(2700, 0, 1), wheel(3600, 0, 1), wheel(4500, 0, 1), wheel(5400, 0, 1)}, "scroll 0,6, scroll 0,1"},
		"scroll of an agent":  {[]Entry{wheel(0, 0, 1), byAgent}, "scroll 0,1, scroll 0,1"},
		"without a place":     {[]Entry{{Type: desktop.EventAction, Action: &desktop.Action{Name: desktop.ActionButtonDown}}, {Type: "x"}}, "button_down"},
		"click between moves": {[]Entry{down(0, 0), {At: 5, Type: desktop.EventAction, Action: &desktop.Action{Name: desktop.ActionMove, At: point(1, 0)}}, up(10, 1)}, "click 1, move"},
	} {
		var got []string
		for _, e := range joinGestures(tc.entries) {
			a := e.Action
			if a == nil {
				continue
			}
			text := string(a.Name)
			switch a.Name {
			case desktop.ActionClick:
				text += " " + string(rune('0'+a.Count))
			case desktop.ActionDrag:
				text += " to " + jsonOf(t, a.To.X)
			case desktop.ActionScroll:
				text += " " + jsonOf(t, a.Delta.X) + "," + jsonOf(t, a.Delta.Y)
			default:
			}
			got = append(got, text)
		}
		if strings.Join(got, ", ") != tc.want {
			t.Errorf("%s: got %q, want %q", name, strings.Join(got, ", "), tc.want)
		}
	}
}

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
