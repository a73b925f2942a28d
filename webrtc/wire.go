package webrtc

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/pion/rtcp"
	"github.com/pion/rtp"
	"github.com/pion/rtp/codecs"
	"github.com/pion/webrtc/v4"

	"github.com/deskhand/deskhand/desktop"
)

const (
	// payloadSize is the most bytes of a picture in a packet. With all headers and extensions
	// the packet fits the smallest MTU in use.
	payloadSize = 1180

	// clockRate is the clock rate of video in RTP.
	clockRate = 90000
)

// wirePicture is a picture cut into RTP payloads. Viewers share it.
type wirePicture struct {
	data     []byte   // the encoded picture
	payloads [][]byte // with their payload descriptors
	key      bool
	size     desktop.Size
	stamp    uint32 // RTP timestamp
	at       time.Time
}

type packetizer struct {
	payloader rtp.Payloader // nil: VP8, whose pictures must all have an id
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

// cut makes packets of a picture. It copies data.
func (p *packetizer) cut(data []byte, key bool, size desktop.Size, now time.Time) *wirePicture {
	w := &wirePicture{data: bytes.Clone(data), key: key, size: size, stamp: p.clock.stamp(now), at: now}
	if p.payloader != nil {
		w.payloads = p.payloader.Payload(payloadSize, w.data)
		return w
	}
	w.payloads = cutVP8(w.data, p.id)
	p.id = (p.id + 1) & 0x7fff
	return w
}

// cutVP8 cuts a VP8 frame. Each payload begins with a descriptor that has a picture id of 15
// bits and a flag for the first one (RFC 7741, section 4.2).
func cutVP8(data []byte, id uint16) (payloads [][]byte) {
	const descriptor, extended, first, hasID, long = 4, 0x80, 0x10, 0x80, 0x80
	for chunk := range slices.Chunk(data, payloadSize-descriptor) {
		head := byte(extended)
		if len(payloads) == 0 {
			head |= first
		}
		payloads = append(payloads, append([]byte{head, hasID, long | byte(id>>8), byte(id)}, chunk...))
	}
	return payloads
}

// deliver offers a picture to all viewers. The encoder calls it.
func (s *Streamer) deliver(data []byte, key bool) {
	now := time.Now()
	s.meter.count(now, len(data))
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.packets.cut(data, key, s.size, now)
	for _, v := range s.viewers {
		v.offer(w)
	}
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

// senderReport makes RTCP sender reports, which map RTP timestamps to the time of day. Browsers
// synchronize sound and video with them (RFC 3550, section 6.4.1). Pion's own reports use the
// time at which a packet was sent instead of the time of its timestamp. The two differ, for
// sound more than for video.
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
