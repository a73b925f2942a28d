package agents_test

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
)

func benchHost(b *testing.B, mode eventlog.Mode) *agents.Host {
	b.Helper()
	log, err := eventlog.Open(b.Context(), eventlog.Config{DSN: filepath.Join(b.TempDir(), "events.db"), Synchronous: mode})
	if err != nil {
		b.Fatal(err)
	}
	closing(b, log)
	return host(b, agents.Config{Log: log, StateDir: b.TempDir()})
}

// BenchmarkPrompt measures a prompt whose answer is one update and the end of the turn. Each
// of them is in the log before it is passed on.
func BenchmarkPrompt(b *testing.B) {
	for name, mode := range map[string]eventlog.Mode{"full": eventlog.Full, "normal": eventlog.Normal} {
		b.Run(name, func(b *testing.B) {
			h := benchHost(b, mode)
			id := newSession(b, h, "srv")
			message := []byte(promptOf(id, "hello"))
			for b.Loop() {
				if _, err := h.Post(b.Context(), "srv", agents.PostOptions{}, message); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkEvents measures the updates per second of ten concurrent sessions.
func BenchmarkEvents(b *testing.B) {
	const sessions = 10
	for name, mode := range map[string]eventlog.Mode{"full": eventlog.Full, "normal": eventlog.Normal} {
		b.Run(name, func(b *testing.B) {
			h := benchHost(b, mode)
			ids := make([]string, sessions)
			for i := range ids {
				ids[i] = newSession(b, h, fmt.Sprint("srv", i))
			}
			events := 0
			for b.Loop() {
				var wg sync.WaitGroup
				for i, id := range ids {
					wg.Go(func() {
						_, err := h.Post(b.Context(), fmt.Sprint("srv", i), agents.PostOptions{}, []byte(promptOf(id, "burst 1000")))
						if err != nil {
							b.Error(err)
						}
					})
				}
				wg.Wait()
				events += sessions * 1000
			}
			b.ReportMetric(float64(events)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

// BenchmarkBuiltIn measures a round trip with an agent inside this program, which is the cost
// of the host.
func BenchmarkBuiltIn(b *testing.B) {
	log, err := eventlog.Open(b.Context(), eventlog.Config{DSN: filepath.Join(b.TempDir(), "events.db"), Synchronous: eventlog.Normal})
	if err != nil {
		b.Fatal(err)
	}
	closing(b, log)
	h := host(b, agents.Config{Log: log, Launch: func(context.Context, string) (agents.Launch, error) {
		return agents.Launch{Run: echo}, nil
	}})
	message := []byte(`{"id":1,"method":"x"}`)
	for b.Loop() {
		if _, err := h.Post(b.Context(), "srv", agents.PostOptions{Agent: "echo"}, message); err != nil {
			b.Fatal(err)
		}
	}
}

func echo(_ context.Context, in io.Reader, out io.Writer) error {
	buf := make([]byte, 4096)
	for {
		n, err := in.Read(buf)
		if err != nil {
			return nil //nolint:nilerr // the end
		}
		line := strings.Replace(string(buf[:n]), `"method":"x"`, `"result":{}`, 1)
		if _, err := io.WriteString(out, line); err != nil {
			return err
		}
	}
}
