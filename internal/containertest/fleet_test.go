package containertest

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/cookiejar"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/pion/logging"
	"github.com/pion/turn/v5"

	"github.com/deskhand/deskhand/internal/testbrowser"
)

const (
	fleetVariable = "DESKHAND_TEST_FLEET" // the token of the fleet, for the client

	fleetHost    = "desk.example.com" // in the guide
	fleetProject = "deskhand"         // in the guide
	turnPort     = "3478"
	takeOverMost = 10 * time.Second // --gone-after of the fleet
)

// fleetImages are the images that the fleet takes from a registry, by the target of testdata/fleet/Dockerfile
// that stands in for each.
var fleetImages = map[string]string{
	"postgres": "postgres:17", "coturn": "coturn/coturn:4.7", "prometheus": "prom/prometheus:v3.5.0", "caddy": "caddy:2",
}

// buildFleet builds the images of the fleet's other programs.
func buildFleet(t *testing.T, e *engine, args []string) {
	t.Helper()
	for target, name := range fleetImages {
		e.run(t, slices.Concat([]string{"build", "--network", "host"}, args, []string{"--target", target, "-t", name, "testdata/fleet"})...)
	}
}

// fleet is the project of deploy/compose/fleet.
type fleet struct {
	e   *engine
	dir string            // the folder of its compose file
	env map[string]string // what its file .env says
}

// newFleet makes a copy of the project with the file .env of the guide.
func newFleet(t *testing.T, e *engine) *fleet {
	t.Helper()
	deploy := filepath.Join(t.TempDir(), "deploy")
	if err := os.CopyFS(deploy, os.DirFS("../../deploy")); err != nil {
		t.Fatal(err)
	}
	f := &fleet{e: e, dir: filepath.Join(deploy, "compose/fleet"), env: map[string]string{}}
	guide, err := os.ReadFile("../../docs/deploy/compose.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)<!-- TestFleetFiles fleet config -->\n```sh\n(.*?)```").FindSubmatch(guide)
	if block == nil {
		t.Fatal("docs/deploy/compose.md has no commands for the fleet")
	}
	script := exec.Command("sh", "-ec", strings.ReplaceAll(string(block[1]), "docker compose", "docker-compose"))
	script.Dir = f.dir
	if out, err := script.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", block[1], err, out)
	}
	text, err := os.ReadFile(filepath.Join(f.dir, ".env"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		f.env[name] = value
	}
	if f.env["HOST"] != fleetHost || f.env["COMPOSE_PROJECT_NAME"] != fleetProject {
		t.Fatalf("the guide's .env: %v", f.env)
	}
	return f
}

// try runs docker-compose in the folder of the project.
func (f *fleet) try(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "docker-compose", args...)
	cmd.Dir = f.dir
	cmd.Env = append(os.Environ(), "DOCKER_HOST="+f.e.host)
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("docker-compose %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return string(out), err
}

func (f *fleet) compose(t *testing.T, args ...string) {
	t.Helper()
	if _, err := f.try(t.Context(), args...); err != nil {
		t.Fatal(err)
	}
}

// inspect returns a field of the container of a service.
func (f *fleet) inspect(t *testing.T, service, format string) string {
	t.Helper()
	return f.e.run(t, "inspect", "--format", format, f.container(service))
}

func (f *fleet) container(service string) string { return fleetProject + "_" + service + "_1" }

// server returns a server as clients in the network of the containers reach it.
func (f *fleet) server(t *testing.T, service string) *box {
	t.Helper()
	at := net.JoinHostPort(f.address(t, service, "default"), "2468")
	return &box{e: f.e, name: f.container(service), at: at, token: f.env["DESKHAND_TOKEN"]}
}

// address returns the address of the container of a service in a network of the project.
func (f *fleet) address(t *testing.T, service, network string) string {
	t.Helper()
	return f.inspect(t, service, fmt.Sprintf("{{(index .NetworkSettings.Networks %q).IPAddress}}", fleetProject+"_"+network))
}

