package webrtc

import (
	"io"
	"net"
	"net/netip"
	"sync"
	"time"
)

const (
	// maxPacket is the longest packet that viewers send.
	maxPacket = 8192
	// inboxSize is how many packets of a viewer may wait for its agent.
	inboxSize = 64
)

// packet is a packet that came in.
type packet struct {
	from netip.AddrPort
	n    int
	data [maxPacket]byte
}

var packetPool = sync.Pool{New: func() any { return new(packet) }}

// inbox holds the packets that came in for a candidate of a viewer's agent until
// the agent reads them.
type inbox struct {
	in      chan *packet
	closed  chan struct{} // closed by the owner; reads end then
	senders *senders
}

func newInbox(s *senders) inbox {
	return inbox{in: make(chan *packet, inboxSize), closed: make(chan struct{}), senders: s}
}

// ReadFromAddrPort implements ice.AddrPortReaderWriter.
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

// SetDeadline implements net.PacketConn. Agents set one only to interrupt what
// Close interrupts.
func (*inbox) SetDeadline(time.Time) error { return nil }

// SetReadDeadline implements net.PacketConn.
func (*inbox) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline implements net.PacketConn.
func (*inbox) SetWriteDeadline(time.Time) error { return nil }
