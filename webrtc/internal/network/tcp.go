package network

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/pion/ice/v4"
	"golang.org/x/sys/unix"
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
	// tcpConnections bounds the connections of a viewer. A browser makes one from each of its
	// addresses to each address that it received.
	tcpConnections = 16
	// framing is the size of the length before each packet (RFC 4571, section 2).
	framing = 2
)

// errTCPTaken is returned for all local addresses but the first. One candidate is enough,
// because a connection is assigned by the name in its first message, not by its address.
var errTCPTaken = errors.New("the viewer has a candidate already")

// tcpMux is a TCP as the ice.TCPMux of an agent, which may not close it.
type tcpMux struct {
	t      *TCP
	bounds *bounds
}

var _ ice.TCPMux = tcpMux{}

func (m tcpMux) GetConnByUfrag(ufrag string, six bool, local net.IP) (net.PacketConn, error) {
	key := tcpKey{ufrag, six}
	m.t.mu.Lock()
	defer m.t.mu.Unlock()
	if m.t.viewers[key] != nil {
		return nil, errTCPTaken
	}
	p := &tcpPackets{
		inbox: newInbox(m.bounds), t: m.t, key: key, local: net.TCPAddr{IP: local, Port: activePort},
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

func (m tcpMux) RemoveConnByUfrag(ufrag string) {
	for _, six := range []bool{false, true} {
		if p := m.t.find(tcpKey{ufrag, six}); p != nil {
			_ = p.Close()
		}
	}
}

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

	mu    sync.Mutex // guards the fields below
	over  bool
	conns map[netip.AddrPort]*tcpConn // by the viewer's end
}

var _ interface {
	net.PacketConn
	ice.AddrPortReaderWriter
} = (*tcpPackets)(nil)

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

// read receives the packets of the viewer from one connection. It returns if a packet is longer
// than maxPacket.
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
	if err := p.bounds.send(b); err != nil {
		return 0, err
	}
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

const (
	// tcpQueue bounds the bytes that wait for a viewer's TCP connection. If it is full,
	// pictures block, and later ones are skipped. Bytes that wait are shown late.
	tcpQueue = 64 << 10
	// tcpReserve is the additional room for packets that keep the connection alive. Data
	// channels can use half of it.
	tcpReserve = 8 << 10
	// tcpStalled is the time without progress after which packets are discarded.
	tcpStalled = 2 * time.Second
	// tcpDead is the time without progress after which the connection is closed.
	tcpDead = 15 * time.Second
	// tcpPiece is the most bytes of one write.
	tcpPiece = 16 << 10
	// kernelQueue bounds the unsent bytes that the kernel accepts for a connection. The
	// default of the kernel is megabytes, which delay pictures by seconds.
	kernelQueue = 64 << 10
)

// tcpConn is a connection with a queue, from which a goroutine writes. Only senders of media
// wait for room in the queue.
type tcpConn struct {
	conn   net.Conn
	wake   chan struct{} // has a value if there are bytes to write
	closed chan struct{}
	once   sync.Once

	mu       sync.Mutex // guards the fields below
	queue    []byte     // packets with their lengths
	spare    []byte     // the memory of the previous queue, for reuse
	progress time.Time  // when the connection last accepted bytes
	room     chan struct{}
}

func newTCPConn(conn net.Conn) *tcpConn {
	_ = conn.SetDeadline(time.Time{})
	keepQueueShort(conn)
	return &tcpConn{conn: conn, wake: make(chan struct{}, 1), closed: make(chan struct{}), progress: time.Now()}
}

func (c *tcpConn) close() {
	c.once.Do(func() {
		close(c.closed)
		_ = c.conn.Close()
	})
}

// send queues a packet. If the queue is full, it blocks for up to tcpStalled and then
// discards the packet. It discards messages of STUN and DTLS immediately, which their senders
// send again. It returns false if the connection is closed.
func (c *tcpConn) send(b []byte) bool {
	if len(b) == 0 || len(b) > maxPacket {
		return true
	}
	most := tcpQueue
	waits := true
	switch {
	case b[0] < 4: // STUN (RFC 7983)
		most, waits = most+tcpReserve, false
	case isDTLS(b):
		most, waits = most+tcpReserve/2, false
	}
	for {
		c.mu.Lock()
		if len(c.queue)+framing+len(b) <= most {
			if len(c.queue) == 0 {
				c.progress = time.Now()
			}
			c.queue = binary.BigEndian.AppendUint16(c.queue, uint16(len(b))) //nolint:gosec // it is at most maxPacket
			c.queue = append(c.queue, b...)
			c.mu.Unlock()
			select {
			case c.wake <- struct{}{}:
			default:
			}
			return true
		}
		patience := time.Until(c.progress.Add(tcpStalled))
		if c.room == nil {
			c.room = make(chan struct{})
		}
		room := c.room
		c.mu.Unlock()
		if !waits || patience <= 0 {
			return true
		}
		if open := c.await(room, patience); !open {
			return false
		}
	}
}

func (c *tcpConn) await(room <-chan struct{}, patience time.Duration) (open bool) {
	t := time.NewTimer(patience)
	defer t.Stop()
	select {
	case <-room:
	case <-t.C:
	case <-c.closed:
		return false
	}
	return true
}

func (c *tcpConn) write() {
	defer c.close()
	for {
		select {
		case <-c.wake:
		case <-c.closed:
			return
		}
		batch := c.batch()
		for rest := range slices.Chunk(batch, tcpPiece) {
			_ = c.conn.SetWriteDeadline(time.Now().Add(tcpDead))
			if _, err := c.conn.Write(rest); err != nil {
				return
			}
			c.mu.Lock()
			c.progress = time.Now()
			c.mu.Unlock()
		}
		c.mu.Lock()
		c.spare = batch[:0]
		c.mu.Unlock()
	}
}

func (c *tcpConn) batch() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	batch := c.queue
	c.queue, c.spare = c.spare[:0], nil
	if c.room != nil {
		close(c.room)
		c.room = nil
	}
	return batch
}

func keepQueueShort(conn net.Conn) {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, kernelQueue)
	})
}