// proxy returns Caddy as a user reaches it, who trusts its authority and keeps its cookies.
func (f *fleet) proxy(t *testing.T) *box {
	t.Helper()
	roots := x509.NewCertPool()
	poll(t, startLimit, "Caddy has an authority", func() (bool, string) {
		root, err := f.e.try("exec", f.container("caddy"), "cat", "/data/caddy/pki/authorities/local/root.crt")
		return err == nil && roots.AppendCertsFromPEM([]byte(root)), fmt.Sprint(err)
	})
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots}, DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, net.JoinHostPort(machineOutside, "443"))
	}}
	return &box{
		e: f.e, name: f.container("caddy"), at: fleetHost, token: f.env["DESKHAND_TOKEN"], scheme: "https",
		client: &http.Client{Transport: transport, Jar: jar, Timeout: callLimit},
	}
}

// runFleet starts the fleet as its guide says, and uses it, ends a server of it, and removes it.
func runFleet(t *testing.T, e *engine, outside []string) string {
	t.Helper()
	e.run(t, "tag", imagePrefix+"desktop", "deskhand")
	serveNames(t, machineOutside, map[string]string{fleetHost: machineOutside})
	f := newFleet(t, e)
	t.Cleanup(func() {
		if t.Failed() {
			out, err := f.try(context.Background(), "logs", "--no-color", "--tail=50")
			t.Logf("the containers said (%v):\n%s", err, out)
		}
		_, _ = f.try(context.Background(), "down", "--volumes", "--timeout", "1")
	})
	begun := time.Now()
	f.compose(t, "up", "--no-build", "--detach")
	proxy := f.proxy(t)
	poll(t, startLimit, "the proxy answers", func() (bool, string) {
		status, answer, err := proxy.request(http.MethodGet, "/v1/health", "")
		return err == nil && status == http.StatusOK, fmt.Sprint(status, err, string(answer))
	})
	up := time.Since(begun)
	f.checkSessions(t, proxy)
	proxy.screenshot(t)
	proxy.browse(t)
	f.checkPrometheus(t)
	f.checkRelay(t)
	for _, service := range []string{"deskhand-1", "deskhand-2"} { // Caddy chooses the client's
		f.server(t, service).screenshot(t)
	}
	again(t, "client", []string{atVariable + "=" + fleetHost, fleetVariable + "=" + f.env["DESKHAND_TOKEN"]}, outside...)
	took := f.checkKill(t, proxy)
	f.checkDown(t)
	return fmt.Sprintf("up in %.1f s, after SIGKILL all sessions continue in %.1f s", up.Seconds(), took.Seconds())
}

// checkSessions makes sessions through the proxy and on each server, and wants both servers to list all of
// them, and the proxy to continue them.
func (f *fleet) checkSessions(t *testing.T, proxy *box) {
	t.Helper()
	for name, b := range map[string]*box{"through-proxy": proxy, "on-1": f.server(t, "deskhand-1"), "on-2": f.server(t, "deskhand-2")} {
		b.call(t, http.MethodPost, "/v1/sessions/"+name, `{"agent":"mock","directory":"/tmp"}`)
		b.call(t, http.MethodPost, "/v1/sessions/"+name+"/messages", `{"message":"hello"}`)
	}
	for _, name := range []string{"through-proxy", "on-1", "on-2"} {
		for _, service := range []string{"deskhand-1", "deskhand-2"} {
			if list := f.server(t, service).call(t, http.MethodGet, "/v1/sessions", ""); !bytes.Contains(list, []byte(`"`+name+`"`)) {
				t.Errorf("%s does not list the session %s: %s", service, name, list)
			}
		}
		stream := proxy.call(t, http.MethodPost, "/v1/sessions/"+name+"/messages/stream", `{"message":"again"}`)
		if !bytes.Contains(stream, []byte("item.completed")) {
			t.Errorf("%s: the stream is %s", name, stream)
		}
	}
}

