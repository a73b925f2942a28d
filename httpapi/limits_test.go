package httpapi

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/registry"
)

// retry fails unless an answer says when the client may try again.
func (a answer) retry(t *testing.T) {
	t.Helper()
	if a.Header.Get("Retry-After") == "" {
		t.Errorf("%s has no Retry-After", a.Request.URL.Path)
	}
}

// TestMaxSessions wants a further agent refused until one has ended.
func TestMaxSessions(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{AgentHost: agents.Config{MaxAgents: 1}})
	body := fmt.Sprintf(`{"agent":"mock","directory":%q}`, t.TempDir())
	s.post(t, "/v1/sessions/one", body).want(t, 200)
	a := s.post(t, "/v1/sessions/two", body)
	a.problem(t, http.StatusServiceUnavailable, "too_many_sessions")
	a.retry(t)
	s.get(t, "/v1/sessions/two").problem(t, 404, "session_not_found")
	a = s.post(t, "/v1/acp/three?agent=mock", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}`)
	a.problem(t, http.StatusServiceUnavailable, "too_many_sessions")
	a.retry(t)
	s.post(t, "/v1/sessions/one/terminate", "").want(t, 204)
	eventually(t, "the place is free", func() bool { return s.post(t, "/v1/sessions/two", body).StatusCode == 200 })
}

// TestNoMemory wants neither a desktop nor an agent to start with too little memory.
func TestNoMemory(t *testing.T) {
	t.Parallel()
	custom := registry.Config{Custom: []registry.Custom{{ID: "true", Command: []string{"/bin/true"}}}}
	s := serve(t, Config{MinMemory: math.MaxInt64, Agents: custom})
	for path, body := range map[string]string{
		mainPath + "/start": "{}", "/v1/desktops": "{}", "/v1/sessions/one": fmt.Sprintf(`{"agent":"mock","directory":%q}`, t.TempDir()),
	} {
		a := s.post(t, path, body)
		a.problem(t, http.StatusServiceUnavailable, "no_memory")
		a.retry(t)
	}
	// Nor to be asked for its options.
	agent := s.get(t, "/v1/agents/true?config=true&no_cache=true").want(t, 200).json(t)
	if text, _ := agent["configError"].(string); !strings.Contains(text, "memory") {
		t.Errorf("configError = %q", text)
	}
}

// TestMaxViewers wants a further viewer refused.
func TestMaxViewers(t *testing.T) {
	t.Parallel()
	s := startReal(t, Config{MaxViewers: 1, MaxDesktops: 7}, `{"width":640,"height":480}`)
	s.play(t, s.Token())
	a := s.do(t, call{path: mainPath + "/stream/whep", body: offer, kind: sdpType})
	a.problem(t, http.StatusServiceUnavailable, "too_many_viewers")
	a.retry(t)
	if got := s.get(t, "/v1/desktops").want(t, 200).json(t)["limit"]; got != 7.0 {
		t.Errorf("the limit of desktops is %v", got)
	}
}

// TestIdleStop wants an idle desktop to be stopped, with an event, and started again by the next
// request that uses it.
func TestIdleStop(t *testing.T) {
	t.Parallel()
	s := startReal(t, Config{DesktopIdleStop: time.Second}, `{"width":640,"height":480,"restartAfterIdle":true}`)
	stopped := func() bool { // requests for the status do not use the desktop
		st := s.get(t, mainPath+"/status").want(t, 200).json(t)
		return st["state"] == "inactive" && st["idle"] == true
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	events := s.follow(ctx, t, "/v1/events?topics=desktop&types=status", nil)
	eventually(t, "the idle desktop is stopped", stopped)
	for e := range events {
		if strings.Contains(e.data, `"inactive"`) {
			if !strings.Contains(e.data, `"idle":true`) {
				t.Errorf("the event does not say why: %s", e.data)
			}
			break
		}
	}
	s.post(t, mainPath+"/mouse/move", `{"x":9,"y":9}`).want(t, 200)
	st := s.get(t, mainPath+"/status").want(t, 200).json(t)
	if size := st["resolution"].(map[string]any); st["state"] != "active" || st["idle"] != nil || size["width"] != 640.0 {
		t.Errorf("the desktop after the next request: %v", st)
	}
	s.post(t, mainPath+"/stop", "").want(t, 200)
	s.post(t, mainPath+"/start", "{}").want(t, 200)
	eventually(t, "the idle desktop is stopped", stopped)
	s.post(t, mainPath+"/mouse/move", `{"x":9,"y":9}`).problem(t, 409, "desktop_runtime_inactive")
}

// TestIdleWhileDraining wants an idle desktop to stay stopped while the server drains.
func TestIdleWhileDraining(t *testing.T) {
	t.Parallel()
	s := startReal(t, Config{DesktopIdleStop: time.Second}, `{"width":640,"height":480,"restartAfterIdle":true}`)
	eventually(t, "the idle desktop is stopped", func() bool {
		return s.get(t, mainPath+"/status").want(t, 200).json(t)["state"] == "inactive"
	})
	if err := s.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.get(t, mainPath+"/screenshot").problem(t, 409, "desktop_runtime_inactive")
	s.post(t, mainPath+"/mouse/move", `{"x":9,"y":9}`).problem(t, 409, "desktop_runtime_inactive")
	if st := s.get(t, mainPath+"/status").want(t, 200).json(t); st["state"] != "inactive" {
		t.Errorf("state %v while the server drains", st["state"])
	}
}
