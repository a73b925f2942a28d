package main

import (
	"context"
	"errors"
	"fmt"
	"image"
	"math"

	"github.com/deskhand/deskhand/internal/sdktest"
	"github.com/deskhand/deskhand/internal/supervise"
	"github.com/deskhand/deskhand/internal/x11"
)

const (
	videoWidth  = 1280
	videoHeight = 720
	videoLength = 2 * pictureRate // pictures
)

var videoAt = image.Rect(320, 160, 320+videoWidth, 160+videoHeight)

// playing is a video in a window. The X server keeps its pictures from the
// beginning, so that showing one costs hardly anything.
type playing struct {
	canvas *x11.Canvas
	luma   [][]byte // of each picture
}

func (p *playing) open(ctx context.Context, c *x11.Conn) (err error) {
	p.luma = nil
	p.canvas, err = c.NewCanvas(videoAt.Min.X, videoAt.Min.Y, videoWidth, videoHeight)
	if err != nil {
		return err
	}
	pictures := &splitter{size: 4 * videoWidth * videoHeight, each: func(pix []byte) error {
		p.luma = append(p.luma, luma(pix))
		_, err := p.canvas.Keep(pix)
		return err
	}}
	err = sdktest.Run(ctx, supervise.Spec{
		Path: "ffmpeg",
		Args: []string{
			"-v", "error", "-f", "lavfi", "-i", fmt.Sprintf("testsrc2=size=%dx%d:rate=%d", videoWidth, videoHeight, pictureRate),
			"-frames:v", fmt.Sprint(videoLength), "-f", "rawvideo", "-pix_fmt", "bgra", "-",
		},
		Stdout: pictures,
	})
	if err == nil && len(p.luma) != videoLength {
		err = fmt.Errorf("ffmpeg made %d pictures, want %d", len(p.luma), videoLength)
	}
	if err != nil {
		return errors.Join(err, p.canvas.Close())
	}
	return nil
}

func (p *playing) draw(number uint16) { p.canvas.Show(pictureOf(number)) }

func (p *playing) close() error { return p.canvas.Close() }

// pictureOf returns the index of the picture with a number. The video runs forward
// and backward, so that nothing jumps.
func pictureOf(number uint16) int {
	const last = videoLength - 1
	at := int(number) % (2 * last)
	return min(at, 2*last-at)
}

// splitter is a writer that cuts its input into parts of one size.
type splitter struct {
	size int
	each func([]byte) error
	part []byte
}

func (s *splitter) Write(b []byte) (int, error) {
	n := len(b)
	for len(b) > 0 {
		take := min(len(b), s.size-len(s.part))
		s.part, b = append(s.part, b[:take]...), b[take:]
		if len(s.part) == s.size {
			if err := s.each(s.part); err != nil {
				return 0, err
			}
			s.part = s.part[:0]
		}
	}
	return n, nil
}

// luma converts pixels, B, G, R, X, to the luma of video: from 16 to 235 (ITU-R
// BT.601, section 2.5.1).
func luma(pix []byte) []byte {
	y := make([]byte, len(pix)/4)
	for i := range y {
		b, g, r := float64(pix[4*i]), float64(pix[4*i+1]), float64(pix[4*i+2])
		y[i] = byte(math.Round(16 + (65.481*r+128.553*g+24.966*b)/255))
	}
	return y
}

// squaredError is the mean of the squared differences.
func squaredError(a, b []byte) float64 {
	var sum int
	for i := range a {
		d := int(a[i]) - int(b[i])
		sum += d * d
	}
	return float64(sum) / float64(len(a))
}

// psnr is the peak signal-to-noise ratio, in decibels.
func psnr(squaredError float64) float64 {
	const most = 100 // for equal pictures
	return min(most, 10*math.Log10(255*255/squaredError))
}
