package network

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"syscall"

	"github.com/pion/ice/v4"
	"github.com/pion/stun/v4"
	"golang.org/x/time/rate"
)

// udpPort is a UDP port that is open on every address of this machine. It carries the media
// of any number of viewers and is a STUN server.
//
// There is a socket for each address. A wildcard socket could answer a request from another
// address than the one that received the request, and NATs would drop the answer.
type udpPort struct {
	port int
	cfg  *Config

	mu     sync.Mutex // guards the fields below
	open   map[netip.Addr]*udpSocket
	closed bool
}

// udpBuffer bounds the bytes that wait for the network interface, if the kernel permits so many.
// A key picture is sent in bursts.
const udpBuffer = 2 << 20

// errNoAddress is the error if no interface is up, including loopback.
var errNoAddress = errors.New("no network interface has an address")

// openUDP opens a port on all addresses. For zero, the kernel chooses the port.
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
		conn, err := u.cfg.Listen(u.addrPort(a))
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

// refresh opens the port on new addresses of this machine, and closes it on addresses that the
// machine has lost.
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

func (u *udpPort) addresses() []netip.Addr {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.SortedFunc(maps.Keys(u.open), netip.Addr.Compare)
}

func (u *udpPort) addrPort(a netip.Addr) netip.AddrPort {
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

// udpMux is a udpPort as the ice.UDPMux of one viewer's agent, which may not close the
// port. Pion's own mux keeps any number of packets for an agent that does not read them,
// such as one whose viewer has not answered.
type udpMux struct {
	u      *udpPort
	bounds *bounds
}

var _ ice.UDPMux = udpMux{}

// GetListenAddresses implements ice.UDPMux. Every agent calls it once, when it starts.
func (m udpMux) GetListenAddresses() []net.Addr {
	m.u.refresh()
	var list []net.Addr
	for _, a := range m.u.addresses() {
		list = append(list, net.UDPAddrFromAddrPort(m.u.addrPort(a)))
	}
	return list
}

func (m udpMux) GetConn(ufrag string, addr net.Addr) (net.PacketConn, error) {
	at, ok := addr.(*net.UDPAddr)
	if !ok {
		return nil, fmt.Errorf("%v is not a UDP address", addr)
	}
	m.u.mu.Lock()
	s := m.u.open[plain(at.AddrPort()).Addr()]
	m.u.mu.Unlock()
	if s == nil {
		return nil, net.ErrClosed
	}
	return s.add(ufrag, m.bounds)
}

func (m udpMux) RemoveConnByUfrag(ufrag string) {
	for _, s := range m.u.sockets() {
		s.mu.Lock()
		p := s.viewers[ufrag]
		s.mu.Unlock()
		if p != nil {
			_ = p.Close()
		}
	}
}

func (udpMux) Close() error { return nil }

// udpSocket is the port on one address. It passes each packet to the viewer that the packet
// names or, if it names none, to the viewer that has its source address.
type udpSocket struct {
	conn *stunConn
	work sync.WaitGroup // the reader

	mu      sync.Mutex // guards the fields below
	closed  bool
	viewers map[string]*udpPackets // by the name in requests to them (ufrag)
	sources map[netip.AddrPort]source
	probes  *rate.Limiter // of requests to addresses that have sent none with the viewer's password
}

// source is the viewer that gets the packets from an address.
type source struct {
	owner    *udpPackets
	answered bool // a request from there had the viewer's password
}

// probeRate is how many connectivity checks a second a socket sends to addresses that
// viewers claim to have. A viewer whose own checks arrive does not need them.
const probeRate = 200

func newUDPSocket(conn UDPConn) *udpSocket {
	s := &udpSocket{
		conn: newSTUNConn(conn), viewers: map[string]*udpPackets{}, sources: map[netip.AddrPort]source{},
		probes: rate.NewLimiter(probeRate, probeRate),
	}
	s.work.Go(s.read)
	return s
}

// errUDPTaken is returned for a second candidate on the same address.
var errUDPTaken = errors.New("the viewer has a candidate on this address already")

func (s *udpSocket) add(ufrag string, b *bounds) (*udpPackets, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, net.ErrClosed
	case s.viewers[ufrag] != nil:
		return nil, errUDPTaken
	}
	p := &udpPackets{inbox: newInbox(b), s: s, ufrag: ufrag}
	s.viewers[ufrag] = p
	return p, nil
}

