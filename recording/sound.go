package recording

import (
	"context"
	"encoding/binary"
	"time"

	"github.com/deskhand/deskhand/desktop"
)

const (
	// soundLate is how much later than it is played sound may become known.
	// Silence is recorded up to that long ago.
	soundLate = 500 * time.Millisecond

	// soundSlack is how far from its place a piece may be that follows another
	// one: clocks differ, and a gap is heard.
	soundSlack = 40 * time.Millisecond

	// soundStart is how much silence a segment begins with: without any sound,
	// ffmpeg does not begin.
	soundStart = 25 * time.Millisecond

	// soundChunk bounds the silence that is sent at once.
	soundChunk = 200 * time.Millisecond

	soundFrame = 2 * soundChannels // bytes of a sample of each channel
)

// listener is what a Desktop has that can be heard.
type listener interface {
	Listen(ctx context.Context) (*desktop.Listener, error)
}

// piece is some sound and when it was played.
type piece struct {
	at   time.Time
	data []byte
}

// sound is a desktop's sound on its way into a recording. The encoder gets it
// without gaps: while nothing is played, silence, in large pieces.
type sound struct {
	pieces chan piece
	fed    int64 // samples of each channel that the segment has
}

// hear begins to listen to a desktop, until ctx ends. problem says why that cannot
// be.
func (l *loop) hear(ctx context.Context) (problem string) {
	d, ok := l.r.d.(listener)
	if !ok {
		return "this desktop cannot be listened to"
	}
	from, err := d.Listen(ctx)
	if err != nil {
		return err.Error()
	}
	l.sound = &sound{pieces: make(chan piece, soundQueue)}
	l.hearing.Go(func() {
		l.sound.listen(ctx, from)
		_ = from.Close() // it has nothing to say
	})
	return ""
}

func (s *sound) listen(ctx context.Context, from *desktop.Listener) {
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

// samples is how many samples a time has.
func samples(d time.Duration) int64 { return int64(d) * soundRate / int64(time.Second) }

// begin begins a segment's sound.
func (s *sound) begin(of *part) {
	s.fed = 0
	s.silence(of, samples(soundStart))
}

// play puts a piece where it belongs in a segment.
func (s *sound) play(to *part, p piece) {
	at := samples(p.at.Sub(to.epoch))
	switch gap := at - s.fed; {
	case gap > samples(soundSlack):
		s.silence(to, at)
	case gap < -samples(soundSlack):
		// Silence, or another segment, is already there.
		skip := min(-gap*soundFrame, int64(len(p.data)))
		p.data = p.data[skip:]
	}
	s.feed(to, p.data)
}

// silence fills a segment with silence up to that sample.
func (s *sound) silence(to *part, until int64) {
	for s.fed < until {
		n := min(until-s.fed, samples(soundChunk))
		if !s.feed(to, make([]byte, n*soundFrame)) {
			return
		}
	}
}

// feed appends to a segment's sound, and tells whether there was room.
func (s *sound) feed(to *part, data []byte) bool {
	if len(data) == 0 {
		return true
	}
	p := &packet{buf: append(make([]byte, frameRoom, frameRoom+len(data)), data...), track: trackSound}
	if !to.encoder.send(p, time.Duration(s.fed)*time.Second/soundRate) {
		return false // silence will take its place
	}
	s.fed += int64(len(data)) / soundFrame
	return true
}

// due is when silence is to be sent.
func (s *sound) due(to *part) time.Time {
	return to.epoch.Add(time.Duration(s.fed)*time.Second/soundRate + soundLate + keepAlive)
}

// end fills a segment up to its end with what was heard, and then silence.
func (s *sound) end(of *part, at time.Time) {
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
