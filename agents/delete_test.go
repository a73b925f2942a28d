package agents_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
)

// stubborn is an agent that only SIGKILL ends, a moment after Delete has stopped waiting for
// it.
const stubborn = `trap "" TERM INT HUP; echo "[$$]"; while read line; do :; done; while :; do sleep 1000 & wait; done`

// A server is gone when Delete begins, however long its agent takes to end. A new server of
// that id is separate from it.
func TestDeletedImmediately(t *testing.T) {
	t.Parallel()
	h := host(t, agents.Config{Launch: shell(stubborn)})
	post(t, h, "srv", `{"method":"hello"}`)
	follow(t, h, "srv", agents.Replay{}, "[")
	deleted := make(chan error, 1)
	go func() { deleted <- h.Delete(within(t), "srv") }()
	wait(t, func() error {
		if _, err := h.Follow(t.Context(), "srv", agents.Replay{}); !errors.Is(err, agents.ErrServerNotFound) {
			return fmt.Errorf("Follow = %w", err)
		}
		return nil
	})
	for range 20 {
		if _, err := h.Post(within(t), "srv", agents.PostOptions{}, []byte(`{"method":"x"}`)); !errors.Is(err, agents.ErrAgentNeeded) {
			t.Fatalf("Post without an agent = %v", err)
		}
		if list, err := h.Servers(within(t)); err != nil || len(list) > 0 {
			t.Fatalf("Servers = %v, %v", list, err)
		}
	}
	post(t, h, "srv", `{"method":"hello"}`) // the next of this id
	if err := <-deleted; err != nil {
		t.Fatal(err)
	}
	for _, e := range follow(t, h, "srv", agents.Replay{}, "[") {
		if e.Kind == "_adapter/agent_exited" {
			t.Errorf("the end of the predecessor is among the events of its successor")
		}
	}
	if list, err := h.Servers(within(t)); err != nil || len(list) != 1 || !list[0].Running {
		t.Errorf("Servers = %v, %v", list, err)
	}
}

// A message that waits for room in an agent's input waits no longer than the agent runs.
func TestDeafAgentEnds(t *testing.T) {
	t.Parallel()
	mounted := make(chan struct{}, 2) // when its process starts, and for each new session
	mount := func(context.Context, context.Context, string, string) (agents.Mount, error) {
		mounted <- struct{}{}
		return agents.Mount{}, nil
	}
	h := host(t, agents.Config{Launch: shell(`exec sleep 1000`), MaxMessageBytes: 1 << 20, Desktop: "d", Mount: mount})
	pad := strings.Repeat("x", 900<<10)
	post(t, h, "srv", `{"method":"hello"}`)
	<-mounted
	if _, err := h.Post(within(t), "srv", agents.PostOptions{}, fmt.Appendf(nil, `{"method":"x","params":%q}`, pad)); err != nil {
		t.Fatal(err)
	}
	waits := make(chan error, 1)
	go func() {
		_, err := h.Post(within(t), "srv", agents.PostOptions{}, fmt.Appendf(nil, `{"id":1,"method":"session/new","params":{"pad":%q}}`, pad))
		waits <- err
	}()
	<-mounted // the process runs
	select {
	case err := <-waits:
		t.Fatalf("Post to a full agent = %v", err)
	case <-time.After(100 * time.Millisecond): // it has to wait; the shorter this is, the less is tested
	}
	if err := h.Delete(within(t), "srv"); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-waits:
		if !errors.Is(err, agents.ErrServerNotFound) {
			t.Errorf("Post to an agent that ends = %v", err)
		}
	case <-time.After(limit):
		t.Error("Post still waits for an agent that has ended")
	}
}

