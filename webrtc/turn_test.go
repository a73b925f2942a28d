package webrtc

import (
	"net"
	"strings"
	"testing"

	"github.com/pion/turn/v5"

	"github.com/deskhand/deskhand/desktop"
)

// turnServer runs a TURN server that is reached by "tcp" or "udp", and returns its entry in the
// list for viewers.
func turnServer(t *testing.T, transport string) ICEServer {
	t.Helper()
	const realm, user, credential = "test", "ann", "hush"
	relays := &turn.RelayAddressGeneratorStatic{RelayAddress: net.IPv4(127, 0, 0, 1), Address: "127.0.0.1"}
	cfg := turn.ServerConfig{
		Realm: realm, LoggerFactory: quiet{},
		AuthHandler: func(r *turn.RequestAttributes) (string, []byte, bool) {
			return r.Username, turn.GenerateAuthKey(user, realm, credential), r.Username == user
		},
	}
	var at net.Addr
	if transport == "tcp" {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		at, cfg.ListenerConfigs = ln.Addr(), []turn.ListenerConfig{{Listener: ln, RelayAddressGenerator: relays}}
	} else {
		conn, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		at, cfg.PacketConnConfigs = conn.LocalAddr(), []turn.PacketConnConfig{{PacketConn: conn, RelayAddressGenerator: relays}}
	}
	server, err := turn.NewServer(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return ICEServer{URLs: []string{"turn:" + at.String() + "?transport=" + transport}, Username: user, Credential: credential}
}

// TestTURN connects two sides that can only open TCP connections, as behind proxies.
func TestTURN(t *testing.T) {
	t.Parallel()
	server := turnServer(t, "tcp")
	s := stream(t, startDesktop(t, desktop.Config{}), Config{Network: openNetwork(t, NetworkConfig{UDPPort: -1, ICEServers: []ICEServer{server}})})
	c := signal(t, s, ViewerOptions{Host: "desk.invalid"})
	c.relay = true
	c.send("control/request", nil)
	c.send("signal/request", nil)
	c.connect()
	c.next("the first one", picture.key)
	for _, a := range c.addresses() {
		if !strings.HasSuffix(a, " relay") {
			t.Errorf("received %q, want addresses of the relay only", a)
		}
	}
	until(t, "the client has the addresses of the relay", func() bool {
		d := s.Diagnose(t.Context(), Inquiry{})
		return d.Verdict == "All 1 viewers are connected: 1 through a TURN server." && d.Viewers[0].Relayed
	})
}
