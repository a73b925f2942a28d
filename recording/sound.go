package recording

import (
	"context"
	"encoding/binary"
	"time"

	"github.com/deskhand/deskhand/desktop"
)

const (
	// soundLate is the longest delay between the playing of sound and its arrival here.
	// Silence is recorded with that delay.
	soundLate = 500 * time.Millisecond

	// soundSlack is the deviation from its time at which a piece still follows the piece
	// before directly: clocks differ, and a gap is audible.
	soundSlack = 40 * time.Millisecond

	// soundStart is the silence at the beginning of a segment. ffmpeg does not begin
	// without sound.
	soundStart = 25 * time.Millisecond

	// soundChunk bounds one packet of silence.
	soundChunk = 200 * time.Millisecond

	soundFrame = 2 * soundChannels // bytes of a sample of each channel
)

// listener is a Desktop with sound.
type listener interface {
	Listen(ctx context.Context) (*desktop.Listener, error)
}

// piece is sound that was played at a time.
type piece struct {
	at   time.Time
	data []byte
}

// sound feeds the encoder with sound, and with silence while no sound is played.
type sound struct {
	pieces chan piece
	fed    int64 // samples of each channel that the segment has
}

// listen listens to the desktop until ctx ends. It returns why it cannot.
func (l *loop) listen(ctx context.Context) (problem string) {
	d, ok := l.r.d.(listener)
	if !ok {
		return "this desktop cannot be listened to"
	}
	from, err := d.Listen(ctx)
	if err != nil {
		return err.Error()
	}
	l.sound = &sound{pieces: make(chan piece, soundQueue)}
	l.followers.Go(func() {
		l.sound.receive(ctx, from)
		_ = from.Close()
	})
	return ""
}

func (s *sound) receive(ctx context.Context, from *desktop.Listener) {
	for {
		heard, err := from.Next(ctx)
		if err != nil {
			return
		}
		p := piece{at: heard.Time, data: make([]byte, 0, 2*len(heard.Samples))}
		for _, v := range heard.Samples {
			p.data = binary.LittleEndian.AppendUint16(p.data, uint16(v)) //nolint:gosec // the bits are what is wanted
		}
		select {
		case s.pieces <- p:
		case <-ctx.Done():
			return
		}
	}
}

func samples(d time.Duration) int64 { return int64(d) * soundRate / int64(time.Second) }

func (s *sound) begin(of *segment) {
	s.fed = 0
	s.silence(of, samples(soundStart))
}

// play puts a piece at its time in a segment.
func (s *sound) play(to *segment, p piece) {
	at := samples(p.at.Sub(to.epoch))
	switch gap := at - s.fed; {
	case gap > samples(soundSlack):
		s.silence(to, at)
	case gap < -samples(soundSlack):
		// The time already has silence, or belongs to the segment before.
		skip := min(-gap*soundFrame, int64(len(p.data)))
		p.data = p.data[skip:]
	}
	s.feed(to, p.data)
}

// silence fills a segment with silence up to a sample.
func (s *sound) silence(to *segment, until int64) {
	for s.fed < until {
		n := min(until-s.fed, samples(soundChunk))
		if !s.feed(to, make([]byte, n*soundFrame)) {
			return
		}
	}
}

// feed appends to the sound of a segment. It reports whether there was room.
func (s *sound) feed(to *segment, data []byte) bool {
	if len(data) == 0 {
		return true
	}
	p := &packet{buf: append(make([]byte, frameRoom, frameRoom+len(data)), data...), track: trackSound}
	if !to.encoder.send(p, time.Duration(s.fed)*time.Second/soundRate) {
		return false // silence takes its place later
	}
	s.fed += int64(len(data)) / soundFrame
	return true
}

// due returns when the next silence is to be sent.
func (s *sound) due(to *segment) time.Time {
	return to.epoch.Add(time.Duration(s.fed)*time.Second/soundRate + soundLate + keepAlive)
}

// end fills a segment up to its end, with the pieces that wait and then with silence.
func (s *sound) end(of *segment, at time.Time) {
	for {
		select {
		case p := <-s.pieces:
			if p.at.Before(at) {
				s.play(of, p)
			}
		default:
			s.silence(of, samples(at.Sub(of.epoch)))
			return
		}
	}
}
