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

// stamp returns the timestamp of a time.
func (c rtpClock) stamp(t time.Time) uint32 {
	return c.base + uint32(int64(t.Sub(c.epoch))*int64(c.rate)/int64(time.Second)) //nolint:gosec // it wraps around
}

// span returns by how much timestamps grow in a duration.
func (c rtpClock) span(d time.Duration) uint32 {
	return uint32(int64(d) * int64(c.rate) / int64(time.Second)) //nolint:gosec // it is short
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

// due sends a report if the last one is old enough.
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
