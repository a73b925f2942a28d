package agents

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/deskhand/deskhand/agents/eventlog"
)

// largeHost returns a host whose room of n bytes for large lines is taken. Its agents write the lines
// and wait for the end of their input.
func largeHost(t *testing.T, n int64, lines map[string][]string) *Host {
	t.Helper()
	log, err := eventlog.Open(t.Context(), eventlog.Config{Synchronous: eventlog.Normal})
	if err != nil {
		t.Fatal(err)
	}
	h, err := Start(t.Context(), Config{Log: log, Launch: func(_ context.Context, agent string) (Launch, error) {
		return Launch{Run: func(_ context.Context, in io.Reader, out io.Writer) error {
			for _, line := range lines[agent] {
				if _, err := io.WriteString(out, line+"\n"); err != nil {
					return err
				}
			}
			_, err := io.Copy(io.Discard, in)
			return err
		}}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
		if err := log.Close(); err != nil {
			t.Error(err)
		}
	})
	h.large = semaphore.NewWeighted(n)
	if err := h.large.Acquire(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	for agent := range lines {
		if _, err := h.Post(t.Context(), agent, PostOptions{Agent: agent}, []byte(`{"method":"hello"}`)); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

// awaitLine reads a server's messages up to one with text and returns how many they are.
func awaitLine(t *testing.T, h *Host, server, text string) (n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s, err := h.Follow(ctx, server, Replay{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for {
		events, err := s.Next(ctx)
		if err != nil {
			t.Fatalf("no message with %q from %s: %v", text, server, err)
		}
		for _, e := range events {
			n++
			if strings.Contains(string(e.Payload), text) {
				return n
			}
		}
	}
}

func line(text string, size int) string {
	return fmt.Sprintf(`{"method":"x","params":{"text":%q,"pad":"%s"}}`, text, strings.Repeat("y", size))
}

// Large messages wait for room. Small messages of other agents do not.
func TestLargeMessagesWait(t *testing.T) {
	t.Parallel()
	small := []string{}
	for i := range 500 {
		small = append(small, line(fmt.Sprintf("small %d.", i), 1000))
	}
	h := largeHost(t, 4<<20, map[string][]string{
		"large": {line("first", 0), line("second", 2<<20)}, "small": small,
	})
	awaitLine(t, h, "small", "small 499.")
	awaitLine(t, h, "large", "first")
	if page, err := h.Log().Read(t.Context(), published("large"), 0, 0); err != nil || len(page) != 1 {
		t.Errorf("%d messages, %v, want one, since there is no room for the large one", len(page), err)
	}
	h.large.Release(4 << 20)
	awaitLine(t, h, "large", "second")
}

// All large messages of agents arrive if there is room for few of them at a time. The room is
// free at the end.
func TestLargeMessagesOfManyAgents(t *testing.T) {
	t.Parallel()
	const room = 5 << 20
	lines := map[string][]string{}
	for i := range 6 {
		agent := fmt.Sprintf("a%d", i)
		for range 3 {
			lines[agent] = append(lines[agent], line("large", 2<<20))
		}
		lines[agent] = append(lines[agent], line("last", 0))
	}
	h := largeHost(t, room, lines)
	h.large.Release(room)
	for agent := range lines {
		if n := awaitLine(t, h, agent, `"last"`); n != 4 {
			t.Errorf("%s: %d messages, want 4", agent, n)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := h.large.Acquire(ctx, room); err != nil {
		t.Errorf("messages that are committed still take room: %v", err)
	}
}
