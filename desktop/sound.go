package desktop

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// What sound is made of: 48 000 stereo samples a second, in pieces of 20 ms.
const (
	SoundRate     = 48000
	SoundChannels = 2
	// SoundLength is how long a piece is.
	SoundLength = 20 * time.Millisecond

	soundFrames = SoundRate / int(time.Second/SoundLength) // samples per channel of a piece
)

// Sound is what the desktop's programs played in 20 ms.
type Sound struct {
	// Samples are 960 pairs of left and right. They are valid until the next
	// call of the Listener.
	Samples []int16

	// Time is when the first of them was played. It has a monotonic clock
	// reading.
	Time time.Time
}

// SoundStatus tells about the sound of a desktop.
type SoundStatus struct {
	Available bool   // programs of this desktop can play something
	Running   bool   // one has, so there is a PulseAudio
	Problem   string // why it is not available, or what failed last, and what to do
}

// queuedSounds is how many pieces are kept for a Listener that is slow: two
// seconds.
const queuedSounds = 100

// Listener hears what the desktop's programs play. One goroutine calls Next;
// many listeners may hear one desktop.
type Listener struct {
	s     *sound
	ready chan struct{} // there is something in the queue, perhaps
	ended chan struct{} // closed by Close
	once  sync.Once
	out   []int16 // of the latest Next

	mu    sync.Mutex // guards what follows
	queue []Sound    // a ring, nil at first
	first int        // the oldest piece in it
	count int
}

// Listen begins to listen. The Listener must be closed. While nothing plays, it
// costs nothing, not even a PulseAudio: that starts with the first program that
// plays something.
//
// It returns a *MissingError when pulseaudio is not installed, and
// [ErrUnsupported] for a display that was attached to, whose sound is not ours.
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
	return &Listener{s: s, ready: make(chan struct{}, 1), ended: make(chan struct{}), out: make([]int16, SoundChannels*soundFrames)}
}

// Next waits for the next 20 ms of sound and returns them. While it is silent,
// or what plays is silence for longer than half a second, there is nothing to
// return, and it waits.
//
// Pieces without a pause between them are exactly 20 ms apart, and never less. A
// listener that is more than two seconds behind misses the oldest.
//
// The errors are ctx's and, after a Close of either, [ErrClosed].
func (l *Listener) Next(ctx context.Context) (Sound, error) {
	for {
		if next, ok := l.take(); ok {
			return next, nil
		}
		var err error
		select {
		case <-l.ready:
			continue
		case <-l.ended:
			err = ErrClosed
		case <-l.s.d.closing:
			err = ErrClosed
		case <-ctx.Done():
			err = ctx.Err()
		}
		return Sound{}, fmt.Errorf("listen: %w", err)
	}
}

// Close ends the listening. It may be called more than once, from any goroutine.
func (l *Listener) Close() error {
	l.once.Do(func() {
		close(l.ended)
		l.s.remove(l)
	})
	return nil
}

// take takes the oldest piece from the queue.
func (l *Listener) take() (Sound, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.count == 0 {
		return Sound{}, false
	}
	next := l.queue[l.first]
	copy(l.out, next.Samples)
	l.first = (l.first + 1) % queuedSounds
	l.count--
	return Sound{Samples: l.out, Time: next.Time}, true
}

// put adds a piece, in place of the oldest one when there is no room. It never
// waits.
func (l *Listener) put(samples []int16, at time.Time) {
	l.mu.Lock()
	if l.queue == nil {
		l.queue = make([]Sound, queuedSounds)
	}
	if l.count == queuedSounds {
		l.first = (l.first + 1) % queuedSounds
		l.count--
	}
	slot := &l.queue[(l.first+l.count)%queuedSounds]
	slot.Samples, slot.Time = append(slot.Samples[:0], samples...), at
	l.count++
	l.mu.Unlock()
	select {
	case l.ready <- struct{}{}:
	default:
	}
}
