package webrtc

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/internal/testlog"
)

// TestLogsHaveNoKeys has a viewer type keys that the desktop refuses, and send invalid
// messages, with the log at its lowest level.
func TestLogsHaveNoKeys(t *testing.T) {
	t.Parallel()
	log := new(testlog.Buffer)
	d := startDesktop(t, desktop.Config{})
	s := stream(t, d, Config{Logger: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	ann := watch(t, s, ViewerOptions{Name: "ann"})
	<-ann.open
	ann.event("control/host")
	ann.send("control/type", map[string]string{"text": "hunter2\x01"})
	ann.send("control/keypress", map[string]any{"keysym": 0x1cafe77})
	ann.send("control/keypress", map[string]any{"keysym": 77.5})
	if err := ann.conn.Send(t.Context(), []byte(`{"event":"control/type","payload":hunter2}`)); err != nil {
		t.Fatal(err)
	}
	ann.send("secret77.5", nil) // an event that does not exist
	until(t, "all is logged", func() bool { return strings.Contains(log.String(), "unknown message") })
	until(t, "typing is logged", func() bool { return strings.Count(log.String(), "msg=input") >= 1 })
	for _, secret := range []string{"hunter2", "U+0001", "cafe77", "77.5", "'h'"} {
		if strings.Contains(log.String(), secret) {
			t.Errorf("the log has %q:\n%s", secret, log.String())
		}
	}
}
