package webrtc

import (
	"errors"
	"time"

	"github.com/deskhand/deskhand/desktop"
)

// Codec names a video format.
type Codec string

// The codecs. Those but VP8 need ffmpeg.
const (
	VP8  Codec = "vp8"
	VP9  Codec = "vp9"
	H264 Codec = "h264"
)

// ErrCodec is returned for a codec that cannot be had here.
var ErrCodec = errors.New("codec is not available")

// Picture is one encoded picture.
type Picture struct {
	// Data is the picture as it goes into RTP, before it is cut into packets:
	// a VP8 or VP9 frame, or an H.264 access unit in Annex B form. It is valid
	// until the function returns to which it was given.
	Data []byte

	// Key says that a decoder can begin with it.
	Key bool

	// Noticed is when the change was noticed that it shows.
	Noticed time.Time
}

// EncoderConfig says what to encode.
type EncoderConfig struct {
	Size      desktop.Size
	FrameRate int // pictures per second at most
	Bitrate   int // bits per second to keep to

	// Send receives the pictures in their order, from any goroutine, one at a
	// time, and not after Close has returned.
	Send func(Picture)
}

// Encoder turns a screen of one size into video. One goroutine calls it.
type Encoder interface {
	// Encode encodes the screen. A nil frame is the one before again, which
	// keeps the video going and may improve the picture. The first picture is
	// a key picture, and so is one that is asked for; an encoder that cannot
	// make one at will says so by an error once.
	Encode(f *desktop.FeedFrame, key bool) error

	// SetBitrate changes the rate to keep to, in bits per second.
	SetBitrate(bps int)

	// Due is when Encode(nil, false) would improve the picture; zero: never.
	Due() time.Time

	// Close ends the encoder, and waits for that.
	Close() error
}

// newEncoder makes the encoder of a codec.
func newEncoder(codec Codec, cfg EncoderConfig) (Encoder, error) {
	if codec == VP8 {
		return newVP8(cfg)
	}
	return newFFmpeg(codec, cfg)
}
