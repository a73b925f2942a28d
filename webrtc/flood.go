package webrtc

import (
	"io"
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
