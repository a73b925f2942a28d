// Package vp8screen encodes the picture of a computer screen as VP8 video.
//
// It is made for screen content: text, flat areas, long times without a change, and regions
// that scroll. Unchanged macroblocks are skipped. Scrolled regions are copied with motion
// vectors. Content that was visible before, such as the window below a menu, is predicted from
// a stored frame. Only the rest is coded: coarsely if the bit rate demands it. Macroblocks that
// have not changed for a moment are refined until they are almost lossless.
//
// # Usage
//
// A [Frame] holds the screen in the colours of VP8. [Frame.SetBGRX] copies the rectangles
// that the screen reports as damaged, and marks the macroblocks that differ in a [Dirty] map.
// A [ScrollFinder] compares the frame with the one before and finds the regions that moved.
// [Encoder.Encode] makes a frame of VP8 from these, which is the payload of RTP packets
// (RFC 7741) or of an IVF file. See the example.
//
// The first frame is a key frame, and so is each with EncodeOptions.Key. The decoder must get
// every frame in order, or ask for a key frame.
//
// A frame without a change has about two hundred bytes. Sending one regularly shows viewers
// that the stream is alive.
//
// # Lifetime
//
// An Encoder needs no Close. Encode uses up to Config.Threads cores for large changes, in
// goroutines that have ended when it returns. Once the buffers have grown to the size that
// the content needs, Encode does not allocate.
//
// # Concurrency
//
// An Encoder is for one goroutine at a time. Several encoders can read one Frame
// concurrently.
//
// # Errors
//
// [ErrSize] is returned for sizes that VP8 does not have, and for frames and maps whose size
// is not the encoder's. [ErrConfig] is returned for settings that are out of range. Encode
// does not detect wrong maps and vectors: an unmarked macroblock keeps its old content until it
// is marked, and a wrong vector costs bits.
//
// # Requirements
//
// None. The package is plain Go. On amd64 some inner loops are in assembly, with the same
// functions in Go for other processors. The bitstream follows RFC 6386, whose sections the code
// quotes. The tables are from sections 11 to 18.
package vp8screen
