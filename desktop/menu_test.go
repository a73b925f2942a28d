package desktop_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/internal/testx11"
)

// recordingPrograms makes a folder for PATH in which programs that menus and keys start
// are replaced by a script that writes its name to the returned file.
func recordingPrograms(t *testing.T) (dir, record string) {
	t.Helper()
	dir = t.TempDir()
	record = filepath.Join(dir, "record")
	script := "#!/bin/sh\necho \"${0##*/}\" >> '" + record + "'\n"
	for _, name := range []string{"x-terminal-emulator", "x-www-browser", "xterm", "chromium", "firefox", "obconf", "obamenu", "scrot", "kfmclient"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir, record
}

// children lists the child processes of a process, by command line.
func children(t *testing.T, pid int) (all []string) {
	t.Helper()
	tasks, err := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/children")
	if err != nil || len(tasks) == 0 {
		t.Fatalf("children of %d: %v", pid, err)
	}
	for _, task := range tasks {
		list, err := os.ReadFile(task)
		if err != nil {
			t.Fatal(err)
		}
		for child := range strings.FieldsSeq(string(list)) {
			line, _ := os.ReadFile("/proc/" + child + "/cmdline")
			all = append(all, string(line))
		}
	}
	return all
}

// TestEmptyDesktopStartsNothing uses every menu and key of a desktop without
// programs, as a viewer with control can.
func TestEmptyDesktopStartsNothing(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "xterm")
	path, record := recordingPrograms(t)
	d := start(t, desktop.Config{Env: []string{"PATH=" + path + ":" + os.Getenv("PATH")}})
	ctx := desktop.WithActor(t.Context(), desktop.Actor{Kind: desktop.ActorViewer})
	press := func(keys string) {
		t.Helper()
		if err := d.Press(ctx, desktop.Press{Keys: keys}); err != nil {
			t.Fatal(keys, err)
		}
	}
	for _, keys := range []string{
		"super+e", "Print", "alt+Print", "ctrl+alt+t", "super+Return", "super+r", "super+t", "alt+F1", "alt+F2", "alt+F3",
		"super+space", "alt+space", "ctrl+Escape", "ctrl+alt+Delete", "ctrl+alt+BackSpace", "Menu", "super+d", "XF86HomePage", "XF86Mail",
	} {
		press(keys)
		press("Return")
		press("Escape")
	}
	for _, button := range []desktop.Button{desktop.ButtonLeft, desktop.ButtonMiddle, desktop.ButtonRight} {
		for down := range 9 {
			if _, err := d.Click(ctx, desktop.Click{At: &desktop.Point{X: 300, Y: 200}, Button: button}); err != nil {
				t.Fatal(err)
			}
			for range down {
				press("Down")
			}
			press("Right") // into the submenu, if it is one
			press("Return")
			press("Escape")
			press("Escape")
		}
	}
	wm := pidOf(t, d, "openbox")
	// The window manager handles this window after all earlier input.
	real, err := exec.LookPath("xterm")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Launch(t.Context(), desktop.Launch{App: real, Wait: true}); err != nil {
		t.Fatal(err)
	}
	if left := children(t, wm); len(left) > 0 {
		t.Errorf("openbox has started %q", left)
	}
	if got, err := os.ReadFile(record); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("keys and menus started %q (%v)", strings.Fields(string(got)), err)
	}
	if st := d.Status(); st.Restarts != 0 || pidOf(t, d, "openbox") != wm {
		t.Errorf("openbox was ended from a menu: %d restarts", st.Restarts)
	}
	windows, err := d.Windows(t.Context(), desktop.WindowFilter{})
	if err != nil || len(windows) != 1 {
		t.Errorf("windows %+v, %v; want the one xterm", windows, err)
	}
}

// TestProgramMenu starts a terminal from the menu that ProgramMenu adds.
func TestProgramMenu(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "xterm")
	d := start(t, desktop.Config{ProgramMenu: true})
	if _, err := d.Click(t.Context(), desktop.Click{At: &desktop.Point{X: 300, Y: 200}, Button: desktop.ButtonRight}); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"Down", "Return"} {
		if err := d.Press(t.Context(), desktop.Press{Keys: key}); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "a terminal", func() bool {
		windows, err := d.Windows(t.Context(), desktop.WindowFilter{})
		return err == nil && len(windows) == 1 && strings.Contains(strings.ToLower(windows[0].Class), "term")
	})
}

// TestWheelBesideWindow: the wheel on the empty desktop and on a title bar leaves windows where
// they are.
func TestWheelBesideWindow(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "xterm")
	d := start(t, desktop.Config{})
	ctx := t.Context()
	if _, err := d.Launch(ctx, desktop.Launch{App: "xterm", Args: []string{"-geometry", "40x10+200+200"}, Wait: true}); err != nil {
		t.Fatal(err)
	}
	look := func() []byte {
		t.Helper()
		if _, err := d.Settle(ctx, 300*time.Millisecond, 10*time.Second); err != nil {
			t.Fatal(err)
		}
		shot, err := d.Screenshot(ctx, desktop.ScreenshotOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return shot.Data
	}
	windows, err := d.Windows(ctx, desktop.WindowFilter{})
	if err != nil || len(windows) != 1 {
		t.Fatalf("windows %+v, %v", windows, err)
	}
	w := windows[0].Bounds
	title := desktop.Point{X: w.X + w.Width/2, Y: w.Y - 10}
	for _, at := range []desktop.Point{{X: 20, Y: 20}, title} {
		if _, err := d.Move(ctx, desktop.Move{At: at}); err != nil {
			t.Fatal(err)
		}
		before := look()
		for _, dy := range []int{1, -3, 5} {
			if _, err := d.Scroll(ctx, desktop.Scroll{At: &at, DY: dy}); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(before, look()) {
				t.Errorf("scrolling %d at %v changed the screen", dy, at)
			}
		}
	}
}

// TestOpenboxFiles: the default configuration of openbox has no action that starts or ends a
// program.
func TestOpenboxFiles(t *testing.T) {
	t.Parallel()
	harmless := []string{
		"AddDesktop", "Close", "DirectionalCycleWindows", "Focus", "FocusToBottom", "Iconify", "Lower", "Move", "NextWindow",
		"PreviousWindow", "Raise", "Resize", "Shade", "ShowMenu", "ToggleMaximize", "ToggleOmnipresent", "ToggleShade",
		"ToggleShowDesktop", "Unfocus", "Unshade", "if",
	}
	for _, name := range []string{"rc.xml", "menu.xml"} {
		f, err := os.Open(filepath.Join("openbox", name))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		elements := 0
		for dec := xml.NewDecoder(f); ; {
			token, err := dec.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(name, err)
			}
			e, ok := token.(xml.StartElement)
			if !ok {
				continue
			}
			elements++
			if e.Name.Local == "command" || e.Name.Local == "execute" {
				t.Errorf("%s has <%s>", name, e.Name.Local)
			}
			for _, a := range e.Attr {
				if e.Name.Local == "action" && a.Name.Local == "name" && !slices.Contains(harmless, a.Value) || a.Name.Local == "execute" {
					t.Errorf("%s: <%s %s=%q>", name, e.Name.Local, a.Name.Local, a.Value)
				}
			}
		}
		if elements < 3 {
			t.Errorf("%s has %d elements", name, elements)
		}
	}
}
