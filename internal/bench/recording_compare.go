package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"image"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// around is how far from a probe's moment in the video its picture may be, because
// the video begins somewhat after it was asked for.
const around = 1500 * time.Millisecond

// compare returns the greatest similarity (SSIM) of the screen to a picture of the
// video near the probe's moment.
func (p probe) compare(ctx context.Context, file string) (best float64, err error) {
	from := max(0, p.at-around)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := exec.CommandContext(ctx, "ffmpeg", "-hide_banner", "-loglevel", "error", "-ss", seconds(from), "-i", file,
		"-t", seconds(p.at+around-from), "-f", "rawvideo", "-pix_fmt", "gray", "pipe:1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	defer func() { cancel(); _ = cmd.Wait() }()
	frame := image.NewGray(p.screen.Rect)
	for r := bufio.NewReaderSize(out, 1<<20); ; {
		if _, err := io.ReadFull(r, frame.Pix); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return 0, fmt.Errorf("%s: %w", file, err)
		}
		best = max(best, ssim(frame, p.screen))
	}
	if best == 0 {
		return 0, fmt.Errorf("%s has no picture near %v", file, p.at)
	}
	return best, nil
}

func seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', 3, 64) }

// window is the side of the squares that are compared.
const window = 8

// ssim is the structural similarity of two pictures (Wang and others, 2004), the
// mean over squares side by side.
func ssim(a, b *image.Gray) float64 {
	const c1, c2 = (0.01 * 255) * (0.01 * 255), (0.03 * 255) * (0.03 * 255)
	var sum float64
	squares := 0
	for y := 0; y+window <= a.Rect.Dy(); y += window {
		for x := 0; x+window <= a.Rect.Dx(); x += window {
			var sa, sb, saa, sbb, sab int
			for j := range window {
				ra, rb := a.Pix[(y+j)*a.Stride+x:][:window], b.Pix[(y+j)*b.Stride+x:][:window]
				for i := range window {
					p, q := int(ra[i]), int(rb[i])
					sa, sb, saa, sbb, sab = sa+p, sb+q, saa+p*p, sbb+q*q, sab+p*q
				}
			}
			const n = window * window
			ma, mb := float64(sa)/n, float64(sb)/n
			va, vb, cov := float64(saa)/n-ma*ma, float64(sbb)/n-mb*mb, float64(sab)/n-ma*mb
			sum += (2*ma*mb + c1) * (2*cov + c2) / ((ma*ma + mb*mb + c1) * (va + vb + c2))
			squares++
		}
	}
	return sum / float64(squares)
}

// videoSeconds returns the duration of a video.
func videoSeconds(ctx context.Context, file string) (float64, error) {
	out, err := exec.CommandContext(ctx, "ffprobe", "-v", "error", "-show_entries", "format=duration", "-of", "csv=p=0", file).Output()
	if err != nil {
		return 0, fmt.Errorf("ffprobe %s: %w", file, err)
	}
	return strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
}
