package webrtc

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"syscall"
)

// udpPort is one UDP port, the same on every address of this machine. It carries
// the media of any number of viewers, and answers those who ask by which address
// they are seen (STUN).
//
// There is a socket for each address, because what one for all of them sends may
// leave from another address than it was sent to, where no NAT would let it pass.
type udpPort struct {
	port    int
	machine machine
	log     *slog.Logger

	mu     sync.Mutex // guards what follows
	open   map[netip.Addr]*udpSocket
	closed bool
}

// errNoAddress is the error when not even a loopback interface is up.
var errNoAddress = errors.New("no network interface has an address")

// openUDP opens a port on all addresses. Zero: one that the kernel chooses.
func openUDP(port int, m machine, log *slog.Logger) (*udpPort, error) {
	u := &udpPort{port: port, machine: m, log: log, open: map[netip.Addr]*udpSocket{}}
	addrs, err := m.addresses()
	if err != nil {
		return nil, err
	}
	if len(addrs) == 0 {
		return nil, errNoAddress
	}
	// Somebody may have the port that the kernel chose for the first address
	// on another one.
	for attempts := 10; ; attempts-- {
		if err = u.openOn(addrs); err == nil {
			return u, nil
		}
		_ = u.Close()
		if port != 0 || attempts == 0 {
			return nil, err
		}
		u.port, u.open, u.closed = 0, map[netip.Addr]*udpSocket{}, false
	}
}

// openOn opens the port on more addresses. The caller has mu, or the only
// reference.
func (u *udpPort) openOn(addrs []netip.Addr) error {
	for _, a := range addrs {
		conn, err := u.machine.listen(u.on(a))
		if errors.Is(err, syscall.EADDRNOTAVAIL) {
			continue // it has just gone, or is not usable yet
		}
		if err != nil {
			return err
		}
		u.port = conn.LocalAddr().(*net.UDPAddr).Port
		u.open[a] = newUDPSocket(conn)
	}
	if len(u.open) == 0 {
		return errNoAddress
	}
	return nil
}

// refresh opens the port on addresses that are new, such as those of a network
// that was joined since, and gives it back on those that this machine has lost.
// It has nothing to do, as a rule.
func (u *udpPort) refresh() {
	addrs, err := u.machine.addresses()
	if err != nil {
		u.log.Debug("addresses of this machine", "error", err)
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return
	}
	for a, s := range u.open {
		if !slices.Contains(addrs, a) {
			delete(u.open, a)
			_ = s.close()
		}
	}
	addrs = slices.DeleteFunc(addrs, func(a netip.Addr) bool { _, known := u.open[a]; return known })
	if err := u.openOn(addrs); err != nil {
		u.log.Debug("media port on a new address", "port", u.port, "error", err)
	}
}

// addresses are those on which the port is open.
func (u *udpPort) addresses() []netip.Addr {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.SortedFunc(maps.Keys(u.open), netip.Addr.Compare)
}

func (u *udpPort) on(a netip.Addr) netip.AddrPort {
	return netip.AddrPortFrom(a, uint16(u.port)) //nolint:gosec // it is a port
}

func (u *udpPort) sockets() []*udpSocket {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Collect(maps.Values(u.open))
}

// Close gives the port back, and waits until nothing reads from it any more.
func (u *udpPort) Close() error {
	u.mu.Lock()
	u.closed = true
	u.mu.Unlock()
	var errs []error
	for _, s := range u.sockets() {
		errs = append(errs, s.close())
	}
	return errors.Join(errs...)
}

// socketFor is the socket from which the kernel would send to an address.
func (u *udpPort) socketFor(to netip.AddrPort) (*udpSocket, error) {
	// To connect a UDP socket sends nothing, but finds the way.
	probe, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(to))
	if err != nil {
		return nil, err
	}
	from := probe.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap()
	if err := probe.Close(); err != nil {
		return nil, err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if s := u.open[from]; s != nil {
		return s, nil
	}
	return nil, fmt.Errorf("the port is not open on %s, from where %s is reached", from, to)
}
