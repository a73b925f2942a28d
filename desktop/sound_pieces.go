package desktop

import (
	"encoding/binary"
	"slices"
	"time"
)

const (
	// soundFrameSize is the size of one sample of both channels, in bytes.
	soundFrameSize = 2 * SoundChannels

	// hangover is the length of silence that follows a sound.
	hangover = 500 * time.Millisecond

	// lateMost is the largest lag of samples behind the clock that is not a pause.
	// PulseAudio catches up with a smaller one.
	lateMost = 250 * time.Millisecond

	// driftTime is how long a lag of more than driftMost must last before the clock is
	// corrected, because samples were lost.
	driftTime = time.Second
	driftMost = 30 * time.Millisecond

	// earlyMost is how early samples may come: PulseAudio mixes up to two blocks of
	// 21 ms when the first is due.
	earlyMost = 45 * time.Millisecond
)

// soundClock computes when samples play. PulseAudio makes them by the system's clock: the
// first sample after a pause plays when it arrives, and the others follow by their number.
type soundClock struct {
	begin  time.Time
	frames int64

	since time.Time
	least time.Duration // the smallest lag since then
}

// stamp returns the time at which the first of a number of frames plays that were read at now.
func (c *soundClock) stamp(frames int, now time.Time) time.Time {
	lag := now.Sub(c.at(c.frames + int64(frames)))
	if c.begin.IsZero() || lag > lateMost {
		c.begin, c.frames = now, 0
		c.since, c.least = now, lateMost
		lag = now.Sub(c.at(int64(frames)))
	}
	if -lag > earlyMost { // the reader was late with the first samples
		c.begin = c.begin.Add(lag + earlyMost)
	}
	c.least = min(c.least, lag)
	if now.Sub(c.since) > driftTime {
		if c.least > driftMost {
			c.begin = c.begin.Add(c.least)
		}
		c.since, c.least = now, lateMost
	}
	at := c.at(c.frames)
	c.frames += int64(frames)
	return at
}

func (c *soundClock) at(frame int64) time.Time {
	return c.begin.Add(time.Duration(frame) * time.Second / SoundRate)
}

// soundCutter cuts samples into pieces and leaves out silence.
type soundCutter struct {
	clock soundClock
	rest  []byte  // less than a sample
	piece []int16 // the next piece, not complete
	at    time.Time
	quiet time.Duration // length of the present silence, up to hangover
	give  func(samples []int16, at time.Time)
}

func newSoundCutter(give func([]int16, time.Time)) *soundCutter {
	return &soundCutter{quiet: hangover, give: give}
}

// write adds samples that were read at now.
func (c *soundCutter) write(b []byte, now time.Time) {
	if len(c.rest) > 0 {
		b = append(c.rest, b...)
	}
	frames := len(b) / soundFrameSize
	whole := frames * soundFrameSize
	c.rest = slices.Clone(b[whole:])
	if frames == 0 {
		return
	}
	b = b[:whole]
	// A gap of less than a millisecond does not count as a pause.
	at := c.clock.stamp(frames, now)
	off := at.Sub(c.end())
	switch {
	case off > time.Millisecond:
		if len(c.piece) > 0 {
			c.pad()
		}
		c.at = at
	case off < -time.Millisecond && silent(b):
		// The clock was corrected. Only silence is shortened, because a loss of sound would
		// be audible.
		b = b[min(int(-off*SoundRate/time.Second), frames)*soundFrameSize:]
	}
	for ; len(b) > 0; b = b[2:] {
		c.piece = append(c.piece, int16(binary.LittleEndian.Uint16(b))) //nolint:gosec // the same 16 bits
		if len(c.piece) == SoundChannels*soundFrames {
			c.pass()
		}
	}
}

func silent(b []byte) bool {
	return !slices.ContainsFunc(b, func(v byte) bool { return v != 0 })
}

// end returns when the next sample plays if there is no pause.
func (c *soundCutter) end() time.Time {
	return c.at.Add(time.Duration(len(c.piece)/SoundChannels) * time.Second / SoundRate)
}

// pad completes a piece with silence.
func (c *soundCutter) pad() {
	c.piece = append(c.piece, make([]int16, SoundChannels*soundFrames-len(c.piece))...)
	c.pass()
}

// pass delivers a complete piece, unless the silence is longer than hangover.
func (c *soundCutter) pass() {
	c.quiet = min(c.quiet+SoundLength, hangover)
	if slices.ContainsFunc(c.piece, func(v int16) bool { return v != 0 }) {
		c.quiet = 0
	}
	if c.quiet < hangover {
		c.give(c.piece, c.at)
	}
	c.at, c.piece = c.at.Add(SoundLength), c.piece[:0]
}
