package agents_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
)

// restoring is a host with the session x. A prompt waits for its restoration, because its
// agent does not answer session/load. The next process answers.
func restoring(t *testing.T) (h *agents.Host, prompted <-chan error) {
	t.Helper()
	h, _, prompted = restoringThat(t, func(h *agents.Host) string {
		create(t, h, "x", agents.SessionOptions{})
		return "x"
	})
	return h, prompted
}

// restoringThat is like restoring with a session that a function makes. load is the message
// that the agent got.
func restoringThat(t *testing.T, made func(*agents.Host) string) (h *agents.Host, load string, prompted <-chan error) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "received")
	env := []string{`CAPS={"loadSession":true}`, "SESSIONS=" + dir, "RECEIVED=" + file}
	cfg := agents.Config{Log: openLog(t, ""), StateDir: t.TempDir(), Launch: agentOf(env...)}
	h = host(t, cfg)
	id := made(h)
	var starts atomic.Int32
	cfg.Launch = func(ctx context.Context, name string) (agents.Launch, error) {
		if starts.Add(1) == 1 {
			return agentOf(append(env, "SILENT_AT=session/load")...)(ctx, name)
		}
		return agentOf(env...)(ctx, name)
	}
	h = restart(t, h, cfg)
	done := make(chan error, 1)
	go func() {
		turn, err := h.Prompt(within(t), id, []byte(`[{"type":"text","text":"go on"}]`))
		if err == nil {
			_, err = turn.Wait(within(t))
		}
		done <- err
	}()
	wait(t, func() error {
		b, err := os.ReadFile(file)
		for line := range strings.Lines(string(b)) {
			if strings.Contains(line, "session/load") {
				load = line
			}
		}
		if !strings.HasSuffix(load, "\n") {
			return fmt.Errorf("no session/load yet: %w", err)
		}
		return nil
	})
	return h, load, done
}

// A session can be used after its server was deleted during the session's restoration.
func TestDeletedWhileRestored(t *testing.T) {
	t.Parallel()
	h, prompted := restoring(t)
	if err := h.Delete(within(t), "ses-x"); err != nil {
		t.Fatal(err)
	}
	if err := <-prompted; err != nil {
		t.Errorf("Prompt = %v", err)
	}
}

// Terminate ends a session immediately during its restoration, and its process.
func TestTerminatedWhileRestored(t *testing.T) {
	t.Parallel()
	h, prompted := restoring(t)
	if err := h.Terminate(within(t), "x"); err != nil {
		t.Fatal(err)
	}
	if err := <-prompted; !errors.Is(err, agents.ErrSessionEnded) {
		t.Errorf("the prompt that waited = %v", err)
	}
	checkEnded(t, h, "x")
	if list, err := h.Servers(within(t)); err != nil || len(list) > 0 {
		t.Errorf("Servers = %v, %v", list, err)
	}
}

// checkEnded checks that a session was terminated, once.
func checkEnded(t *testing.T, h *agents.Host, id string) {
	t.Helper()
	if s := stateOf(t, h, id, eventlog.Ended); s.EndReason != "terminated" {
		t.Errorf("session = %+v", s.Session)
	}
	if _, err := h.Prompt(within(t), id, []byte(`[]`)); !errors.Is(err, agents.ErrSessionEnded) {
		t.Errorf("Prompt = %v", err)
	}
	if n := strings.Count(payloads(stream(t, h, id)), "session/ended"); n != 1 {
		t.Errorf("the stream tells of %d ends", n)
	}
}

// The same for a session that shares its process with others, which continue. If the agent
// opens the session later, that has no effect.
func TestTerminatedWhileRestoredAmongOthers(t *testing.T) {
	t.Parallel()
	id := ""
	h, load, prompted := restoringThat(t, func(h *agents.Host) string {
		post(t, h, "srv", initialize)
		id = newSession(t, h, "srv")
		return id
	})
	if err := h.Terminate(within(t), id); err != nil {
		t.Fatal(err)
	}
	if err := <-prompted; !errors.Is(err, agents.ErrSessionEnded) {
		t.Errorf("the prompt that waited = %v", err)
	}
	late := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{}}`, member(t, load, "id"))
	post(t, h, "srv", fmt.Sprintf(`{"id":1,"method":"raw","params":{"line":%q}}`, late))
	checkEnded(t, h, id)
	prompt(t, h, "srv", newSession(t, h, "srv"), "hello")
	if err := h.Delete(within(t), "srv"); err != nil {
		t.Fatal(err)
	}
	checkEnded(t, h, id)
}

// There is no turn to cancel in a session that is being restored.
func TestCancelledWhileRestored(t *testing.T) {
	t.Parallel()
	h, prompted := restoring(t)
	if err := h.Cancel(within(t), "x"); err != nil {
		t.Errorf("Cancel = %v", err)
	}
	if err := h.Delete(within(t), "ses-x"); err != nil {
		t.Fatal(err)
	}
	if err := <-prompted; err != nil {
		t.Errorf("Prompt = %v", err)
	}
}

// A session whose agent no longer reads its input is terminated as well.
func TestTerminatedDeaf(t *testing.T) {
	t.Parallel()
	const deaf = `read -r line; echo '{"id":1,"result":{}}'; read -r line; echo '{"id":2,"result":{"sessionId":"s"}}'; exec sleep 1000`
	h := host(t, agents.Config{Launch: shell(deaf), MaxMessageBytes: 1 << 20})
	create(t, h, "x", agents.SessionOptions{})
	full := fmt.Appendf(nil, `{"method":"x","params":%q}`, strings.Repeat("x", 1<<20))
	if _, err := h.Post(within(t), "ses-x", agents.PostOptions{}, full); err != nil {
		t.Fatal(err)
	}
	if err := h.Terminate(within(t), "x"); err != nil {
		t.Fatal(err)
	}
	checkEnded(t, h, "x")
}
