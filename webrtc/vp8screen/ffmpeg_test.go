package vp8screen

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/deskhand/deskhand/internal/testx11"
)

func requireFFmpeg(tb testing.TB) {
	tb.Helper()
	testx11.Require(tb, "ffmpeg")
}

// ivf collects frames of VP8 in the file format that decoders read.
type ivf struct {
	bytes.Buffer
	frames int
}

func newIVF(width, height int) *ivf {
	v := new(ivf)
	h := make([]byte, 32)
	copy(h, "DKIF\x00\x00\x20\x00VP80")
	binary.LittleEndian.PutUint16(h[12:], uint16(width))
	binary.LittleEndian.PutUint16(h[14:], uint16(height))
	binary.LittleEndian.PutUint32(h[16:], 30) // the time base, 1/30 s
	binary.LittleEndian.PutUint32(h[20:], 1)
	v.Write(h)
	return v
}

func (v *ivf) add(frame []byte) {
	h := make([]byte, 12)
	binary.LittleEndian.PutUint32(h, uint32(len(frame)))
	binary.LittleEndian.PutUint64(h[4:], uint64(v.frames))
	v.Write(h)
	v.Write(frame)
	v.frames++
}

// ivfSizes returns the sizes of the frames in a file, in bytes.
func ivfSizes(file []byte) (sizes []int) {
	for at := 32; at+12 <= len(file); {
		n := int(binary.LittleEndian.Uint32(file[at:]))
		sizes = append(sizes, n)
		at += 12 + n
	}
	return sizes
}

// decode yields the frames of a file, decoded by ffmpeg. The test fails if ffmpeg prints a
// message or returns another number of frames than the file has.
func decode(tb testing.TB, file []byte, width, height int) iter.Seq2[int, *Frame] {
	return func(yield func(int, *Frame) bool) {
		name := filepath.Join(tb.TempDir(), "video.ivf")
		if err := os.WriteFile(name, file, 0o600); err != nil {
			tb.Fatal(err)
		}
		cmd := exec.CommandContext(tb.Context(), "ffmpeg", "-v", "warning", "-threads", "1", "-i", name, "-fps_mode", "passthrough", "-f", "rawvideo", "-pix_fmt", "yuv420p", "-")
		var complaints strings.Builder
		cmd.Stderr = &complaints
		out, err := cmd.StdoutPipe()
		if err != nil {
			tb.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			tb.Fatal(err)
		}
		n := 0
		for f := NewFrame(width, height); ; n++ {
			if err := readI420(out, f); err != nil {
				break
			}
			if !yield(n, f) {
				break
			}
		}
		_ = out.Close()
		err = cmd.Wait()
		if want := len(ivfSizes(file)); n == want && (err != nil || complaints.Len() > 0) || n != want && !tb.Failed() {
			tb.Errorf("ffmpeg decoded %d of %d frames: %v\n%s", n, want, err, &complaints)
		}
	}
}

// readI420 reads the visible part of the next frame.
func readI420(r io.Reader, f *Frame) error {
	for _, p := range f.planes() {
		for y := range p.height {
			if _, err := io.ReadFull(r, p.row(y)); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeI420 writes the visible part of a frame.
func writeI420(w io.Writer, f *Frame) error {
	var err error
	for _, p := range f.planes() {
		for y := range p.height {
			_, e := w.Write(p.row(y))
			err = errors.Join(err, e)
		}
	}
	return err
}

// firstDifference describes the first difference of two frames. It returns "" if they are equal.
func firstDifference(got, want *Frame) string {
	a, b := got.planes(), want.planes()
	for i := range a {
		for y := range a[i].height {
			p, q := a[i].row(y), b[i].row(y)
			if bytes.Equal(p, q) {
				continue
			}
			for x := range p {
				if p[x] != q[x] {
					size := [3]int{mbSize, mbSize / 2, mbSize / 2}[i]
					return fmt.Sprintf("%c at %d,%d (macroblock %d,%d) is %d, want %d", "YUV"[i], x, y, x/size, y/size, p[x], q[x])
				}
			}
		}
	}
	return ""
}
