package webrtc

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

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
	// opusRate is in bits per second: what is good for music in stereo
	// (RFC 7587, section 3.1.1).
	opusRate = 128_000

	// opusComplexity is half of what there is. More takes up to three times as
	// long, for what few would hear.
	opusComplexity = 5

	// opusMost is how long a packet of 20 ms may be (RFC 6716, section 3.4).
	opusMost = 1275

	// soundPause is how long it takes to try again after the sound failed.
	soundPause = 5 * time.Second

	// soundQueue is how many packets may wait for a viewer's line. Who is
	// further behind misses some.
	soundQueue = 10
)

// audioEncoder encodes 20 ms of sound at a time. One goroutine calls it.
type audioEncoder interface {
	// encode makes one packet. It is valid until the next call.
	encode(samples []int16) ([]byte, error)
}

// audioFormat is how a codec is spoken of in RTP.
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
	// Its clock rate is wrong by a mistake of old, and stays so (RFC 3551,
	// section 4.5.2).
	G722: {webrtc.RTPCodecParameters{
		RTPCodecCapability: webrtc.RTPCodecCapability{MimeType: webrtc.MimeTypeG722, ClockRate: 8000},
		PayloadType:        9,
	}, func() (audioEncoder, error) { return new(g722Encoder), nil }},
}

// opusEncoder is an encoder of Opus.
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

// audio is the sound of a Streamer. Nobody listens, and nothing is encoded,
// while no viewer wants any.
type audio struct {
	poke chan struct{}

	mu   sync.Mutex // guards what follows
	stop context.CancelFunc
}

// listens says whether a viewer would hear something.
func (v *viewer) listens() bool { return v.live.Load() && v.hears.Load() }

// listened says whether some viewer would hear something.
func (s *Streamer) listened() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range s.viewers {
		if v.listens() {
			return true
		}
	}
	return false
}

// listenersChanged begins to listen, or ends it.
func (s *Streamer) listenersChanged() {
	if !s.listened() {
		s.audio.mu.Lock()
		defer s.audio.mu.Unlock()
		if s.audio.stop != nil {
			s.audio.stop()
		}
		return
	}
	select {
	case s.audio.poke <- struct{}{}:
	default:
	}
}

// runAudio listens while some viewer does.
func (s *Streamer) runAudio() {
	for s.ctx.Err() == nil {
		select {
		case <-s.ctx.Done():
			return
		case <-s.audio.poke:
		}
		for s.ctx.Err() == nil && s.listened() {
			err := s.listen()
			if err == nil {
				continue
			}
			s.log.Debug("sound", "error", err)
			if errors.Is(err, desktop.ErrClosed) {
				return
			}
			select { // what failed may fail again at once
			case <-s.ctx.Done():
			case <-time.After(soundPause):
			}
		}
	}
}

// listen encodes what is heard until nobody wants it any more.
func (s *Streamer) listen() error {
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	s.audio.mu.Lock()
	s.audio.stop = cancel
	s.audio.mu.Unlock()
	if !s.listened() { // who left before would not have been heard of
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
	defer func() { _ = l.Close() }() // it has nothing to say
	for {
		sound, err := l.Next(ctx)
		if ctx.Err() != nil {
			return nil // nobody listens
		}
		if err != nil {
			return err
		}
		if err := s.sendSound(enc, sound); err != nil {
			return err
		}
	}
}

// sendSound encodes 20 ms and hands them to all who listen. It never waits.
func (s *Streamer) sendSound(enc audioEncoder, sound desktop.Sound) (err error) {
	defer func() {
		// What programs play must not end this one, whatever a codec does.
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

// soundAvailable says whether viewers can be offered sound.
func (s *Streamer) soundAvailable() bool { return s.d.Status().Sound.Available }
