package webrtc

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/deskhand/deskhand/desktop"
)

// TestTakeOver checks that a viewer takes control from an API caller by force only and chooses
// whether others may act meanwhile, and that every viewer receives the change.
func TestTakeOver(t *testing.T) {
	t.Parallel()
	d := startDesktop(t, desktop.Config{})
	s := stream(t, d, Config{})
	ann, eve := watch(t, s, ViewerOptions{Name: "ann"}), watch(t, s, ViewerOptions{Name: "eve", ViewOnly: true})
	<-ann.open
	<-eve.open
	type host struct {
		HasHost bool   `json:"has_host"`
		Kind    string `json:"host_kind"`
		Name    string `json:"host_name"`
		Taken   bool
	}
	told := func(kind, name string, taken bool) {
		t.Helper()
		for _, c := range []*client{ann, eve} {
			for {
				var h host
				if err := json.Unmarshal(c.event("control/host"), &h); err != nil {
					t.Fatal(err)
				}
				if h.Kind == kind && h.Name == name && h.Taken == taken && h.HasHost {
					break // the earlier events are older
				}
			}
		}
	}
	program := desktop.Actor{Kind: desktop.ActorAPI, Name: "ci"}
	if err := d.TakeControl(t.Context(), program, true); err != nil {
		t.Fatal(err)
	}
	told("api", "ci", true)
	ann.send("control/take", nil)
	ann.event("control/refused")
	eve.send("control/take", map[string]bool{"force": true})
	ann.send("control/take", map[string]bool{"force": true})
	told("viewer", "ann", true)
	ann.send("control/take", map[string]bool{"shared": true})
	told("viewer", "ann", false)
	if _, err := d.Move(desktop.WithActor(t.Context(), program), desktop.Move{At: desktop.Point{X: 1, Y: 1}}); err != nil {
		t.Errorf("the program is kept out by shared control: %v", err)
	}
	ann.send("control/take", nil)
	told("viewer", "ann", true)
	ann.leave()
	until(t, "exclusive control ends with its viewer", func() bool { return d.Control().Holder == nil })
}

// leaving is a desktop on which a viewer ends just before it is given control.
type leaving struct {
	*desktop.Desktop
	leave atomic.Pointer[viewer] // nil: no viewer ends
}

func (d *leaving) TakeControl(ctx context.Context, a desktop.Actor, force bool) error {
	if v := d.leave.Load(); v != nil {
		v.close()
	}
	return d.Desktop.TakeControl(ctx, a, force)
}

// TestEndedViewerGetsNoControl checks that a viewer does not get control, or keep it, after its
// connection has ended, while its signalling connection is still there.
func TestEndedViewerGetsNoControl(t *testing.T) {
	t.Parallel()
	d := &leaving{Desktop: startDesktop(t, desktop.Config{})}
	s := stream(t, d, Config{})
	ann := watch(t, s, ViewerOptions{Name: "ann"})
	<-ann.open
	d.leave.Store(s.viewer(ann.id))
	refused := func(event string) {
		t.Helper()
		ann.send(event, nil)
		ann.event("control/refused")
		if h := d.Control().Holder; h != nil {
			t.Errorf("after %s, %v has control, and its connection has ended", event, h)
		}
	}
	refused("control/take")
	refused("control/take")
	refused("control/request")
}

// TestRestartEvents checks that viewers receive the end and the restart of the X server.
func TestRestartEvents(t *testing.T) {
	t.Parallel()
	d := startDesktop(t, desktop.Config{})
	s := stream(t, d, Config{})
	c := watch(t, s, ViewerOptions{})
	<-c.open
	for _, p := range d.Status().Processes {
		if p.Name == "Xvfb" {
			if err := syscall.Kill(p.PID, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, event := range []string{"desktop/failed", "desktop/restarted"} {
		var f struct{ Code, Message string }
		if err := json.Unmarshal(c.event(event), &f); err != nil || f.Code != "xserver_exited" || f.Message == "" {
			t.Errorf("%s = %+v, %v", event, f, err)
		}
	}
}
