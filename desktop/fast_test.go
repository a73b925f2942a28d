package desktop_test

import (
	"testing"
	"time"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/internal/testx11"
)

// fastRounds is how often each sequence runs, because a race does not fail every time.
const fastRounds = 4

// A window is drawn when nothing has changed for settleFor.
const (
	settleFor   = 100 * time.Millisecond
	settleLimit = 5 * time.Second
)

// TestWithoutPauses sends the input of an agent or a script without pauses: each step must
// find the effect of the previous one.
func TestWithoutPauses(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "xterm", "zenity")
	d := start(t, desktop.Config{Size: desktop.Size{Width: 1440, Height: 900}})
	for name, f := range map[string]func(*testing.T, *desktop.Desktop){
		"drag a title by single calls":   dragTitle,
		"close by the button and type":   func(t *testing.T, d *desktop.Desktop) { t.Helper(); titleButton(t, d, 0, true) },
		"minimise by the button, type":   func(t *testing.T, d *desktop.Desktop) { t.Helper(); titleButton(t, d, 2, false) },
		"close and type":                 closeAndType,
		"launch and type":                launchAndType,
		"mark a word and read it":        markAndRead,
		"copy and read":                  copyAndRead,
		"mark and paste somewhere else":  markAndPaste,
		"paste and press Return":         pasteAndReturn,
		"paste and copy":                 pasteAndCopy,
		"leave the desktop's menu, type": rootMenu,
	} {
		t.Run(name, func(t *testing.T) {
			for range fastRounds {
				f(t, d)
				closeAll(t, d)
			}
		})
	}
}

