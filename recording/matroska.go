package recording

import (
	"encoding/binary"
	"math"
	"time"
)

// ffmpeg reads Matroska (RFC 9559), the simplest container whose pictures have times. The
// stream is a header and one cluster for each picture or piece of sound.
const (
	trackVideo = 1
	trackSound = 2

	// frameRoom is the space for a header in front of a picture.
	frameRoom = 64

	soundRate     = 48000
	soundChannels = 2
)

// element appends an EBML element (RFC 8794).
func element(b []byte, id uint32, content ...byte) []byte {
	b = appendID(b, id)
	b = appendSize(b, len(content))
	return append(b, content...)
}

func appendID(b []byte, id uint32) []byte {
	switch {
	case id > 0xffffff:
		b = append(b, byte(id>>24))
		fallthrough
	case id > 0xffff:
		b = append(b, byte(id>>16))
		fallthrough
	case id > 0xff:
		b = append(b, byte(id>>8))
	}
	return append(b, byte(id))
}

// appendSize appends a length in eight bytes.
func appendSize(b []byte, n int) []byte {
	return binary.BigEndian.AppendUint64(b, uint64(n)|1<<56) //nolint:gosec // lengths are not negative
}

func number(b []byte, id uint32, v int64) []byte {
	return element(b, id, binary.BigEndian.AppendUint64(nil, uint64(v))...) //nolint:gosec // numbers are not negative
}

// streamHeader returns the beginning of the stream that ffmpeg reads.
func streamHeader(width, height, fps int, sound bool) []byte {
	head := element(nil, 0x4282, []byte("matroska")...) // DocType
	head = number(head, 0x4287, 4)                      // DocTypeVersion
	head = number(head, 0x4285, 2)                      // DocTypeReadVersion
	out := element(nil, 0x1A45DFA3, head...)
	out = appendID(out, 0x18538067) // Segment, of unknown length
	out = append(out, 1, 255, 255, 255, 255, 255, 255, 255)

	info := number(nil, 0x2AD7B1, int64(time.Millisecond)) // TimestampScale
	info = element(info, 0x4D80, []byte("deskhand")...)    // MuxingApp
	info = element(info, 0x5741, []byte("deskhand")...)    // WritingApp
	out = element(out, 0x1549A966, info...)

	// These are the colours that internal/i420 makes, with numbers of ITU-T H.273.
	colour := number(nil, 0x55B1, 6)   // MatrixCoefficients: BT.601
	colour = number(colour, 0x55B9, 1) // Range: limited
	colour = number(colour, 0x55BA, 1) // TransferCharacteristics: BT.709
	colour = number(colour, 0x55BB, 1) // Primaries: BT.709, which are sRGB's
	video := number(nil, 0xB0, int64(width))
	video = number(video, 0xBA, int64(height))
	video = element(video, 0x2EB524, []byte("I420")...) // UncompressedFourCC
	video = element(video, 0x55B0, colour...)
	track := trackEntry(trackVideo, 1, "V_UNCOMPRESSED")
	track = number(track, 0x23E383, int64(time.Second)/int64(fps)) // DefaultDuration
	tracks := element(nil, 0xAE, element(track, 0xE0, video...)...)
	if sound {
		audio := element(nil, 0xB5, binary.BigEndian.AppendUint64(nil, math.Float64bits(soundRate))...)
		audio = number(audio, 0x9F, soundChannels)
		audio = number(audio, 0x6264, 16) // BitDepth
		track := trackEntry(trackSound, 2, "A_PCM/INT/LIT")
		tracks = element(tracks, 0xAE, element(track, 0xE1, audio...)...)
	}
	return element(out, 0x1654AE6B, tracks...)
}

func trackEntry(n, kind int64, codec string) []byte {
	b := number(nil, 0xD7, n)                 // TrackNumber
	b = number(b, 0x73C5, n)                  // TrackUID
	b = number(b, 0x83, kind)                 // TrackType
	b = number(b, 0x9C, 0)                    // FlagLacing
	return element(b, 0x86, []byte(codec)...) // CodecID
}

// blockHeader appends the header of a cluster with one block of n bytes.
func blockHeader(b []byte, track byte, at time.Duration, n int) []byte {
	const stamp = 1 + 8 + 8 // the Timestamp element
	const block = 1 + 8 + 4 // the SimpleBlock's beginning
	b = appendID(b, 0x1F43B675)
	b = appendSize(b, stamp+block+n)
	b = number(b, 0xE7, at.Milliseconds())
	b = appendID(b, 0xA3)
	b = appendSize(b, 4+n)
	return append(b, 0x80|track, 0, 0, 0x80) // the time of the cluster; a key picture
}
