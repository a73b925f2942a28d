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
	"github.com/deskhand/deskhand/agents/eventlog"
)

// choosing returns a host that makes the session x in the mode plan. Its agent does not accept
// the mode until the file gate exists.
func choosing(t *testing.T) (h *agents.Host, gate string, made <-chan error) {
	t.Helper()
	dir := t.TempDir()
	gate, received := filepath.Join(dir, "gate"), filepath.Join(dir, "received")
	h = host(t, agents.Config{Launch: agentOf(actAs+"=chooser", "OFFERS=modes", "CAPS={}", "GATE="+gate, "RECEIVED="+received)})
	done := make(chan error, 1)
	go func() {
		_, err := h.CreateSession(within(t), "x", agents.SessionOptions{Agent: "scripted", Cwd: dir, Mode: "plan"})
		done <- err
	}()
	wait(t, func() error {
		b, err := os.ReadFile(received)
		if err == nil && !strings.Contains(string(b), "session/set_mode") {
			err = errors.New("no session/set_mode yet")
		}
		return err
	})
	return h, gate, done
}

// No other caller can use a new session before its mode is set.
func TestMadeWhole(t *testing.T) {
	t.Parallel()
	h, gate, made := choosing(t)
	before := stateOf(t, h, "x", eventlog.Starting)
	if before.Native == "" {
		t.Error("the agent has made no session")
	}
	_, err := h.Prompt(within(t), "x", []byte(`[{"type":"text","text":"too early"}]`))
	if !errors.Is(err, agents.ErrSessionStarting) {
		t.Errorf("Prompt = %v", err)
	}
	for _, method := range []string{"session/prompt", "session/load"} {
		_, err = h.Post(within(t), "ses-x", agents.PostOptions{}, []byte(`{"id":1,"method":"`+method+`","params":{"sessionId":"x","cwd":"/","mcpServers":[]}}`))
		if !errors.Is(err, agents.ErrSessionStarting) {
			t.Errorf("Post of %s = %v", method, err)
		}
	}
	if err := h.Cancel(within(t), "x"); err != nil {
		t.Errorf("Cancel = %v", err)
	}
	if err := h.SetPermissions(within(t), "x", agents.Policy{Mode: agents.Allow}); err != nil {
		t.Errorf("SetPermissions = %v", err)
	}
	checkGivenUp(t, before.Session)
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := <-made; err != nil {
		t.Fatal(err)
	}
	if s := stateOf(t, h, "x", eventlog.Idle); s.Mode != "plan" || s.Permissions.Mode != agents.Allow || strings.Contains(string(s.Data), "maker") {
		t.Errorf("session = %+v", s)
	}
	if now := setting(t, h, "x", "hello"); now.Mode != "plan" {
		t.Errorf("the agent is set to %+v", now)
	}
}

// An agent that never answers session/new gets no session, and the caller an error that names
// both.
func TestNewUnanswered(t *testing.T) {
	t.Parallel()
	h := host(t, agents.Config{Launch: agentOf("SILENT_AT=session/new"), StartTimeout: 4 * time.Second, RestoreTimeout: time.Millisecond, RequestTimeout: time.Second})
	_, err := h.CreateSession(within(t), "x", agents.SessionOptions{Agent: "scripted", Cwd: t.TempDir()})
	if late, ok := errors.AsType[*agents.TimeoutError](err); !ok || late.Error() != "scripted did not answer session/new in time" {
		t.Errorf("CreateSession = %v", err)
	}
	if s := stateOf(t, h, "x", eventlog.Failed); !strings.Contains(s.EndReason, "did not answer session/new") {
		t.Errorf("the session ended because %s", s.EndReason)
	}
	_, err = h.Post(within(t), "srv", agents.PostOptions{Agent: "scripted"}, []byte(`{"id":1,"method":"session/new","params":{"cwd":"/","mcpServers":[]}}`))
	if late, ok := errors.AsType[*agents.TimeoutError](err); !ok || late.Error() != "scripted did not answer session/new within 1s" {
		t.Errorf("Post = %v", err)
	}
}

// checkGivenUp checks that the session of a host which was killed while making it is not used
// by the next host.
func checkGivenUp(t *testing.T, left eventlog.Session) {
	t.Helper()
	log := openLog(t, "")
	if err := log.Commit(t.Context(), func(tx *eventlog.Tx) error { return tx.PutSession(left) }); err != nil {
		t.Fatal(err)
	}
	next := host(t, agents.Config{Log: log})
	stateOf(t, next, left.ID, eventlog.Failed)
	create(t, next, left.ID, agents.SessionOptions{})
}

