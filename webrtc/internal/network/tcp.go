package network

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"

	"github.com/pion/ice/v4"
)

// TCP passes connections of viewers (ICE-TCP, RFC 6544) from the listener of an HTTP server
// to the agents of the viewers. The zero value is ready to use. Networks and listeners may
// share one.
type TCP struct {
	mu      sync.Mutex
	viewers map[tcpKey]*tcpPackets
}

// tcpKey identifies a candidate: a viewer has one for each family of addresses.
type tcpKey struct {
	ufrag string
	six   bool
}

const (
	// tcpConnections is how many connections a viewer may have. A browser makes one from
	// each of its addresses to each address that it was told.
	tcpConnections = 16
	// framing is the size of the length before each packet (RFC 4571, section 2).
	framing = 2
)

// errTCPTaken is returned for all local addresses but the first. One candidate is enough,
// because a connection is assigned by the name in its first message, not by its address.
var errTCPTaken = errors.New("the viewer has a candidate already")

// tcpMux is a TCP as the ice.TCPMux of an agent, which may not close it.
type tcpMux struct {
	t       *TCP
	senders *senders
}

var _ ice.TCPMux = tcpMux{}

// GetConnByUfrag implements ice.TCPMux.
func (m tcpMux) GetConnByUfrag(ufrag string, six bool, local net.IP) (net.PacketConn, error) {
	key := tcpKey{ufrag, six}
	m.t.mu.Lock()
	defer m.t.mu.Unlock()
	if m.t.viewers[key] != nil {
		return nil, errTCPTaken
	}
	p := &tcpPackets{
		inbox: newInbox(m.senders), t: m.t, key: key, local: net.TCPAddr{IP: local, Port: activePort},
		conns: map[netip.AddrPort]*tcpConn{},
	}
	if m.t.viewers == nil {
		m.t.viewers = map[tcpKey]*tcpPackets{}
	}
	m.t.viewers[key] = p
	return p, nil
}

// activePort is the port of a candidate without one (RFC 6544, section 4.1).
const activePort = 9

// RemoveConnByUfrag implements ice.TCPMux.
func (m tcpMux) RemoveConnByUfrag(ufrag string) {
	for _, six := range []bool{false, true} {
		if p := m.t.find(tcpKey{ufrag, six}); p != nil {
			_ = p.Close()
		}
	}
}

// Close implements ice.TCPMux.
func (tcpMux) Close() error { return nil }

func (t *TCP) find(key tcpKey) *tcpPackets {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.viewers[key]
}

func (t *TCP) remove(p *tcpPackets) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.viewers[p.key] == p {
		delete(t.viewers, p.key)
	}
}

// assign gives a connection to the viewer that the name in its first message addresses.
// rest is what was read from it. It returns false if there is no such viewer.
func (t *TCP) assign(conn net.Conn, name string, rest []byte) bool {
	from := endOf(conn.RemoteAddr())
	p := t.find(tcpKey{name, from.Addr().Is6()})
	return p != nil && p.add(conn, from, rest)
}

// endOf returns the address of an end of a TCP connection.
func endOf(a net.Addr) netip.AddrPort {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	return plain(tcp.AddrPort())
}

// plain returns an address without its zone. An IPv4 address in an IPv6 one becomes IPv4.
func plain(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
}

// tcpPackets are the TCP connections of one viewer, as the net.PacketConn of a candidate of
// its agent.
type tcpPackets struct {
	inbox
	t     *TCP
	key   tcpKey
	local net.TCPAddr
	once  sync.Once
	work  sync.WaitGroup // readers and writers; Add only with mu, before over

	mu    sync.Mutex // guards what follows
	over  bool
	conns map[netip.AddrPort]*tcpConn // by the viewer's end
}

var _ interface {
	net.PacketConn
	ice.AddrPortReaderWriter
} = (*tcpPackets)(nil)

// add adds a connection, unless there are too many.
func (p *tcpPackets) add(conn net.Conn, from netip.AddrPort, rest []byte) bool {
	c := newTCPConn(conn)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over || len(p.conns) >= tcpConnections || p.conns[from] != nil {
		return false
	}
	p.conns[from] = c
	p.work.Go(func() {
		p.read(c, from, rest)
		c.close()
		p.mu.Lock()
		delete(p.conns, from)
		p.mu.Unlock()
	})
	p.work.Go(c.write)
	return true
}

// read receives what the viewer sends over one connection. It returns if a packet is
// longer than viewers send.
func (p *tcpPackets) read(c *tcpConn, from netip.AddrPort, rest []byte) {
	r := bufio.NewReader(io.MultiReader(bytes.NewReader(bytes.Clone(rest)), c.conn))
	for {
		var length [framing]byte
		if _, err := io.ReadFull(r, length[:]); err != nil {
			return
		}
		n := int(binary.BigEndian.Uint16(length[:]))
		if n > maxPacket {
			return
		}
		if n == 0 {
			continue
		}
		packet := packetPool.Get().(*packet)
		packet.from, packet.n = from, n
		if _, err := io.ReadFull(r, packet.data[:n]); err != nil {
			return
		}
		select {
		case p.in <- packet:
		case <-p.closed:
			return
		}
	}
}

func (p *tcpPackets) ReadFrom(b []byte) (int, net.Addr, error) {
	n, from, err := p.ReadFromAddrPort(b)
	return n, net.TCPAddrFromAddrPort(from), err
}

// WriteToAddrPort implements ice.AddrPortReaderWriter. It blocks as [tcpConn.send] does.
func (p *tcpPackets) WriteToAddrPort(b []byte, to netip.AddrPort) (int, error) {
	p.mu.Lock()
	c := p.conns[plain(to)]
	p.mu.Unlock()
	if c == nil || !c.send(b) {
		// io.ErrClosedPipe would end the viewer, but its browser may connect again.
		return 0, net.ErrClosed
	}
	return len(b), nil
}

func (p *tcpPackets) WriteTo(b []byte, to net.Addr) (int, error) {
	return p.WriteToAddrPort(b, endOf(to))
}

// Close closes all connections and waits for their goroutines.
func (p *tcpPackets) Close() error {
	p.once.Do(func() {
		p.t.remove(p)
		close(p.closed)
		p.mu.Lock()
		p.over = true
		for _, c := range p.conns {
			c.close()
		}
		p.mu.Unlock()
	})
	p.work.Wait()
	return nil
}

func (p *tcpPackets) LocalAddr() net.Addr { return &p.local }
