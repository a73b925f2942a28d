package quiesce

import (
	"context"
	"os"
	"strconv"
	"time"

	"github.com/jezek/xgb/xproto"

	"github.com/deskhand/deskhand/internal/x11/request"
)

const (
	// PressedTime is how long programs show a button as pressed that a key stands for: Qt for
	// 100 ms.
	PressedTime = 150 * time.Millisecond
	// pressedMost is how long AwaitButton waits on a busy machine.
	pressedMost = 2 * PressedTime
)

// ShowsButton reports whether the program with the focus waits for a timer that may end the
// display of a button as pressed. idle is false if the program does not wait for events, or
// only for a short time.
func (t *Tracker) ShowsButton() (shows, idle bool, err error) {
	f, err := xproto.GetInputFocus(t.display.X).Reply()
	if err != nil {
		return false, false, request.Wrap("ask for the focus", err)
	}
	win := t.tree.managed(f.Focus, nil)
	top, pings, ok := t.tree.application(win)
	if !ok || !pings {
		return false, true, nil
	}
	pid := t.tree.process(win, top)
	if pid <= 0 || pid == os.Getpid() {
		return false, true, nil
	}
	dir := "/proc/" + strconv.Itoa(pid)
	line, err := os.ReadFile(dir + "/syscall")
	if err != nil {
		return false, true, nil //nolint:nilerr // the process has exited, or may not be inspected
	}
	memory, _ := os.Open(dir + "/mem") // nil has no bytes
	defer memory.Close()
	timeout, waits, ok := sleepTime(line, memory)
	short := timeout >= 0 && timeout < shortTimer
	return waits && !short && timeout >= 0 && timeout <= PressedTime, waits && !short || !ok, nil
}

// AwaitButton waits until the program with the focus is idle and shows no button as pressed. It
// reports whether it showed one, or may have done so before the call because the machine is
// busy. pressed is when the key was sent.
func (t *Tracker) AwaitButton(ctx context.Context, pressed time.Time) (shown bool, err error) {
	shown = time.Since(pressed) > PressedTime/3
	again := time.NewTicker(checkFirst)
	defer again.Stop()
	for limit := time.Now().Add(pressedMost); time.Now().Before(limit); {
		shows, idle, err := t.ShowsButton()
		if err != nil || !shows && idle {
			return shown, err
		}
		shown = shown || shows
		select {
		case <-again.C:
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
	return false, nil
}
