//go:build !race

// The race detector's own memory would hide the memory of this package.

package agents

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/deskhand/deskhand/agents/eventlog"
)

// TestLargeMessagesMemory: agents write messages of the largest size at the same time. Few of
// them are in memory together.
func TestLargeMessagesMemory(t *testing.T) { //nolint:paralleltest // it measures the memory of the process
	const agents, size, limit = 12, 60 << 20, 800 << 20
	log, err := eventlog.Open(t.Context(), eventlog.Config{DSN: filepath.Join(t.TempDir(), "log"), Synchronous: eventlog.Normal})
	if err != nil {
		t.Fatal(err)
	}
	begin := make(chan struct{})
	part := strings.Repeat("A", 1<<20)
	h := startHost(t, Config{Log: log, Launch: func(context.Context, string) (Launch, error) {
		return Launch{Run: func(_ context.Context, in io.Reader, out io.Writer) error {
			<-begin
			_, err := io.WriteString(out, `{"method":"x","params":"`)
			for i := 0; i < size/len(part) && err == nil; i++ {
				_, err = io.WriteString(out, part)
			}
			_, err2 := io.WriteString(out, "\"}\n")
			_, err3 := io.Copy(io.Discard, in)
			return errors.Join(err, err2, err3)
		}}, nil
	}})
	for i := range agents {
		greet(t, h, fmt.Sprint("a", i))
	}
	runtime.GC()
	used := func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before, most := used(), uint64(0)
	close(begin)
	arrived := func() bool {
		most = max(most, used())
		for i := range agents {
			if last, err := log.Last(t.Context(), serverStream(fmt.Sprint("a", i))); err != nil || last == 0 {
				return false
			}
		}
		return true
	}
	await(t, "all messages", arrived)
	t.Logf("%d messages of %d MiB took %d MiB", agents, size>>20, (most-before)>>20)
	if most > before+limit {
		t.Errorf("%d messages of %d MiB took %d MiB", agents, size>>20, (most-before)>>20)
	}
}

// TestLargeAnswersMemory: the answers of agents to the first message of their processes do not stay
// in memory.
func TestLargeAnswersMemory(t *testing.T) { //nolint:paralleltest // it measures the memory of the process
	const agents, size = 6, 16 << 20
	log, err := eventlog.Open(t.Context(), eventlog.Config{DSN: filepath.Join(t.TempDir(), "log"), Synchronous: eventlog.Normal})
	if err != nil {
		t.Fatal(err)
	}
	h := startHost(t, Config{Log: log, Launch: func(context.Context, string) (Launch, error) {
		return Launch{Run: func(_ context.Context, in io.Reader, out io.Writer) error {
			_, err := bufio.NewReader(in).ReadString('\n')
			_, err2 := io.WriteString(out, `{"id":1,"result":"`+strings.Repeat("A", size)+"\"}\n")
			_, err3 := io.Copy(io.Discard, in)
			return errors.Join(err, err2, err3)
		}}, nil
	}})
	used := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := used()
	for i := range agents {
		_, err := h.Post(t.Context(), fmt.Sprint("a", i), PostOptions{Agent: "a"}, []byte(`{"id":"i","method":"initialize"}`))
		if err != nil {
			t.Fatal(err)
		}
	}
	if kept := int64(used()) - int64(before); kept > agents*size/2 {
		t.Errorf("%d answers of %d MiB keep %d MiB", agents, size>>20, kept>>20)
	}
}

// TestUnansweredPromptsMemory: prompts that the agent has read do not stay in memory until it answers.
func TestUnansweredPromptsMemory(t *testing.T) { //nolint:paralleltest // it measures the memory of the process
	const prompts, size = 64, 1 << 20
	log, err := eventlog.Open(t.Context(), eventlog.Config{DSN: filepath.Join(t.TempDir(), "log"), Synchronous: eventlog.Normal})
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan struct{}, prompts)
	h := startHost(t, Config{Log: log, Launch: func(context.Context, string) (Launch, error) {
		return Launch{Run: func(_ context.Context, in io.Reader, _ io.Writer) error {
			lines := bufio.NewReader(in)
			for {
				switch _, err := lines.ReadSlice('\n'); {
				case err == nil:
					got <- struct{}{}
				case !errors.Is(err, bufio.ErrBufferFull):
					return nil
				}
			}
		}}, nil
	}})
	used := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	prompt := func() []byte {
		return fmt.Appendf(nil, `{"id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":%q}}`, strings.Repeat("A", size))
	}
	for name, pass := range map[string]func(){
		"submitted": func() {
			if err := h.Submit(t.Context(), "a", PostOptions{}, prompt()); err != nil {
				t.Error(err)
			}
		},
		"posted": func() {
			text := prompt()
			go func() { _, _ = h.Post(t.Context(), "a", PostOptions{}, text) }() // it waits for the answer
		},
	} {
		greet(t, h, "a")
		<-got
		before := used()
		for range prompts {
			pass()
			<-got
		}
		if kept := int64(used()) - int64(before); kept > prompts*size/4 {
			t.Errorf("%s: %d prompts of %d MiB without an answer keep %d MiB", name, prompts, size>>20, kept>>20)
		}
	}
}
