// Package vp8screen encodes the picture of a computer screen as VP8 video.
//
// It is made for what screens show: text, flat areas, long stretches without
// any change, and regions that scroll. What did not change is not touched, what
// scrolled is copied by a vector, what was there before (the window below a
// menu, the other window) is taken from a stored frame, and only what is new is
// coded. When the bit rate demands it that is done coarsely at first and made
// near-lossless as soon as it has been quiet for a moment.
//
// # Usage
//
// A [Frame] holds the screen in VP8's colours. [Frame.SetBGRX] takes over the
// rectangles that a screen reports as damaged, and marks in a [Dirty] map which
// macroblocks really became different. A [ScrollFinder] compares the frame with
// the one before and tells what moved. [Encoder.Encode] turns that into one
// frame of VP8, which is the payload of RTP packets (RFC 7741) or of an IVF file;
// the package's example shows all of it.
//
//	enc, err := vp8screen.New(vp8screen.Config{Width: 1920, Height: 1080, Bitrate: 4e6})
//	out, err := enc.Encode(buf[:0], frame, vp8screen.EncodeOptions{Dirty: dirty, Motion: moved, Now: now})
//
// The first frame is a key frame; more are made when EncodeOptions.Key asks for
// one, from the frame that is handed in, and after [Encoder.Resize]. Nothing else
// makes one: the decoder must get every frame, in order, or ask for a key frame.
//
// A frame without any change takes some two hundred bytes and microseconds, and
// is worth sending now and then to a viewer that takes silence for a fault.
//
// # Rate and quality
//
// A leaky bucket keeps the frames to Config.Bitrate, which
// [Encoder.SetBitrate] changes at any time; a change on the screen is never
// dropped, but coded more coarsely the more is still on its way. See
// [Encoder.Backlog], by which a caller can send fewer frames when even that is
// not enough. [Encoder.Pending] tells when to call Encode again although nothing
// changed, so that coarse macroblocks become better; that goes on over several
// frames within the rate, and then ends.
//
// The loop filter of VP8 is off. It blurs text, and it would change macroblocks
// that are otherwise left alone. Prediction is by whole pixels. Where these make
// half ones of chroma, as when a page scrolls by an odd number, VP8's six-tap
// filter is used (bitstream version 0, which every decoder has). A page in colour
// then takes a fifth more bits than with an even number; with the bilinear filter
// of versions 1 and 2 that is a quarter, with the whole pixels of version 3 half
// as much again.
//
// # Concurrency
//
// The methods of an Encoder must not be called at the same time, but different
// encoders are independent, and a Frame may be read by several. Encode uses up
// to Config.Threads cores for large changes, in goroutines that have ended when
// it returns. There is nothing to close. No frame allocates, once the buffers
// have grown to what the content needs.
//
// # Errors
//
// [ErrSize] for sizes that VP8 cannot express and for frames and maps that are
// not of the encoder's size; [ErrConfig] for settings that contradict each other.
// A wrong map or vector is no error: a macroblock that is not marked keeps its
// old content until it is, and a wrong vector costs bits.
//
// # Requirements
//
// None. All is plain Go; on amd64 some inner loops are in assembly, with twins in
// Go for other processors. The bitstream is that of RFC 6386, whose sections the
// code quotes where it follows them; its tables are from sections 11 to 18. The
// tests compare every frame with what ffmpeg decodes, bit by bit.
package vp8screen
