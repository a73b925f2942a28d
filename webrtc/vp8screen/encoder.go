package vp8screen

import "time"

// An Encoder turns frames into VP8. Its methods must not be called at the same
// time.
type Encoder struct {
	cfg Config
}

// New returns an encoder, whose first frame will be a key frame. It fails with
// [ErrSize] or [ErrConfig].
func New(cfg Config) (*Encoder, error) {
	if cfg.Width < 2 || cfg.Height < 2 || cfg.Width > MaxSize || cfg.Height > MaxSize {
		return nil, ErrSize
	}
	return &Encoder{cfg: cfg}, nil
}

// Encode appends the next frame to dst.
func (e *Encoder) Encode(dst []byte, f *Frame, o EncodeOptions) (Encoded, error) {
	return Encoded{Data: dst}, ErrSize
}

// SetBitrate changes the rate to keep to, in bit/s.
func (e *Encoder) SetBitrate(bitrate int) { e.cfg.Bitrate = bitrate }

// Resize changes the size of the frames. The next one will be a key frame.
func (e *Encoder) Resize(width, height int) error { return nil }

// Pending tells how many macroblocks are coded more coarsely than they could
// be, and when Encode should be called, without any change if need be, to make
// some of them better. The time is zero if there are none.
func (e *Encoder) Pending() (due time.Time, blocks int) { return time.Time{}, 0 }

// Reconstructed returns what a decoder shows after the last frame. It is valid
// until the next Encode and must not be changed.
func (e *Encoder) Reconstructed() *Frame { return nil }
