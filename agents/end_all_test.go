package agents_test

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/mockagent"
)

// shellAgent makes sessions, and is small enough to run a thousand times. At the end of its
// input it runs the text.
func shellAgent(afterwards string) agents.Launch {
	return agents.Launch{Path: "/bin/sh", Args: []string{"-c", `
while read -r line; do
	id="${line#*\"id\":}"
	id="${id%%[,\}]*}"
	case "$line" in
	*'"initialize"'*) echo '{"jsonrpc":"2.0","id":'"$id"',"result":{"protocolVersion":1}}' ;;
	*'"session/new"'*) echo '{"jsonrpc":"2.0","id":'"$id"',"result":{"sessionId":"s'"$$"'"}}' ;;
	esac
done
` + afterwards}}
}

// TestCloseManySessions closes hosts with a hundred sessions, each with its own agent: a
// thousand with make soak. The mock agent runs in this program.
func TestCloseManySessions(t *testing.T) {
	const most = 10 * time.Second
	n := 100 * soak()
	for name, launch := range map[string]agents.Launch{
		"mock": {Run: func(ctx context.Context, in io.Reader, out io.Writer) error {
			return mockagent.Run(ctx, in, out, mockagent.Config{})
		}},
		"idle":     shellAgent(""),
		"stubborn": shellAgent("trap '' TERM\nwhile :; do sleep 60; done"),
	} {
		t.Run(name, func(t *testing.T) {
			h, err := agents.Start(t.Context(), agents.Config{
				Log: openLog(t, filepath.Join(t.TempDir(), "events.db")), StateDir: t.TempDir(),
				Launch: func(context.Context, string) (agents.Launch, error) { return launch, nil },
			})
			if err != nil {
				t.Fatal(err)
			}
			closed := sync.OnceValue(h.Close)
			t.Cleanup(func() { _ = closed() })
			var wg sync.WaitGroup
			free := make(chan struct{}, 8)
			for i := range n {
				free <- struct{}{}
				wg.Go(func() {
					defer func() { <-free }()
					if _, err := h.CreateSession(within(t), fmt.Sprint("s", i), agents.SessionOptions{Agent: "shell", Cwd: "/"}); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			began := time.Now()
			if err := closed(); err != nil {
				t.Error(err)
			}
			took := time.Since(began)
			t.Logf("%d sessions ended in %v", n, took)
			if took > most {
				t.Errorf("%d sessions ended in %v, want at most %v", n, took, most)
			}
		})
	}
}
