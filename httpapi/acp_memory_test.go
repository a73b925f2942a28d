package httpapi

import (
	"bytes"
	"io"
	"net/http"
	"runtime"
	"testing"
	"time"
)

// TestACPUnansweredMemory: the server does not keep messages whose answers it waits for, while their
// clients wait, too.
func TestACPUnansweredMemory(t *testing.T) { //nolint:paralleltest // it measures the memory of the process
	const messages, size = 32, 4 << 20
	s := serveACP(t, Config{})
	s.rest.Early = time.Millisecond
	s.send(t, "/v1/acp/a?agent=mock", acpEcho).want(t, 200)
	used := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc) //nolint:gosec // it is small
	}
	before := used()
	for range messages {
		body := io.MultiReader(bytes.NewReader([]byte(`{"id":1,"method":"hang","params":"`)), io.LimitReader(letters{}, size), bytes.NewReader([]byte(`"}`)))
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/v1/acp/a", body)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+s.Token())
		resp, err := s.client.Do(req) // the answer has begun
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = resp.Body.Close() })
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("status = %s", resp.Status)
		}
	}
	s.send(t, "/v1/acp/a", acpEcho).want(t, 200) // the agent has read the messages before
	if kept := used() - before; kept > messages*size/2 {
		t.Errorf("%d messages of %d MiB without an answer keep %d MiB", messages, size>>20, kept>>20)
	}
}

// letters is a text without an end.
type letters struct{}

func (letters) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'a'
	}
	return len(p), nil
}
