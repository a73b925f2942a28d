package webrtc

import (
	"encoding/json"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	pion "github.com/pion/webrtc/v4"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/webrtc/internal/network"
)

// openNetwork opens a Network that is closed when the test ends.
func openNetwork(t *testing.T, cfg NetworkConfig) *Network {
	t.Helper()
	ports := cfg.internal()
	ports.Addresses = untranslated
	n, err := newNetwork(cfg, ports)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

// untranslated returns the addresses of this machine except those that the kernel replaces
// as the sender of packets, such as the address of Docker's bridge.
func untranslated() ([]netip.Addr, error) {
	all, err := network.LocalAddresses()
	return slices.DeleteFunc(all, func(ip netip.Addr) bool { return !arrivesAsSent(ip) }), err
}

// arrivesAsSent sends a packet from an address to itself.
func arrivesAsSent(ip netip.Addr) bool {
	to, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(ip, 0)))
	if err != nil {
		return false
	}
	defer to.Close()
	from, err := net.DialUDP("udp", nil, to.LocalAddr().(*net.UDPAddr))
	if err != nil {
		return false
	}
	defer from.Close()
	_ = to.SetReadDeadline(time.Now().Add(patience))
	_, _ = from.Write([]byte("x"))
	_, sender, err := to.ReadFromUDP(make([]byte, 1))
	return err == nil && sender.String() == from.LocalAddr().String()
}

// freePorts returns the first of two free UDP ports in a row.
func freePorts(t *testing.T) int {
	t.Helper()
	for range 100 {
		first, err := net.ListenUDP("udp", nil)
		if err != nil {
			t.Fatal(err)
		}
		port := first.LocalAddr().(*net.UDPAddr).Port
		second, err := net.ListenUDP("udp", &net.UDPAddr{Port: port + 1})
		_ = first.Close()
		if err == nil {
			_ = second.Close()
			return port
		}
	}
	t.Fatal("no free ports in a row")
	return 0
}

// port returns the UDP port for media.
func (n *Network) port(t *testing.T) int {
	t.Helper()
	return n.Diagnose(t.Context(), Inquiry{}).UDP.Port
}

// pair is the pair of addresses that a client uses.
func (c *client) pair() *pion.ICECandidatePair {
	c.t.Helper()
	p, err := c.pc.SCTP().Transport().ICETransport().GetSelectedCandidatePair()
	if err != nil || p == nil {
		c.t.Fatalf("no selected pair: %v", err)
	}
	return p
}

func TestOnePort(t *testing.T) {
	t.Parallel()
	n := openNetwork(t, NetworkConfig{})
	s := stream(t, startDesktop(t, desktop.Config{}), Config{Network: n})
	for _, c := range []*client{watch(t, s, ViewerOptions{Host: "127.0.0.1:2468"}), watch(t, s, ViewerOptions{Host: "localhost"})} {
		c.next("the first one", picture.key)
		if p := c.pair(); int(p.Remote.Port) != n.port(t) || p.Remote.Protocol != pion.ICEProtocolUDP {
			t.Errorf("the picture comes from %v, not from UDP port %d", p.Remote, n.port(t))
		}
		for _, a := range c.addresses() {
			if w := strings.Fields(a); w[0] == "udp" && w[2] != strconv.Itoa(n.port(t)) {
				t.Errorf("the client received %s, which is not the port", a)
			}
		}
	}
	// Only one of two programs on a machine gets the default port.
	if other := openNetwork(t, NetworkConfig{}); other.port(t) == n.port(t) || other.port(t) == 0 {
		t.Errorf("another network has port %d, too", other.port(t))
	}
	_, err := NewNetwork(NetworkConfig{UDPPort: n.port(t)})
	if err == nil || !strings.Contains(err.Error(), strconv.Itoa(n.port(t))) {
		t.Errorf("a port that is in use: %v", err)
	}
}

