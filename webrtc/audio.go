package webrtc

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pion/rtp"
	"github.com/pion/webrtc/v4"
	"github.com/thesyncim/gopus"

	"github.com/deskhand/deskhand/desktop"
)

// AudioCodec names a sound format.
type AudioCodec string

// The sound formats. Both encoders are built in.
const (
	Opus AudioCodec = "opus"
	G722 AudioCodec = "g722" // one channel, up to 7 kHz
)

const (
	// opusRate is for music in stereo, in bits per second (RFC 7587, section 3.1.1).
	opusRate = 128_000

	// opusComplexity is half of the maximum. The maximum takes up to three times as long, and
	// its gain is inaudible.
	opusComplexity = 5

	// opusMost is the largest packet of 20 ms (RFC 6716, section 3.4).
	opusMost = 1275

	// soundPause is the time until the next attempt after the sound failed.
	soundPause = 5 * time.Second

	// soundQueue bounds the packets that wait for a viewer's connection. Further packets are
	// discarded.
	soundQueue = 10
)

// audioEncoder encodes 20 ms of sound at a time. One goroutine calls it.
type audioEncoder interface {
	// encode returns one packet, which is valid until the next call.
	encode(samples []int16) ([]byte, error)
}

type audioFormat struct {
	params webrtc.RTPCodecParameters
	make   func() (audioEncoder, error)
}

var audioFormats = map[AudioCodec]audioFormat{
	Opus: {webrtc.RTPCodecParameters{
		RTPCodecCapability: webrtc.RTPCodecCapability{
			MimeType: webrtc.MimeTypeOpus, ClockRate: desktop.SoundRate, Channels: desktop.SoundChannels,
			SDPFmtpLine: "minptime=10;useinbandfec=1;stereo=1;sprop-stereo=1",
		},
		PayloadType: 111,
	}, newOpus},
	// The clock rate of G.722 in RTP is half its sampling rate (RFC 3551, section 4.5.2).
	G722: {webrtc.RTPCodecParameters{
		RTPCodecCapability: webrtc.RTPCodecCapability{MimeType: webrtc.MimeTypeG722, ClockRate: 8000},
		PayloadType:        9,
	}, func() (audioEncoder, error) { return new(g722Encoder), nil }},
}

type opusEncoder struct {
	enc *gopus.Encoder
	out [opusMost]byte
}

func newOpus() (audioEncoder, error) {
	enc, err := gopus.NewEncoder(gopus.EncoderConfig{
		SampleRate: desktop.SoundRate, Channels: desktop.SoundChannels, Application: gopus.ApplicationLowDelay,
	})
	if err != nil {
		return nil, err
	}
	return &opusEncoder{enc: enc}, errors.Join(enc.SetBitrate(opusRate), enc.SetComplexity(opusComplexity))
}

func (o *opusEncoder) encode(samples []int16) ([]byte, error) {
	n, err := o.enc.EncodeInt16(samples, o.out[:])
	return o.out[:n], err
}

// wireSound is 20 ms of encoded sound, shared by all viewers.
type wireSound struct {
	payload []byte
	stamp   uint32 // RTP timestamp
}

// audio is the state of a Streamer's sound, which is captured while a viewer wants it.
type audio struct {
	poke chan struct{}

	mu   sync.Mutex // guards the fields below
	stop context.CancelFunc
}

func (v *viewer) listens() bool { return v.live.Load() && v.soundOn.Load() }

// listenersChanged starts or stops capturing sound.
func (s *Streamer) listenersChanged() {
	if !s.any((*viewer).listens) {
		s.audio.mu.Lock()
		defer s.audio.mu.Unlock()
		if s.audio.stop != nil {
			s.audio.stop()
		}
		return
	}
	notify(s.audio.poke)
}

// runAudio sends sound while viewers want it.
func (s *Streamer) runAudio() {
	for s.ctx.Err() == nil {
		select {
		case <-s.ctx.Done():
			return
		case <-s.audio.poke:
		}
		for s.ctx.Err() == nil && s.any((*viewer).listens) {
			err := s.listen()
			if err == nil {
				continue
			}
			s.log.Debug("sound", "error", err)
			if errors.Is(err, desktop.ErrClosed) {
				return
			}
			select { // wait, because the next attempt may also fail
			case <-s.ctx.Done():
			case <-time.After(soundPause):
			}
		}
	}
}

// listen captures and sends sound until no viewer wants it.
func (s *Streamer) listen() error {
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	s.audio.mu.Lock()
	s.audio.stop = cancel
	s.audio.mu.Unlock()
	if !s.any((*viewer).listens) { // the last listener may have left before stop was set
		return nil
	}
	enc, err := s.audioFormat.make()
	if err != nil {
		return err
	}
	l, err := s.d.Listen(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = l.Close() }() // it returns nil
	for {
		sound, err := l.Next(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		if err := s.sendSound(enc, sound); err != nil {
			return err
		}
	}
}

// sendSound encodes 20 ms and queues them for all listeners. It never blocks.
func (s *Streamer) sendSound(enc audioEncoder, sound desktop.Sound) (err error) {
	defer func() {
		// A panic of an encoder must not crash this program.
		if r := recover(); r != nil {
			err = fmt.Errorf("encode %s: %v", s.cfg.AudioCodec, r)
		}
	}()
	payload, err := enc.encode(sound.Samples)
	if err != nil {
		return fmt.Errorf("encode %s: %w", s.cfg.AudioCodec, err)
	}
	w := &wireSound{payload: append([]byte(nil), payload...), stamp: s.audioClock.stamp(sound.Time)}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range s.viewers {
		if !v.listens() {
			continue
		}
		select {
		case v.sounds <- w:
		default:
		}
	}
	return nil
}

func (s *Streamer) soundAvailable() bool { return s.d.Status().Sound.Available }

type peerAudio struct {
	track  *webrtc.TrackLocalStaticRTP
	sender *webrtc.RTPSender
	header rtp.Header // of the next packet
	next   uint32     // timestamp of the next packet without a pause
	report senderReport
}

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
	p.v.soundOn.Store(on && p.audio != nil)
	p.v.s.listenersChanged()
}

type audioState struct {
	Disabled bool `json:"disabled"`
}

func (g *signaling) switchAudio(ctx context.Context, off bool) error {
	p := g.current()
	if p == nil {
		return errors.New("no connection that has sound")
	}
	p.enableAudio(!off)
	return g.send(ctx, "signal/audio", audioState{Disabled: !p.v.soundOn.Load()})
}

func (p *peer) pumpAudio() {
	for {
		select {
		case <-p.v.ctx.Done():
			return
		case w := <-p.v.sounds:
			if err := p.writeAudio(w); err != nil {
				return // stateChanged handles the end of the connection
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
