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
	next   uint32     // timestamp of the next packet without a pause
	report senderReport
}

// openAudio adds a track for sound to the stream of the video.
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

// enableAudio switches the sound on or off, if there is any.
func (p *peer) enableAudio(on bool) {
	p.v.hears.Store(on && p.audio != nil)
	p.v.s.listenersChanged()
}

type audioState struct {
	Disabled bool `json:"disabled"`
}

// switchAudio switches a client's sound on or off, and sends the new state.
func (g *signaling) switchAudio(ctx context.Context, off bool) error {
	p := g.current()
	if p == nil {
		return errors.New("no connection that has sound")
	}
	p.enableAudio(!off)
	return g.send(ctx, "signal/audio", audioState{Disabled: !p.v.hears.Load()})
}

// pumpAudio sends sound until the viewer ends.
func (p *peer) pumpAudio() {
	for {
		select {
		case <-p.v.ctx.Done():
			return
		case w := <-p.v.sounds:
			if err := p.writeAudio(w); err != nil {
				return // the state of the connection tells
			}
		}
	}
}

// writeAudio sends one packet. The marker means a pause before it (RFC 3551, section 4.1).
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

// readAudioFeedback discards the viewer's reports about the sound.
func (p *peer) readAudioFeedback() {
	for {
		if _, _, err := p.audio.sender.ReadRTCP(); err != nil {
			return
		}
	}
}
