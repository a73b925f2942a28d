package network

import (
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

const (
	// maxPacket is the longest packet that viewers send.
	maxPacket = 8192
	// inboxSize is how many packets of a viewer may wait for its agent.
	inboxSize = 64
	// mostSenders is how many sources a viewer's RTCP packets may have (SSRCs of
	// senders). Browsers have one or two. Pion keeps each until the connection ends.
	mostSenders = 32
)

type packet struct {
	from netip.AddrPort
	n    int
	data [maxPacket]byte
}

var packetPool = sync.Pool{New: func() any { return new(packet) }}

// inbox holds the packets for a candidate of a viewer's agent until the agent reads them.
type inbox struct {
	in      chan *packet
	closed  chan struct{} // the owner closes it to end reads
	senders *senders
}

func newInbox(s *senders) inbox {
	return inbox{in: make(chan *packet, inboxSize), closed: make(chan struct{}), senders: s}
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
			if i.senders.admit(b[:n]) {
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

// senders holds the sources of the RTCP packets that a viewer's connection received.
type senders struct {
	mu    sync.Mutex
	known []uint32
}

// admit reports whether the connection may get a packet. It rejects RTCP packets of
// further sources once there are mostSenders. It does not end the viewer, because the
// packet is not authenticated yet and may be forged.
func (s *senders) admit(packet []byte) bool {
	const header = 8
	// RFC 7983, section 7, and RFC 5761, section 4.
	if len(packet) < header || packet[0]>>6 != 2 || packet[1] < 192 || packet[1] > 223 {
		return true
	}
	ssrc := binary.BigEndian.Uint32(packet[4:])
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.Contains(s.known, ssrc) {
		return true
	}
	if len(s.known) == mostSenders {
		return false
	}
	s.known = append(s.known, ssrc)
	return true
}