// After the log has refused a message, the next message tries the log again, although the
// agent says nothing in between.
func TestLogRecovers(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "events.db")
	log, err := eventlog.Open(t.Context(), eventlog.Config{DSN: file, BusyTimeout: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	closing(t, log)
	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	closing(t, db)
	other, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	closing(t, other)
	h := host(t, agents.Config{Log: log})
	post(t, h, "srv", initialize)
	if _, err := other.ExecContext(t.Context(), "begin immediate"); err != nil {
		t.Fatal(err)
	}
	exhaust(t, log)
	if _, err := h.Post(within(t), "srv", agents.PostOptions{}, []byte(`{"id":1,"method":"echo"}`)); !errors.Is(err, eventlog.ErrBusy) {
		t.Errorf("Post = %v", err)
	}
	if _, err := other.ExecContext(t.Context(), "rollback"); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Post(within(t), "srv", agents.PostOptions{}, []byte(`{"id":2,"method":"echo","params":{}}`)); err != nil {
		t.Errorf("Post afterwards = %v", err)
	}
}

// A server that another host with the same log has run and deleted meanwhile is gone for this
// host as well.
func TestDeletedElsewhere(t *testing.T) {
	t.Parallel()
	log := openLog(t, "")
	h := host(t, agents.Config{Log: log, IdleTimeout: time.Millisecond})
	post(t, h, "srv", initialize)
	resting := func() error {
		list, err := h.Servers(t.Context())
		if err != nil || len(list) != 1 || list[0].Running {
			return fmt.Errorf("Servers = %v, %w", list, err)
		}
		return nil
	}
	wait(t, resting)
	err := log.Commit(t.Context(), func(tx *eventlog.Tx) error {
		now := time.Now()
		return tx.PutProcess(eventlog.Process{
			ID: "life_elsewhere", Server: "srv", Agent: "scripted", Instance: "another", StartedAt: now, ExitedAt: now, Reason: "deleted",
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Post(within(t), "srv", agents.PostOptions{}, []byte(`{"id":1,"method":"echo"}`)); !errors.Is(err, agents.ErrAgentNeeded) {
		t.Errorf("Post = %v", err)
	}
	post(t, h, "srv", initialize) // the next of this id
	wait(t, resting)
	if err := h.Delete(within(t), "srv"); err != nil {
		t.Error(err)
	}
}

// The status of agents has the agents with servers, until the servers are deleted.
func TestAgentStatus(t *testing.T) {
	t.Parallel()
	h := host(t, agents.Config{})
	status := func() agents.AgentStatus {
		t.Helper()
		all, err := h.Agents(within(t))
		if err != nil || len(all) > 1 {
			t.Fatalf("Agents = %v, %v", all, err)
		}
		return all["scripted"]
	}
	begun := time.Now()
	post(t, h, "one", initialize)
	first := status()
	if !first.Running || first.Since.Before(begun.Add(-time.Second)) || first.Since.After(time.Now()) {
		t.Errorf("one runs: %+v", first)
	}
	post(t, h, "two", initialize)
	if both := status(); both != first {
		t.Errorf("two run: %+v, want the older %+v", both, first)
	}
	if err := h.Delete(within(t), "one"); err != nil {
		t.Fatal(err)
	}
	if second := status(); !second.Running || !second.Since.After(first.Since) {
		t.Errorf("the younger runs: %+v", second)
	}
	_, _ = h.Post(within(t), "two", agents.PostOptions{}, []byte(`{"id":1,"method":"die"}`))
	follow(t, h, "two", agents.Replay{All: true}, "agent_exited")
	if all, err := h.Agents(within(t)); err != nil || len(all) != 1 || status().Running {
		t.Errorf("none runs: %v, %v", all, err)
	}
	if err := h.Delete(within(t), "two"); err != nil {
		t.Fatal(err)
	}
	if all, err := h.Agents(within(t)); err != nil || len(all) > 0 {
		t.Errorf("there is none: %v, %v", all, err)
	}
}

// openFile calls f with a log in a file that is open.
func openFile(t *testing.T, file string, keep eventlog.Retention, f func(*eventlog.Log)) {
	t.Helper()
	log, err := eventlog.Open(t.Context(), eventlog.Config{DSN: file, Retention: keep})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := log.Close(); err != nil {
			t.Error(err)
		}
	}()
	f(log)
}

// Retention leaves enough of deleted servers for later servers of their ids, and for their
// sessions.
func TestDeletedAndForgotten(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "events.db")
	cfg := agents.Config{Launch: agentOf()}
	var session string
	var last int64
	openFile(t, file, eventlog.Retention{}, func(log *eventlog.Log) {
		cfg.Log = log
		h, err := agents.Start(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		post(t, h, "srv", initialize)
		post(t, h, "talks", initialize)
		session = newSession(t, h, "talks")
		prompt(t, h, "talks", session, "hello")
		err = errors.Join(h.Delete(within(t), "srv"), h.Delete(within(t), "talks"), h.Close())
		if last, _ = log.Last(t.Context(), "acp:srv"); err != nil || last == 0 {
			t.Fatal(last, err)
		}
	})
	openFile(t, file, eventlog.Retention{Events: 1000}, func(log *eventlog.Log) {
		wait(t, func() error {
			processes, err := log.Processes(t.Context(), eventlog.ProcessFilter{})
			if err != nil || len(processes) != 1 || processes[0].Server != "talks" {
				return fmt.Errorf("processes = %v, %w", processes, err)
			}
			return nil
		})
		cfg.Log = log
		h, err := agents.Start(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.Post(within(t), "srv", agents.PostOptions{}, []byte(initialize)); !errors.Is(err, agents.ErrAgentNeeded) {
			t.Errorf("Post = %v", err)
		}
		post(t, h, "srv", initialize)
		if events := follow(t, h, "srv", agents.Replay{}, `"result"`); events[0].Seq != last+1 {
			t.Errorf("goes on with %d after %d", events[0].Seq, last)
		}
		turn, err := h.Prompt(within(t), session, []byte(`[{"type":"text","text":"and now"}]`))
		if err == nil {
			_, err = turn.Wait(within(t))
		}
		if err = errors.Join(err, h.Close()); err != nil {
			t.Error(err)
		}
		if text := sessionText(t, log, session); !strings.Contains(text, "User: hello") {
			t.Errorf("the agent was told %s", text)
		}
	})
}

// sessionText returns the newest update in a session's stream.
func sessionText(t *testing.T, log *eventlog.Log, session string) (text string) {
	t.Helper()
	events, err := log.Read(t.Context(), agents.SessionStream(session), 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		if e.Kind == "session/update" {
			text = string(e.Payload)
		}
	}
	return text
}

// A server that another host has deleted, and of which the log has nothing, is gone for this
// host as well.
func TestForgottenElsewhere(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "events.db")
	openFile(t, file, eventlog.Retention{}, func(log *eventlog.Log) {
		h, err := agents.Start(t.Context(), agents.Config{Log: log, Launch: agentOf(), IdleTimeout: time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		post(t, h, "srv", initialize)
		wait(t, func() error {
			list, err := h.Servers(t.Context())
			if err != nil || len(list) != 1 || list[0].Running {
				return fmt.Errorf("Servers = %v, %w", list, err)
			}
			return nil
		})
		db, err := sql.Open("sqlite", file)
		if err != nil {
			t.Fatal(err)
		}
		closing(t, db)
		if _, err := db.ExecContext(t.Context(), "delete from life"); err != nil {
			t.Fatal(err)
		}
		if _, err := h.Post(within(t), "srv", agents.PostOptions{}, []byte(initialize)); !errors.Is(err, agents.ErrAgentNeeded) {
			t.Errorf("Post = %v", err)
		}
		if err := errors.Join(h.Delete(within(t), "srv"), h.Close()); err != nil {
			t.Error(err)
		}
	})
}
