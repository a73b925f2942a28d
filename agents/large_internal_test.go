package agents

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
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
	h := startHost(t, Config{Log: log, MaxMessageBytes: 4 << 20, Launch: func(_ context.Context, agent string) (Launch, error) {
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
	h.large = semaphore.NewWeighted(n)
	if err := h.large.Acquire(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	for agent := range lines {
		greet(t, h, agent)
	}
	return h
}

// startHost starts a host that is closed, with its log, at the end of the test.
func startHost(t *testing.T, cfg Config) *Host {
	t.Helper()
	h, err := Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
		if err := cfg.Log.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

// greet starts a server with an agent of the same name.
func greet(t *testing.T, h *Host, agent string) {
	t.Helper()
	if _, err := h.Post(t.Context(), agent, PostOptions{Agent: agent}, []byte(`{"method":"hello"}`)); err != nil {
		t.Fatal(err)
	}
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
	if page, err := h.Log().Read(t.Context(), serverStream("large"), 0, 0); err != nil || len(page) != 1 {
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

// Medium messages of all agents have a common room, which is free at the end. Small messages of
// other agents do not wait for it.
func TestMediumMessagesOfManyAgents(t *testing.T) {
	t.Parallel()
	const room, size = 1 << 20, 300 << 10
	lines := map[string][]string{}
	h := largeHost(t, 1, lines)
	h.medium = semaphore.NewWeighted(room)
	if err := h.medium.Acquire(t.Context(), room); err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		agent := fmt.Sprint("medium", i)
		lines[agent] = []string{line("first", 0), line("second", size), line("third", size), line("last", 0)}
	}
	for i := range 500 {
		lines["small"] = append(lines["small"], line(fmt.Sprintf("small %d.", i), 1000))
	}
	for agent := range lines {
		greet(t, h, agent)
	}
	awaitLine(t, h, "small", "small 499.")
	awaitLine(t, h, "medium0", "first")
	if page, err := h.Log().Read(t.Context(), serverStream("medium0"), 0, 0); err != nil || len(page) != 1 {
		t.Errorf("%d messages, %v, want one, since there is no room for the medium one", len(page), err)
	}
	h.medium.Release(room)
	for i := range 5 {
		awaitLine(t, h, fmt.Sprint("medium", i), `"last"`)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := h.medium.Acquire(ctx, room); err != nil {
		t.Errorf("messages that are committed still take room: %v", err)
	}
}

// await polls until ok returns true.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	late := time.After(2 * time.Minute)
	for !ok() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("there is no end: %s", what)
		}
	}
}

// TestUnfinishedLargeMessage: an agent that stops in the middle of a large line loses it, and
// the lines of other agents go on. Its next line counts.
func TestUnfinishedLargeMessage(t *testing.T) {
	t.Parallel()
	const most = 4 << 20
	log, err := eventlog.Open(t.Context(), eventlog.Config{Synchronous: eventlog.Normal})
	if err != nil {
		t.Fatal(err)
	}
	h := startHost(t, Config{Log: log, MaxMessageBytes: most, Launch: func(_ context.Context, agent string) (Launch, error) {
		if agent == "stops" {
			return Launch{Path: "/bin/sh", Args: []string{"-c", `head -c 2000000 /dev/zero | tr '\0' x; read first; read second; echo end; echo '{"method":"later"}'; cat >/dev/null`}}, nil
		}
		return Launch{Run: func(_ context.Context, in io.Reader, out io.Writer) error {
			_, err := io.WriteString(out, line("large", 2<<20)+"\n")
			_, err2 := io.Copy(io.Discard, in)
			return errors.Join(err, err2)
		}}, nil
	}})
	h.large, h.lineTime = semaphore.NewWeighted(most), time.Second
	greet(t, h, "stops")
	await(t, "the share of the line", func() bool {
		if !h.large.TryAcquire(1) {
			return true
		}
		h.large.Release(1)
		return false
	})
	greet(t, h, "waits")
	awaitLine(t, h, "stops", "of more than 2000000 bytes did not end within 1s")
	awaitLine(t, h, "waits", "large")
	greet(t, h, "stops")
	if n := awaitLine(t, h, "stops", "later"); n != 2 {
		t.Errorf("%d messages, want the problem and the next line", n)
	}
	if !h.large.TryAcquire(most) {
		t.Error("a line that was dropped still takes room")
	}
}

// Large questions of all agents have a common limit. Small questions of other agents are taken
// beyond it, and questions of an agent that ends no longer count.
func TestQuestionsOfAllAgents(t *testing.T) {
	t.Parallel()
	ask := func(id string, size int) string {
		return fmt.Sprintf(`{"id":%q,"method":"session/request_permission","params":{"pad":"%s"}}`, id, strings.Repeat("y", size))
	}
	lines := map[string][]string{}
	h := largeHost(t, maxLarge, lines)
	h.large.Release(maxLarge)
	const others = maxAllQuestions - 2<<20
	h.questions.Store(others)
	lines["large"] = []string{ask("first", 3<<19), ask("second", 3<<19), line("asked", 0)}
	lines["small"] = []string{ask("third", freeQuestions/2), ask("fourth", 1000), line("asked", 0)}
	for _, agent := range []string{"large", "small"} {
		if _, err := h.Post(t.Context(), agent, PostOptions{Agent: agent}, []byte(`{"method":"hello"}`)); err != nil {
			t.Fatal(err)
		}
		awaitLine(t, h, agent, "asked")
	}
	open, err := h.Log().Requests(t.Context(), eventlog.RequestFilter{Pending: true})
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, q := range open {
		ids = append(ids, q.RPC)
	}
	if slices.Sort(ids); strings.Join(ids, " ") != `"first" "fourth" "third"` {
		t.Errorf("open questions %s, want the first large one and the small ones", ids)
	}
	for agent := range lines {
		if err := h.Delete(t.Context(), agent); err != nil {
			t.Fatal(err)
		}
	}
	if n := h.questions.Load(); n != others {
		t.Errorf("questions of ended agents have %d bytes", n-others)
	}
}
