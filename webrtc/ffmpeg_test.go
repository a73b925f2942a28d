package webrtc

import (
	"bytes"
	"encoding/binary"
	"image"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/internal/testx11"
)

// ivfFile returns VP9 frames as a file that ffmpeg can read.
func ivfFile(size desktop.Size, frames [][]byte) []byte {
	b := []byte("DKIF\x00\x00\x20\x00VP90")
	b = binary.LittleEndian.AppendUint16(b, uint16(size.Width))
	b = binary.LittleEndian.AppendUint16(b, uint16(size.Height))
	b = binary.LittleEndian.AppendUint32(b, 30)
	b = binary.LittleEndian.AppendUint32(b, 1)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(frames)))
	b = append(b, 0, 0, 0, 0)
	for i, f := range frames {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(f)))
		b = binary.LittleEndian.AppendUint64(b, uint64(i))
		b = append(b, f...)
	}
	return b
}

// decodeLast returns the luma of the last picture of a stream.
func decodeLast(t *testing.T, codec Codec, size desktop.Size, frames [][]byte) *image.YCbCr {
	t.Helper()
	data, name := bytes.Join(frames, nil), "x.h264"
	if codec == VP9 {
		data, name = ivfFile(size, frames), "x.ivf"
	}
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "ffmpeg", "-v", "error", "-i", file, "-f", "rawvideo", "-pix_fmt", "yuv420p", "-")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("decode: %v", err)
	}
	w, h := (size.Width+1)&^1, (size.Height+1)&^1
	each := w * h * 3 / 2
	if len(out) < each {
		t.Fatalf("%d bytes decoded, of pictures of %d", len(out), each)
	}
	out = out[len(out)-each:]
	return &image.YCbCr{Y: out[:w*h], YStride: w, Rect: image.Rect(0, 0, w, h), SubsampleRatio: image.YCbCrSubsampleRatio420}
}

// encoded is a picture as an encoder sent it.
type encoded struct {
	Data []byte
	Key  bool
}

// startFFmpeg starts an encoder of a codec.
func startFFmpeg(t *testing.T, codec Codec, cfg encoderConfig) (*ffmpegEncoder, error) {
	t.Helper()
	p, err := findFFmpeg(t.Context(), codec)
	if err != nil {
		return nil, err
	}
	e, err := p.newEncoder(cfg)
	if err != nil {
		return nil, err
	}
	return e.(*ffmpegEncoder), nil
}

// TestFFmpegGivesEachPicture checks that each encoded picture is available before the next one
// is fed.
func TestFFmpegGivesEachPicture(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "ffmpeg")
	for _, codec := range []Codec{VP9, H264} {
		t.Run(string(codec), func(t *testing.T) {
			t.Parallel()
			size := desktop.Size{Width: 64, Height: 48}
			pictures := make(chan encoded, 100)
			e, err := startFFmpeg(t, codec, encoderConfig{
				Size: size, FrameRate: 30, Bitrate: 1_000_000,
				Send: func(data []byte, key bool) { pictures <- encoded{bytes.Clone(data), key} },
			})
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := e.Close(); err != nil {
					t.Error(err)
				}
			}()
			// Standby processes also begin with the first picture that they get.
			for i, key := range []bool{false, false, true, false} {
				img := image.NewRGBA(image.Rect(0, 0, size.Width, size.Height))
				for j := range img.Pix {
					img.Pix[j] = byte(40 + 40*i)
				}
				f := desktop.FeedFrame{
					Pix: img.Pix, Stride: img.Stride, Size: size, Reset: i == 0,
					Changed: []desktop.Rect{{Width: size.Width, Height: size.Height}},
				}
				if err := e.Encode(&f, key); err != nil {
					t.Fatal(err)
				}
				select {
				case p := <-pictures:
					if p.Key != (key || i == 0) {
						t.Errorf("picture %d: key is %v", i, p.Key)
					}
				case <-time.After(patience):
					t.Fatalf("picture %d never came", i)
				}
			}
			if n := len(pictures); n > 0 {
				t.Errorf("%d more pictures than were fed", n)
			}
		})
	}
}

// TestFFmpegCodecs checks that ffmpeg encodes the screen without delay, and makes key pictures
// on request.
func TestFFmpegCodecs(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "ffmpeg")
	for _, codec := range []Codec{VP9, H264} {
		t.Run(string(codec), func(t *testing.T) {
			t.Parallel()
			size := desktop.Size{Width: 321, Height: 243}
			pictures := make(chan encoded, 100)
			e, err := startFFmpeg(t, codec, encoderConfig{
				Size: size, FrameRate: 30, Bitrate: 4_000_000,
				Send: func(data []byte, key bool) { pictures <- encoded{bytes.Clone(data), key} },
			})
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := e.Close(); err != nil {
					t.Error(err)
				}
			}()
			img := image.NewRGBA(image.Rect(0, 0, size.Width, size.Height))
			f := desktop.FeedFrame{
				Pix: img.Pix, Stride: img.Stride, Size: size, Reset: true,
				Changed: []desktop.Rect{{Width: size.Width, Height: size.Height}},
			}
			paint := func(level byte) {
				for i := range img.Pix {
					img.Pix[i] = level
				}
			}
			show := func(f *desktop.FeedFrame, key bool) {
				t.Helper()
				if err := e.Encode(f, key); err != nil {
					t.Fatal(err)
				}
			}
			// wanted waits for the key picture of the process that took over. It repeats the
			// picture, because encoders may need several. Late pictures of the previous
			// process, which are not key pictures, may come first.
			wanted := func() [][]byte {
				t.Helper()
				var frames [][]byte
				deadline := time.After(patience)
				for {
					var again <-chan time.Time
					if due := e.Due(); !due.IsZero() {
						again = time.After(time.Until(due))
					}
					select {
					case p := <-pictures:
						if len(frames) > 0 || p.Key {
							frames = append(frames, p.Data)
						}
						if again == nil && len(frames) > 0 {
							return frames
						}
					case <-again:
						show(nil, false)
					case <-deadline:
						t.Fatal("no picture came")
					}
				}
			}
			for round, level := range []byte{200, 90} {
				paint(level)
				show(&f, round > 0)
				got := decodeLast(t, codec, size, wanted())
				if d := difference(got, img); d > 4 {
					t.Errorf("picture %d is %.1f levels off", round, d)
				}
			}
			if e.ProcessID() == "" {
				t.Error("no process is reported")
			}
			e.SetBitrate(1_000_000)
			paint(20)
			show(&f, false)
			if got := decodeLast(t, codec, size, wanted()); difference(got, img) > 4 {
				t.Error("the picture at another rate is not the screen")
			}
		})
	}
}

func FuzzFFmpegOutput(f *testing.F) {
	f.Add([]byte("DKIF\x00\x00\x20\x00VP90........................\x04\x00\x00\x00........\x82abc"), true)
	f.Add([]byte("FLV\x01\x01\x00\x00\x00\x09\x00\x00\x00\x00\x09\x00\x00\x0b\x00\x00\x00\x00\x00\x00\x00\x17\x01\x00\x00\x00\x00\x00\x00\x02\x65\x88\x00\x00\x00\x16"), false)
	f.Fuzz(func(t *testing.T, data []byte, vp9 bool) {
		total := 0
		split := splitFLV
		if vp9 {
			split = splitIVF
		}
		if err := split(bytes.NewReader(data), func(b []byte, _ bool) { total += len(b) }); err == nil {
			t.Error("a stream without an end was accepted")
		}
		if total > 100*len(data)+1000 {
			t.Errorf("%d bytes of pictures in %d", total, len(data))
		}
	})
}
