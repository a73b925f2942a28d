package deploytest

import (
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/deskhand/deskhand/internal/testspace"
	"github.com/deskhand/deskhand/internal/testx11"
)

// deskName stands for desk.example.com. All programs find it on this machine.
const deskName = "desk.localhost"

// streamModule is in Debian's package libnginx-mod-stream.
const streamModule = "/usr/lib/nginx/modules/ngx_stream_module.so"

// nginx is a running one with the guide's configuration.
type nginx struct {
	dir   string
	https *url.URL
	http  string // address of the port that redirects
}

// startNginx runs nginx with a site, and with a configuration for TCP that may be
// empty. prepare replaces the ports in both.
func startNginx(t *testing.T, s *server, stream string) nginx {
	t.Helper()
	cert, key := certificate(t, deskName)
	n := nginx{dir: t.TempDir()}
	https, plain := testspace.Port(t), testspace.Port(t)
	n.https = &url.URL{Scheme: "https", Host: deskName + ":" + https}
	n.http = "127.0.0.1:" + plain
	site := block(t, "docs/deploy/nginx.md", "site",
		"listen 443 ", "listen "+https+" ", "listen 80;", "listen "+plain+";", "https://$host$", "https://$host:"+https+"$",
		"desk.example.com", deskName, "/etc/ssl/desk.crt", cert, "/etc/ssl/desk.key", key,
		"/var/log/nginx/", n.dir+"/", "127.0.0.1:2468", s.at)
	main := `daemon off;
pid ` + n.dir + `/pid;
events {}
http {
    client_body_temp_path ` + n.dir + `/body;
    proxy_temp_path ` + n.dir + `/proxy;
    fastcgi_temp_path ` + n.dir + `/fastcgi;
    uwsgi_temp_path ` + n.dir + `/uwsgi;
    scgi_temp_path ` + n.dir + `/scgi;
    include ` + writeFile(t, "deskhand.conf", site) + `;
}
` + stream
	if stream != "" {
		main = "load_module " + streamModule + ";\n" + main
	}
	d := start(t, exec.Command("/usr/sbin/nginx", "-c", writeFile(t, "nginx.conf", main), "-p", n.dir, "-e", "stderr"))
	until(t, "nginx listens", func() bool {
		if d.ended() {
			t.Fatalf("nginx ended:\n%s", d)
		}
		_, err := os.Stat(n.dir + "/pid")
		return err == nil
	})
	return n
}

// TestNginx runs the guide's site, and looks at the page with a browser.
func TestNginx(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "/usr/sbin/nginx", "Xvfb", "openbox", "dbus-daemon", "chromium")
	s := serve(t, block(t, "docs/deploy/nginx.md", "server"))
	n := startNginx(t, s, "")
	p := proxied{newClient(n.https, s.token), s}
	p.check(t)
	p.view(t, "video")
	p.verdict(t, "1 by UDP")

	redirect := *p.client
	redirect.base = &url.URL{Scheme: "http", Host: n.http}
	if resp := redirect.do(t, http.MethodGet, "/ui/?a=b", nil); resp.Header.Get("Location") != "https://127.0.0.1:"+n.https.Port()+"/ui/?a=b" {
		t.Errorf("HTTP is answered %s, %q; want the address with https", resp.Status, resp.Header.Get("Location"))
	}
	logged, err := os.ReadFile(filepath.Join(n.dir, "deskhand.access.log"))
	if err != nil || !strings.Contains(string(logged), `"GET /ui/" 200`) || strings.Contains(string(logged), s.token) {
		t.Errorf("the access log, which must have requests and no token: %v\n%s", err, logged)
	}
}

// TestNginxLong tries what takes time: large files, a terminal that is idle for
// longer than the usual minute, and the page where no media comes through.
func TestNginxLong(t *testing.T) {
	slow(t)
	t.Parallel()
	testx11.Require(t, "/usr/sbin/nginx", "Xvfb", "openbox", "dbus-daemon", "chromium")
	s := serve(t, "deskhand server --trust-proxy", "--media-udp-port", "off")
	n := startNginx(t, s, "")
	proxied{newClient(n.https, s.token), s}.checkLong(t)
}

// checkLong tries what takes long.
func (p proxied) checkLong(t *testing.T) {
	t.Helper()
	p.call(t, http.MethodPost, "/v1/desktop/start", `{"width":640,"height":480}`)
	idle := time.Now()
	ws := p.terminal(t)
	p.echo(t, ws, "before")
	p.checkFiles(t, 1<<30)
	p.view(t, "canvas")
	p.verdict(t, "1 over a WebSocket")
	p.call(t, http.MethodPost, "/v1/processes/run", `{"command":"sleep","args":["65"],"timeoutMs":120000}`)
	p.echo(t, ws, "after")
	t.Logf("the terminal was idle for %v", time.Since(idle).Round(time.Second))
}

// TestNginxStream brings media by TCP past the proxy.
func TestNginxStream(t *testing.T) {
	slow(t)
	t.Parallel()
	testx11.Require(t, "/usr/sbin/nginx", "Xvfb", "openbox", "dbus-daemon", "chromium")
	if _, err := os.Stat(streamModule); err != nil && os.Getenv("REQUIRE_TOOLS") == "" {
		t.Skip("nginx has no module for TCP here: ", err)
	}
	media := testspace.Port(t)
	s := serve(t, block(t, "docs/deploy/nginx.md", "stream server", "2469", media), "--media-udp-port", "off")
	stream := block(t, "docs/deploy/nginx.md", "stream", "127.0.0.1:2468", s.at, "2469", media)
	n := startNginx(t, s, stream)
	p := proxied{newClient(n.https, s.token), s}
	p.call(t, http.MethodPost, "/v1/desktop/start", `{"width":640,"height":480}`)
	p.view(t, "video")
	p.verdict(t, "1 by TCP")
}
