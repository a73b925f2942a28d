package httpapi

import (
	"context"
	"strings"
	"testing"
	"time"
)

// TestControlWait: an action answers control_held with the holder immediately, and with
// waitControlMs it waits for the end of control.
func TestControlWait(t *testing.T) {
	t.Parallel()
	s := startReal(t, Config{}, "")
	jane := map[string]string{"Deskhand-Actor": "Jane"}
	take := call{path: mainPath + "/control/take", body: "{}", header: jane}
	release := call{method: "POST", path: mainPath + "/control/release", header: jane}
	since := s.do(t, take).want(t, 200).json(t)["since"].(string)
	for _, path := range []string{"/mouse/click", "/mouse/click?waitControlMs=0", "/mouse/click?waitControlMs=20"} {
		p := s.post(t, mainPath+path, `{"x":5,"y":5}`).problem(t, 409, "control_held")
		at, err := time.Parse(time.RFC3339Nano, p["since"].(string))
		begun, _ := time.Parse(time.RFC3339Nano, since)
		if holder := p["holder"].(map[string]any); holder["name"] != "Jane" || err != nil || !at.Equal(begun) {
			t.Errorf("%s: %v, control since %s", path, p, since)
		}
	}
	for _, bad := range []string{"-1", "x", "600001", "1.5"} {
		p := s.post(t, mainPath+"/keyboard/press?waitControlMs="+bad, `{"key":"a"}`).problem(t, 400, "desktop_invalid_action")
		if p["field"] != "waitControlMs" {
			t.Errorf("%s: %v", bad, p)
		}
	}
	done := make(chan answer, 1)
	go func() {
		done <- s.try(context.WithoutCancel(t.Context()), call{path: mainPath + "/keyboard/press?waitControlMs=60000", body: `{"key":"a"}`})
	}()
	s.do(t, release).want(t, 200)
	if a := <-done; a.err != nil || a.StatusCode != 200 {
		t.Errorf("after the end of control: %v %s", a.err, a.body)
	}
	s.do(t, take).want(t, 200)
	session, err := s.mcpClient(t, "", s.Token(), "model")
	if err != nil {
		t.Fatal(err)
	}
	if text, _, failed := callTool(t, session, "key", map[string]any{"text": "a"}); !failed || !strings.Contains(text, "control_held: api Jane has control of this desktop since 2") {
		t.Errorf("MCP: %s", text)
	}
	released := make(chan answer, 1)
	go func() { released <- s.try(context.WithoutCancel(t.Context()), release) }()
	if text, _, failed := callTool(t, session, "key", map[string]any{"text": "a", "waitControlMs": 60_000}); failed {
		t.Errorf("MCP with waitControlMs: %s", text)
	}
	<-released
	// A control token takes control by force, an agent does not take it from a person.
	s.do(t, take).want(t, 200)
	_, control := s.token(t, `{"scope":"control","desktop":"main"}`)
	forced := call{path: mainPath + "/control/take", body: `{"force":true}`, header: map[string]string{"Authorization": "Bearer " + control}}
	events := s.follow(t.Context(), t, mainPath+"/events?access_token="+s.Token(), nil)
	s.do(t, forced).want(t, 200)
	if _, e := await(t, events, "control"); e.Control == nil || e.Control.Holder == nil || e.Control.Holder.Name == "Jane" || !e.Control.Taken {
		t.Errorf("the holder has the event %+v", e.Control)
	}
}
