package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

var metricsURL = regexp.MustCompile(`msg=metrics url=(\S+)`)

// TestMetricsListen serves the metrics, and nothing else, without a token on an address of
// their own. It closes connections beyond a bound.
func TestMetricsListen(t *testing.T) {
	t.Parallel()
	s := serve(t, environ(t), "--metrics-listen", "127.0.0.1:0")
	m := metricsURL.FindStringSubmatch(s.stderr.String())
	if m == nil {
		t.Fatalf("no address of the metrics in %s", s.stderr.String())
	}
	for path, want := range map[string]int{"": http.StatusOK, "/../v1/health": http.StatusNotFound} {
		resp, err := s.client.Get(m[1] + path)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != want || want == http.StatusOK && !strings.Contains(string(body), `deskhand_desktops{state="inactive"} 1`) {
			t.Errorf("%s: %s, %s", path, resp.Status, body)
		}
	}
	dial := func() net.Conn {
		t.Helper()
		conn, err := net.Dial("tcp", strings.Split(m[1], "/")[2])
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	s.client.CloseIdleConnections()
	var idle []net.Conn
	poll(t, callLimit, "connections beyond the bound are closed", func() string {
		conn := dial()
		if resp, _, err := ping(conn); err == nil {
			idle = append(idle, conn)
			return fmt.Sprint(len(idle), " connections: ", resp.Status)
		}
		return ""
	})
	if len(idle) > mostScrapers {
		t.Errorf("%d connections are open", len(idle))
	}
	for _, conn := range idle {
		_ = conn.Close()
	}
	poll(t, callLimit, "there is room again", func() string {
		if _, _, err := ping(dial()); err != nil {
			return err.Error()
		}
		return ""
	})
	cmd := exec.Command(binary, "server", "--port", "0", "--metrics-listen", "nowhere")
	cmd.Env = environ(t)
	if got := finish(t, cmd); got.status != exitUsage || !strings.Contains(got.stderr, "--metrics-listen must be ADDRESS:PORT") {
		t.Errorf("a wrong address: %+v", got)
	}
}
