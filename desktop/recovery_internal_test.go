package desktop

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/deskhand/deskhand/internal/testx11"
)

// TestInUse: the checks end some time after the last call, and the next call resumes them.
func TestInUse(t *testing.T) {
	t.Parallel()
	r := recovery{lifecycle: &lifecycle{state: StateActive, session: &session{}, usedAt: time.Now()}}
	if !r.inUse() {
		t.Error("not in use after the start")
	}
	r.usedAt = time.Now().Add(-checkUntil)
	if r.inUse() {
		t.Errorf("in use %v after the last call", checkUntil)
	}
	if _, err := r.enter(); err != nil {
		t.Fatal(err)
	}
	r.usedAt = time.Now().Add(-checkUntil)
	if !r.inUse() {
		t.Error("not in use during a long call")
	}
	r.leave()
	if !r.inUse() {
		t.Error("not in use after a call")
	}
	r.usedAt = time.Now().Add(-checkUntil)
	if r.inUse() {
		t.Errorf("in use %v after a call", checkUntil)
	}
}

// TestLostConnection: the desktop is not active while calls are refused.
func TestLostConnection(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "Xvfb", "openbox", "dbus-daemon")
	d, err := Start(t.Context(), Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	s, err := d.current()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.conn.Close(); err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = d.current()
	}
	if st := d.Status(); st.State != StateFailed && st.Restarts == 0 {
		t.Errorf("calls are refused (%v), and the state is %s", err, st.State)
	}
}

// TestRestartCause: the event of a restart has the first failure, also if attempts fail.
func TestRestartCause(t *testing.T) {
	t.Parallel()
	d := recovery{lifecycle: &lifecycle{state: StateActive, events: NewEventLog("main"), closing: make(chan struct{})}}
	d.log = slog.New(slog.DiscardHandler)
	sub := d.events.Subscribe(0)
	defer sub.Close()
	attempts := 0
	for !d.repair(nil, xserverPart, "xserver_exited", "Xvfb exited", func(context.Context) error {
		if attempts++; attempts < 3 {
			return errors.New("no memory")
		}
		return nil
	}) {
	}
	for _, want := range []struct {
		kind EventType
		code string
	}{{EventFailed, "xserver_exited"}, {EventFailed, "start_failed"}, {EventFailed, "start_failed"}, {EventRestarted, "xserver_exited"}} {
		if e := <-sub.Events(); e.Type != want.kind || e.Failure == nil || e.Failure.Code != want.code {
			t.Errorf("event %s with %+v, want %v", e.Type, e.Failure, want)
		}
	}
}
