package network

import (
	"net"
	"testing"

	"github.com/pion/stun/v4"
)

// TestConnectWithoutProbes connects a viewer while other viewers use up all checks to
// claimed addresses.
func TestConnectWithoutProbes(t *testing.T) {
	t.Parallel()
	n := open(t, Config{})
	for _, s := range n.udp.sockets() {
		s.probes.SetLimit(0)
		s.probes.SetBurst(0)
	}
	connect(t, n.link(t, Options{}), nil)
}

// TestProbes sends requests to an address that a viewer claims and to one from which
// the viewer has sent a request itself.
func TestProbes(t *testing.T) {
	t.Parallel()
	_, viewers := udpViewers(t, "me")
	request, answer := stun.MustBuild(stun.BindingRequest).Raw, stun.MustBuild(stun.BindingSuccess).Raw
	const count = 2000
	for name, answered := range map[string]bool{"claimed": false, "answered": true} {
		sink, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer sink.Close()
		send := func(packet []byte) {
			t.Helper()
			if _, err := viewers[0].WriteTo(packet, sink.LocalAddr()); err != nil {
				t.Fatal(err)
			}
		}
		if answered {
			send(answer)
		}
		arrived := 0
		buffer := make([]byte, maxPacket)
		for range count {
			send(request)
			send([]byte("last"))
			for {
				n, _, err := sink.ReadFrom(buffer)
				if err != nil {
					t.Fatal(err)
				}
				if isSTUN(buffer[:n], stunRequest) {
					arrived++
				} else if string(buffer[:n]) == "last" {
					break
				}
			}
		}
		if answered && arrived != count || !answered && (arrived < probeRate || arrived > count/2) {
			t.Errorf("%s: %d of %d requests arrived", name, arrived, count)
		}
	}
}
