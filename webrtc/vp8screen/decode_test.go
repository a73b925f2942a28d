//go:build !race

// Encoding a whole corpus under the race detector takes minutes, and the
// encoder's own tests run there.

package vp8screen

import (
	"fmt"
	"image"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"
)

// soak returns the factor by which long tests run longer: DESKHAND_SOAK, which make soak sets to
// 10.
func soak() int {
	n, err := strconv.Atoi(os.Getenv("DESKHAND_SOAK"))
	if err != nil || n < 1 {
		return 1
	}
	return n
}

// session encodes pictures as the streamer does.
type session struct {
	encoder   *Encoder
	finder    ScrollFinder
	cur, prev *Frame
	dirty     *Dirty
	now       time.Time
	data      []byte
}

func newSession(tb testing.TB, cfg Config) *session {
	tb.Helper()
	e, err := New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return &session{
		encoder: e, cur: NewFrame(cfg.Width, cfg.Height), prev: NewFrame(cfg.Width, cfg.Height),
		dirty: NewDirty(cfg.Width, cfg.Height), now: time.Unix(1e9, 0),
	}
}

// convert copies the changed rectangles to the frame.
func (s *session) convert(c *canvas, damage []image.Rectangle) {
	s.dirty.Clear()
	for _, r := range damage {
		s.cur.SetBGRX(c.pix, c.stride, r, s.dirty)
	}
}

// encode encodes the frame, a thirtieth of a second after the previous one.
func (s *session) encode(tb testing.TB, key bool) Encoded {
	s.now = s.now.Add(time.Second / 30)
	motion := s.finder.Find(s.prev, s.cur, s.dirty)
	return s.encodeAs(tb, EncodeOptions{Dirty: s.dirty, Motion: motion, Key: key, Now: s.now})
}

func (s *session) encodeAs(tb testing.TB, o EncodeOptions) Encoded {
	out, err := s.encoder.Encode(s.data[:0], s.cur, o)
	if err != nil {
		tb.Fatalf("Encode: %v", err)
	}
	s.data = out.Data
	s.prev.CopyDirty(s.cur, s.dirty)
	return out
}

// recording has encoded frames and the pictures that a decoder must show.
type recording struct {
	file   *ivf
	shown  []*Frame
	events []string
}

func (r *recording) add(s *session, out Encoded, event string) {
	r.file.add(out.Data)
	copied := NewFrame(s.cur.Width, s.cur.Height)
	copied.CopyDirty(s.encoder.Reconstructed(), NewDirty(copied.Width, copied.Height).all())
	r.shown = append(r.shown, copied)
	r.events = append(r.events, event)
}

// wantDecoded checks that ffmpeg's pictures equal the encoder's, bit by bit.
func (r *recording) wantDecoded(t *testing.T) {
	t.Helper()
	for n, got := range decode(t, r.file.Bytes(), r.shown[0].Width, r.shown[0].Height) {
		if d := firstDifference(got, r.shown[n]); d != "" {
			t.Errorf("frame %d (%s), as ffmpeg decodes it: %s by the encoder", n, r.events[n], d)
			return
		}
	}
}

// TestDecodesAlike encodes every clip of the corpus, and compares the pictures of the encoder
// and of ffmpeg.
func TestDecodesAlike(t *testing.T) {
	t.Parallel()
	requireFFmpeg(t)
	sizes := []image.Point{{640, 480}, {333, 217}, {176, 151}}
	if soak() > 1 {
		sizes = append(sizes, image.Pt(1920, 1080), image.Pt(1281, 719), image.Pt(2, 2), image.Pt(17, 400))
	}
	for _, k := range corpus {
		for _, size := range sizes {
			// At the lower rate, an unchanged picture becomes sharp within a few seconds.
			for _, rate := range []int{max(200e3, size.X*size.Y*2/3), 4e6} {
				t.Run(fmt.Sprintf("%s/%dx%d/%d", k.name, size.X, size.Y, rate), func(t *testing.T) {
					t.Parallel()
					testClip(t, k, Config{Width: size.X, Height: size.Y, Bitrate: rate}, 14*min(soak(), 8))
				})
			}
		}
	}
}

