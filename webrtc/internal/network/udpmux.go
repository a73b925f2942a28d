package network

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"sync"

	"github.com/pion/ice/v4"
	"github.com/pion/stun/v4"
	"golang.org/x/time/rate"
)

// udpMux is a udpPort as the ice.UDPMux of one viewer's agent, which may not close the
// port. Pion's own mux keeps any number of packets for an agent that does not read them,
// such as one whose viewer has not answered.
type udpMux struct {
	u       *udpPort
	senders *senders
}

var _ ice.UDPMux = udpMux{}

// GetListenAddresses implements ice.UDPMux. Every agent calls it once, when it starts.
func (m udpMux) GetListenAddresses() []net.Addr {
	m.u.refresh()
	var list []net.Addr
	for _, a := range m.u.addresses() {
		list = append(list, net.UDPAddrFromAddrPort(m.u.on(a)))
	}
	return list
}

// GetConn implements ice.UDPMux.
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
	return s.add(ufrag, m.senders)
}

// RemoveConnByUfrag implements ice.UDPMux.
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

// Close implements ice.UDPMux.
func (udpMux) Close() error { return nil }

// udpSocket is the port on one address. It passes each packet to the viewer that the packet
// names or, if it names none, to the viewer that has its source address.
type udpSocket struct {
	conn *stunConn
	work sync.WaitGroup // the reader

	mu      sync.Mutex // guards what follows
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
	s := &udpSocket{conn: newSTUNConn(conn), viewers: map[string]*udpPackets{}, sources: map[netip.AddrPort]source{},
		probes: rate.NewLimiter(probeRate, probeRate)}
	s.work.Go(s.read)
	return s
}

// errUDPTaken is returned for a second candidate on the same address.
var errUDPTaken = errors.New("the viewer has a candidate on this address already")

// add registers a candidate of a viewer.
func (s *udpSocket) add(ufrag string, senders *senders) (*udpPackets, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, net.ErrClosed
	case s.viewers[ufrag] != nil:
		return nil, errUDPTaken
	}
	p := &udpPackets{inbox: newInbox(senders), s: s, ufrag: ufrag}
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

// addressee returns the viewer for whom a packet is, or nil.
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

// WriteToAddrPort implements ice.AddrPortReaderWriter.
func (p *udpPackets) WriteToAddrPort(b []byte, to netip.AddrPort) (int, error) {
	select {
	case <-p.closed:
		return 0, io.ErrClosedPipe
	default:
	}
	to = plain(to)
	// Agents send nothing else before STUN messages.
	if answer := isSTUN(b, stunSuccess); answer || isSTUN(b, stunRequest) {
		if !p.s.assign(p, to, answer) && !p.s.probes.Allow() {
			return len(b), nil // as if it were lost: the agent repeats it
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
