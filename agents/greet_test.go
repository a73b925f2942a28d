package agents_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/deskhand/deskhand/agents"
)

// greeting is a host that knows the session of a server and has no process of its agent, whose
// memory is in dir. It calls starting when it starts a process.
func greeting(t *testing.T, starting func(), env ...string) (h *agents.Host, session string, dir string) {
	t.Helper()
	dir = t.TempDir()
	cfg := agents.Config{Log: openLog(t, ""), StateDir: t.TempDir(), StartTimeout: limit}
	file := "RECEIVED=" + filepath.Join(dir, "received")
	cfg.Launch = agentOf(`CAPS={"loadSession":true}`, "SESSIONS="+dir, file)
	h = host(t, cfg)
	post(t, h, "srv", initialize)
	session = newSession(t, h, "srv")
	prompt(t, h, "srv", session, "remember the seal")
	launch := agentOf(append([]string{`CAPS={"loadSession":true}`, "SESSIONS=" + dir, file}, env...)...)
	cfg.Launch = func(ctx context.Context, agent string) (agents.Launch, error) {
		starting()
		return launch(ctx, agent)
	}
	return restart(t, h, cfg), session, dir
}

// checkRemembers checks that a session continues in an agent that was initialized before.
func checkRemembers(t *testing.T, h *agents.Host, session, dir string, greetings int) {
	t.Helper()
	prompt(t, h, "srv", session, "and now?")
	got := received(t, filepath.Join(dir, "received"))
	if !strings.Contains(got, "session/load") || strings.Count(got, "session/new") != 1 || strings.Count(got, `"mark":"mine"`) != greetings {
		t.Errorf("the agent got\n%s", got)
	}
}

// A session is not restored before the agent has answered the initialize of the client that
// started it, since the answer has the agent's capabilities.
func TestRestoreAwaitsInitialize(t *testing.T) {
	t.Parallel()
	gate := filepath.Join(t.TempDir(), "gate")
	h, session, dir := greeting(t, func() {}, "GATE="+gate)
	done := make(chan error, 1)
	go func() {
		_, err := h.Post(within(t), "srv", agents.PostOptions{}, []byte(initialize))
		done <- err
	}()
	wait(t, func() error {
		if n := strings.Count(received(t, filepath.Join(dir, "received")), `"mark":"mine"`); n < 2 {
			return errors.New("it was not started")
		}
		return nil
	})
	soon, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := h.Post(soon, "srv", agents.PostOptions{}, []byte(promptOf(session, "too early"))); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Post = %v", err)
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	checkRemembers(t, h, session, dir, 2)
}

// An agent gets the initialize of a client that leaves while the agent is being started.
func TestInitializeDoesNotCome(t *testing.T) {
	t.Parallel()
	gone, cancel := context.WithCancel(t.Context())
	left := make(chan struct{})
	h, session, dir := greeting(t, func() {
		cancel()
		<-left
	})
	if _, err := h.Post(gone, "srv", agents.PostOptions{}, []byte(initialize)); !errors.Is(err, context.Canceled) {
		t.Errorf("Post = %v", err)
	}
	close(left)
	checkRemembers(t, h, session, dir, 2)
}

// An agent that does not answer initialize gets no session.
func TestInitializeUnanswered(t *testing.T) {
	t.Parallel()
	log, state := openLog(t, ""), t.TempDir()
	h := host(t, agents.Config{Log: log, StateDir: state})
	session := newSession(t, h, "srv")
	file := filepath.Join(t.TempDir(), "received")
	h = restart(t, h, agents.Config{Log: log, StateDir: state, StartTimeout: 2 * time.Second, Launch: agentOf("SILENT_AT=initialize", "RECEIVED="+file)})
	if err := h.Submit(within(t), "srv", agents.PostOptions{}, []byte(initialize)); err != nil {
		t.Fatal(err)
	}
	_, err := h.Post(within(t), "srv", agents.PostOptions{}, []byte(promptOf(session, "hello")))
	late, ok := errors.AsType[*agents.TimeoutError](err)
	if _, lost := errors.AsType[*agents.RestoreError](err); !ok || !lost || late.Method != "initialize" {
		t.Errorf("Post = %v", err)
	}
	got, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) { // it may not have begun to read
		t.Fatal(err)
	}
	if strings.Contains(string(got), "session/") {
		t.Errorf("the agent got\n%s", got)
	}
}