func closeAll(t *testing.T, d *desktop.Desktop) {
	t.Helper()
	until(t, "no windows", func() bool {
		list, err := d.Windows(t.Context(), desktop.WindowFilter{All: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range list {
			_ = d.CloseWindow(t.Context(), w.ID) // it may have closed
		}
		return len(list) == 0
	})
}

// terminalAt opens a terminal at a position and returns it, with the focus, and its file.
func terminalAt(t *testing.T, d *desktop.Desktop, x, y int) (desktop.Window, string) {
	t.Helper()
	path := xterm(t, d)
	w, err := d.FocusedWindow(t.Context())
	if err == nil {
		w, err = d.MoveWindow(t.Context(), w.ID, desktop.Point{X: x, Y: y})
	}
	if err != nil {
		t.Fatal(err)
	}
	return w, path
}

func click(t *testing.T, d *desktop.Desktop, x, y int, b desktop.Button, count int) {
	t.Helper()
	if _, err := d.Click(t.Context(), desktop.Click{At: &desktop.Point{X: x, Y: y}, Button: b, Count: count}); err != nil {
		t.Fatal(err)
	}
}

func typeText(t *testing.T, d *desktop.Desktop, text string) {
	t.Helper()
	if err := d.Type(t.Context(), desktop.Type{Text: text}); err != nil {
		t.Fatal(err)
	}
}

func press(t *testing.T, d *desktop.Desktop, keys ...string) {
	t.Helper()
	for _, k := range keys {
		if err := d.Press(t.Context(), desktop.Press{Keys: k}); err != nil {
			t.Fatal(err)
		}
	}
}

func dragTitle(t *testing.T, d *desktop.Desktop) {
	t.Helper()
	w, _ := terminalAt(t, d, 100, 100)
	x, y := w.Bounds.X+100, w.Bounds.Y-8
	move := func(x, y int) {
		t.Helper()
		if _, err := d.Move(t.Context(), desktop.Move{At: desktop.Point{X: x, Y: y}}); err != nil {
			t.Fatal(err)
		}
	}
	move(x, y)
	if _, err := d.ButtonDown(t.Context(), desktop.ButtonPress{}); err != nil {
		t.Fatal(err)
	}
	move(x+100, y+50)
	move(x+200, y+150)
	if _, err := d.ButtonUp(t.Context(), desktop.ButtonPress{}); err != nil {
		t.Fatal(err)
	}
	now, err := d.FocusedWindow(t.Context())
	if err != nil || now.Bounds.X != w.Bounds.X+200 || now.Bounds.Y != w.Bounds.Y+150 {
		t.Fatalf("the window is at %v, %v; it was at %v", now.Bounds, err, w.Bounds)
	}
}

// titleButton clicks a button of the title bar, counted from its right end, and types into the
// window that has the focus then.
func titleButton(t *testing.T, d *desktop.Desktop, button int, closes bool) {
	t.Helper()
	_, path := terminalAt(t, d, 20, 40)
	w, _ := terminalAt(t, d, 700, 400)
	height := w.Bounds.Y - w.Frame.Y // depends on the fonts of the machine
	fromEnd := height/2 + 1 + button*(height-4)
	click(t, d, w.Frame.X+w.Frame.Width-fromEnd, w.Bounds.Y-height/2, desktop.ButtonLeft, 1)
	if closes { // a terminal may wait for its program before it closes
		until(t, "end of the window", func() bool {
			list, err := d.Windows(t.Context(), desktop.WindowFilter{All: true})
			return err == nil && len(list) == 1
		})
	}
	typeText(t, d, "abc\n")
	wantTyped(t, path, "abc\n")
}

func closeAndType(t *testing.T, d *desktop.Desktop) {
	t.Helper()
	_, path := terminalAt(t, d, 20, 40)
	w, _ := terminalAt(t, d, 700, 400)
	if err := d.CloseWindow(t.Context(), w.ID); err != nil {
		t.Fatal(err)
	}
	typeText(t, d, "abc\n")
	wantTyped(t, path, "abc\n")
}

func launchAndType(t *testing.T, d *desktop.Desktop) {
	t.Helper()
	terminalAt(t, d, 20, 40)
	path := t.TempDir() + "/typed"
	app, err := d.Launch(t.Context(), desktop.Launch{App: "xterm", Args: []string{"-e", "sh", "-c", `cat > "$0"`, path}, Wait: true})
	if err != nil || app.Window == 0 {
		t.Fatal(app, err)
	}
	typeText(t, d, "abc\n")
	wantTyped(t, path, "abc\n")
}

// wordTerminal shows a word in its first line.
func wordTerminal(t *testing.T, d *desktop.Desktop) desktop.Window {
	t.Helper()
	w, path := terminalAt(t, d, 20, 40)
	typeText(t, d, "someword\n")
	wantTyped(t, path, "someword\n")
	if _, err := d.Settle(t.Context(), settleFor, settleLimit); err != nil { // it has drawn that
		t.Fatal(err)
	}
	return w
}

func markAndRead(t *testing.T, d *desktop.Desktop) {
	t.Helper()
	w := wordTerminal(t, d)
	old := desktop.Content{Data: []byte("old")}
	if err := d.SetClipboard(t.Context(), old, desktop.Primary); err != nil {
		t.Fatal(err)
	}
	click(t, d, w.Bounds.X+20, w.Bounds.Y+8, desktop.ButtonLeft, 2)
	c, err := d.Clipboard(t.Context(), desktop.Primary, "")
	if err != nil || string(c.Data) != "someword" {
		t.Fatalf("the marked word is %q, %v", c.Data, err)
	}
}

// entry is a field of GTK's, with the focus.
func entry(t *testing.T, d *desktop.Desktop) {
	t.Helper()
	app, err := d.Launch(t.Context(), desktop.Launch{App: "zenity", Args: []string{"--entry"}, Env: []string{"NO_AT_BRIDGE=1"}, Wait: true})
	if err != nil || app.Window == 0 {
		t.Fatal(app, err)
	}
	if _, err := d.Settle(t.Context(), settleFor, settleLimit); err != nil {
		t.Fatal(err)
	}
}

func copyAndRead(t *testing.T, d *desktop.Desktop) {
	t.Helper()
	if err := d.SetClipboard(t.Context(), desktop.Content{Data: []byte("old")}); err != nil {
		t.Fatal(err)
	}
	entry(t, d)
	typeText(t, d, "some text")
	press(t, d, "ctrl+a", "ctrl+c")
	c, err := d.Clipboard(t.Context(), desktop.Clipboard, "")
	if err != nil || string(c.Data) != "some text" {
		t.Fatalf("copied %q, %v", c.Data, err)
	}
}

func markAndPaste(t *testing.T, d *desktop.Desktop) {
	t.Helper()
	w, path := terminalAt(t, d, 20, 40)
	if err := d.SetClipboard(t.Context(), desktop.Content{Data: []byte("old")}, desktop.Primary); err != nil {
		t.Fatal(err)
	}
	entry(t, d)
	typeText(t, d, "some text")
	press(t, d, "ctrl+a")
	click(t, d, w.Bounds.X+50, w.Bounds.Y+60, desktop.ButtonMiddle, 1)
	press(t, d, "Return")
	wantTyped(t, path, "some text\n")
}

// pasteAndReturn sends text by way of a selection, which gets other content immediately
// afterwards.
func pasteAndReturn(t *testing.T, d *desktop.Desktop) {
	t.Helper()
	w, path := terminalAt(t, d, 20, 40)
	want := ""
	for _, text := range []string{"some text", "more of it"} {
		if err := d.SetClipboard(t.Context(), desktop.Content{Data: []byte(text)}, desktop.Primary); err != nil {
			t.Fatal(err)
		}
		click(t, d, w.Bounds.X+50, w.Bounds.Y+60, desktop.ButtonMiddle, 1)
		press(t, d, "Return")
		want += text + "\n"
	}
	wantTyped(t, path, want)
}

func pasteAndCopy(t *testing.T, d *desktop.Desktop) {
	t.Helper()
	set := func(text string) {
		t.Helper()
		if err := d.SetClipboard(t.Context(), desktop.Content{Data: []byte(text)}); err != nil {
			t.Fatal(err)
		}
	}
	entry(t, d)
	set("some text")
	press(t, d, "ctrl+v")
	set("old")
	press(t, d, "ctrl+a", "ctrl+c")
	c, err := d.Clipboard(t.Context(), desktop.Clipboard, "")
	if err != nil || string(c.Data) != "some text" {
		t.Fatalf("copied %q, %v", c.Data, err)
	}
}

// rootMenu opens openbox's own menu, leaves it and types.
func rootMenu(t *testing.T, d *desktop.Desktop) {
	t.Helper()
	_, path := terminalAt(t, d, 20, 40)
	click(t, d, 1300, 700, desktop.ButtonRight, 1)
	press(t, d, "Escape")
	typeText(t, d, "abc\n")
	wantTyped(t, path, "abc\n")
}
