package httpapi

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/deskhand/deskhand/agents/eventlog"
)

// benchSession makes a session of the mock agent.
func benchSession(b *testing.B, s *testServer, id string) {
	b.Helper()
	body := `{"agent":"mock","directory":"` + b.TempDir() + `"}`
	if a := s.try(b.Context(), call{path: "/v1/sessions/" + id, body: body}); a.err != nil || a.StatusCode != 200 {
		b.Fatal(a.err, string(a.body))
	}
}

// benchStream opens a stream of events.
func benchStream(b *testing.B, s *testServer, path string) io.ReadCloser {
	b.Helper()
	req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, s.url+path, http.NoBody)
	if err != nil {
		b.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+s.Token())
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil || resp.StatusCode != 200 {
		b.Fatal(err, resp)
	}
	b.Cleanup(func() { _ = resp.Body.Close() })
	return resp.Body
}

// benchPrompt prompts the agent and waits for the end of the turn.
func benchPrompt(b *testing.B, s *testServer, id, text string) {
	b.Helper()
	a := s.try(b.Context(), call{path: "/opencode/session/" + id + "/message", body: promptText(text)})
	if a.err != nil || a.StatusCode != 200 {
		b.Fatal(a.err, string(a.body))
	}
}

// eventAge returns the time since an event of OpenCode's stream, whose id has its time.
func eventAge(line string) (time.Duration, bool) {
	_, id, found := strings.Cut(line, `"id":"evt_`)
	if !found || !strings.Contains(line, `"message.part.delta"`) {
		return 0, false
	}
	n, err := strconv.ParseInt(id[:12], 16, 64)
	if err != nil {
		return 0, false
	}
	now := time.Now()
	return time.Duration(now.UnixMilli()&(1<<36-1)-n>>12) * time.Millisecond, true
}

// BenchmarkOpenCodeReaders is a turn whose events 100 readers get while another one reads
// nothing. It reports how old the pieces of the message are when readers have them.
func BenchmarkOpenCodeReaders(b *testing.B) {
	s := serveBench(b)
	benchSession(b, s, "one")
	const readers = 100
	benchStream(b, s, "/opencode/event") // it is not read
	var wg sync.WaitGroup
	var mu sync.Mutex
	var ages []time.Duration
	for range readers {
		lines := bufio.NewScanner(benchStream(b, s, "/opencode/event"))
		lines.Buffer(nil, 16<<20)
		if !lines.Scan() {
			b.Fatal(lines.Err())
		}
		wg.Go(func() {
			for lines.Scan() {
				if strings.Contains(lines.Text(), "the end of the benchmark") {
					return
				}
				if age, ok := eventAge(lines.Text()); ok {
					mu.Lock()
					ages = append(ages, age)
					mu.Unlock()
				}
			}
		})
	}
	for b.Loop() {
		benchPrompt(b, s, "one", "burst 50")
	}
	benchPrompt(b, s, "one", "the end of the benchmark")
	wg.Wait()
	if len(ages) < readers {
		b.Fatalf("the readers got %d pieces", len(ages))
	}
	slices.Sort(ages)
	b.ReportMetric(float64(ages[len(ages)/2].Milliseconds()), "p50-ms")
	b.ReportMetric(float64(ages[len(ages)*99/100].Milliseconds()), "p99-ms")
}

// BenchmarkOpenCodeSessions lists 1000 sessions.
func BenchmarkOpenCodeSessions(b *testing.B) {
	s := serveBench(b)
	benchSession(b, s, "one")
	host, err := s.agents.Get(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	dir := b.TempDir()
	err = host.Log().Commit(b.Context(), func(tx *eventlog.Tx) error {
		for i := range 999 {
			now := time.Now()
			row := eventlog.Session{ID: fmt.Sprintf("s%d", i), Agent: "mock", Cwd: dir, State: eventlog.Idle, CreatedAt: now, UpdatedAt: now}
			if err := tx.PutSession(row); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		a := s.try(b.Context(), call{path: "/opencode/session?limit=1000"})
		if a.err != nil || a.StatusCode != 200 || strings.Count(string(a.body), `"slug"`) != 1000 {
			b.Fatal(a.err, a.StatusCode, len(a.body))
		}
	}
}

// BenchmarkOpenCodeFirstEvent is a turn. It reports when the first piece of the message comes
// after the prompt, on OpenCode's stream and on the stream of ACP.
func BenchmarkOpenCodeFirstEvent(b *testing.B) {
	s := serveBench(b)
	benchSession(b, s, "one")
	streams := map[string]string{"opencode": "/opencode/event", "acp": "/v1/acp/ses-one?replay=none"}
	marks := map[string]string{"opencode": `"message.part.delta"`, "acp": `"agent_message_chunk"`}
	came := map[string]chan time.Time{}
	for name, path := range streams {
		c := make(chan time.Time, 1000)
		came[name] = c
		lines := bufio.NewScanner(benchStream(b, s, path))
		lines.Buffer(nil, 16<<20)
		go func() {
			for lines.Scan() {
				if strings.Contains(lines.Text(), marks[name]) {
					c <- time.Now()
				}
			}
		}()
	}
	benchPrompt(b, s, "one", "first") // it has a second piece
	for _, c := range came {
		<-c
		<-c
	}
	waits := map[string][]time.Duration{}
	for b.Loop() {
		begun := time.Now()
		benchPrompt(b, s, "one", "again")
		for name, c := range came {
			waits[name] = append(waits[name], (<-c).Sub(begun))
		}
	}
	for name, all := range waits {
		slices.Sort(all)
		b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, name+"-p50-ms")
	}
}
