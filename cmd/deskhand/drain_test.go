package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestDrain ends a server while an agent waits for an answer in a turn: the server is no longer
// ready and takes no new work, and ends when the turn has ended.
func TestDrain(t *testing.T) {
	t.Parallel()
	s := serve(t, environ(t), "--drain-timeout", "1m")
	s.ask(t, "/v1/sessions/one", `{"agent":"mock","directory":"/"}`, nil)
	if status, answer := s.call(t, "/v1/sessions/one/messages", `{"message":"permission"}`); status >= 300 {
		t.Fatalf("the message: %d %s", status, answer)
	}
	var list struct {
		Events []struct {
			Type string `json:"type"`
			Data struct {
				ID string `json:"permission_id"`
			} `json:"data"`
		} `json:"events"`
	}
	poll(t, readyLimit, "the agent asks", func() string {
		s.ask(t, "/v1/sessions/one/events", "", &list)
		if n := len(list.Events); n > 0 && list.Events[n-1].Data.ID != "" {
			return ""
		}
		text, _ := json.Marshal(list)
		return string(text)
	})
	if err := syscall.Kill(s.pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	poll(t, readyLimit, "the server is not ready", func() string {
		status, answer := s.call(t, "/readyz", "")
		if status == http.StatusServiceUnavailable {
			return ""
		}
		return string(answer)
	})
	for path, body := range map[string]string{
		"/v1/sessions/two": `{"agent":"mock","directory":"/"}`, "/v1/desktop/start": "{}", "/v1/desktops": "{}",
	} {
		if status, answer := s.call(t, path, body); status != http.StatusServiceUnavailable || !strings.Contains(string(answer), "shutting down") {
			t.Errorf("%s: %d %s", path, status, answer)
		}
	}
	live, err := http.Get(s.base + "/livez")
	if err != nil {
		t.Fatal(err)
	}
	_ = live.Body.Close()
	if live.StatusCode != http.StatusOK || !live.Close {
		t.Errorf("/livez: %d, closes its connection: %v", live.StatusCode, live.Close)
	}
	id := list.Events[len(list.Events)-1].Data.ID
	if status, answer := s.call(t, "/v1/sessions/one/permissions/"+id+"/reply", `{"reply":"once"}`); status >= 300 {
		t.Fatalf("the reply: %d %s", status, answer)
	}
	select {
	case <-s.ended:
	case <-time.After(readyLimit):
		t.Fatal("the server runs after the turn")
	}
	if s.state.ExitCode() != exitOK {
		t.Errorf("it ended with %v, want status 0\n%s", s.state, &s.stderr)
	}
}
