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

// hostsOfPostgres returns two hosts that share Postgres. one reaches it through a proxy, and has the
// server "srv".
func hostsOfPostgres(t *testing.T) (p *testpostgres.Proxy, one, two *agents.Host) {
	t.Helper()
	c := testpostgres.Shared(t)
	p = c.Proxy(t)
	dsn := c.Schema(t)
	cfg := agents.Config{GoneAfter: 200 * time.Millisecond}
	one, two = hostOn(t, p.Through(dsn), cfg), hostOn(t, dsn, cfg)
	post(t, one, "srv", initialize)
	return p, one, two
}

// TestHostTakesItsServersBack: a host that has lost Postgres for so long that other hosts took
// it for gone has its servers again when it is back.
func TestHostTakesItsServersBack(t *testing.T) {
	t.Parallel()
	p, one, two := hostsOfPostgres(t)
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

// TestHostTakesItsQuestionsBack: a question of an agent, and the turn that waits for its answer, are
// in the log again when a host is back that others took for gone.
func TestHostTakesItsQuestionsBack(t *testing.T) {
	t.Parallel()
	p, one, two := hostsOfPostgres(t)
	id := newSession(t, one, "srv")
	prompted := prompt1(t, one, "srv", promptOf(id, "ask"))
	stateOf(t, two, id, eventlog.Waiting)
	asked, err := two.Requests(within(t), id)
	if err != nil || len(asked) != 1 || len(asked[0].Params) == 0 {
		t.Fatalf("Requests = %+v, %v", asked, err)
	}
	p.Refuse()
	stateOf(t, two, id, eventlog.Interrupted)
	cancel := fmt.Sprintf(`{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":%q}}`, id)
	if _, err := one.Post(within(t), "srv", agents.PostOptions{}, []byte(cancel)); !errors.Is(err, eventlog.ErrUnavailable) {
		t.Fatalf("cancel without Postgres = %v", err)
	}
	p.Accept()
	wait(t, func() error {
		back, err := two.Requests(within(t), id)
		if fmt.Sprintf("%+v", back) != fmt.Sprintf("%+v", asked) {
			err = fmt.Errorf("questions = %+v, %w, want %+v", back, err, asked)
		}
		return err
	})
	stateOf(t, two, id, eventlog.Waiting)
	if err := one.Answer(within(t), id, asked[0].PublicID, agents.Reply{Kinds: []string{agents.AllowOnce}}); err != nil {
		t.Fatal(err)
	}
	if err := <-prompted; err != nil {
		t.Error(err)
	}
	stateOf(t, two, id, eventlog.Idle)
}

// TestHostKeepsWhatOthersChanged: a host that is back has the sessions as another host has left
// them, which took it for gone: with their settings, or ended.
func TestHostKeepsWhatOthersChanged(t *testing.T) {
	t.Parallel()
	p, one, two := hostsOfPostgres(t)
	hangs, idle, ended, asks := newSession(t, one, "srv"), newSession(t, one, "srv"), newSession(t, one, "srv"), newSession(t, one, "srv")
	hanging := prompt1(t, one, "srv", promptOf(hangs, "hang"))
	stateOf(t, two, hangs, eventlog.Running)
	asking := prompt1(t, one, "srv", promptOf(asks, "ask"))
	stateOf(t, two, asks, eventlog.Waiting)
	p.Refuse()
	stateOf(t, two, hangs, eventlog.Interrupted)
	stateOf(t, two, asks, eventlog.Interrupted)
	for _, id := range []string{hangs, idle} {
		if err := errors.Join(
			two.SetTitle(within(t), id, "theirs"), two.SetArchived(within(t), id, true),
			two.SetPermissions(within(t), id, agents.Policy{Mode: agents.Reject}),
		); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []string{ended, asks} {
		if err := two.Terminate(within(t), id); err != nil {
			t.Fatal(err)
		}
	}
	p.Accept()
	if err := <-asking; err != nil { // its question is cancelled
		t.Error(err)
	}
	stateOf(t, two, hangs, eventlog.Running)
	prompt(t, one, "srv", idle, "ask") // the policy rejects
	post(t, one, "srv", fmt.Sprintf(`{"jsonrpc":"2.0","id":8,"method":"session/set_mode","params":{"sessionId":%q,"modeId":"b"}}`, hangs))
	for id, state := range map[string]eventlog.State{hangs: eventlog.Running, idle: eventlog.Idle} {
		s := stateOf(t, two, id, state)
		if s.Title != "theirs" || !s.Archived || s.Permissions.Mode != agents.Reject {
			t.Errorf("session = %+v", s)
		}
	}
	for _, id := range []string{ended, asks} {
		if answer := post(t, one, "srv", promptOf(id, "again")); !strings.Contains(answer, "session has ended") {
			t.Errorf("a prompt of a session that was ended: %s", answer)
		}
		if s := stateOf(t, two, id, eventlog.Ended); s.EndReason != "terminated" || s.EndedAt.IsZero() || !s.WaitingSince.IsZero() {
			t.Errorf("session = %+v", s)
		}
	}
	if open, err := two.Questions(within(t), asks); err != nil || len(open) != 0 {
		t.Errorf("questions = %+v, %v", open, err)
	}
	if err := one.Delete(within(t), "srv"); err != nil {
		t.Error(err)
	}
	<-hanging
}
