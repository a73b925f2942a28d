package network

import (
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds each wait of a test.
const patience = 20 * time.Second

// until waits until a condition holds.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// open opens a network that is closed when the test ends.
func open(t *testing.T, cfg Config) *Network {
	t.Helper()
	cfg.Logger, cfg.Addresses = slog.New(slog.DiscardHandler), untranslated
	n, err := Open(cfg)
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

// link makes the link of a viewer. The link is closed when the test ends.
func (n *Network) link(t *testing.T, o Options) *Link {
	t.Helper()
	l, err := n.Link(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// untranslated returns the addresses of this machine except those that the kernel replaces
// as the sender of packets, such as the address of Docker's bridge.
func untranslated() ([]netip.Addr, error) {
	all, err := LocalAddresses()
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
