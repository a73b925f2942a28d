package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"
)

// present lists who is at the desktop, as kind, name and whether it has control.
func (s *testServer) present(t *testing.T) (list []string) {
	t.Helper()
	for _, p := range s.get(t, mainPath+"/presence").want(t, 200).json(t)["present"].([]any) {
		one := p.(map[string]any)
		list = append(list, fmt.Sprintf("%v %v %v", one["kind"], one["name"], one["control"]))
	}
	return list
}

func TestPresence(t *testing.T) {
	t.Parallel()
	s := startReal(t, Config{}, `{"width":640,"height":480}`)
	if got := s.present(t); len(got) != 0 {
		t.Errorf("at first: %q", got)
	}
	conn := s.dial(t, mainPath+"/stream/video?name=ann&access_token="+s.Token(), http.Header{})
	signal(t, conn, "system/init")
	as := map[string]string{"Deskhand-Actor": "ci"}
	s.do(t, call{method: http.MethodPost, path: mainPath + "/mouse/move", body: `{"x":1,"y":2}`, header: as}).want(t, 200)
	// An agent is there while its process runs with the desktop, before it acts.
	s.post(t, "/v1/sessions/helper", fmt.Sprintf(`{"agent":"mock","directory":%q,"desktop":"main"}`, t.TempDir())).want(t, 200)
	want := "[viewer ann false api ci false agent mock false]"
	if got := fmt.Sprint(s.present(t)); got != want {
		t.Errorf("present: %s, want %s", got, want)
	}
	s.do(t, call{method: http.MethodPost, path: mainPath + "/control/take", header: as}).want(t, 200)
	if got, want := fmt.Sprint(s.present(t)), "[viewer ann false api ci true agent mock false]"; got != want {
		t.Errorf("present: %s, want %s", got, want)
	}
	shared := s.do(t, call{method: http.MethodPost, path: mainPath + "/control/take", body: `{"shared":true}`, header: as}).want(t, 200).json(t)
	if shared["taken"] != false {
		t.Errorf("control = %v, want it shared", shared)
	}
	s.post(t, mainPath+"/mouse/move", `{"x":3,"y":4}`).want(t, 200)
	if status := s.get(t, mainPath+"/status").want(t, 200).json(t); status["programs"] != nil {
		t.Errorf("programs on an empty desktop: %v", status["programs"])
	}
	s.post(t, mainPath+"/launch", `{"app":"xterm","wait":true}`).want(t, 200)
	if status := s.get(t, mainPath+"/status").want(t, 200).json(t); status["programs"] != 1.0 {
		t.Errorf("programs with a terminal: %v", status["programs"])
	}
}

// TestControlEndsWithStream: control of a caller that named itself as an event
// stream's holder ends with the stream, and with no other's.
func TestControlEndsWithStream(t *testing.T) {
	t.Parallel()
	s := startReal(t, Config{}, `{"width":640,"height":480}`)
	link := s.post(t, "/v1/tokens", `{"scope":"view"}`).want(t, 200).json(t)["token"].(string)
	mine, end := context.WithCancel(t.Context())
	defer end()
	s.follow(mine, t, mainPath+"/events?holder=ann", nil)
	s.do(t, call{method: http.MethodPost, path: mainPath + "/control/take", header: map[string]string{"Deskhand-Actor": "ann"}}).want(t, 200)
	for _, path := range []string{"?holder=bob", "?", "?holder=ann&access_token=" + link} {
		ctx, cancel := context.WithCancel(t.Context())
		events := s.follow(ctx, t, mainPath+"/events"+path, nil)
		cancel()
		for range events { // until it has ended
		}
	}
	if c := s.get(t, mainPath+"/control").want(t, 200).json(t); c["holder"] == nil {
		t.Error("control has ended with the stream of another")
	}
	begun := time.Now()
	end()
	eventually(t, "control is free", func() bool { return s.get(t, mainPath+"/control").want(t, 200).json(t)["holder"] == nil })
	if took := time.Since(begun); took > 30*time.Second { // an idle holder's ends after a minute
		t.Errorf("control was free after %v", took)
	}
}
