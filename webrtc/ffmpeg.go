package webrtc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/internal/supervise"
)

const (
	// feedLimit bounds the time in which ffmpeg must accept a picture.
	feedLimit = 5 * time.Second

	// repeats is how often a picture is fed again after the last change. Some encoders
	// return a picture only when the next one comes.
	repeats = 2

	// ffmpegGrace bounds the time in which ffmpeg must exit.
	ffmpegGrace = 500 * time.Millisecond
)

// ffmpegEncoder encodes with a child process. ffmpeg cannot make a key picture on demand, and
// cannot change its rate. In both cases a spare child takes over.
type ffmpegEncoder struct {
	cfg     encoderConfig
	program ffmpegProgram
	group   *supervise.Group
	pix     []byte // the screen: blue, green, red and an unused byte for each pixel
	rate    int

	now   *ffmpegChild
	spare *ffmpegChild
	fed   time.Time // the latest picture
	again int       // how often the latest picture was repeated

	mu      sync.Mutex // guards the fields below, and Send
	current *ffmpegChild
	failed  error
}

type ffmpegChild struct {
	proc *supervise.Child
	in   *os.File
	rate int
	read chan struct{} // closed when all its output is read
}

// newEncoder starts an encoder. Its first process waits for the first picture.
func (p ffmpegProgram) newEncoder(cfg encoderConfig) (encoder, error) {
	group, err := supervise.NewGroup(supervise.GroupConfig{Owner: "desktop", Grace: ffmpegGrace})
	if err != nil {
		return nil, err
	}
	e := &ffmpegEncoder{
		cfg: cfg, program: p, group: group, rate: cfg.Bitrate,
		pix: make([]byte, 4*cfg.Size.Width*cfg.Size.Height),
	}
	if e.spare, err = e.start(); err != nil {
		return nil, errors.Join(err, group.Close())
	}
	return e, nil
}

// start starts a child, which waits for its first picture.
func (e *ffmpegEncoder) start() (*ffmpegChild, error) {
	proc, in, out, err := e.group.StartPiped(supervise.Spec{Name: "ffmpeg", Path: e.program.path, Args: e.program.args(e.cfg, e.rate)})
	if err != nil {
		return nil, err
	}
	c := &ffmpegChild{proc: proc, in: in, rate: e.rate, read: make(chan struct{})}
	go func() {
		defer close(c.read)
		defer out.Close()
		err := e.program.split(out, func(data []byte, key bool) { e.give(c, data, key) })
		e.over(c, err)
	}()
	return c, nil
}

func (e *ffmpegEncoder) give(c *ffmpegChild, data []byte, key bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.current == c {
		e.cfg.Send(data, key)
	}
}

// over records that the current child has ended.
func (e *ffmpegEncoder) over(c *ffmpegChild, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.current == c && e.failed == nil {
		e.failed = fmt.Errorf("ffmpeg ended: %w: %s", err, c.proc.Tail())
	}
}

// Encode feeds the screen to ffmpeg.
func (e *ffmpegEncoder) Encode(f *desktop.FeedFrame, key bool) error {
	e.mu.Lock()
	err := e.failed
	e.mu.Unlock()
	if err != nil {
		return err
	}
	if f != nil {
		e.copy(f)
		e.again = 0
	} else {
		e.again++
	}
	if key || e.now == nil {
		if err := e.takeOver(); err != nil {
			return err
		}
	}
	e.fed = time.Now()
	if err := e.now.in.SetWriteDeadline(e.fed.Add(feedLimit)); err != nil {
		return err
	}
	if _, err := e.now.in.Write(e.pix); err != nil {
		return fmt.Errorf("feed ffmpeg: %w: %s", err, e.now.proc.Tail())
	}
	return nil
}

func (e *ffmpegEncoder) copy(f *desktop.FeedFrame) {
	row := 4 * e.cfg.Size.Width
	for _, r := range f.Changed {
		for y := r.Y; y < r.Y+r.Height; y++ {
			from, to := f.Pix[y*f.Stride+4*r.X:], e.pix[y*row+4*r.X:]
			copy(to[:4*r.Width], from)
		}
	}
}

// takeOver makes the spare child the current one, and starts another spare.
func (e *ffmpegEncoder) takeOver() error {
	old := e.now
	next := e.spare
	e.spare = nil
	var err error
	if next == nil || next.rate != e.rate {
		if next != nil {
			e.end(next)
		}
		if next, err = e.start(); err != nil {
			return err
		}
	}
	e.mu.Lock()
	e.current = next
	e.mu.Unlock()
	e.now = next
	if old != nil {
		e.end(old)
	}
	// Without a spare, the next key picture takes longer.
	e.spare, _ = e.start()
	return nil
}

func (e *ffmpegEncoder) end(c *ffmpegChild) {
	_ = c.in.Close() // ffmpeg exits at the end of its input
	go func() { _ = c.proc.Stop(context.Background()) }()
}

// SetBitrate changes the rate if it differs enough to be worth a key picture.
func (e *ffmpegEncoder) SetBitrate(bps int) {
	if e.now == nil || bps > e.now.rate*3/2 || bps < e.now.rate*2/3 {
		e.rate = bps
		if e.now != nil && e.now.rate != bps {
			e.mu.Lock()
			e.current = nil // its last pictures have the old rate
			e.mu.Unlock()
			e.end(e.now)
			e.now = nil
		}
	}
}

