package webrtc

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync"

	"github.com/pion/ice/v4"
)

// TCP lets viewers whose UDP packets do not get through connect to a TCP port
// that serves HTTP, too (ICE-TCP, RFC 6544): [TCP.Share] tells the connections
// apart by their first bytes. So a browser that reaches the page reaches the
// picture as well, through port forwards of any kind, but not through proxies
// that only let HTTP pass.
//
// The zero value is ready for use. It belongs into NetworkConfig.TCP of every
// Network whose viewers may come so; any number of networks and listeners may
// share one. Its methods may be called from any goroutine.
type TCP struct {
	mu      sync.Mutex
	viewers map[tcpKey]*tcpPackets
}

// tcpKey tells viewers apart. The agent of one has a candidate for each family
// of addresses.
type tcpKey struct {
	ufrag string
	six   bool
}

const (
	// tcpConnections is how many connections a viewer may have. A browser
	// makes one from each of its addresses to each of ours.
	tcpConnections = 16
	// framing is how long the length before each packet is (RFC 4571,
	// section 2).
	framing = 2
)

// errTCPTaken is the error for all but the first local address: one candidate
// is enough, because connections are told apart by the name in their first
// message, not by the address to which they come.
var errTCPTaken = errors.New("the viewer has a candidate already")

// tcpMux makes a TCP the ice.TCPMux of agents, none of which may close it.
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

// activePort is the port of a candidate that has none (RFC 6544, section 4.1).
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

// take makes a connection the viewer's that the name in its first message says,
// if there is one. rest is what has been read of it.
func (t *TCP) take(conn net.Conn, name string, rest []byte) bool {
	from := endOf(conn.RemoteAddr())
	p := t.find(tcpKey{name, from.Addr().Is6()})
	return p != nil && p.add(conn, from, rest)
}

// endOf is the address of a TCP connection's end.
func endOf(a net.Addr) netip.AddrPort {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	return plain(tcp.AddrPort())
}

// plain is an address without a zone, and without the IPv6 around an IPv4 one.
func plain(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
}

// tcpPackets are all TCP connections of one viewer, as the net.PacketConn of a
// candidate of its agent.
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

// add takes a connection in, unless there are too many.
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

// read takes in what the viewer sends over one connection. A packet that is
// longer than any that a viewer sends ends it.
func (p *tcpPackets) read(c *tcpConn, from netip.AddrPort, rest []byte) {
	r := bufio.NewReader(io.MultiReader(newOnce(rest), c.conn))
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

// once gives some bytes, and lets go of them then.
type once struct{ b []byte }

func newOnce(b []byte) *once { return &once{slices.Clone(b)} }

func (o *once) Read(b []byte) (int, error) {
	n := copy(b, o.b)
	if o.b = o.b[n:]; len(o.b) == 0 {
		o.b = nil
		if n == 0 {
			return 0, io.EOF
		}
	}
	return n, nil
}

// ReadFrom implements net.PacketConn.
func (p *tcpPackets) ReadFrom(b []byte) (int, net.Addr, error) {
	n, from, err := p.ReadFromAddrPort(b)
	return n, net.TCPAddrFromAddrPort(from), err
}

// WriteToAddrPort implements ice.AddrPortReaderWriter. It waits while the line
// is full, for a while.
func (p *tcpPackets) WriteToAddrPort(b []byte, to netip.AddrPort) (int, error) {
	p.mu.Lock()
	c := p.conns[plain(to)]
	p.mu.Unlock()
	if c == nil || !c.send(b) {
		// Not io.ErrClosedPipe, which would end the viewer at once: its
		// browser may connect again, or by another way.
		return 0, net.ErrClosed
	}
	return len(b), nil
}

// WriteTo implements net.PacketConn.
func (p *tcpPackets) WriteTo(b []byte, to net.Addr) (int, error) {
	return p.WriteToAddrPort(b, endOf(to))
}

// Close implements net.PacketConn: it ends all connections and waits for that.
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

// LocalAddr implements net.PacketConn.
func (p *tcpPackets) LocalAddr() net.Addr { return &p.local }
