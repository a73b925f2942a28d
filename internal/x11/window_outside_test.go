package x11_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/BurntSushi/xgb/xproto"
	"github.com/BurntSushi/xgbutil"
	"github.com/BurntSushi/xgbutil/ewmh"
	"github.com/BurntSushi/xgbutil/icccm"

	"github.com/deskhand/deskhand/internal/testx11"
	"github.com/deskhand/deskhand/internal/x11"
)

// outsideEnv makes the test program an independent client, which prints what it
// sees of the windows and ends. It is a program of its own since the library
// leaves goroutines and takes the X authority from its environment.
const outsideEnv = "X11_TEST_OUTSIDE"

// outsideView is the description of the windows by BurntSushi's xgbutil.
type outsideView struct {
	Manager           string
	Desktops, Current uint
	Active            uint32
	Clients           []outsideWindow
	SupportsActive    bool
}

type outsideWindow struct {
	ID                  uint32
	Name, Class         string
	Instance            string
	PID, Desktop, State uint
	States              []string
	Types               []string
	X, Y, Width, Height int
	Frame               [4]int // left, right, top, bottom
}

func printOutside() error {
	xu, err := xgbutil.NewConn()
	if err != nil {
		return err
	}
	var v outsideView
	var errs [6]error
	v.Manager, errs[0] = ewmh.GetEwmhWM(xu)
	v.Desktops, errs[1] = ewmh.NumberOfDesktopsGet(xu)
	v.Current, errs[2] = ewmh.CurrentDesktopGet(xu)
	var clients []xproto.Window
	clients, errs[3] = ewmh.ClientListGet(xu)
	active, err := ewmh.ActiveWindowGet(xu)
	v.Active, errs[4] = uint32(active), err
	supported, err := ewmh.SupportedGet(xu)
	v.SupportsActive, errs[5] = slices.Contains(supported, "_NET_ACTIVE_WINDOW"), err
	for i, err := range errs {
		if err != nil {
			return fmt.Errorf("question %d about the root window: %w", i, err)
		}
	}
	for _, id := range clients {
		w, err := lookOutside(xu, id)
		if err != nil {
			return fmt.Errorf("window %d: %w", id, err)
		}
		v.Clients = append(v.Clients, w)
	}
	return json.NewEncoder(os.Stdout).Encode(v)
}

func lookOutside(xu *xgbutil.XUtil, id xproto.Window) (outsideWindow, error) {
	w := outsideWindow{ID: uint32(id)}
	var errs [7]error
	if w.Name, errs[0] = ewmh.WmNameGet(xu, id); errs[0] != nil {
		w.Name, errs[0] = icccm.WmNameGet(xu, id)
	}
	w.PID, errs[1] = ewmh.WmPidGet(xu, id)
	w.Desktop, errs[2] = ewmh.WmDesktopGet(xu, id)
	if class, err := icccm.WmClassGet(xu, id); err == nil {
		w.Class, w.Instance = class.Class, class.Instance
	} else {
		errs[3] = err
	}
	if state, err := icccm.WmStateGet(xu, id); err == nil {
		w.State = state.State
	} else {
		errs[4] = err
	}
	if frame, err := ewmh.FrameExtentsGet(xu, id); err == nil {
		w.Frame = [4]int{frame.Left, frame.Right, frame.Top, frame.Bottom}
	} else {
		errs[5] = err
	}
	if geometry, err := xproto.GetGeometry(xu.Conn(), xproto.Drawable(id)).Reply(); err == nil {
		w.Width, w.Height = int(geometry.Width), int(geometry.Height)
	} else {
		errs[6] = err
	}
	for _, err := range errs {
		if err != nil {
			return w, err
		}
	}
	w.States, _ = ewmh.WmStateGet(xu, id) // none is an error
	w.Types, _ = ewmh.WmWindowTypeGet(xu, id)
	at, err := xproto.TranslateCoordinates(xu.Conn(), id, xu.RootWin(), 0, 0).Reply()
	if err == nil {
		w.X, w.Y = int(at.DstX), int(at.DstY)
	}
	return w, err
}

// outside runs the independent client.
func (w windowSystem) outside(tb testing.TB) outsideView {
	tb.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(w.Env(), outsideEnv+"=1", "GORACE=atexit_sleep_ms=0")
	out, err := cmd.Output()
	if err != nil {
		tb.Fatalf("independent client: %v\n%s", err, out)
	}
	var v outsideView
	if err := json.Unmarshal(out, &v); err != nil {
		tb.Fatalf("independent client: %v\n%s", err, out)
	}
	return v
}

