package agents_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
)

// The newest process stays the newest after the clock was set back.
func TestClockSetBack(t *testing.T) {
	t.Parallel()
	cfg := agents.Config{Log: openLog(t, ""), StateDir: t.TempDir(), Launch: agentOf()}
	h := host(t, cfg)
	for _, server := range []string{"deleted", "exited"} {
		post(t, h, server, initialize)
	}
	if err := h.Delete(within(t), "deleted"); err != nil {
		t.Fatal(err)
	}
	var exited *agents.ExitedError
	if _, err := h.Post(within(t), "exited", agents.PostOptions{}, []byte(`{"id":1,"method":"die"}`)); !errors.As(err, &exited) {
		t.Fatalf("Post = %v", err)
	}
	ahead(t, h, time.Hour)
	h = restart(t, h, cfg)
	if list, err := h.Servers(within(t)); err != nil || len(list) != 1 {
		t.Fatalf("Servers = %+v, %v", list, err)
	}
	for _, server := range []string{"deleted", "exited"} {
		post(t, h, server, initialize)
	}
	h = restart(t, h, cfg)
	list, err := h.Servers(within(t))
	if err != nil || len(list) != 2 {
		t.Errorf("Servers = %+v, %v", list, err)
	}
	for _, server := range []string{"deleted", "exited"} {
		answer, err := h.Post(within(t), server, agents.PostOptions{}, []byte(`{"id":1,"method":"echo","params":"on"}`))
		if err != nil || !strings.Contains(string(answer), "on") {
			t.Errorf("Post to %s = %s, %v", server, answer, err)
		}
		s, err := h.Follow(within(t), server, agents.Replay{})
		if err != nil {
			t.Errorf("Follow %s = %v", server, err)
			continue
		}
		s.Close()
	}
}

// ahead moves the starts and ends of all processes into the future.
func ahead(t *testing.T, h *agents.Host, by time.Duration) {
	t.Helper()
	wait(t, func() error { // until their ends are there
		open, err := h.Log().Processes(t.Context(), eventlog.ProcessFilter{Open: true})
		if err == nil && len(open) > 0 {
			err = errors.New("a process has no end")
		}
		return err
	})
	processes, err := h.Log().Processes(within(t), eventlog.ProcessFilter{})
	if err != nil {
		t.Fatal(err)
	}
	err = h.Log().Commit(within(t), func(tx *eventlog.Tx) error {
		for _, l := range processes {
			l.StartedAt, l.ExitedAt = l.StartedAt.Add(by), l.ExitedAt.Add(by)
			if err := tx.PutProcess(l); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
