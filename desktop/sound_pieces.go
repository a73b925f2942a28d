package desktop

import (
	"encoding/binary"
	"slices"
	"time"
)

const (
	// soundFrameSize is how many bytes one sample of both channels has.
	soundFrameSize = 2 * SoundChannels

	// hangover is how much silence is passed on after a sound.
	hangover = 500 * time.Millisecond

	// lateMost is how far what is read may lag behind its clock before that is
	// taken for a pause: PulseAudio catches up with less at once.
	lateMost = 250 * time.Millisecond

	// driftTime is how long a smaller lag has to last to be corrected, which is
	// driftMost: then something was missed.
	driftTime = time.Second
	driftMost = 30 * time.Millisecond

	// earlyMost is how much earlier than they play samples come at most:
	// PulseAudio mixes up to two blocks of 21 ms at a time, beginning when the
	// first is due.
	earlyMost = 45 * time.Millisecond
)

// soundClock tells when samples play, from when they arrive. PulseAudio makes
// them by the system's clock, so that counting them is exact: what arrives first
// after a pause plays now, and from then on only samples count.
type soundClock struct {
	begin  time.Time
	frames int64

	since time.Time     // the smallest lag is looked for
	least time.Duration // so far
}

// stamp returns when the first of frames plays that have just been read.
func (c *soundClock) stamp(frames int, now time.Time) time.Time {
	lag := now.Sub(c.at(c.frames + int64(frames)))
	if c.begin.IsZero() || lag > lateMost {
		c.begin, c.frames = now, 0
		c.since, c.least = now, lateMost
		lag = now.Sub(c.at(int64(frames)))
	}
	if -lag > earlyMost { // the first samples were read late
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

// soundCutter cuts what is read into pieces, and leaves out silence.
type soundCutter struct {
	clock soundClock
	rest  []byte  // less than a sample
	piece []int16 // not whole yet
	at    time.Time
	quiet time.Duration // how long it has been silent, up to hangover
	give  func(samples []int16, at time.Time)
}

func newSoundCutter(give func([]int16, time.Time)) *soundCutter {
	return &soundCutter{quiet: hangover, give: give}
}

// write takes what was read just now.
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
	// Within a millisecond it is the same time, counted from elsewhere.
	at := c.clock.stamp(frames, now)
	off := at.Sub(c.end())
	switch {
	case off > time.Millisecond:
		if len(c.piece) > 0 {
			c.pad()
		}
		c.at = at
	case off < -time.Millisecond && silent(b):
		// The clock was set right, and no time comes twice. Sound that is late
		// stays so until a silence can be shortened: to lose some would be heard.
		b = b[min(int(-off*SoundRate/time.Second), frames)*soundFrameSize:]
	}
	for ; len(b) > 0; b = b[2:] {
		c.piece = append(c.piece, int16(binary.LittleEndian.Uint16(b))) //nolint:gosec // the same 16 bits
		if len(c.piece) == SoundChannels*soundFrames {
			c.pass()
		}
	}
}

// silent says whether there is nothing to hear in b.
func silent(b []byte) bool {
	return !slices.ContainsFunc(b, func(v byte) bool { return v != 0 })
}

// end is when the next sample plays, if there was no pause.
func (c *soundCutter) end() time.Time {
	return c.at.Add(time.Duration(len(c.piece)/SoundChannels) * time.Second / SoundRate)
}

// pad ends a piece that nothing follows at once.
func (c *soundCutter) pad() {
	c.piece = append(c.piece, make([]int16, SoundChannels*soundFrames-len(c.piece))...)
	c.pass()
}

// pass gives a whole piece out, unless it has been silent for long.
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
