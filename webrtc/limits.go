package webrtc

import (
	"encoding/binary"
	"io"
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/pion/interceptor"
	"github.com/pion/rtp"
	"github.com/pion/transport/v5/packetio"
	"github.com/pion/webrtc/v4"
	"golang.org/x/time/rate"
)

// Limits of a viewer's RTCP packets. Browsers send about 30 packets a second, and request less
// than a tenth of the packets again.
const (
	mostFeedback  = 500 // RTCP packets a second
	mostResent    = 500 // resent packets a second
	mostResending = 64  // concurrent writes of resent packets
)

// feedbackGuard discards RTCP packets of a viewer beyond the bounds. Pion's NACK
// responder starts a goroutine for each NACK, and sends the packets again that it
// names. The guard is added to the registry before the responder.
type feedbackGuard struct {
	interceptor.NoOp
	feedback, resent *rate.Limiter
	writing          atomic.Int32
}

func (*feedbackGuard) NewInterceptor(string) (interceptor.Interceptor, error) {
	return &feedbackGuard{feedback: rate.NewLimiter(mostFeedback, mostFeedback), resent: rate.NewLimiter(mostResent, mostResent)}, nil
}

func (g *feedbackGuard) BindRTCPReader(reader interceptor.RTCPReader) interceptor.RTCPReader {
	return interceptor.RTCPReaderFunc(func(b []byte, a interceptor.Attributes) (int, interceptor.Attributes, error) {
		for {
			n, attributes, err := reader.Read(b, a)
			if err != nil {
				return n, attributes, err
			}
			if now := time.Now(); g.feedback.AllowN(now, 1) {
				g.disarm(b[:n], now)
				return n, attributes, nil
			}
		}
	})
}

// disarm changes the format of NACKs in a compound packet that would cost too much. The new
// format has no reader (RFC 4585, sections 6.1 and 6.2.1).
func (g *feedbackGuard) disarm(compound []byte, now time.Time) {
	const (
		headerSize = 4
		feedback   = 205 // transport layer
		nack       = 1
		reserved   = 31
		entries    = 12 // where they begin
	)
	for len(compound) >= headerSize {
		size := headerSize * (1 + int(binary.BigEndian.Uint16(compound[2:])))
		if size > len(compound) {
			return
		}
		packet := compound[:size]
		compound = compound[size:]
		if packet[1] != feedback || packet[0]&31 != nack {
			continue
		}
		wanted := 0
		for at := entries; at+4 <= size; at += 4 {
			wanted += 1 + bits.OnesCount16(binary.BigEndian.Uint16(packet[at+2:]))
		}
		if g.writing.Load() > mostResending || !g.resent.AllowN(now, wanted) {
			packet[0] = packet[0]&^31 | reserved
		}
	}
}

func (g *feedbackGuard) BindLocalStream(_ *interceptor.StreamInfo, writer interceptor.RTPWriter) interceptor.RTPWriter {
	return interceptor.RTPWriterFunc(func(h *rtp.Header, payload []byte, a interceptor.Attributes) (int, error) {
		g.writing.Add(1)
		defer g.writing.Add(-1)
		return writer.Write(h, payload, a)
	})
}

// Limits of a viewer's connection. Pion has no limits, and keeps streams and channels until the
// connection ends.
const (
	// mostStreams bounds the media streams (SSRCs) that a viewer's packets name. One packet
	// can name hundreds. Browsers name the two that they receive and up to two more.
	mostStreams = 32
	// streamBuffer bounds the bytes that wait in a stream, and in all data channels. A byte
	// can occupy hundreds of bytes of memory, because it can arrive as a separate chunk.
	streamBuffer = 32 << 10
	// mostChannels bounds the data channels that a viewer opens. Browsers open none.
	mostChannels = 8
)

// boundStreams returns a SettingEngine.BufferFactory. It calls exceeded for each stream
// beyond mostStreams, and discards the packets of that stream.
func boundStreams(exceeded func()) func(packetio.BufferPacketType, uint32) io.ReadWriteCloser {
	var made atomic.Int32
	discarded := packets{packetio.NewBuffer()}
	_ = discarded.Close() // it never fails
	return func(packetio.BufferPacketType, uint32) io.ReadWriteCloser {
		if made.Add(1) > mostStreams {
			exceeded()
			return discarded
		}
		b := packets{packetio.NewBuffer()}
		b.SetLimitSize(streamBuffer)
		return b
	}
}

// packets is a buffer of packets without attributes.
type packets struct{ *packetio.Buffer }

func (p packets) Read(b []byte) (int, error) {
	n, _, err := p.Buffer.Read(b, nil)
	return n, err
}

func (p packets) Write(b []byte) (int, error) { return p.Buffer.Write(b, nil) }

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

func (p *peer) flooded() {
	if !p.excess.Swap(true) {
		go p.v.close()
	}
}
