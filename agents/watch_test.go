package agents_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/internal/testpostgres"
)

// TestHostsNoticeThatOthersAreGone kills a host in the middle of its turns. Without a request
// for its sessions, another host completes their records.
func TestHostsNoticeThatOthersAreGone(t *testing.T) {
	t.Parallel()
	dsn, dir := testpostgres.DSN(t), t.TempDir()
	h := hostOn(t, dsn, agents.Config{GoneAfter: 200 * time.Millisecond})
	told, answered := map[string]string{}, map[string]bool{}
	killRound(t, dir, dsn, 0, told, answered)
	wait(t, func() error {
		open, err := h.Log().Processes(within(t), eventlog.ProcessFilter{Open: true})
		if err == nil && len(open) > 0 {
			err = fmt.Errorf("%d servers seem to run", len(open))
		}
		return err
	})
	all, _, err := h.Sessions(within(t), eventlog.SessionFilter{}, "", 0)
	if err != nil || len(all) != killServers {
		t.Fatalf("sessions = %v, %v", all, err)
	}
	for _, s := range all {
		if s.State != eventlog.Idle && s.State != eventlog.Interrupted {
			t.Errorf("session %s is %s", s.ID, s.State)
		}
		if n := strings.Count(payloads(stream(t, h, s.ID)), `"_adapter/agent_exited"`); n != 1 {
			t.Errorf("session %s was told of %d ends", s.ID, n)
		}
	}
	checkLog(t, dsn, told, answered)
	host(t, agents.Config{StateDir: filepath.Join(dir, "state")}) // which removes what the killed one left
}

// TestHostTakesItsServersBack: a host that has lost Postgres for so long that other hosts took
// it for gone has its servers again when it is back.
func TestHostTakesItsServersBack(t *testing.T) {
	t.Parallel()
	c := testpostgres.Shared(t)
	p, dsn := c.Proxy(t), c.Schema(t)
	cfg := agents.Config{GoneAfter: 200 * time.Millisecond}
	one, two := hostOn(t, p.Through(dsn), cfg), hostOn(t, dsn, cfg)
	post(t, one, "srv", initialize)
	id := newSession(t, one, "srv")
	open := func(want int) {
		t.Helper()
		wait(t, func() error {
			processes, err := two.Log().Processes(within(t), eventlog.ProcessFilter{Server: "srv", Open: true})
			if err == nil && len(processes) != want {
				err = fmt.Errorf("%d servers run, want %d", len(processes), want)
			}
			return err
		})
	}
	open(1)
	p.Refuse()
	open(0)
	p.Accept()
	open(1)
	_, err := two.Post(within(t), "srv", agents.PostOptions{}, []byte(promptOf(id, "lost?")))
	if _, elsewhere := errors.AsType[*agents.ElsewhereError](err); !elsewhere {
		t.Errorf("Post in the other host = %v", err)
	}
	prompt(t, one, "srv", id, "and now?")
	stateOf(t, two, id, eventlog.Idle)
}
