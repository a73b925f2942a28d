package network

import (
	"net"
	"net/netip"
	"slices"
	"testing"
)

// TestRefresh checks that the port is opened and closed when the machine's addresses change.
func TestRefresh(t *testing.T) {
	t.Parallel()
	n := open(t, Config{})
	u := n.udp
	own := u.addresses()
	if len(own) == 0 {
		t.Fatal("no addresses")
	}
	// This has the effect of an address that was added and of one that was removed.
	gone := netip.MustParseAddr("192.0.2.1")
	u.mu.Lock()
	first := u.open[own[0]]
	delete(u.open, own[0])
	if err := first.close(); err != nil {
		t.Error(err)
	}
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	u.open[gone] = newUDPSocket(conn.(*net.UDPConn))
	u.mu.Unlock()
	_ = udpMux{u, nil}.GetListenAddresses()
	if got := u.addresses(); !slices.Equal(got, own) {
		t.Errorf("open on %v, want %v", got, own)
	}
}
