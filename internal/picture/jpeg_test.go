//go:build !race

package picture

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/draw"
	"image/jpeg"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"
)

func decodeJPEG(tb testing.TB, data []byte) *image.YCbCr {
	tb.Helper()
	m, err := jpeg.Decode(bytes.NewReader(data))
	if err != nil {
		tb.Fatalf("decode: %v", err)
	}
	return m.(*image.YCbCr)
}

// serialJPEG is the file that image/jpeg makes in one run.
func serialJPEG(tb testing.TB, m *image.NRGBA, quality int) []byte {
	tb.Helper()
	rgba := image.NewRGBA(m.Rect)
	draw.Draw(rgba, rgba.Rect, m, image.Point{}, draw.Src)
	var b bytes.Buffer
	if err := jpeg.Encode(&b, rgba, &jpeg.Options{Quality: quality}); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

// equalPlanes fails the test unless luma and chroma are the same.
func equalPlanes(tb testing.TB, got, want *image.YCbCr) {
	tb.Helper()
	if got.Rect != want.Rect || got.SubsampleRatio != want.SubsampleRatio {
		tb.Fatalf("picture is %v %v, want %v %v", got.Rect, got.SubsampleRatio, want.Rect, want.SubsampleRatio)
	}
	rows := func(got, want []byte, gotStride, wantStride, width, height int, plane string) {
		for y := range height {
			if !bytes.Equal(got[y*gotStride:][:width], want[y*wantStride:][:width]) {
				tb.Fatalf("row %d of %s differs", y, plane)
			}
		}
	}
	w, h := want.Rect.Dx(), want.Rect.Dy()
	rows(got.Y, want.Y, got.YStride, want.YStride, w, h, "Y")
	rows(got.Cb, want.Cb, got.CStride, want.CStride, (w+1)/2, (h+1)/2, "Cb")
	rows(got.Cr, want.Cr, got.CStride, want.CStride, (w+1)/2, (h+1)/2, "Cr")
}

// The strips decode to the same picture as one run over the whole picture.
func TestJPEGIsSerial(t *testing.T) {
	t.Parallel()
	for n, size := range sizes {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			t.Parallel()
			rnd := rand.New(rand.NewPCG(uint64(n), 11))
			var e Encoder
			changes(rnd, newScreen(size.X, size.Y, 13), 12, func(img *Image, o Options) {
				o.Format, o.Quality = JPEG, []int{0, 1, 40, 85, 100}[rnd.IntN(5)]
				quality := o.Quality
				if quality == 0 {
					quality = DefaultQuality
				}
				want := decodeJPEG(t, serialJPEG(t, reference(img, o), quality))
				equalPlanes(t, decodeJPEG(t, encode(t, &e, img, o)), want)
			})
		})
	}
}

// requireProgram skips a test without a program, unless REQUIRE_TOOLS is set. This package
// cannot import testx11, which imports it.
func requireProgram(tb testing.TB, name string) {
	tb.Helper()
	if _, err := exec.LookPath(name); err != nil {
		if os.Getenv("REQUIRE_TOOLS") != "" {
			tb.Fatalf("%s is missing: make test installs it", name)
		}
		tb.Skipf("%s is missing", name)
	}
}

// ffmpegPixels decodes a file with ffmpeg, which must not complain.
func ffmpegPixels(tb testing.TB, file []byte, pixelFormat string) []byte {
	tb.Helper()
	requireProgram(tb, "ffmpeg")
	cmd := exec.Command("ffmpeg", "-v", "warning", "-i", "pipe:0", "-f", "rawvideo", "-pix_fmt", pixelFormat, "pipe:1")
	cmd.Stdin = bytes.NewReader(file)
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil || complaints.Len() > 0 {
		tb.Fatalf("ffmpeg: %v: %s", err, complaints.String())
	}
	return out
}

// Another decoder finds its way through the restart markers.
func TestJPEGInFFmpeg(t *testing.T) {
	t.Parallel()
	s := newScreen(707, 901, 32)
	s.terminals(1)
	img := s.frame()
	data := encode(t, new(Encoder), img, Options{Format: JPEG})
	// Its decoder of the serial file is the reference: its DCT differs from
	// that of image/jpeg in the last bit.
	want := ffmpegPixels(t, serialJPEG(t, reference(img, Options{}), DefaultQuality), "yuvj420p")
	if got := ffmpegPixels(t, data, "yuvj420p"); !bytes.Equal(got, want) || len(got) == 0 {
		t.Errorf("ffmpeg decodes %d bytes, which differ from the %d of a serial file", len(got), len(want))
	}
}

// libjpeg reads it too.
func TestJPEGInLibjpeg(t *testing.T) {
	t.Parallel()
	requireProgram(t, "djpeg")
	s := newScreen(707, 901, 32)
	s.terminals(1)
	img := s.frame()
	decode := func(file []byte) []byte {
		cmd := exec.Command("djpeg", "-strict")
		cmd.Stdin = bytes.NewReader(file)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("djpeg: %v", err)
		}
		return out
	}
	want := decode(serialJPEG(t, reference(img, Options{}), DefaultQuality))
	if got := decode(encode(t, new(Encoder), img, Options{Format: JPEG})); !bytes.Equal(got, want) {
		t.Error("djpeg decodes something else than from a serial file")
	}
}

func FuzzJPEG(f *testing.F) {
	f.Add(uint16(1), uint16(1), uint8(1), uint64(0))
	f.Add(uint16(300), uint16(200), uint8(85), uint64(1))
	f.Add(uint16(17), uint16(399), uint8(100), uint64(2))
	f.Fuzz(func(t *testing.T, width, height uint16, quality uint8, seed uint64) {
		w, h := int(width)%400+1, int(height)%400+1
		rnd := rand.New(rand.NewPCG(seed, 0))
		var e Encoder
		changes(rnd, newScreen(w, h, 16), 4, func(img *Image, o Options) {
			o.Format, o.Quality = JPEG, int(quality)%100+1
			data, err := e.Encode(context.Background(), img, o)
			if err != nil {
				t.Fatal(err)
			}
			want := decodeJPEG(t, serialJPEG(t, reference(img, o), o.Quality))
			equalPlanes(t, decodeJPEG(t, data), want)
		})
	})
}

// jpegParts must not be led astray by a file that is cut off.
func TestJPEGPartsOfGarbage(t *testing.T) {
	t.Parallel()
	whole := serialJPEG(t, image.NewNRGBA(image.Rect(0, 0, 16, 16)), 85)
	_, _, data, err := jpegParts(whole)
	if err != nil {
		t.Fatal(err)
	}
	for n := range data {
		if _, _, _, err := jpegParts(whole[:n]); err == nil {
			t.Errorf("jpegParts of %d bytes of %d found a scan", n, len(whole))
		}
	}
}