// checkPrometheus wants Prometheus to get the metrics of both servers and to have the alert rules.
func (f *fleet) checkPrometheus(t *testing.T) {
	t.Helper()
	prometheus := &box{e: f.e, at: "127.0.0.1:9090"}
	poll(t, callLimit, "Prometheus has both servers", func() (bool, string) {
		var got struct {
			Data struct {
				ActiveTargets []struct{ ScrapeURL, Health, LastError string }
			}
		}
		prometheus.ask(t, http.MethodGet, "/api/v1/targets", "", &got)
		up := 0
		for _, target := range got.Data.ActiveTargets {
			if target.Health == "up" {
				up++
			}
		}
		return up == 2, fmt.Sprintf("%+v", got.Data.ActiveTargets)
	})
	var rules struct {
		Data struct {
			Groups []struct{ Rules []struct{ Health string } }
		}
	}
	prometheus.ask(t, http.MethodGet, "/api/v1/rules", "", &rules)
	if len(rules.Data.Groups) == 0 || len(rules.Data.Groups[0].Rules) == 0 {
		t.Errorf("Prometheus has no alert rules: %+v", rules)
	}
}

// relayClient returns a client of coturn.
func (f *fleet) relayClient(t *testing.T, conn net.PacketConn) *turn.Client {
	t.Helper()
	t.Cleanup(func() { _ = conn.Close() })
	at := net.JoinHostPort(machineOutside, turnPort)
	c, err := turn.NewClient(&turn.ClientConfig{
		STUNServerAddr: at, TURNServerAddr: at, Conn: conn,
		Username: "deskhand", Password: f.env["TURN_CREDENTIAL"], Realm: "deskhand", LoggerFactory: logging.NewDefaultLoggerFactory(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if err := c.Listen(); err != nil {
		t.Fatal(err)
	}
	return c
}

// checkRelay wants an allocation of coturn, which relays UDP to the servers and to itself only.
func (f *fleet) checkRelay(t *testing.T) {
	t.Helper()
	conn, err := net.ListenPacket("udp", machineOutside+":0")
	if err != nil {
		t.Fatal(err)
	}
	c := f.relayClient(t, conn)
	relay, err := c.Allocate()
	if err != nil {
		t.Fatalf("coturn gives no relay: %v", err)
	}
	defer relay.Close()
	for network, services := range map[string][]string{"default": {"postgres", "prometheus", "deskhand-1"}, "media": {"coturn", "deskhand-1", "deskhand-2"}} {
		for _, service := range services {
			peer := net.UDPAddr{IP: net.ParseIP(f.address(t, service, network)), Port: 9}
			if err := c.CreatePermission(&peer); (err == nil) != (network == "media") {
				t.Errorf("permission to relay to %s in the network %s: %v", service, network, err)
			}
		}
	}
	gateway := f.inspect(t, "coturn", fmt.Sprintf("{{(index .NetworkSettings.Networks %q).Gateway}}", fleetProject+"_media"))
	if err := c.CreatePermission(&net.UDPAddr{IP: net.ParseIP(gateway), Port: 9}); err == nil {
		t.Errorf("coturn relays to this machine (%s)", gateway)
	}
	if err := c.CreatePermission(&net.UDPAddr{IP: net.ParseIP(clientOutside), Port: 9}); err == nil {
		t.Error("coturn relays to other machines")
	}
	// TCP to a server would reach its metrics, which need no token.
	stream, err := net.Dial("tcp", net.JoinHostPort(machineOutside, turnPort))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.relayClient(t, turn.NewSTUNConn(stream)).AllocateTCP(); err == nil || !strings.Contains(err.Error(), "TCP Transport") {
		t.Errorf("a relay of TCP: %v; want coturn to refuse it", err)
	}
}

// checkKill kills a server, and wants the other one to continue its sessions in time. It returns how long that
// takes. Then the server comes back.
func (f *fleet) checkKill(t *testing.T, proxy *box) time.Duration {
	t.Helper()
	f.e.run(t, "kill", "--signal=KILL", f.container("deskhand-1"))
	begun := time.Now()
	for _, name := range []string{"on-1", "through-proxy", "on-2"} {
		poll(t, takeOverMost, "the other server continues session "+name, func() (bool, string) {
			status, answer, err := proxy.request(http.MethodPost, "/v1/sessions/"+name+"/messages", `{"message":"hello"}`)
			return err == nil && status == http.StatusNoContent, fmt.Sprint(status, err, string(answer))
		})
	}
	took := time.Since(begun)
	if took > takeOverMost {
		t.Errorf("the other server continued the sessions after %v, want at most %v", took, takeOverMost)
	}
	f.compose(t, "start", "deskhand-1")
	f.waitReady(t, "deskhand-1")

	// A server that ends by itself is started again.
	var pid int
	if _, err := fmt.Sscan(f.inspect(t, "deskhand-2", "{{.State.Pid}}"), &pid); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	poll(t, startLimit, "deskhand-2 is started again", func() (bool, string) {
		count := f.inspect(t, "deskhand-2", "{{.RestartCount}}")
		return count == "1", count
	})
	f.waitReady(t, "deskhand-2")
	f.compose(t, "restart", "deskhand-1") // as the guide does for a new version
	f.waitReady(t, "deskhand-1")
	for _, service := range []string{"deskhand-1", "deskhand-2"} {
		for _, name := range []string{"on-1", "on-2"} {
			f.server(t, service).call(t, http.MethodPost, "/v1/sessions/"+name+"/messages", `{"message":"after restarts"}`)
		}
	}
	return took
}

// waitReady waits for a server that was started again.
func (f *fleet) waitReady(t *testing.T, service string) {
	t.Helper()
	poll(t, startLimit, service+" is ready", func() (bool, string) {
		status, answer, err := f.server(t, service).request(http.MethodGet, "/readyz", "")
		return err == nil && status == http.StatusOK, fmt.Sprint(status, err, string(answer))
	})
}

// checkDown stops the fleet, whose programs must end in order, and wants nothing of it to be left.
func (f *fleet) checkDown(t *testing.T) {
	t.Helper()
	f.compose(t, "stop")
	for _, service := range []string{"deskhand-1", "deskhand-2", "postgres"} {
		if code := f.inspect(t, service, "{{.State.ExitCode}}"); code != "0" {
			t.Errorf("exit status %s of %s after docker-compose stop", code, service)
		}
	}
	f.compose(t, "down", "--volumes")
	for _, list := range []string{"ps --all", "network ls", "volume ls"} {
		if left := f.e.run(t, append(strings.Fields(list), "--quiet", "--filter", "label=com.docker.compose.project="+fleetProject)...); left != "" {
			t.Errorf("docker %s after docker-compose down: %s", list, left)
		}
	}
}

// relayOnly keeps a browser from using any way but a TURN server.
const relayOnly = `window.RTCPeerConnection = class extends RTCPeerConnection {
	constructor(config) { super({ ...config, iceTransportPolicy: "relay" }); }
};`

// watchFleet opens the page through the proxy, from another network, with a browser that uses TURN servers
// only.
func watchFleet(t *testing.T, host, token string) {
	t.Helper()
	browser := testbrowser.Open(t, "about:blank", chromedp.Flag("ignore-certificate-errors", true))
	page := testbrowser.Window(browser, t, "https://"+host+"/?token="+token, relayOnly)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(testbrowser.Evaluate[string](page, t, `document.body.dataset.state + " " + document.body.innerText`))
		}
	})
	testbrowser.Holds(page, t, `document.body.dataset.state === "live" && document.querySelector("#frame").dataset.surface === "video"`)
	poll(t, callLimit, "the picture comes through the TURN server", func() (bool, string) {
		verdict := testbrowser.Await[json.RawMessage](page, t, `fetch("/v1/desktop/stream/diagnose", {headers: {Authorization: "Bearer `+token+`"}}).then((r) => r.json())`)
		return bytes.Contains(verdict, []byte("1 through a TURN server")), string(verdict)
	})
}
