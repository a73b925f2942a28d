package webrtc

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pion/rtcp"
	"github.com/pion/rtp"
	"github.com/pion/rtp/codecs"
	"github.com/pion/webrtc/v4"

	"github.com/deskhand/deskhand/desktop"
)

const (
	// payloadSize is how many bytes of a picture a packet has at most. With all headers
	// and extensions it fits the smallest MTU in use.
	payloadSize = 1180

	// clockRate is the clock rate of video in RTP.
	clockRate = 90000
)

// wirePicture is a picture cut into RTP payloads. Viewers share it. The last release returns
// its memory to the pool.
type wirePicture struct {
	data     []byte   // the encoded picture
	payloads [][]byte // with their payload descriptors
	buf      []byte   // holds the payloads
	key      bool
	size     desktop.Size
	stamp    uint32 // RTP timestamp
	at       time.Time

	refs atomic.Int32
}

var wirePictures = sync.Pool{New: func() any { return new(wirePicture) }}

func (p *wirePicture) retain() { p.refs.Add(1) }

func (p *wirePicture) release() {
	if p.refs.Add(-1) == 0 {
		wirePictures.Put(p)
	}
}

type packetizer struct {
	payloader rtp.Payloader // nil: VP8, for which cutVP8 does not allocate
	id        uint16        // of the next VP8 picture
	clock     rtpClock
}

func newPacketizer(codec Codec, clock rtpClock) *packetizer {
	p := &packetizer{id: uint16(rand.Uint32()) & 0x7fff, clock: clock} //nolint:gosec // it is not secret
	switch codec {
	case H264:
		p.payloader = &codecs.H264Payloader{}
	case VP9:
		p.payloader = &codecs.VP9Payloader{}
	case VP8:
	}
	return p
}

// cut makes packets of a picture. The caller must release the result.
func (p *packetizer) cut(data []byte, key bool, now time.Time) *wirePicture {
	w := wirePictures.Get().(*wirePicture)
	w.refs.Store(1)
	w.key, w.at = key, now
	w.stamp = p.clock.stamp(now)
	w.data = append(w.data[:0], data...)
	w.payloads = w.payloads[:0]
	if p.payloader != nil {
		w.payloads = append(w.payloads, p.payloader.Payload(payloadSize, w.data)...)
		return w
	}
	w.cutVP8(p.id)
	p.id = (p.id + 1) & 0x7fff
	return w
}

// cutVP8 cuts a VP8 frame. Each payload begins with a descriptor that has a picture id of 15
// bits and a flag for the first one (RFC 7741, section 4.2).
func (p *wirePicture) cutVP8(id uint16) {
	const descriptor, extended, first, hasID, long = 4, 0x80, 0x10, 0x80, 0x80
	room := payloadSize - descriptor
	n := (len(p.data) + room - 1) / room
	if need := len(p.data) + n*descriptor; cap(p.buf) < need {
		p.buf = make([]byte, 0, need+need/4)
	}
	p.buf = p.buf[:0]
	for rest := p.data; len(rest) > 0; {
		chunk := rest[:min(room, len(rest))]
		rest = rest[len(chunk):]
		head := byte(extended)
		if len(p.payloads) == 0 {
			head |= first
		}
		begin := len(p.buf)
		p.buf = append(p.buf, head, hasID, long|byte(id>>8), byte(id))
		p.buf = append(p.buf, chunk...)
		p.payloads = append(p.payloads, p.buf[begin:len(p.buf):len(p.buf)])
	}
}

// deliver offers a picture to all viewers. The encoder calls it.
func (s *Streamer) deliver(data []byte, key bool) {
	now := time.Now()
	s.meter.count(now, len(data))
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.packets.cut(data, key, now)
	w.size = s.size
	for _, v := range s.viewers {
		v.offer(w)
	}
	w.release()
}

const (
	soundLength = desktop.SoundLength

	// reportPause is the least time between two sender reports of a stream.
	reportPause = time.Second
)

// rtpClock turns times into RTP timestamps. The clocks of sound and video have the same
// epoch, so that browsers can synchronize them.
type rtpClock struct {
	epoch time.Time
	base  uint32
	rate  int // per second
}

func newRTPClock(epoch time.Time, rate int) rtpClock {
	return rtpClock{epoch, rand.Uint32(), rate} //nolint:gosec // it is not secret
}

func (c rtpClock) stamp(t time.Time) uint32 {
	return c.base + c.span(t.Sub(c.epoch))
}

func (c rtpClock) span(d time.Duration) uint32 {
	return uint32(int64(d) * int64(c.rate) / int64(time.Second)) //nolint:gosec // it wraps around
}

// senderReport tells a viewer the timestamp of the present, from which browsers synchronize
// sound and video (RFC 3550, section 6.4.1). Pion's own reports use the time at which a
// packet was sent instead of the time of its timestamp. The two differ, for sound more than
// for video.
type senderReport struct {
	packets, octets uint32
	last            time.Time
}

func (r *senderReport) sent(octets int) {
	r.packets++
	r.octets += uint32(octets) //nolint:gosec // it wraps around
}

func (r *senderReport) due(pc *webrtc.PeerConnection, sender *webrtc.RTPSender, clock rtpClock, now time.Time) error {
	if now.Sub(r.last) < reportPause {
		return nil
	}
	encodings := sender.GetParameters().Encodings
	if len(encodings) == 0 {
		return nil
	}
	r.last = now
	return pc.WriteRTCP([]rtcp.Packet{&rtcp.SenderReport{
		SSRC: uint32(encodings[0].SSRC), NTPTime: ntpTime(now), RTPTime: clock.stamp(now),
		PacketCount: r.packets, OctetCount: r.octets,
	}})
}

// ntpTime returns a time in seconds since 1900, as fixed point with 32 bits of fraction (RFC
// 5905, section 6).
func ntpTime(t time.Time) uint64 {
	const since1900 = 2208988800
	seconds := uint64(t.Unix() + since1900) //nolint:gosec // it is after 1900
	return seconds<<32 | uint64(t.Nanosecond())<<32/uint64(time.Second)
}
