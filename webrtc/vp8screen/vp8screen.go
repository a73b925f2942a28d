package vp8screen

import (
	"errors"
	"time"
)

// MaxSize is the largest width and height of VP8.
const MaxSize = 16383

var (
	// ErrSize is returned by New for a size that VP8 does not have, and by Encode for a frame
	// or map whose size differs from the encoder's, or for a result that is too large for VP8.
	ErrSize = errors.New("vp8screen: wrong size")
	// ErrConfig is returned by New for values that are out of range or contradict each other.
	ErrConfig = errors.New("vp8screen: invalid configuration")
)

// Config describes an [Encoder]. Fields other than Width and Height may be zero.
type Config struct {
	// Width and Height are the visible size in pixels, 2 to [MaxSize].
	Width, Height int
	// Bitrate is the average rate in bit/s, at least 1000. Zero: 4 Mbit/s.
	Bitrate int
	// FrameRate is the highest frame rate. Zero: 30.
	FrameRate int
	// MinQuantizer and MaxQuantizer bound the quantiser index, 1 (best) to 127. Zero: 14 and
	// 100. Equal values switch the rate control off.
	MinQuantizer, MaxQuantizer int
	// RefineQuantizer is the index at which unchanged macroblocks are refined, 1 to 127.
	// Zero: 8. Negative: none is refined.
	RefineQuantizer int
	// RefineAfter is how long a macroblock must be unchanged to be refined. Zero: 150 ms.
	RefineAfter time.Duration
	// Threads is how many cores a large frame may use. Zero: all, at most 4.
	Threads int
}

// EncodeOptions describe one frame.
type EncodeOptions struct {
	// Dirty marks the macroblocks that may have changed since the last Encode. Nil: all.
	Dirty *Dirty
	// Motion lists regions that moved since the last Encode. A wrong vector costs bits but
	// does no harm.
	Motion []Motion
	// Key asks for a key frame, from which a decoder can start.
	Key bool
	// Now is the time of the frame. Zero: one frame period after the last.
	Now time.Time
}

// Encoded is one frame of VP8, the payload of RTP packets or of an IVF file.
type Encoded struct {
	Data      []byte // appended to the argument of Encode
	Key       bool   // it is a key frame
	Quantizer int    // the quantiser index of changed macroblocks, 0 to 127

	// The numbers of macroblocks with coefficients, with a vector, and refined.
	Coded, Moved, Refined int
}