// Due returns when to repeat the latest picture.
func (e *ffmpegEncoder) Due() time.Time {
	if e.again >= repeats || e.fed.IsZero() {
		return time.Time{}
	}
	return e.fed.Add(time.Second / time.Duration(e.cfg.FrameRate))
}

// ProcessID returns the id of the current child.
func (e *ffmpegEncoder) ProcessID() string {
	if e.now == nil {
		return ""
	}
	return e.now.proc.ID()
}

// Close ends the children and waits for them.
func (e *ffmpegEncoder) Close() error {
	e.mu.Lock()
	e.current = nil
	e.mu.Unlock()
	for _, c := range []*ffmpegChild{e.now, e.spare} {
		if c != nil {
			_ = c.in.Close()
		}
	}
	err := e.group.Close()
	for _, c := range []*ffmpegChild{e.now, e.spare} {
		if c != nil {
			<-c.read
		}
	}
	return err
}

// ffmpegProgram is an ffmpeg and one of its encoders.
type ffmpegProgram struct {
	path string
	ffmpegEncoderKind
}

// foundPrograms has the ffmpegProgram of each Codec for which findFFmpeg found one.
var foundPrograms sync.Map

// ffmpegEncoderKind is an encoder of ffmpeg. Its options avoid delay and periodic key pictures.
type ffmpegEncoderKind struct {
	codec   Codec
	name    string
	device  string   // must exist; empty: none
	input   []string // options before the input
	filter  string   // after the padding to even sizes
	options []string
}

const yuv420 = ",format=yuv420p"

// ffmpegEncoders are tried in this order.
var ffmpegEncoders = []ffmpegEncoderKind{
	{H264, "h264_nvenc", "/dev/nvidia0", nil, yuv420, []string{"-preset", "p1", "-tune", "ull", "-profile:v", "baseline", "-zerolatency", "1"}},
	{H264, "h264_vaapi", vaapiDevice, []string{"-vaapi_device", vaapiDevice}, ",format=nv12,hwupload", []string{"-profile:v", "constrained_baseline"}},
	{H264, "libx264", "", nil, yuv420, []string{"-preset", "ultrafast", "-tune", "zerolatency", "-profile:v", "baseline"}},
	{H264, "libopenh264", "", nil, yuv420, nil},
	{VP9, "libvpx-vp9", "", nil, yuv420, []string{
		"-deadline", "realtime", "-cpu-used", "8", "-lag-in-frames", "0", "-row-mt", "1", "-tile-columns", "2", "-threads", "4", "-tune-content", "screen",
	}},
}

const vaapiDevice = "/dev/dri/renderD128"

// findFFmpeg finds an encoder of a codec that works. It remembers what it has found.
func findFFmpeg(ctx context.Context, codec Codec) (ffmpegProgram, error) {
	if p, ok := foundPrograms.Load(codec); ok {
		return p.(ffmpegProgram), nil
	}
	path, err := supervise.LookPath("ffmpeg", os.Environ())
	if err != nil {
		return ffmpegProgram{}, fmt.Errorf("%w: %s needs ffmpeg; install it, or use vp8: %w", ErrCodec, codec, err)
	}
	for _, d := range ffmpegEncoders {
		if d.codec != codec {
			continue
		}
		if _, err := os.Stat(d.device); d.device != "" && err != nil {
			continue
		}
		p := ffmpegProgram{path, d}
		if p.works(ctx) {
			foundPrograms.Store(codec, p)
			return p, nil
		}
	}
	return ffmpegProgram{}, fmt.Errorf("%w: %s has no working encoder of %s; use vp8", ErrCodec, filepath.Base(path), codec)
}

func (p ffmpegProgram) works(ctx context.Context) bool {
	g, err := supervise.NewGroup(supervise.GroupConfig{Owner: "desktop", Grace: ffmpegGrace})
	if err != nil {
		return false
	}
	defer g.Close()
	args := append([]string{"-hide_banner", "-loglevel", "error"}, p.input...)
	args = append(args, "-f", "lavfi", "-i", "color=size=256x256:rate=30", "-frames:v", "1")
	args = append(append(args, p.encode(1_000_000)...), "-f", "null", "-")
	c, err := g.Start(supervise.Spec{Name: "ffmpeg", Path: p.path, Args: args})
	if err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	select {
	case <-c.Done():
		return c.Exit().Code == 0
	case <-ctx.Done():
		return false
	}
}

// args returns the command line for one stream. -fflags nobuffer would discard the first
// picture, which ffmpeg probes.
func (p ffmpegProgram) args(cfg encoderConfig, rate int) []string {
	args := append([]string{"-hide_banner", "-loglevel", "error"}, p.input...)
	args = append(args,
		"-f", "rawvideo", "-pixel_format", "bgr0", "-probesize", "32", "-analyzeduration", "0",
		"-video_size", fmt.Sprintf("%dx%d", cfg.Size.Width, cfg.Size.Height), "-framerate", strconv.Itoa(cfg.FrameRate), "-i", "pipe:0")
	args = append(args, p.encode(rate)...)
	return append(args, "-flush_packets", "1", "-f", p.container(), "pipe:1")
}

func (p ffmpegProgram) encode(rate int) []string {
	r := strconv.Itoa(rate)
	return append([]string{
		"-an", "-c:v", p.name, "-g", "1000000", "-b:v", r, "-maxrate", r, "-bufsize", strconv.Itoa(rate / 2),
		"-vf", "pad=ceil(iw/2)*2:ceil(ih/2)*2" + p.filter,
	}, p.options...)
}
