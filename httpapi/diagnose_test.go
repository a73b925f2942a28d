package httpapi

import (
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/deskhand/deskhand/internal/testx11"
	"github.com/deskhand/deskhand/webrtc"
)

func TestDiagnoseRoute(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "Xvfb", "openbox", "dbus-daemon")
	s := serve(t, Config{Media: webrtc.NetworkConfig{ICEServers: []webrtc.ICEServer{
		{URLs: []string{"turns:turn.invalid"}, Username: "u", Credential: "hush"},
	}}})
	// An administrator who sets a server up has no desktop yet.
	got := s.get(t, "/v1/desktop/stream/diagnose").want(t, 200)
	d := got.json(t)
	udp, tcp, request := d["udp"].(map[string]any), d["tcp"].(map[string]any), d["request"].(map[string]any)
	if udp["open"] != true || udp["port"].(float64) == 0 || d["verdict"] == "" {
		t.Errorf("diagnosis = %s", got.body)
	}
	if strings.Contains(string(got.body), "hush") {
		t.Errorf("the diagnosis tells a secret: %s", got.body)
	}
	host := strings.TrimPrefix(s.url, "http://")
	if tcp["shared"] != true || !slices.Contains(d["addresses"].([]any), any("tcp "+host)) {
		t.Errorf("diagnosis = %s, want tcp %s among the addresses", got.body, host)
	}
	if request["host"] != host {
		t.Errorf("host = %v, want %s", request["host"], host)
	}

	// A guest does not learn what the names of this network mean.
	_, view := s.token(t, `{"scope":"view"}`)
	for token, want := range map[string]string{s.Token(): "is not known here", view: "names are resolved for"} {
		a := s.do(t, call{path: "/v1/desktop/stream/diagnose", header: map[string]string{"Authorization": "Bearer " + token, "Host": "name.invalid:80"}})
		request = a.want(t, 200).json(t)["request"].(map[string]any)
		if why, _ := request["problem"].(string); !strings.Contains(why, want) || len(request["addresses"].([]any)) != 0 {
			t.Errorf("another name: %v, want a problem with %q", request, want)
		}
	}

	s.post(t, "/v1/desktop/start", `{"width":640,"height":480}`).want(t, 200)
	conn := s.dial(t, "/v1/desktop/stream/signaling?access_token="+s.Token(), http.Header{})
	signal(t, conn, "system/init")
	if err := conn.WriteJSON(map[string]any{"event": "signal/request", "payload": map[string]any{}}); err != nil {
		t.Fatal(err)
	}
	signal(t, conn, "signal/provide")
	d = s.get(t, "/v1/desktop/stream/diagnose").want(t, 200).json(t)
	if viewers := d["viewers"].([]any); len(viewers) != 1 || viewers[0].(map[string]any)["transport"] != "webrtc" {
		t.Errorf("viewers = %v", d["viewers"])
	}

	// A proxy is seen.
	d = s.do(t, call{path: "/v1/desktop/stream/diagnose", header: map[string]string{"X-Forwarded-For": "192.0.2.1"}}).want(t, 200).json(t)
	if headers := d["request"].(map[string]any)["proxyHeaders"].([]any); len(headers) != 1 || d["tcp"].(map[string]any)["shared"] != false {
		t.Errorf("through a proxy: %v", d)
	}
}

// A taken port is told, with what to do, and is no internal error.
func TestDiagnoseTakenPort(t *testing.T) {
	t.Parallel()
	taken, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	s := serve(t, Config{Media: webrtc.NetworkConfig{UDPPort: taken.LocalAddr().(*net.UDPAddr).Port}})
	d := s.get(t, "/v1/desktop/stream/diagnose").want(t, 200).json(t)
	udp := d["udp"].(map[string]any)
	if udp["open"] != false || !strings.Contains(udp["problem"].(string), "in use") || d["remedy"] == "" {
		t.Errorf("diagnosis = %v", d)
	}
}

func TestMediaConfig(t *testing.T) {
	t.Parallel()
	_, err := New(Config{StateDir: t.TempDir(), Media: webrtc.NetworkConfig{Announce: []string{"example.com"}}})
	if err == nil || !strings.Contains(err.Error(), "example.com") {
		t.Errorf("New: %v, want an error about the address", err)
	}
}
