package deploytest

import (
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/pion/logging"
	"github.com/pion/turn/v5"

	"github.com/deskhand/deskhand/internal/testbrowser"
	"github.com/deskhand/deskhand/internal/testx11"
)

// binaryVariable holds the path of deskhand for a test that runs itself in
// another network, where nothing can be built.
const binaryVariable = "DESKHAND_TEST_BINARY"

// again runs the test in a network namespace of its own. It returns false there.
func again(t *testing.T) bool {
	t.Helper()
	if os.Getenv(binaryVariable) != "" {
		return false
	}
	if out, err := exec.Command("unshare", "-rn", "ip", "link", "add", "near", "type", "veth", "peer", "name", "far").CombinedOutput(); err != nil {
		t.Skipf("no networks can be made here: %v: %s", err, out)
	}
	cmd := exec.Command("unshare", "-rn", os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), binaryVariable+"="+deskhand(t))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()+"/") {
		t.Errorf("in a network of its own: %v\n%s", err, out)
	}
	return true
}

// relayOnly keeps a browser from using any way but a TURN server.
const relayOnly = `window.RTCPeerConnection = class extends RTCPeerConnection {
	constructor(config) { super({ ...config, iceTransportPolicy: "relay" }); }
};`

// TestTURN runs coturn with the guide's configuration, in a network with the
// guide's addresses, and a viewer that uses nothing but the TURN server.
func TestTURN(t *testing.T) {
	slow(t)
	testx11.Require(t, "turnserver", "unshare", "ip", "curl", "Xvfb", "openbox", "dbus-daemon", "chromium")
	if again(t) {
		return
	}
	for _, command := range []string{
		"link set lo up", "link add turn0 type veth peer name turn1", "addr add 192.0.2.10/24 dev turn0", "addr add 192.0.2.20/24 dev turn0", "link set turn0 up", "link set turn1 up",
	} {
		if out, err := exec.Command("ip", strings.Fields(command)...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v: %s", command, err, out)
		}
	}
	dir := t.TempDir()
	coturn := start(t, exec.Command("turnserver", "-c", writeFile(t, "turnserver.conf", block(t, "docs/deploy/turn.md", "coturn")),
		"--listening-ip", "192.0.2.20", "--relay-ip", "192.0.2.20", "--userdb", dir+"/db", "--pidfile", dir+"/pid", "--log-file", "stdout"))
	until(t, "coturn listens", func() bool {
		if coturn.ended() {
			t.Fatalf("coturn ended:\n%s", coturn)
		}
		conn, err := net.Dial("tcp", "192.0.2.20:3478")
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	command := block(t, "docs/deploy/turn.md", "server",
		"turn.example.com", "192.0.2.20", "/etc/deskhand/turn-password", writeFile(t, "turn-password", "CHANGE-ME\n"))
	t.Run("deskhand is reached by UDP", func(t *testing.T) { watchRelayed(t, serve(t, command)) })
	t.Run("deskhand reaches the TURN server only", func(t *testing.T) { watchRelayed(t, serve(t, command, "--media-udp-port", "off")) })
	t.Run("no other machine is reached", testPeers)
}

// watchRelayed opens the page with a browser that uses TURN servers only.
func watchRelayed(t *testing.T, s *server) {
	t.Helper()
	p := proxied{newClient(&url.URL{Scheme: "http", Host: s.at}, s.token), s}
	p.call(t, http.MethodPost, "/v1/desktop/start", `{"width":640,"height":480}`)
	ctx := testbrowser.OpenStrict(t, p.base.String()+"/?token="+p.token, relayOnly)
	testbrowser.Holds(ctx, t, `document.body.dataset.state === "live" && document.querySelector("#frame").dataset.surface === "video"`)
	p.verdict(t, "1 through a TURN server")
	script := block(t, "docs/deploy/turn.md", "diagnose", "127.0.0.1:2468", s.at)
	curl := exec.Command("sh", "-ec", script)
	curl.Env = append(os.Environ(), "DESKHAND_TOKEN="+s.token)
	if out, err := curl.CombinedOutput(); err != nil || !strings.Contains(string(out), "1 through a TURN server") {
		t.Errorf("%s: %v: %s", script, err, out)
	}
}

// testPeers wants coturn to relay to the addresses of the guide only.
func testPeers(t *testing.T) {
	conn, err := net.ListenPacket("udp", "192.0.2.10:0")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	c, err := turn.NewClient(&turn.ClientConfig{
		STUNServerAddr: "192.0.2.20:3478", TURNServerAddr: "192.0.2.20:3478", Conn: conn,
		Username: "desk", Password: "CHANGE-ME", Realm: "turn.example.com", LoggerFactory: logging.NewDefaultLoggerFactory(),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Listen(); err != nil {
		t.Fatal(err)
	}
	relay, err := c.Allocate()
	if err != nil {
		t.Fatal(err)
	}
	defer relay.Close()
	for ip, allowed := range map[string]bool{"192.0.2.10": true, "192.0.2.20": true, "192.0.2.30": false, "127.0.0.1": false} {
		if err := c.CreatePermission(&net.UDPAddr{IP: net.ParseIP(ip), Port: 9}); (err == nil) != allowed {
			t.Errorf("permission to relay to %s: %v; want it to be allowed: %v", ip, err, allowed)
		}
	}
}
