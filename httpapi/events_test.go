package httpapi

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

// sse is one server-sent event.
type sse struct {
	id, event, data string
}

// follow reads an event stream until ctx ends or the stream does, which closes
// the channel.
func (s *testServer) follow(ctx context.Context, t *testing.T, path string, header map[string]string) <-chan sse {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(path, "access_token") {
		req.Header.Set("Authorization", "Bearer "+s.Token())
	}
	for name, value := range header {
		req.Header.Set(name, value)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("GET %s = %s, %s", path, resp.Status, resp.Header.Get("Content-Type"))
	}
	events := make(chan sse, 100)
	go func() {
		defer close(events)
		var e sse
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			name, value, _ := strings.Cut(lines.Text(), ": ")
			switch name {
			case "id":
				e.id = value
			case "event":
				e.event = value
			case "data":
				e.data = value
			case "":
				if e.event != "" {
					events <- e
				}
				e = sse{}
			}
		}
	}()
	return events
}

// await returns the next event of a type.
func await(t *testing.T, events <-chan sse, typ desktop.EventType) (sse, desktop.Event) {
	t.Helper()
	timeout := time.After(time.Minute)
	for {
		select {
		case e, open := <-events:
			if !open {
				t.Fatalf("the stream ended before %s", typ)
			}
			if e.event != string(typ) {
				continue
			}
			var decoded desktop.Event
			if err := json.Unmarshal([]byte(e.data), &decoded); err != nil {
				t.Fatal(err)
			}
			return e, decoded
		case <-timeout:
			t.Fatalf("no %s within a minute", typ)
		}
	}
}

func TestEvents(t *testing.T) {
	t.Parallel()
	s := startReal(t, Config{}, `{"width":640,"height":480}`)
	token := "?access_token=" + s.Token()
	events := s.follow(t.Context(), t, "/v1/desktop/events"+token, nil)
	s.post(t, "/v1/desktop/mouse/click", `{"x":5,"y":6}`).want(t, 200)
	first, e := await(t, events, desktop.EventAction)
	if e.Action == nil || e.Action.Name != "click" || *e.Action.At != (desktop.Point{X: 5, Y: 6}) || first.id == "" {
		t.Errorf("event = %+v", first)
	}
	s.post(t, "/v1/desktop/keyboard/type", `{"text":"hunter2","secret":true}`).want(t, 200)
	if secret, _ := await(t, events, desktop.EventAction); strings.Contains(secret.data, "hunter2") {
		t.Errorf("the secret is in the event: %s", secret.data)
	}
	// Who comes back gets what came after the last that it saw.
	again := s.follow(t.Context(), t, "/v1/desktops/main/events"+token, map[string]string{"Last-Event-ID": first.id})
	if _, e := await(t, again, desktop.EventAction); e.Action.Name != "type" {
		t.Errorf("first event after the last seen is %s", e.Action.Name)
	}
	s.post(t, "/v1/desktop/stop", "").want(t, 200)
	await(t, events, desktop.EventClosed)
	for e := range events {
		t.Errorf("event after the last one: %v", e)
	}
}

func TestEventsOfHEAD(t *testing.T) {
	t.Parallel()
	s := startReal(t, Config{}, "")
	a := s.do(t, call{method: "HEAD", path: "/v1/desktop/events"}).want(t, 200)
	if got := a.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Errorf("Content-Type = %s", got)
	}
}

// TestStreamEndsWithItsReader: a stream whose reader has left ends without waiting
// for the next event.
func TestStreamEndsWithItsReader(t *testing.T) {
	t.Parallel()
	s := startReal(t, Config{}, "")
	ctx, cancel := context.WithCancel(t.Context())
	events := s.follow(ctx, t, "/v1/desktop/events?access_token="+s.Token(), nil)
	eventually(t, "a stream", func() bool { return s.rest.OpenStreams() == 1 })
	cancel()
	for range events { // until it ends
	}
	begun := time.Now()
	eventually(t, "end of the stream", func() bool { return s.rest.OpenStreams() == 0 })
	if took := time.Since(begun); took > rest.Heartbeat/2 {
		t.Errorf("the stream ended after %v", took)
	}
}

// TestServeEndsStreams: they must not hold up an orderly end.
func TestServeEndsStreams(t *testing.T) {
	t.Parallel()
	s := startReal(t, Config{}, "")
	events := s.follow(t.Context(), t, "/v1/desktop/events?access_token="+s.Token(), nil)
	begun := time.Now()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if took := time.Since(begun); took > 4*time.Second {
		t.Errorf("Close took %v", took)
	}
	for range events { // ends
	}
}
