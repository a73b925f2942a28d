package desktop_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/internal/testx11"
)

// swing starts a window of Java with a field, and returns the file that gets its text. It
// skips the test if Java is missing, or has no windows.
func swing(t *testing.T, d *desktop.Desktop) string {
	t.Helper()
	if _, err := exec.LookPath("java"); err != nil {
		t.Skip("java is missing")
	}
	program, err := filepath.Abs("../internal/benchapps/programs/Board.java")
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "out")
	app, err := d.Launch(t.Context(), desktop.Launch{App: "java", Args: []string{program, out}, Wait: true})
	if err != nil || app.Exited {
		t.Skipf("java shows no window: %+v, %v", app, err)
	}
	until(t, "the window has the focus", func() bool {
		w, err := d.FocusedWindow(t.Context())
		return err == nil && w.Title == "board"
	})
	if _, err := d.Settle(t.Context(), settleFor, settleLimit); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestTypeAfterModal closes a dialog of Java by Return, which presses its button for 20 ms.
func TestTypeAfterModal(t *testing.T) {
	t.Parallel()
	d := start(t, desktop.Config{})
	out := swing(t, d)
	for range 5 {
		for _, keys := range []string{"ctrl+a", "ctrl+d", "Return"} {
			if err := d.Press(t.Context(), desktop.Press{Keys: keys}); err != nil {
				t.Fatal(err)
			}
		}
		if err := d.Type(t.Context(), desktop.Type{Text: "after\n"}); err != nil {
			t.Fatal(err)
		}
		until(t, "the text", func() bool { b, err := os.ReadFile(out); return err == nil && len(b) > 0 })
		if got := readFile(t, out); got != "after" {
			t.Fatalf("typed %q, want %q", got, "after")
		}
		if err := os.Remove(out); err != nil {
			t.Fatal(err)
		}
	}
}

// TestConfirmFileDialog types a path into a dialog of GTK and confirms it without a pause: by
// Return in the text, by Return, and by its button. GTK ignores each for a quarter of a second
// after the path.
func TestConfirmFileDialog(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "zenity")
	d := start(t, desktop.Config{})
	path := filepath.Join(t.TempDir(), "out")
	for name, confirm := range map[string]func() error{
		"line feed": func() error { return d.Type(t.Context(), desktop.Type{Text: path + "\n"}) },
		"Return": func() error {
			return errors.Join(d.Type(t.Context(), desktop.Type{Text: path}), d.Press(t.Context(), desktop.Press{Keys: "Return"}))
		},
		"click": func() error {
			w, err := d.FocusedWindow(t.Context())
			err = errors.Join(err, d.Type(t.Context(), desktop.Type{Text: path}))
			_, clicked := d.Click(t.Context(), desktop.Click{At: &desktop.Point{X: w.Bounds.X + w.Bounds.Width - 40, Y: w.Bounds.Y + w.Bounds.Height - 20}})
			return errors.Join(err, clicked)
		},
	} {
		app, err := d.Launch(t.Context(), desktop.Launch{App: "zenity", Args: []string{"--file-selection", "--save"}, Ready: true})
		if err != nil {
			t.Fatal(err)
		}
		if err := confirm(); err != nil {
			t.Fatal(name, err)
		}
		select {
		case <-app.Done():
		case <-time.After(10 * time.Second):
			t.Fatalf("%s: the dialog stays", name)
		}
		if !strings.Contains(app.Output(), path+"\n") {
			t.Errorf("%s: the dialog chose %q", name, app.Output())
		}
	}
}

// TestTypeAfterDialog closes a dialog of GTK by Return and types on into a terminal without a pause:
// GTK shows the dialog's button as pressed for a quarter of a second, and takes all keys meanwhile.
func TestTypeAfterDialog(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "zenity", "xterm")
	for name, keys := range map[string]func(*desktop.Desktop) error{
		"Return": func(d *desktop.Desktop) error {
			return errors.Join(d.Press(t.Context(), desktop.Press{Keys: "Return"}), d.Type(t.Context(), desktop.Type{Text: "after\n"}))
		},
		"line feed": func(d *desktop.Desktop) error { return d.Type(t.Context(), desktop.Type{Text: "x\nafter\n"}) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := start(t, desktop.Config{})
			out := filepath.Join(t.TempDir(), "out")
			launch(t, d, "xterm", "-e", "sh", "-c", `zenity --entry; read line; echo "$line" > `+out)
			until(t, "the dialog has the focus", func() bool {
				w, err := d.FocusedWindow(t.Context())
				return err == nil && w.Dialog
			})
			if _, err := d.Settle(t.Context(), settleFor, settleLimit); err != nil {
				t.Fatal(err)
			}
			if err := keys(d); err != nil {
				t.Fatal(err)
			}
			until(t, "the terminal's text", func() bool { b, err := os.ReadFile(out); return err == nil && len(b) > 0 })
			if got := readFile(t, out); got != "after\n" {
				t.Errorf("the terminal got %q", got)
			}
		})
	}
}

// typeOf is the outcome of typing a text into a window of Java, by Return.
func typeOf(t *testing.T, d *desktop.Desktop, out string, mode desktop.TypeMode, text string) string {
	t.Helper()
	if err := d.Press(t.Context(), desktop.Press{Keys: "ctrl+a"}); err != nil {
		t.Fatal(err)
	}
	if err := d.Type(t.Context(), desktop.Type{Text: text, Mode: mode}); err != nil {
		t.Fatal(err)
	}
	if err := d.Press(t.Context(), desktop.Press{Keys: "Return"}); err != nil {
		t.Fatal(err)
	}
	until(t, "the text", func() bool { b, err := os.ReadFile(out); return err == nil && len(b) > 0 })
	got := readFile(t, out)
	if err := os.Remove(out); err != nil {
		t.Fatal(err)
	}
	return got
}

