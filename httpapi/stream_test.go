package httpapi

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fasthttp/websocket"

	"github.com/deskhand/deskhand/internal/testx11"
)

// signal waits for a message of the signalling protocol. Pictures are passed over.
func signal(t *testing.T, conn *websocket.Conn, event string) map[string]any {
	t.Helper()
	for {
		kind, text, err := conn.ReadMessage()
		if err != nil {
			t.Fatalf("while waiting for %s: %v", event, err)
		}
		if kind == websocket.BinaryMessage {
			continue
		}
		var m struct {
			Event   string
			Payload map[string]any
		}
		if err := json.Unmarshal(text, &m); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if m.Event == event {
			return m.Payload
		}
	}
}

func TestStreamRoutes(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "Xvfb", "openbox", "dbus-daemon")
	s := serve(t, Config{})
	const base = "/v1/desktop/stream"
	if got := s.get(t, base+"/status").want(t, 200); string(got.body) != `{"active":false}` {
		t.Errorf("status before the start: %s", got.body)
	}
	p := s.do(t, call{method: http.MethodPost, path: base + "/start"}).problem(t, 409, "conflict")
	if !strings.Contains(p["detail"].(string), "desktop runtime is not active") {
		t.Errorf("detail = %v", p["detail"])
	}
	s.get(t, base+"/signaling").want(t, 409)
	s.post(t, "/v1/desktop/start", `{"width":640,"height":480}`).want(t, 200)
	if got := s.do(t, call{method: http.MethodPost, path: base + "/start"}).want(t, 200).json(t); got["active"] != true || got["codec"] != "vp8" || got["processId"] != nil {
		t.Errorf("started: %v", got)
	}
	s.get(t, base+"/signaling").problem(t, 400, "invalid_request")
	s.do(t, call{path: base + "/whep", method: http.MethodPost, body: "x"}).problem(t, 415, "unsupported_media_type")
	s.do(t, call{path: base + "/whep", body: "x", kind: "application/sdp"}).problem(t, 400, "invalid_request")
	s.do(t, call{path: base + "/whep/absent", method: http.MethodDelete}).problem(t, 404, "not_found")
	s.playsWHEP(t, base+"/whep")

	conn := s.dial(t, base+"/signaling?access_token="+s.Token(), http.Header{})
	init := signal(t, conn, "system/init")
	if size := init["screen_size"].(map[string]any); size["width"] != 640.0 || size["height"] != 480.0 {
		t.Errorf("screen_size = %v", size)
	}
	if err := conn.WriteJSON(map[string]any{"event": "signal/request", "payload": map[string]any{}}); err != nil {
		t.Fatal(err)
	}
	offer := signal(t, conn, "signal/provide")
	if sdp := offer["sdp"].(string); !strings.Contains(sdp, "VP8/90000") || len(offer["iceservers"].([]any)) == 0 {
		t.Errorf("offer = %v", offer)
	}
	if got := s.get(t, base+"/status").want(t, 200).json(t); len(got["viewers"].([]any)) != 1 {
		t.Errorf("status with a viewer: %v", got)
	}
	if got := s.do(t, call{method: http.MethodPost, path: base + "/stop"}).want(t, 200); string(got.body) != `{"active":false}` {
		t.Errorf("stopped: %s", got.body)
	}
	for {
		if _, _, err := conn.ReadMessage(); err != nil {
			break // the viewer is told, and the connection closed
		}
	}
	s.dial(t, "/v1/desktops/main/stream/signaling", nil)
}

func TestControlRoutes(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "Xvfb", "openbox", "dbus-daemon")
	s := serve(t, Config{})
	s.get(t, "/v1/desktop/control").problem(t, 409, "desktop_runtime_inactive")
	s.post(t, "/v1/desktop/start", `{"width":640,"height":480}`).want(t, 200)
	as := func(name, path, body string) answer {
		return s.do(t, call{method: http.MethodPost, path: "/v1/desktop/" + path, body: body, header: map[string]string{"Deskhand-Actor": name}})
	}
	const move = `{"x":5,"y":6}`
	if got := s.get(t, "/v1/desktop/control").want(t, 200); string(got.body) != `{"taken":false}` {
		t.Errorf("control at first: %s", got.body)
	}
	got := as("ann", "control/take", "").want(t, 200).json(t)
	if h := got["holder"].(map[string]any); h["name"] != "ann" || h["kind"] != "api" || got["taken"] != true {
		t.Errorf("taken: %v", got)
	}
	as("ann", "mouse/move", move).want(t, 200)
	p := s.post(t, "/v1/desktop/mouse/move", move).problem(t, 409, "control_held")
	if h := p["holder"].(map[string]any); h["name"] != "ann" {
		t.Errorf("problem = %v", p)
	}
	as("bob", "control/take", "{}").problem(t, 409, "control_held")
	as("bob", "control/release", "").want(t, 200)
	as("bob", "mouse/move", move).problem(t, 409, "control_held")
	as("bob", "control/take", `{"force":true}`).want(t, 200)
	as("bob", "mouse/move", move).want(t, 200)
	as("bob", "control/release", "").want(t, 200)
	s.post(t, "/v1/desktop/mouse/move", move).want(t, 200)
	as("-name", "mouse/move", move).problem(t, 400, "invalid_request")
}

