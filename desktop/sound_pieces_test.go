package desktop

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"
)

// pieces collects the pieces that a soundCutter delivers.
type pieces struct {
	cutter *soundCutter
	at     []time.Time
	first  []int16 // sample of each
}

func newPieces() *pieces {
	p := &pieces{}
	p.cutter = newSoundCutter(func(samples []int16, at time.Time) {
		p.at, p.first = append(p.at, at), append(p.first, samples[0])
	})
	return p
}

// block returns samples of one value.
func block(frames int, value byte) []byte {
	return bytes.Repeat([]byte{value, 0, value, 0}, frames)
}

// blockFrames is how much PulseAudio writes at a time.
const blockFrames = 1023

func blockTime(n int) time.Duration { return time.Duration(n*blockFrames) * time.Second / SoundRate }

func TestSoundPiecesAreEven(t *testing.T) {
	t.Parallel()
	p, begin := newPieces(), time.Now()
	for i := range 200 {
		late := time.Duration(i%7) * time.Millisecond
		if i == 0 {
			late = 0
		}
		b := block(blockFrames, 1)
		p.cutter.write(b[:i+1], begin.Add(blockTime(i)+late)) // not at a sample's end
		p.cutter.write(b[i+1:], begin.Add(blockTime(i)+late))
	}
	if want := 200 * blockFrames / soundFrames; len(p.at) != want {
		t.Errorf("%d pieces, want %d", len(p.at), want)
	}
	for i, at := range p.at {
		if off := at.Sub(begin.Add(time.Duration(i) * SoundLength)).Abs(); off > time.Millisecond {
			t.Fatalf("piece %d is %v off", i, off)
		}
	}
}

func TestSoundPiecesAfterAPause(t *testing.T) {
	t.Parallel()
	p, begin := newPieces(), time.Now()
	p.cutter.write(block(soundFrames+100, 1), begin)
	again := begin.Add(time.Second)
	p.cutter.write(block(2*soundFrames, 2), again)
	if len(p.at) != 4 || !p.at[2].Equal(again) || !p.at[3].Equal(again.Add(SoundLength)) {
		t.Errorf("pieces at %v after %v", p.at, begin)
	}
	// The second piece holds the samples before the pause, completed with silence.
	if p.first[1] != 1 || p.first[2] != 2 {
		t.Errorf("they begin with %v", p.first)
	}
}

func TestSoundPiecesAfterALoss(t *testing.T) {
	t.Parallel()
	p, begin := newPieces(), time.Now()
	for i := range 200 {
		if i >= 20 && i < 25 { // about 107 ms
			continue
		}
		p.cutter.write(block(blockFrames, 1), begin.Add(blockTime(i)))
	}
	// The lag was 107 ms. Now it is at most one block.
	end := p.cutter.end()
	if off := end.Sub(begin.Add(blockTime(200))).Abs(); off > blockTime(1)+time.Millisecond {
		t.Errorf("the end is %v off", off)
	}
}

// TestSoundPiecesWhenReadLate has a reader that is delayed, at the beginning and later.
func TestSoundPiecesWhenReadLate(t *testing.T) {
	t.Parallel()
	p, begin := newPieces(), time.Now()
	p.cutter.write(block(20*blockFrames, 1), begin.Add(blockTime(19)))
	for i := 20; i < 40; i++ {
		p.cutter.write(block(blockFrames, 1), begin.Add(blockTime(i)))
	}
	p.cutter.write(block(40*blockFrames, 1), begin.Add(blockTime(79)))
	p.even(t, 80*blockFrames)
	if off := p.cutter.end().Sub(begin.Add(blockTime(80))).Abs(); off > earlyMost-blockTime(1)+time.Millisecond {
		t.Errorf("the end is %v off", off)
	}
}

// TestSoundPiecesWhenBegunLate: the first block arrives late, and all others on time. Nothing is
// lost, and the time is correct after the next silence.
func TestSoundPiecesWhenBegunLate(t *testing.T) {
	t.Parallel()
	p, begin := newPieces(), time.Now()
	for i := range 100 {
		p.cutter.write(block(blockFrames, 1), begin.Add(blockTime(max(i, 5))))
	}
	p.even(t, 100*blockFrames)
	for i := 100; i < 105; i++ {
		p.cutter.write(block(blockFrames, 0), begin.Add(blockTime(i)))
	}
	if off := p.cutter.end().Sub(begin.Add(blockTime(105))).Abs(); off > earlyMost-blockTime(1)+time.Millisecond {
		t.Errorf("the end is %v off", off)
	}
	for i := 105; i < 200; i++ {
		p.cutter.write(block(blockFrames, 1), begin.Add(blockTime(i)))
	}
	for i, at := range p.at[1:] {
		if at.Sub(p.at[i]) < SoundLength {
			t.Errorf("piece %d comes %v after the one before", i+1, at.Sub(p.at[i]))
		}
	}
}

// even checks that frames samples without silence were delivered in pieces without a pause.
func (p *pieces) even(t *testing.T, frames int) {
	t.Helper()
	if want := frames / soundFrames; len(p.at) != want {
		t.Errorf("%d pieces, want %d", len(p.at), want)
	}
	for i, at := range p.at[1:] {
		if gap := at.Sub(p.at[i]); gap != SoundLength {
			t.Errorf("piece %d comes %v after the one before", i+1, gap)
		}
	}
}

func TestSoundPiecesLeaveSilenceOut(t *testing.T) {
	t.Parallel()
	p, now := newPieces(), time.Now()
	write := func(pieces int, value byte) {
		for range pieces {
			p.cutter.write(block(soundFrames, value), now)
			now = now.Add(SoundLength)
		}
	}
	write(100, 0)
	if len(p.at) > 0 {
		t.Errorf("%d pieces of silence", len(p.at))
	}
	write(1, 1)
	write(100, 0)
	if want := int(hangover / SoundLength); len(p.at) != want {
		t.Errorf("%d pieces of a sound and silence, want %d", len(p.at), want)
	}
}

// TestSlowListener puts more into a queue than it holds.
func TestSlowListener(t *testing.T) {
	t.Parallel()
	d := &Desktop{}
	d.closing = make(chan struct{})
	d.sound.d = d
	l := newListener(&d.sound)
	begin := time.Now()
	for i := range 2*queuedSounds + 7 {
		l.put([]int16{int16(i)}, begin.Add(time.Duration(i)*SoundLength)) //nolint:gosec // it is small
	}
	for i := range queuedSounds {
		got, err := l.Next(t.Context())
		want := queuedSounds + 7 + i
		if err != nil || got.Samples[0] != int16(want) || !got.Time.Equal(begin.Add(time.Duration(want)*SoundLength)) { //nolint:gosec // it is small
			t.Fatalf("piece %d is number %d, %v", i, got.Samples[0], err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := l.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Next of an empty queue: %v", err)
	}
	for range 2 {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := l.Next(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("Next after Close: %v", err)
	}
}