// read passes on packets until the socket is closed. It discards packets for viewers
// whose inbox is full.
func (s *udpSocket) read() {
	p := packetPool.Get().(*packet)
	for {
		n, from, err := s.conn.read(p.data[:])
		if err != nil {
			return
		}
		p.n, p.from = n, plain(from)
		to := s.addressee(p)
		if to == nil {
			continue
		}
		select {
		case to.in <- p:
			p = packetPool.Get().(*packet)
		default:
		}
	}
}

// addressee returns the viewer to which a packet belongs, or nil.
func (s *udpSocket) addressee(p *packet) *udpPackets {
	name, named := requestedUser(p.data[:p.n])
	s.mu.Lock()
	defer s.mu.Unlock()
	if named {
		return s.viewers[string(name)]
	}
	return s.sources[p.from].owner
}

// requestedUser returns the name of the agent that a Binding request addresses: the
// first half of its USERNAME (RFC 8445, section 7.2.2).
func requestedUser(b []byte) (name []byte, ok bool) {
	if !isSTUN(b, stunRequest) {
		return nil, false
	}
	user, ok := attribute(b, stun.AttrUsername)
	if !ok {
		return nil, false
	}
	name, _, ok = bytes.Cut(user, []byte(":"))
	return name, ok
}

// assign gives a viewer the packets from an address. It takes an address from another
// viewer only when the viewer answers a request from there, because the request had the
// viewer's password. Otherwise a viewer could get the packets of another one by claiming
// its address. assign reports whether the viewer has answered a request from the address.
func (s *udpSocket) assign(p *udpPackets, from netip.AddrPort, answer bool) (answered bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	have := s.sources[from]
	if s.viewers[p.ufrag] == p && (answer || have.owner == nil) {
		have = source{p, answer}
		s.sources[from] = have
	}
	return have.owner == p && have.answered
}

func (s *udpSocket) remove(p *udpPackets) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.viewers[p.ufrag] == p {
		delete(s.viewers, p.ufrag)
	}
	maps.DeleteFunc(s.sources, func(_ netip.AddrPort, from source) bool { return from.owner == p })
}

// close closes the socket and waits for its reader.
func (s *udpSocket) close() error {
	s.mu.Lock()
	s.closed = true
	all := maps.Clone(s.viewers)
	s.mu.Unlock()
	for _, p := range all {
		_ = p.Close()
	}
	err := s.conn.Close()
	s.work.Wait()
	return err
}

// udpPackets are the packets of one viewer at a udpSocket, as the net.PacketConn of a
// candidate of its agent.
type udpPackets struct {
	inbox
	s     *udpSocket
	ufrag string
	once  sync.Once
}

var _ interface {
	net.PacketConn
	ice.AddrPortReaderWriter
} = (*udpPackets)(nil)

func (p *udpPackets) ReadFrom(b []byte) (int, net.Addr, error) {
	n, from, err := p.ReadFromAddrPort(b)
	return n, net.UDPAddrFromAddrPort(from), err
}

func (p *udpPackets) WriteToAddrPort(b []byte, to netip.AddrPort) (int, error) {
	select {
	case <-p.closed:
		return 0, io.ErrClosedPipe
	default:
	}
	if err := p.bounds.send(b); err != nil {
		return 0, err
	}
	to = plain(to)
	// Agents send nothing else before STUN messages.
	if answer := isSTUN(b, stunSuccess); answer || isSTUN(b, stunRequest) {
		if !p.s.assign(p, to, answer) && !p.s.probes.Allow() {
			return len(b), nil // as if the network lost the packet: the agent repeats it
		}
	}
	return p.s.conn.WriteToUDPAddrPort(b, to)
}

func (p *udpPackets) WriteTo(b []byte, to net.Addr) (int, error) {
	udp, ok := to.(*net.UDPAddr)
	if !ok {
		return 0, fmt.Errorf("%v is not a UDP address", to)
	}
	return p.WriteToAddrPort(b, udp.AddrPort())
}

func (p *udpPackets) LocalAddr() net.Addr { return p.s.conn.LocalAddr() }

// Close removes the candidate.
func (p *udpPackets) Close() error {
	p.once.Do(func() {
		p.s.remove(p)
		close(p.closed)
	})
	return nil
}