// TestViewerActs: a viewer's calls outside of its connection count as its own
// actions, and as no other viewer's.
func TestViewerActs(t *testing.T) {
	t.Parallel()
	s := startReal(t, Config{}, `{"width":640,"height":480}`)
	join := func(query string) (conn *websocket.Conn, key string) {
		conn = s.dial(t, mainPath+"/stream/video?access_token="+s.Token()+query, http.Header{})
		key, _ = signal(t, conn, "system/init")["viewer_key"].(string)
		if len(key) < 20 {
			t.Fatalf("viewer_key = %q", key)
		}
		return conn, key
	}
	ann, key := join("&name=ann")
	_, watching := join("&name=eve&role=view")
	if err := ann.WriteJSON(map[string]any{"event": "control/take"}); err != nil {
		t.Fatal(err)
	}
	if host := signal(t, ann, "control/host"); host["host_name"] != "ann" || host["host_kind"] != "viewer" {
		t.Errorf("control/host = %v", host)
	}
	resize := func(key string) answer {
		return s.do(t, call{path: mainPath + "/resize", body: `{"width":500,"height":400}`, header: map[string]string{"Deskhand-Viewer": key}})
	}
	resize(key).want(t, 200)
	for _, other := range []string{"", "x", watching} {
		resize(other).problem(t, 409, "control_held")
	}
}

// TestAgentsOnlyWatch: an agent that watches cannot take control from a person as another viewer.
func TestAgentsOnlyWatch(t *testing.T) {
	t.Parallel()
	s := startReal(t, Config{}, `{"width":640,"height":480}`)
	_, agent := s.token(t, `{"scope":"agent","desktop":"main","name":"bot"}`)
	_, person := s.token(t, `{"scope":"control","desktop":"main","name":"ann"}`)
	ann := s.dial(t, mainPath+"/stream/video?access_token="+person, http.Header{})
	signal(t, ann, "system/init")
	if err := ann.WriteJSON(map[string]any{"event": "control/take"}); err != nil {
		t.Fatal(err)
	}
	if host := signal(t, ann, "control/host"); host["host_name"] != "ann" {
		t.Fatalf("control/host = %v", host)
	}
	bot := s.dial(t, mainPath+"/stream/video?role=control&name=Alice&access_token="+agent, http.Header{})
	begun := signal(t, bot, "system/init")
	own := begun["sessions"].(map[string]any)[begun["session_id"].(string)].(map[string]any)
	if profile := own["profile"].(map[string]any); profile["can_host"] != false || profile["name"] != "Alice" {
		t.Fatalf("the agent's viewer: %v", profile)
	}
	for _, event := range []string{"control/take", "control/type", "control/request"} {
		if err := bot.WriteJSON(map[string]any{"event": event, "payload": map[string]any{"force": true, "text": "x"}}); err != nil {
			t.Fatal(err)
		}
	}
	signal(t, bot, "control/refused") // the last message
	as := bearer(agent)
	as["Deskhand-Viewer"] = begun["viewer_key"].(string)
	for path, body := range map[string]string{"/control/take": `{"force":true}`, "/mouse/move": `{"x":5,"y":6}`} {
		p := s.do(t, call{path: mainPath + path, body: body, header: as}).problem(t, 409, "control_held")
		if h := p["holder"].(map[string]any); h["name"] != "ann" {
			t.Errorf("%s: %v", path, p)
		}
	}
}

// TestStalledViewer: a viewer that does not read what it caused does not keep the live view
// from ending.
func TestStalledViewer(t *testing.T) {
	t.Parallel()
	s := startReal(t, Config{}, `{"width":640,"height":480}`)
	s.post(t, mainPath+"/control/take", "").want(t, 200)
	conn := s.dial(t, mainPath+"/stream/video?access_token="+s.Token(), http.Header{})
	signal(t, conn, "system/init")
	take := map[string]any{"event": "control/take", "payload": map[string]string{"id": strings.Repeat("a", 1000)}}
	for err := error(nil); err == nil; err = conn.WriteJSON(take) { // until the server waits for the client
		if err := conn.SetWriteDeadline(time.Now().Add(2 * time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	begun := time.Now()
	s.post(t, mainPath+"/stream/stop", "").want(t, 200)
	if took := time.Since(begun); took > 30*time.Second {
		t.Errorf("the live view ended after %v", took)
	}
}