// TestTypeAstral types characters that Java takes for others when keys carry them.
func TestTypeAstral(t *testing.T) {
	t.Parallel()
	d := start(t, desktop.Config{})
	out := swing(t, d)
	if err := d.SetClipboard(t.Context(), desktop.Content{Data: []byte("mine")}); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"a😀b漢", "plain é"} {
		if got := typeOf(t, d, out, "", text); got != text {
			t.Errorf("typed %q, want %q", got, text)
		}
	}
	if c, err := d.Clipboard(t.Context(), "", ""); err != nil || string(c.Data) != "mine" {
		t.Errorf("the clipboard has %q, %v", c.Data, err)
	}
}

// TestTypePaste pastes into a terminal and into a window that takes no text.
func TestTypePaste(t *testing.T) {
	t.Parallel()
	d := start(t, desktop.Config{})
	if err := d.SetClipboard(t.Context(), desktop.Content{Data: []byte("mine")}); err != nil {
		t.Fatal(err)
	}
	path := xterm(t, d)
	if err := d.Type(t.Context(), desktop.Type{Text: "pasted 😀\n", Mode: desktop.TypePaste}); err != nil {
		t.Fatal(err)
	}
	wantTyped(t, path, "pasted 😀\n")
	if c, err := d.Clipboard(t.Context(), "", ""); err != nil || string(c.Data) != "mine" {
		t.Errorf("the clipboard has %q, %v", c.Data, err)
	}
	clickBoard(t, d)
	if err := d.Type(t.Context(), desktop.Type{Text: "x", Mode: desktop.TypePaste}); err == nil {
		t.Error("a window that takes no text pasted one")
	}
	if c, err := d.Clipboard(t.Context(), "", ""); err != nil || string(c.Data) != "mine" {
		t.Errorf("after a failure the clipboard has %q, %v", c.Data, err)
	}
	for _, bad := range []desktop.Type{{Text: "x", Mode: "telepathy"}, {Text: "x", Mode: desktop.TypePaste, Secret: true}} {
		if err := d.Type(t.Context(), bad); !errors.Is(err, desktop.ErrInvalid) {
			t.Errorf("%+v: %v, want an InvalidError", bad, err)
		}
	}
}

// TestTypePasteLate pastes into a program that asks for the forms of the clipboard's content first, and
// sleeps before it asks for the content.
func TestTypePasteLate(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "wish")
	d := start(t, desktop.Config{})
	if err := d.SetClipboard(t.Context(), desktop.Content{Data: []byte("mine")}); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	const script = `
bind . <Control-v> {
	selection get -selection CLIPBOARD -type TARGETS
	after 500 {set f [open pasted w]; puts -nonewline $f [clipboard get -type UTF8_STRING]; close $f}
}
focus -force .
`
	if err := os.WriteFile(filepath.Join(dir, "late.tcl"), []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Launch(t.Context(), desktop.Launch{App: "wish", Args: []string{"late.tcl"}, Dir: dir, Wait: true}); err != nil {
		t.Fatal(err)
	}
	if err := d.Type(t.Context(), desktop.Type{Text: "late", Mode: desktop.TypePaste}); err != nil {
		t.Fatal(err)
	}
	until(t, "what was pasted", func() bool { b, err := os.ReadFile(filepath.Join(dir, "pasted")); return err == nil && len(b) > 0 })
	if got := readFile(t, filepath.Join(dir, "pasted")); got != "late" {
		t.Errorf("pasted %q", got)
	}
}

// TestLaunchReady waits for the window after a splash screen, which draws late.
func TestLaunchReady(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "wish")
	d := start(t, desktop.Config{})
	dir := t.TempDir()
	const script = `
wm withdraw .
toplevel .splash
wm attributes .splash -type splash
wm title .splash splash
after 700 {
	destroy .splash
	wm title . $env(TITLE)
	wm deiconify .
	after 200 {pack [label .l -text drawn]; set f [open drawn w]; close $f}
}
`
	if err := os.WriteFile(filepath.Join(dir, "splash.tcl"), []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	app, err := d.Launch(t.Context(), desktop.Launch{App: "wish", Args: []string{"splash.tcl"}, Env: []string{"TITLE=main"}, Dir: dir, Ready: true})
	if err != nil {
		t.Fatal(err)
	}
	w, err := d.FocusedWindow(t.Context())
	if err != nil || w.ID != app.Window || w.Title != "main" {
		t.Errorf("the window is %+v, the focus has %+v, %v", app, w, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "drawn")); err != nil {
		t.Errorf("the window was not drawn: %v", err)
	}
}

// TestLaunchReadyOfBusyProgram waits for a program that shows an empty window for seconds
// while it starts.
func TestLaunchReadyOfBusyProgram(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "wish")
	d := start(t, desktop.Config{})
	dir := t.TempDir()
	const script = `
update
set began [clock milliseconds]
while {[clock milliseconds] - $began < 5000} {}
pack [label .l -text drawn]
update
close [open drawn w]
`
	if err := os.WriteFile(filepath.Join(dir, "busy.tcl"), []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Launch(t.Context(), desktop.Launch{App: "wish", Args: []string{"busy.tcl"}, Dir: dir, Ready: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "drawn")); err != nil {
		t.Errorf("the window was not drawn: %v", err)
	}
}
