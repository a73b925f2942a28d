package vp8screen

import (
	"errors"
	"time"
)

// MaxSize is the largest width and height that VP8 can express.
const MaxSize = 16383

var (
	// ErrSize is returned for a width or height that VP8 cannot express, or by
	// Encode for a frame or map whose size is not the encoder's.
	ErrSize = errors.New("vp8screen: wrong size")
	// ErrConfig is returned for a configuration that contradicts itself.
	ErrConfig = errors.New("vp8screen: invalid configuration")
)

// Config says what an [Encoder] shall do. The zero value of every field but
// Width and Height means its documented default.
type Config struct {
	// Width and Height are the visible size in pixels, 2 to [MaxSize].
	Width, Height int
	// Bitrate is the rate to keep to on average, in bit/s; zero means 4 Mbit/s.
	Bitrate int
	// FrameRate is the highest rate at which frames come; zero means 30.
	FrameRate int
	// MinQuantizer and MaxQuantizer bound the quantiser index, 1 (best) to 127;
	// zero means 14 and 100. Equal values switch the rate control off.
	MinQuantizer, MaxQuantizer int
	// RefineQuantizer is the index at which blocks that have been quiet are
	// coded again, 1 to 127; zero means 8, negative that none ever is.
	RefineQuantizer int
	// RefineAfter is how long a block must have been quiet for that; zero means
	// 150 ms.
	RefineAfter time.Duration
	// Threads is how many cores a large frame may use; zero means as many as
	// there are, at most 4.
	Threads int
}

// EncodeOptions say what is known of one frame.
type EncodeOptions struct {
	// Dirty tells which macroblocks may have changed since the last Encode; nil
	// means that every one may have.
	Dirty *Dirty
	// Motion lists regions that moved since the last Encode. A wrong vector
	// costs bits, never correctness.
	Motion []Motion
	// Key asks for a key frame, which a decoder can start from.
	Key bool
	// Now is the time of the frame, for the rate and the refinement; the zero
	// value means one frame period after the last.
	Now time.Time
}

// Encoded is one frame of VP8, as it goes into an RTP payload or an IVF file.
type Encoded struct {
	// Data is the frame, appended to what was handed to Encode.
	Data []byte
	// Key says whether it is a key frame.
	Key bool
	// Quantizer is the quantiser index of what changed, 0 to 127.
	Quantizer int
	// Coded is the number of macroblocks with coefficients, Moved of those that
	// were copied by a vector, Refined of those that were made better.
	Coded, Moved, Refined int
}
