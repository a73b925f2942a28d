package deploytest

import (
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/deskhand/deskhand/internal/testspace"
	"github.com/deskhand/deskhand/internal/testx11"
)

// startCaddy runs Caddy with the guide's site and a certificate of the test.
func startCaddy(t *testing.T, s *server) (p proxied, accessLog string) {
	t.Helper()
	cert, key := certificate(t, deskName)
	dir, at := t.TempDir(), deskName+":"+testspace.Port(t)
	site := block(t, "docs/deploy/caddy.md", "site",
		"desk.example.com {", at+" {\n\ttls "+cert+" "+key, "/var/log/caddy", dir, "127.0.0.1:2468", s.at)
	cmd := exec.Command("caddy", "run", "--adapter", "caddyfile", "--config",
		writeFile(t, "Caddyfile", "{\n\tadmin off\n\thttp_port "+testspace.Port(t)+"\n}\n"+site))
	cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_DATA_HOME="+dir, "XDG_CONFIG_HOME="+dir)
	d := start(t, cmd)
	_, port, _ := strings.Cut(at, ":")
	until(t, "Caddy listens", func() bool {
		if d.ended() {
			t.Fatalf("Caddy ended:\n%s", d)
		}
		conn, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	return proxied{newClient(&url.URL{Scheme: "https", Host: at}, s.token), s}, dir + "/deskhand.log"
}

func TestCaddy(t *testing.T) {
	slow(t)
	t.Parallel()
	testx11.Require(t, "caddy", "Xvfb", "openbox", "dbus-daemon", "chromium")
	s := serve(t, block(t, "docs/deploy/caddy.md", "server"))
	p, accessLog := startCaddy(t, s)
	p.check(t)
	p.view(t, "video")
	p.verdict(t, "1 by UDP")
	var logged []byte
	until(t, "requests are in the access log", func() bool {
		logged, _ = os.ReadFile(accessLog)
		return strings.Contains(string(logged), "token=REDACTED")
	})
	if strings.Contains(string(logged), s.token) {
		t.Errorf("the access log shows the token:\n%s", logged)
	}
}

// TestCaddyLong tries what takes time; see TestNginxLong.
func TestCaddyLong(t *testing.T) {
	slow(t)
	t.Parallel()
	testx11.Require(t, "caddy", "Xvfb", "openbox", "dbus-daemon", "chromium")
	p, _ := startCaddy(t, serve(t, block(t, "docs/deploy/caddy.md", "server"), "--media-udp-port", "off"))
	p.checkLong(t)
}

// TestCaddyPublished brings media by TCP to the server's own port.
func TestCaddyPublished(t *testing.T) {
	slow(t)
	t.Parallel()
	testx11.Require(t, "caddy", "Xvfb", "openbox", "dbus-daemon", "chromium")
	port := testspace.Port(t)
	s := serve(t, block(t, "docs/deploy/caddy.md", "published server", "2468", port), "--port", port, "--media-udp-port", "off")
	p, _ := startCaddy(t, s)
	p.call(t, http.MethodPost, "/v1/desktop/start", `{"width":640,"height":480}`)
	p.view(t, "video")
	p.verdict(t, "1 by TCP")
}
