package agents_test

import (
	"context"
	"errors"
	"testing"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
)

// What is changed in a session while its process is about to end is not undone by
// that end.
func TestChangeWhileEnding(t *testing.T) {
	t.Parallel()
	h := host(t, agents.Config{Launch: agentOf("IGNORE_EOF=1")})
	create(t, h, "terminated", agents.SessionOptions{})
	create(t, h, "restricted", agents.SessionOptions{})
	for _, id := range []string{"terminated", "restricted"} {
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if err := h.Delete(gone, "ses-"+id); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.Terminate(within(t), "terminated"); err != nil {
		t.Fatal(err)
	}
	if err := h.SetPermissions(within(t), "restricted", agents.Policy{Mode: agents.Reject}); err != nil {
		t.Fatal(err)
	}
	wait(t, func() error {
		lives, err := h.Log().Lives(t.Context(), eventlog.LifeFilter{Open: true})
		if err == nil && len(lives) > 0 {
			err = errors.New("the processes have not ended")
		}
		return err
	})
	checkEnded(t, h, "terminated")
	if s, err := h.Session(within(t), "restricted"); err != nil || s.Permissions.Mode != agents.Reject {
		t.Errorf("session = %+v, %v", s, err)
	}
}
