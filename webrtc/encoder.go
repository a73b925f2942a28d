package webrtc

import (
	"context"
	"errors"
	"time"

	"github.com/deskhand/deskhand/desktop"
)

// Codec names a video format.
type Codec string

// The video formats. VP9 and H264 need ffmpeg.
const (
	VP8  Codec = "vp8"
	VP9  Codec = "vp9"
	H264 Codec = "h264"
)

// ErrCodec is returned by Start for a codec that is unknown, or that this machine has no
// encoder of.
var ErrCodec = errors.New("codec is not available")

type encoderConfig struct {
	Size      desktop.Size
	FrameRate int // pictures per second at most
	Bitrate   int // target in bits per second

	// Send receives the pictures in order, from any goroutine, one at a time, until Close
	// has returned. data is a VP8 or VP9 frame, or an H.264 access unit in Annex B form. It
	// is valid until Send returns. A decoder can begin with a key picture.
	Send func(data []byte, key bool)
}

// encoder turns a screen of one size into video. One goroutine calls it.
type encoder interface {
	// Encode encodes the screen. A nil frame repeats the last one, which may improve the
	// picture. The first picture is a key picture.
	Encode(f *desktop.FeedFrame, key bool) error

	// SetBitrate changes the target, in bits per second.
	SetBitrate(bps int)

	// Due returns when Encode(nil, false) would improve the picture. Zero: never.
	Due() time.Time

	// ProcessID returns the id of the encoder's process, or "" if it has none.
	ProcessID() string

	// Close ends the encoder and waits for it.
	Close() error
}

// findEncoder returns the constructor of a codec's encoder. It returns ErrCodec if this
// machine has none.
func findEncoder(ctx context.Context, codec Codec) (func(encoderConfig) (encoder, error), error) {
	if codec == VP8 {
		return newVP8, nil
	}
	program, err := findFFmpeg(ctx, codec)
	return program.newEncoder, err
}