// The state of a session is failed if its agent ends while the session is being made.
func TestEndsWhileMade(t *testing.T) {
	t.Parallel()
	h, _, made := choosing(t)
	if err := h.Delete(within(t), "ses-x"); err != nil {
		t.Fatal(err)
	}
	if err := <-made; !errors.Is(err, agents.ErrServerNotFound) {
		t.Errorf("CreateSession = %v", err)
	}
	if s, err := h.Session(within(t), "x"); err != nil || s.State != eventlog.Failed {
		t.Errorf("session = %+v, %v", s, err)
	}
}

// A session that could not be made fails again if its agent cannot be started, also in the
// next host. Then it can be made.
func TestFailsAgain(t *testing.T) {
	t.Parallel()
	dsn := filepath.Join(t.TempDir(), "events.db")
	h := hostOn(t, dsn, agents.Config{Launch: agentOf("NAMELESS=1")})
	if _, err := h.CreateSession(within(t), "x", agents.SessionOptions{Agent: "scripted", Cwd: "/"}); err == nil {
		t.Fatal("a session without a name was made")
	}
	leaveHost(t, h)
	h = hostOn(t, dsn, agents.Config{})
	_, err := h.CreateSession(within(t), "x", agents.SessionOptions{Agent: "nope", Cwd: "/"})
	if _, ok := errors.AsType[*agents.StartError](err); !ok {
		t.Errorf("CreateSession = %v", err)
	}
	if s, err := h.Session(within(t), "x"); err != nil || s.State != eventlog.Failed {
		t.Errorf("session = %+v, %v", s, err)
	}
	create(t, h, "x", agents.SessionOptions{})
}

// A session that is terminated while it is made has ended.
func TestTerminatedWhileMade(t *testing.T) {
	t.Parallel()
	h, _, made := choosing(t)
	if err := h.Terminate(within(t), "x"); err != nil {
		t.Fatal(err)
	}
	if err := <-made; err == nil {
		t.Error("CreateSession does not tell")
	}
	checkEnded(t, h, "x")
}

// The id of a session has at most 512 bytes.
func TestLongSessionID(t *testing.T) {
	t.Parallel()
	h := host(t, agents.Config{})
	long := strings.Repeat("s", 513)
	_, err := h.CreateSession(within(t), long, agents.SessionOptions{Agent: "scripted", Cwd: t.TempDir()})
	if invalid, ok := errors.AsType[*agents.InvalidError](err); !ok || invalid.Field != "sessionId" {
		t.Errorf("an id of 513 bytes: %v, want an InvalidError", err)
	}
	create(t, h, long[1:], agents.SessionOptions{})
}

// An answer to session/new without an id is an error of the agent.
func TestMadeNameless(t *testing.T) {
	t.Parallel()
	h := host(t, agents.Config{Launch: agentOf("NAMELESS=1")})
	_, err := h.CreateSession(within(t), "x", agents.SessionOptions{Agent: "scripted", Cwd: t.TempDir()})
	if _, ok := errors.AsType[*agents.ResponseError](err); !ok || errors.Is(err, agents.ErrSessionNotFound) {
		t.Errorf("CreateSession = %v", err)
	}
	if s := stateOf(t, h, "x", eventlog.Failed); !strings.Contains(string(s.Error), "sessionId") {
		t.Errorf("the session's error is %s", s.Error)
	}
}

// The same for an agent that can only continue sessions with a transcript.
func TestRestoredNameless(t *testing.T) {
	t.Parallel()
	cfg := agents.Config{Log: openLog(t, ""), StateDir: t.TempDir(), Launch: agentOf()}
	h := host(t, cfg)
	create(t, h, "x", agents.SessionOptions{})
	cfg.Launch = agentOf("NAMELESS=1")
	h = restart(t, h, cfg)
	_, err := h.Prompt(within(t), "x", []byte(`[{"type":"text","text":"hello"}]`))
	if _, ok := errors.AsType[*agents.ResponseError](err); !ok || errors.Is(err, agents.ErrSessionNotFound) {
		t.Errorf("Prompt = %v", err)
	}
}

// An install has no time limit. The limits apply to what follows it.
func TestCreateWaitsForInstall(t *testing.T) {
	t.Parallel()
	const bound = 5 * time.Millisecond
	failed := errors.New("the install failed in the end")
	h := host(t, agents.Config{StartTimeout: bound, RestoreTimeout: bound, Launch: func(ctx context.Context, _ string) (agents.Launch, error) {
		select {
		case <-time.After(20 * bound):
			return agents.Launch{}, failed
		case <-ctx.Done():
			return agents.Launch{}, ctx.Err()
		}
	}})
	if _, err := h.CreateSession(within(t), "s", agents.SessionOptions{Agent: "scripted", Cwd: "/"}); !errors.Is(err, failed) {
		t.Errorf("CreateSession = %v", err)
	}
}