// testClip encodes a clip with a key frame in between, and then refines the last picture.
func testClip(t *testing.T, k clip, cfg Config, frames int) {
	t.Helper()
	s := newSession(t, cfg)
	r := recording{file: newIVF(cfg.Width, cfg.Height)}
	var q quality
	n := 0
	for c, damage := range k.play(t, cfg.Width, cfg.Height, frames) {
		s.convert(c, damage)
		out := s.encode(t, n == frames*2/3)
		if want := n == 0 || n == frames*2/3; out.Key != want {
			t.Errorf("frame %d: key frame: %v, want %v", n, out.Key, want)
		}
		r.add(s, out, "playing")
		q.add(s.encoder.Reconstructed(), s.cur)
		n++
	}
	refineAll(t, s, &r)
	var after quality
	after.add(s.encoder.Reconstructed(), s.cur)
	t.Logf("%d bytes, %.1f dB while playing, %.1f dB after", r.file.Len(), q.psnr(0), after.psnr(0))
	// In very small pictures, a difference of two already lowers the quality much.
	if after.psnr(0) < 40 && cfg.Width*cfg.Height >= mbSize*mbSize {
		t.Errorf("a picture at rest is only near its original by %.1f dB", after.psnr(0))
	}
	r.wantDecoded(t)
}

// refineAll encodes an unchanged picture until the encoder has refined all macroblocks.
func refineAll(t *testing.T, s *session, r *recording) {
	t.Helper()
	s.dirty.Clear()
	for n := range 200 {
		due, blocks := s.encoder.Pending()
		if blocks == 0 {
			return
		}
		if due.After(s.now) {
			s.now = due
		} else {
			s.now = s.now.Add(time.Second / 30)
		}
		r.add(s, s.encodeAs(t, EncodeOptions{Dirty: s.dirty, Now: s.now}), fmt.Sprint("rest ", n))
	}
	t.Error("the encoder does not finish refining")
}

// TestDecodesRandomAlike passes random valid arguments to the encoder: maps that mark too much
// or too little, motions that did not happen, and rates and clocks that jump.
func TestDecodesRandomAlike(t *testing.T) {
	t.Parallel()
	requireFFmpeg(t)
	for seed := range uint64(24 * soak()) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			testRandom(t, rand.New(rand.NewPCG(seed, 40)))
		})
	}
}

func testRandom(t *testing.T, rnd *rand.Rand) {
	t.Helper()
	cfg := Config{Width: 2 + rnd.IntN(300), Height: 2 + rnd.IntN(300), Bitrate: 50e3 << rnd.IntN(9), Threads: rnd.IntN(4)}
	s := newSession(t, cfg)
	r := recording{file: newIVF(cfg.Width, cfg.Height)}
	k := corpus[rnd.IntN(len(corpus))]
	t.Logf("%s, %+v", k.name, cfg)
	for c, damage := range k.play(t, cfg.Width, cfg.Height, 30) {
		s.convert(c, damage)
		for i := range s.dirty.Blocks {
			if rnd.IntN(30) == 0 {
				s.dirty.Blocks[i] ^= 1
			}
		}
		s.now = s.now.Add(time.Duration(rnd.IntN(300)-20) * time.Millisecond)
		o := EncodeOptions{Dirty: s.dirty, Key: rnd.IntN(12) == 0, Now: s.now}
		switch rnd.IntN(4) {
		case 0:
			o.Motion = s.finder.Find(s.prev, s.cur, s.dirty)
		case 1:
			o.Motion = randomMotions(rnd, cfg)
		case 2:
			o.Dirty = nil
		}
		if rnd.IntN(8) == 0 {
			s.encoder.SetBitrate(10e3 << rnd.IntN(12))
		}
		r.add(s, s.encodeAs(t, o), fmt.Sprintf("%d motions", len(o.Motion)))
	}
	r.wantDecoded(t)
}

func randomMotions(rnd *rand.Rand, cfg Config) []Motion {
	var motions []Motion
	for range rnd.IntN(5) {
		x, y := rnd.IntN(cfg.Width+40)-20, rnd.IntN(cfg.Height+40)-20
		motions = append(motions, Motion{
			Rect: image.Rect(x, y, x+rnd.IntN(cfg.Width), y+rnd.IntN(cfg.Height)),
			DX:   rnd.IntN(2*cfg.Width) - cfg.Width, DY: rnd.IntN(2*cfg.Height) - cfg.Height,
		})
	}
	return motions
}

// TestDecodesSizesAlike encodes sizes that are not multiples of a macroblock.
func TestDecodesSizesAlike(t *testing.T) {
	t.Parallel()
	requireFFmpeg(t)
	sizes := []image.Point{{320, 240}, {97, 333}, {640, 360}}
	for _, size := range sizes {
		s := newSession(t, Config{Width: size.X, Height: size.Y})
		r := recording{file: newIVF(size.X, size.Y)}
		i := 0
		for c, damage := range corpus[0].play(t, size.X, size.Y, 5) {
			s.convert(c, damage)
			out := s.encode(t, false)
			if out.Key != (i == 0) {
				t.Errorf("%v, frame %d: key frame: %v", size, i, out.Key)
			}
			r.add(s, out, "sized")
			i++
		}
		r.wantDecoded(t)
	}
}