// agree fails the test unless List and the independent client describe the windows alike. It
// returns the client's description of window id.
func (w windowSystem) agree(tb testing.TB, id x11.Window) outsideWindow {
	tb.Helper()
	infos, err := w.List(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	v := w.outside(tb)
	var found outsideWindow
	var active uint32
	if len(v.Clients) != len(infos) {
		tb.Fatalf("List tells %+v, the independent client sees %+v", infos, v.Clients)
	}
	for i, o := range v.Clients {
		info := infos[i]
		has := func(state string) bool { return slices.Contains(o.States, "_NET_WM_STATE_"+state) }
		told := x11.WindowInfo{
			ID: x11.Window(o.ID), Title: o.Name, Class: o.Class, Instance: o.Instance, PID: int(o.PID),
			X: o.X, Y: o.Y, Width: o.Width, Height: o.Height,
			FrameX: o.X - o.Frame[0], FrameY: o.Y - o.Frame[2],
			FrameWidth: o.Width + o.Frame[0] + o.Frame[1], FrameHeight: o.Height + o.Frame[2] + o.Frame[3],
			Active: v.Active == o.ID, Minimised: has("HIDDEN"), Maximised: has("MAXIMIZED_VERT") && has("MAXIMIZED_HORZ"),
			Dialog: slices.Contains(o.Types, "_NET_WM_WINDOW_TYPE_DIALOG"),
		}
		if info.Minimised { // openbox moves it while it is shown how it shrinks
			told.X, told.Y, told.FrameX, told.FrameY = info.X, info.Y, info.FrameX, info.FrameY
		}
		if told != info {
			tb.Errorf("List tells\n%+v, the independent client sees\n%+v", info, told)
		}
		if info.Active {
			active = uint32(info.ID)
		}
		if info.ID == id {
			found = o
		}
	}
	if active != v.Active {
		tb.Errorf("the active window of List is %d, that of the independent client %d", active, v.Active)
	}
	return found
}

// TestWindowsFromOutside checks descriptions of windows and actions on them with an
// independent client.
func TestWindowsFromOutside(t *testing.T) {
	t.Parallel()
	w := startWindows(t)
	testx11.Require(t, "zenity")
	term, dialog := w.xterm(t, "term"), w.zenity(t, "a líst 漢")
	if v := w.outside(t); !strings.EqualFold(v.Manager, "openbox") || v.Desktops < 1 || v.Current >= v.Desktops || !v.SupportsActive {
		t.Errorf("the independent client sees the manager %+v", v)
	}
	step := func(what string, info x11.WindowInfo, err error) outsideWindow {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		t.Log(what)
		return w.agree(t, info.ID)
	}
	info, err := w.Focus(soon(t), term.ID)
	step("focus", info, err)
	if v := w.outside(t); v.Active != uint32(term.ID) {
		t.Errorf("after Focus the active window is %d, want %d", v.Active, term.ID)
	}
	info, err = w.Move(soon(t), term.ID, 321, 234)
	if o := step("move", info, err); o.X != 321 || o.Y != 234 {
		t.Errorf("after Move the window is at %d, %d, want 321, 234", o.X, o.Y)
	}
	info, err = w.Resize(soon(t), dialog.ID, 511, 402)
	if o := step("resize", info, err); o.Width != 511 || o.Height != 402 {
		t.Errorf("after Resize the window is %dx%d, want 511x402", o.Width, o.Height)
	}
	for _, on := range []bool{true, false} {
		info, err = w.Maximise(soon(t), dialog.ID, on)
		if o := step(fmt.Sprint("maximise ", on), info, err); slices.Contains(o.States, "_NET_WM_STATE_MAXIMIZED_VERT") != on {
			t.Errorf("after Maximise(%t) the states are %q", on, o.States)
		}
	}
	info, err = w.Minimise(soon(t), dialog.ID)
	if o := step("minimise", info, err); o.State != icccm.StateIconic {
		t.Errorf("after Minimise WM_STATE is %d, want iconic", o.State)
	}
	info, err = w.Focus(soon(t), dialog.ID)
	if o := step("focus", info, err); o.State != icccm.StateNormal {
		t.Errorf("after Focus WM_STATE is %d, want normal", o.State)
	}
	if err := w.Close(soon(t), dialog.ID); err != nil {
		t.Fatal(err)
	}
	if v := w.outside(t); slices.ContainsFunc(v.Clients, func(o outsideWindow) bool { return o.ID == uint32(dialog.ID) }) {
		t.Error("the independent client sees the window after Close")
	}
}
