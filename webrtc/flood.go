package webrtc

import (
	"encoding/binary"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/pion/transport/v4/packetio"
	"github.com/pion/webrtc/v4"
)

// Bounds of what a viewer's connection may open. Pion has no bounds of its own and keeps
// each of these until the connection ends.
const (
	// mostStreams is how many media streams (SSRCs) a viewer's packets may name. One
	// packet can name hundreds. Browsers name the two that they get and up to two more.
	mostStreams = 32
	// streamBuffer is how many bytes may wait in a stream, and in all data channels.
	// A byte there can take hundreds, because it can come as a chunk of its own.
	streamBuffer = 32 << 10
	// mostSenders is how many sources a viewer's RTCP packets may have (SSRCs of
	// senders). Browsers have one or two.
	mostSenders = 32
	// mostCandidates is how many addresses of a viewer the agent may try: those that
	// the viewer tells, and those from which it only sends.
	mostCandidates = 2 * maxCandidates
	// mostChannels is how many data channels a viewer may open. Browsers open none.
	mostChannels = 8
)

// boundStreams returns a SettingEngine.BufferFactory. It calls exceeded for each stream
// beyond mostStreams, and discards the packets of that stream.
func boundStreams(exceeded func()) func(packetio.BufferPacketType, uint32) io.ReadWriteCloser {
	var made atomic.Int32
	discarded := packetio.NewBuffer()
	_ = discarded.Close() // it never fails
	return func(packetio.BufferPacketType, uint32) io.ReadWriteCloser {
		if made.Add(1) > mostStreams {
			exceeded()
			return discarded
		}
		b := packetio.NewBuffer()
		b.SetLimitSize(streamBuffer)
		return b
	}
}

// senders holds the sources of the RTCP packets that one viewer's connection got.
type senders struct {
	mu    sync.Mutex
	known []uint32
}

// admit reports whether the connection may get a packet. It refuses RTCP packets of
// further sources once there are mostSenders. The viewer goes on, because packets
// are not authenticated yet: a forged one must not end it.
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

// boundCandidates returns a RemoteIPFilter that accepts mostCandidates addresses.
func boundCandidates() func(net.IP) bool {
	var accepted atomic.Int32
	return func(net.IP) bool {
		return accepted.Load() < mostCandidates && accepted.Add(1) <= mostCandidates
	}
}

// boundChannels ends the viewer if it opens more than mostChannels data channels.
func (p *peer) boundChannels() {
	var opened atomic.Int32
	p.pc.OnDataChannel(func(*webrtc.DataChannel) {
		if opened.Add(1) > mostChannels {
			p.flooded()
			<-p.v.ctx.Done() // Pion accepts the next channel when this returns
		}
	})
}

// flooded ends the viewer because its connection opens too much.
func (p *peer) flooded() {
	if !p.excess.Swap(true) {
		go p.v.close("its connection opened too many streams or channels")
	}
}
