package network

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"syscall"
)

// udpPort is a UDP port that is open on every address of this machine. It carries the media
// of any number of viewers and is a STUN server.
//
// There is a socket for each address. The answers of a wildcard socket could leave from
// another address than the one they were asked at, and NATs would drop them.
type udpPort struct {
	port int
	cfg  *Config

	mu     sync.Mutex // guards what follows
	open   map[netip.Addr]*udpSocket
	closed bool
}

// udpBuffer is how many bytes may wait for the network interface, if the kernel permits
// that. A key picture is sent in bursts.
const udpBuffer = 2 << 20

// errNoAddress is the error when not even a loopback interface is up.
var errNoAddress = errors.New("no network interface has an address")

// openUDP opens a port on all addresses. Zero: one that the kernel chooses.
func openUDP(port int, cfg *Config) (*udpPort, error) {
	u := &udpPort{port: port, cfg: cfg, open: map[netip.Addr]*udpSocket{}}
	addrs, err := cfg.Addresses()
	if err != nil {
		return nil, err
	}
	if len(addrs) == 0 {
		return nil, errNoAddress
	}
	// The port that the kernel chose for the first address may be in use on another.
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

// openOn opens the port on more addresses. The caller holds mu or the only reference.
func (u *udpPort) openOn(addrs []netip.Addr) error {
	for _, a := range addrs {
		conn, err := u.cfg.Listen(u.on(a))
		if errors.Is(err, syscall.EADDRNOTAVAIL) {
			continue // it was removed, or is not usable yet
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

// refresh opens the port on addresses that this machine has got since, and closes it on
// addresses that it has lost.
func (u *udpPort) refresh() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return
	}
	addrs, err := u.cfg.Addresses()
	if err != nil {
		u.cfg.Logger.Debug("addresses of this machine", "error", err)
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
		u.cfg.Logger.Debug("media port on a new address", "port", u.port, "error", err)
	}
}

// addresses returns the addresses on which the port is open.
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

// Close closes the sockets and waits for their readers.
func (u *udpPort) Close() error {
	u.mu.Lock()
	closed := u.closed
	u.closed = true
	u.mu.Unlock()
	if closed {
		return nil
	}
	var errs []error
	for _, s := range u.sockets() {
		errs = append(errs, s.close())
	}
	return errors.Join(errs...)
}

// socketFor returns the socket from which the kernel would send to an address.
func (u *udpPort) socketFor(to netip.AddrPort) (*udpSocket, error) {
	// Connecting a UDP socket chooses its address without sending anything.
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
	return nil, fmt.Errorf("the port is not open on %s, from which packets to %s leave", from, to)
}

func listenUDP(at netip.AddrPort) (UDPConn, error) {
	conn, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(at))
	if err != nil {
		return nil, err
	}
	_ = conn.SetWriteBuffer(udpBuffer)
	return conn, nil
}

// LocalAddresses returns the addresses by which other machines, and programs on this
// machine, can reach it. Link-local IPv6 addresses are left out (RFC 8445,
// section 5.1.1.1).
func LocalAddresses() ([]netip.Addr, error) {
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("list network interfaces: %w", err)
	}
	var all []netip.Addr
	for _, i := range interfaces {
		if i.Flags&net.FlagUp == 0 {
			continue
		}
		addrs, err := i.Addrs()
		if err != nil {
			continue // it was removed
		}
		for _, a := range addrs {
			prefix, err := netip.ParsePrefix(a.String())
			if err != nil {
				continue
			}
			if ip := prefix.Addr().Unmap(); !ip.Is6() || !ip.IsLinkLocalUnicast() {
				all = append(all, ip)
			}
		}
	}
	slices.SortFunc(all, netip.Addr.Compare)
	return slices.Compact(all), nil
}
