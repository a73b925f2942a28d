package webrtc

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pion/rtp"
	"github.com/pion/rtp/codecs"

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

// packetizer cuts pictures into RTP payloads.
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
