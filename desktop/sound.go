package desktop

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// The format of sound: 48 000 stereo samples a second, in pieces of 20 ms.
const (
	SoundRate     = 48000
	SoundChannels = 2
	// SoundLength is the length of a piece.
	SoundLength = 20 * time.Millisecond

	soundFrames = SoundRate / int(time.Second/SoundLength) // samples per channel of a piece
)

// Sound is what the desktop's programs played in 20 ms.
type Sound struct {
	// Samples are 960 pairs of left and right.
	Samples []int16

	// Time is when the first sample was played, with a monotonic clock reading.
	Time time.Time
}

// SoundStatus describes the sound of a desktop.
type SoundStatus struct {
	Available bool   // programs of this desktop can play something
	Running   bool   // PulseAudio runs, because a program has played something
	Problem   string // why it is not available, or the last failure, and what to do
}

// queuedSounds is how many pieces a slow Listener keeps: two seconds.
const queuedSounds = 100

// Listener receives the sound of the desktop's programs, for one goroutine that calls
// Next. A desktop may have many.
type Listener struct {
	s     *sound
	queue chan Sound
	ended chan struct{} // closed by Close
	once  sync.Once
}

// Listen returns a Listener, which the caller must close. PulseAudio starts with the first
// program that plays something, not with Listen.
//
// It returns a *MissingError if pulseaudio is not installed, and [ErrUnsupported] after
// [Attach].
func (d *Desktop) Listen(ctx context.Context) (*Listener, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	if d.isClosing() {
		return nil, fmt.Errorf("listen: %w", ErrClosed)
	}
	if d.attached != "" {
		return nil, fmt.Errorf("listen: %w: a display that was attached to has its own sound", ErrUnsupported)
	}
	l := newListener(&d.sound)
	if err := d.sound.add(l); err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	return l, nil
}

func newListener(s *sound) *Listener {
	return &Listener{s: s, queue: make(chan Sound, queuedSounds), ended: make(chan struct{})}
}

// Next waits for the next 20 ms of sound and returns them. It waits while no program plays
// anything, and while programs play silence for longer than half a second.
//
// Pieces without a pause between them are exactly 20 ms apart, and never less. A Listener
// that is more than two seconds behind drops the oldest pieces.
//
// It returns the error of ctx if that ends, and [ErrClosed] after Close of the Listener or
// the Desktop.
func (l *Listener) Next(ctx context.Context) (Sound, error) {
	select {
	case next := <-l.queue: // also after Close
		return next, nil
	default:
	}
	var err error
	select {
	case next := <-l.queue:
		return next, nil
	case <-l.ended:
		err = ErrClosed
	case <-l.s.d.closing:
		err = ErrClosed
	case <-ctx.Done():
		err = ctx.Err()
	}
	return Sound{}, fmt.Errorf("listen: %w", err)
}

// Close ends the Listener. It may be called more than once, from any goroutine.
func (l *Listener) Close() error {
	l.once.Do(func() {
		close(l.ended)
		l.s.remove(l)
	})
	return nil
}

// put adds a piece. It drops the oldest one if there is no room. One goroutine calls it.
func (l *Listener) put(samples []int16, at time.Time) {
	if len(l.queue) == cap(l.queue) {
		select {
		case <-l.queue:
		default: // Next has made room
		}
	}
	l.queue <- Sound{Samples: slices.Clone(samples), Time: at}
}
