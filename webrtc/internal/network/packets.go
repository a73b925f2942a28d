package network

import (
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	// maxPacket is the longest packet that viewers send.
	maxPacket = 8192
	// inboxSize bounds the packets of a viewer that wait for its agent.
	inboxSize = 64
	// mostSenders bounds the sources (SSRCs of senders) of a viewer's RTCP packets. Browsers
	// have one or two. Pion keeps each until the connection ends.
	mostSenders = 32
	// dataRate bounds the bytes of DTLS that a connection receives in a second, and dataBurst
	// the bytes at a time. A pointer that moves 120 times a second makes 10 kB. SCTP can answer
	// 8 bytes with a packet, and keeps its answers without a bound.
	dataRate  = 16 << 10
	dataBurst = 64 << 10
	// shortRate bounds the packets of DTLS of up to shortPacket bytes that a connection sends in a
	// second, and shortBurst those at a time. Acknowledgements of dataRate and messages about the
	// pointer make fewer. Pion answers each chunk of data once for each of up to 1000 requests to
	// reset streams that wait (up to version 1.12.1 of its SCTP).
	shortPacket = 128
	shortRate   = 500
	shortBurst  = 2000
)

type packet struct {
	from netip.AddrPort
	n    int
	data [maxPacket]byte
}

var packetPool = sync.Pool{New: func() any { return new(packet) }}

// inbox holds the packets for a candidate of a viewer's agent until the agent reads them.
type inbox struct {
	in     chan *packet
	closed chan struct{} // the owner closes it to end reads
	bounds *bounds
}

func newInbox(b *bounds) inbox {
	return inbox{in: make(chan *packet, inboxSize), closed: make(chan struct{}), bounds: b}
}

func (i *inbox) ReadFromAddrPort(b []byte) (int, netip.AddrPort, error) {
	for {
		select {
		case p := <-i.in:
			n, from := copy(b, p.data[:p.n]), p.from
			short := p.n > n
			packetPool.Put(p)
			if short {
				return 0, from, io.ErrShortBuffer
			}
			if i.bounds.admit(b[:n]) {
				return n, from, nil
			}
		case <-i.closed:
			return 0, netip.AddrPort{}, net.ErrClosed
		}
	}
}

// SetDeadline implements net.PacketConn. Agents use deadlines only to interrupt reads, which
// Close does as well.
func (*inbox) SetDeadline(time.Time) error { return nil }

func (*inbox) SetReadDeadline(time.Time) error { return nil }

func (*inbox) SetWriteDeadline(time.Time) error { return nil }

// bounds limits what a viewer's connection receives and sends.
type bounds struct {
	flooded func() // ends the viewer; nil: nothing does

	mu      sync.Mutex
	senders []uint32      // sources of RTCP packets
	data    *rate.Limiter // of DTLS that is received; nil: nothing was
	short   *rate.Limiter // of short packets of DTLS that are sent; nil: none was
}

// admit reports whether the connection may get a packet. If there are mostSenders, it rejects
// RTCP packets of other sources. It rejects packets of DTLS beyond dataRate: they carry the data
// channels, and viewers resend them. It does not end the viewer, because the packet is not
// authenticated yet and may be forged.
func (b *bounds) admit(packet []byte) bool {
	const header = 8
	if isDTLS(packet) {
		return b.allow(&b.data, dataRate, dataBurst, len(packet))
	}
	// RFC 7983, section 7, and RFC 5761, section 4.
	if len(packet) < header || packet[0]>>6 != 2 || packet[1] < 192 || packet[1] > 223 {
		return true
	}
	ssrc := binary.BigEndian.Uint32(packet[4:])
	b.mu.Lock()
	defer b.mu.Unlock()
	if slices.Contains(b.senders, ssrc) {
		return true
	}
	if len(b.senders) == mostSenders {
		return false
	}
	b.senders = append(b.senders, ssrc)
	return true
}

// send returns nil if a packet may be sent, and io.ErrClosedPipe beyond shortRate, at which Pion's
// SCTP ends. It also calls flooded then: no browser makes this program send so many short packets.
func (b *bounds) send(packet []byte) error {
	if !isDTLS(packet) || len(packet) > shortPacket || b.allow(&b.short, shortRate, shortBurst, 1) {
		return nil
	}
	if b.flooded != nil {
		b.flooded()
	}
	return io.ErrClosedPipe
}

// allow takes n from the limiter *l, which it makes at the first call.
func (b *bounds) allow(l **rate.Limiter, each rate.Limit, burst, n int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if *l == nil {
		*l = rate.NewLimiter(each, burst)
	}
	return (*l).AllowN(time.Now(), n)
}

// isDTLS reports whether a packet is one of DTLS (RFC 7983, section 7).
func isDTLS(packet []byte) bool { return len(packet) > 0 && packet[0] >= 20 && packet[0] <= 63 }
