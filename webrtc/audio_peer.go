package webrtc

import (
	"context"
	"errors"
	"time"

	"github.com/pion/rtp"
	"github.com/pion/webrtc/v4"
)

// peerAudio is the sound in a viewer's connection.
type peerAudio struct {
	track  *webrtc.TrackLocalStaticRTP
	sender *webrtc.RTPSender
	header rtp.Header // of the next packet
	next   uint32     // timestamp of the next packet, if there is no pause
	report senderReport
}

// openAudio adds a track for sound. The browser lines it up with the picture,
// because both are of one stream.
func (p *peer) openAudio() error {
	format := p.v.s.audioFormat
	a := &peerAudio{header: rtp.Header{Version: 2}}
	var err error
	if a.track, err = webrtc.NewTrackLocalStaticRTP(format.params.RTPCodecCapability, "audio", "stream"); err != nil {
		return err
	}
	t, err := p.pc.AddTransceiverFromTrack(a.track, webrtc.RTPTransceiverInit{Direction: webrtc.RTPTransceiverDirectionSendonly})
	if err != nil {
		return err
	}
	a.sender = t.Sender()
	p.audio = a
	return nil
}

// hear switches the sound on or off, if there is any.
func (p *peer) hear(on bool) {
	p.v.hears.Store(on && p.audio != nil)
	p.v.s.listenersChanged()
}

// audioState tells clients whether they get sound.
type audioState struct {
	Disabled bool `json:"disabled"`
}

// switchAudio switches a client's sound on or off, and tells what came of it.
func (g *signaling) switchAudio(ctx context.Context, off bool) error {
	p := g.current()
	if p == nil {
		return errors.New("no connection that has sound")
	}
	p.hear(!off)
	return g.send(ctx, "signal/audio", audioState{Disabled: !p.v.hears.Load()})
}

// pumpAudio sends sound until the viewer goes.
func (p *peer) pumpAudio() {
	for {
		select {
		case <-p.v.ctx.Done():
			return
		case w := <-p.v.sounds:
			if err := p.writeAudio(w); err != nil {
				return // the line's end is seen elsewhere
			}
		}
	}
}

// writeAudio sends one packet. The marker says that there was a pause before
// (RFC 3551, section 4.1).
func (p *peer) writeAudio(w *wireSound) error {
	a := p.audio
	a.header.SequenceNumber++
	a.header.Timestamp = w.stamp
	a.header.Marker = w.stamp != a.next
	a.next = w.stamp + p.v.s.audioClock.span(soundLength)
	if err := a.track.WriteRTP(&rtp.Packet{Header: a.header, Payload: w.payload}); err != nil {
		return err
	}
	p.v.bytes.Add(uint64(len(w.payload)))
	a.report.sent(len(w.payload))
	return a.report.due(p.pc, a.sender, p.v.s.audioClock, time.Now())
}

// readAudioFeedback takes what the viewer reports about the sound, which nothing
// depends on, out of the way.
func (p *peer) readAudioFeedback() {
	for {
		if _, _, err := p.audio.sender.ReadRTCP(); err != nil {
			return
		}
	}
}
