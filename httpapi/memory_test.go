//go:build !race

package httpapi

// The race detector makes these ten times slower, and its own memory hides ours.

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/computer"
	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/internal/plainjson"
)

// TestAnswerMemory asks for a large answer and does not read it. Further ones get 503
// while the limit is reached.
func TestAnswerMemory(t *testing.T) {
	t.Parallel()
	s := startReal(t, Config{}, `{"width":64,"height":64}`)
	const path = mainPath + "/clipboard"
	text := strings.Repeat("x", 16<<20)
	s.post(t, path, `{"text":"`+text+`"}`).want(t, 200)
	_, control := s.token(t, `{"scope":"control"}`)
	with := map[string]string{"Authorization": "Bearer " + control}
	c := dialServer(t, s)
	c.send("GET %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n", path, control)
	eventually(t, "an answer waits for its client", func() bool { return s.rest.Answers.Size() >= int64(len(text)) })
	s.rest.Answers.SetBounds(1<<40, s.rest.Answers.Size())
	refused := s.do(t, call{path: path, header: with})
	refused.problem(t, 503, "stream_error")
	if refused.Header.Get("Retry-After") != "1" {
		t.Errorf("header = %v", refused.Header)
	}
	s.do(t, call{path: mainPath + "/status", header: with}).want(t, 200)
	if got := s.get(t, path).want(t, 200).json(t)["text"]; got != text {
		t.Errorf("the text has %d bytes", len(fmt.Sprint(got)))
	}
	// One token does not take the memory of all.
	s.rest.Answers.SetBounds(1<<40, 1<<40)
	second := dialServer(t, s)
	second.send("GET %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n", path, control)
	eventually(t, "a second answer waits", func() bool { return s.rest.Answers.Size() >= 2*int64(len(text)) })
	s.do(t, call{path: path, header: with}).problem(t, 503, "stream_error")
	_, other := s.token(t, `{"scope":"control"}`)
	s.do(t, call{path: path, header: bearer(other)}).want(t, 200)
	second.Close()
	c.Close()
	eventually(t, "nothing waits", func() bool { return s.rest.Answers.Size() == 0 })
	s.do(t, call{path: path, header: with}).want(t, 200)
}

// TestClipboardMemory reads a large text with many requests at the same time. The text and
// its JSON are in memory for a few of them only.
func TestClipboardMemory(t *testing.T) { //nolint:paralleltest // it measures the memory of the process
	s := startReal(t, Config{}, `{"width":64,"height":64}`)
	const path, requests, limit = mainPath + "/clipboard", 40, 700 << 20
	text := strings.Repeat("\x01é", 10<<20) // JSON needs 8 bytes for 3
	body, err := plainjson.Marshal(map[string]string{"text": text[:len(text)/4]})
	if err != nil {
		t.Fatal(err)
	}
	s.post(t, path, string(body)).want(t, 200)
	if got := s.get(t, path).want(t, 200).json(t)["text"]; got != text[:len(text)/4] {
		t.Errorf("the text comes back with %d bytes", len(fmt.Sprint(got)))
	}
	d, err := s.fleet.List()[0].Desktop()
	if err != nil {
		t.Fatal(err)
	}
	if err := d.(computer.Desktop).SetClipboard(t.Context(), desktop.Content{Type: desktop.TypeText, Data: []byte(text)}); err != nil {
		t.Fatal(err)
	}
	_, control := s.token(t, `{"scope":"control"}`)
	runtime.GC()
	used := func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := used()
	answered := make(chan string, requests)
	for range requests {
		c := dialServer(t, s)
		defer c.Close()
		c.send("GET %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n", path, control)
		go func() {
			line, _ := bufio.NewReader(c).ReadString('\n')
			answered <- line
		}()
	}
	var most uint64
	for n := 0; n < requests; {
		select {
		case line := <-answered:
			if n++; !strings.Contains(line, " 200 ") && !strings.Contains(line, " 503 ") {
				t.Errorf("an answer begins with %q", line)
			}
		case <-time.After(5 * time.Millisecond):
			most = max(most, used())
		}
	}
	if most > before+limit {
		t.Errorf("%d requests took %d MiB", requests, (most-before)>>20)
	}
}