func TestPortRange(t *testing.T) {
	t.Parallel()
	low := freePorts(t)
	n := openNetwork(t, NetworkConfig{PortMin: uint16(low), PortMax: uint16(low) + 1})
	s := stream(t, startDesktop(t, desktop.Config{}), Config{Network: n})
	a, b := watch(t, s, ViewerOptions{}), watch(t, s, ViewerOptions{})
	ports := []int{}
	for _, c := range []*client{a, b} {
		c.next("the first one", picture.key)
		ports = append(ports, int(c.pair().Remote.Port))
	}
	slices.Sort(ports)
	if want := []int{low, low + 1}; !slices.Equal(ports, want) {
		t.Errorf("ports %v are used, want %v", ports, want)
	}

	// The next viewer immediately gets an error that names the option.
	c := signal(t, s, ViewerOptions{})
	c.send("signal/request", nil)
	var told struct{ Message string }
	if err := json.Unmarshal(c.event("system/disconnect"), &told); err != nil || !strings.Contains(told.Message, "webrtcPortRange") {
		t.Errorf("error %q, %v; want the name of the option", told.Message, err)
	}
	if _, err := s.Play(t.Context(), "", ViewerOptions{}); !errors.Is(err, ErrNoPort) {
		t.Errorf("Play: %v, want ErrNoPort", err)
	}
	if n := len(s.Viewers()); n != 2 {
		t.Errorf("%d viewers are left, want 2", n)
	}

	// A port is free for the next viewer as soon as its viewer has left.
	a.leave()
	d := watch(t, s, ViewerOptions{})
	d.next("the first one", picture.key)
}

func TestAnnounce(t *testing.T) {
	t.Parallel()
	n := openNetwork(t, NetworkConfig{Announce: []string{"203.0.113.7", "2001:db8::7"}})
	s := stream(t, startDesktop(t, desktop.Config{}), Config{Network: n})
	c := watch(t, s, ViewerOptions{Host: "desk.invalid:8080"})
	port := strconv.Itoa(n.port(t))
	want := []string{"udp 203.0.113.7 " + port + " host", "udp 2001:db8::7 " + port + " host"}
	until(t, "the client has received the addresses", func() bool { return len(c.addresses()) >= len(want) })
	for i, a := range c.addresses() {
		if i < len(want) && a != want[i] || i >= len(want) && !strings.Contains(a, "desk.invalid") {
			t.Errorf("received %q; want %q and no address of this machine", a, want)
		}
	}
	// These addresses do not answer, but the server finds the client.
	c.next("the first one", picture.key)
}

func TestNetworkConfig(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		cfg  NetworkConfig
		want string
	}{
		{NetworkConfig{UDPPort: 70000}, "at most 65535"},
		{NetworkConfig{PortMin: 2, PortMax: 1}, "no range"},
		{NetworkConfig{PortMax: 1}, "no range"},
		{NetworkConfig{UDPPort: 1, PortMin: 1, PortMax: 2}, "exclude"},
		{NetworkConfig{Announce: []string{"example.com"}}, "IP addresses"},
		{NetworkConfig{Announce: []string{"0.0.0.0"}}, "cannot reach this machine"},
		{NetworkConfig{Announce: []string{"fe80::1%eth0"}}, "cannot reach this machine"},
		{NetworkConfig{ICEServers: []ICEServer{{}}}, "needs a URL"},
		{NetworkConfig{ICEServers: []ICEServer{{URLs: []string{"http://x"}}}}, "must be like"},
		{NetworkConfig{ICEServers: []ICEServer{{URLs: []string{"stun:x?transport=tcp"}}}}, "must be like"},
		{NetworkConfig{ICEServers: []ICEServer{{URLs: []string{"turn:x"}}}}, "a user and a credential"},
		{NetworkConfig{ICEServers: []ICEServer{{URLs: []string{"turn:x"}, Username: "u"}}}, "a user and a credential"},
	} {
		if _, err := NewNetwork(c.cfg); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want an error that says %q", c.cfg, err, c.want)
		}
	}
	good := NetworkConfig{UDPPort: -1, Announce: []string{"::ffff:1.2.3.4"}, ICEServers: []ICEServer{
		{URLs: []string{"stun:a:1", "stun:[::1]:2"}}, {URLs: []string{"turns:b?transport=tcp"}, Username: "u", Credential: "c"},
	}}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
}
