package webrtc

import (
	"math/rand/v2"
	"time"

	"github.com/pion/rtcp"
	"github.com/pion/webrtc/v4"

	"github.com/deskhand/deskhand/desktop"
)

const (
	soundLength = desktop.SoundLength

	// reportPause is the least time between two reports of one stream.
	reportPause = time.Second
)

// rtpClock turns times into RTP timestamps. Those of sound and picture begin at
// the same moment, so that the reports about both fit together.
type rtpClock struct {
	epoch time.Time
	base  uint32
	rate  int // per second
}

func newRTPClock(epoch time.Time, rate int) rtpClock {
	return rtpClock{epoch, rand.Uint32(), rate} //nolint:gosec // RTP asks for no secret here
}

// stamp is the timestamp of a moment.
func (c rtpClock) stamp(t time.Time) uint32 {
	return c.base + uint32(int64(t.Sub(c.epoch))*int64(c.rate)/int64(time.Second)) //nolint:gosec // it wraps around
}

// span is how much timestamps grow in a while.
func (c rtpClock) span(d time.Duration) uint32 {
	return uint32(int64(d) * int64(c.rate) / int64(time.Second)) //nolint:gosec // it is short
}

// senderReport tells a viewer by which timestamp of a stream it is now, from
// which browsers know what sound belongs to what picture (RFC 3550, section
// 6.4.1). Pion's own reports take the moment at which a packet was sent for the
// one that its timestamp names, which is another for sound than for pictures.
type senderReport struct {
	packets, octets uint32
	last            time.Time
}

// sent counts a packet.
func (r *senderReport) sent(octets int) {
	r.packets++
	r.octets += uint32(octets) //nolint:gosec // it wraps around, as it should
}

// due sends a report when it is time for one. It is called when something was
// sent, so that nothing is while nothing happens.
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

// ntpTime is a moment in seconds since 1900, with 32 bits after the point
// (RFC 5905, section 6).
func ntpTime(t time.Time) uint64 {
	const since1900 = 2208988800
	seconds := uint64(t.Unix() + since1900) //nolint:gosec // it is after 1900
	return seconds<<32 | uint64(t.Nanosecond())<<32/uint64(time.Second)
}
