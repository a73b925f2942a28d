package agents_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/deskhand/deskhand/agents"
)

// restoring is a host with the session x, for which a prompt waits while its
// agent says nothing to session/load. The next process does.
func restoring(t *testing.T) (h *agents.Host, prompted <-chan error) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "received")
	env := []string{`CAPS={"loadSession":true}`, "SESSIONS=" + dir, "RECEIVED=" + file}
	cfg := agents.Config{Log: openLog(t, ""), StateDir: t.TempDir(), Launch: agentOf(env...)}
	h = host(t, cfg)
	create(t, h, "x", agents.SessionOptions{})
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
		turn, err := h.Prompt(within(t), "x", []byte(`[{"type":"text","text":"go on"}]`))
		if err == nil {
			_, err = turn.Wait(within(t))
		}
		done <- err
	}()
	wait(t, func() error {
		if b, err := os.ReadFile(file); err != nil || !strings.Contains(string(b), "session/load") {
			return fmt.Errorf("no session/load yet: %w", err)
		}
		return nil
	})
	return h, done
}

// A server that is deleted while a session is restored in it keeps nobody from
// the session.
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