// TestLargeClipboard has more text than other bodies may have.
func TestLargeClipboard(t *testing.T) {
	t.Parallel()
	s := startReal(t, Config{}, "")
	big := strings.Repeat("ten million bytes, é漢\n", 10<<20/25)
	body, err := json.Marshal(map[string]string{"text": big})
	if err != nil {
		t.Fatal(err)
	}
	s.post(t, mainPath+"/clipboard", string(body)).want(t, 200)
	if got := s.get(t, mainPath+"/clipboard").want(t, 200).json(t)["text"].(string); got != big {
		t.Errorf("%d bytes came back of %d", len(got), len(big))
	}
	s.post(t, mainPath+"/keyboard/type", string(body)).problem(t, 413, "invalid_request")
	// The screen's picture, both ways.
	shot := s.get(t, mainPath+"/screenshot").want(t, 200).body
	s.do(t, call{method: http.MethodPost, path: mainPath + "/clipboard?selection=both", body: string(shot), kind: "image/png"}).want(t, 200)
	for _, sel := range []string{"clipboard", "primary"} {
		if a := s.get(t, mainPath+"/clipboard?format=png&selection="+sel).want(t, 200); string(a.body) != string(shot) {
			t.Errorf("%s: %d bytes came back of %d", sel, len(a.body), len(shot))
		}
	}
}

// TestLargeSessionEvents: pages that are cut for their size end nothing early.
func TestLargeSessionEvents(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	s.post(t, "/v1/sessions/large", fmt.Sprintf(`{"agent":"mock","directory":%q}`, t.TempDir())).want(t, 200)
	const turns = 5
	for i := range turns {
		s.turn(t, "large", fmt.Sprint(i, strings.Repeat(" and so on", 100_000)))
	}
	var all []universalEvent
	pages := 0
	for more := true; more; pages++ {
		var page struct {
			Events  []universalEvent
			HasMore bool
		}
		decode(t, s.do(t, call{path: fmt.Sprintf("/v1/sessions/large/events?offset=%d", len(all))}).want(t, 200).body, &page)
		all, more = append(all, page.Events...), page.HasMore
	}
	if ends := len(slices.DeleteFunc(slices.Clone(all), func(e universalEvent) bool { return e.Type != "turn.ended" })); ends != turns || pages < 2 {
		t.Errorf("%d turns in %d pages", ends, pages)
	}
	last := all[len(all)-1].Sequence
	followed := s.sse(t, call{path: "/v1/sessions/large/events/sse"}, func(e universalEvent) bool { return e.Sequence == last })
	if len(followed) != len(all) {
		t.Errorf("%d events of %d were followed", len(followed), len(all))
	}
}

// TestListOfLargeSessions: what many agents have said does not hold up a list of sessions for
// more than seconds.
func TestListOfLargeSessions(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	const sessions, messages = 12, 16
	text, err := json.Marshal(strings.Repeat("<", 1<<20))
	if err != nil {
		t.Fatal(err)
	}
	payload := []byte(`{"params":{"update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":` + string(text) + `}}}}`)
	for i := range sessions {
		id := fmt.Sprint("large", i)
		s.post(t, "/v1/sessions/"+id, fmt.Sprintf(`{"agent":"mock","directory":%q}`, t.TempDir())).want(t, 200)
		err := s.agents.Started().Log().Commit(t.Context(), func(tx *eventlog.Tx) error {
			for range messages {
				if _, err := tx.Append(eventlog.Event{Stream: agents.SessionStream(id), Session: id, Kind: "session/update", Payload: payload}); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	begun := time.Now()
	all := s.get(t, "/v1/sessions").want(t, 200).json(t)["sessions"].([]any)
	if took := time.Since(begun); len(all) != sessions || took > 15*time.Second {
		t.Errorf("a list of %d sessions took %v", len(all), took)
	} else {
		t.Logf("took %v", took)
	}
}
