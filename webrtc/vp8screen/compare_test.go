//go:build !race

package vp8screen

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// The comparison is a test with flags, because it uses the helpers of the tests. make
// bench-encoder sets -compare.
var (
	compare       = flag.Bool("compare", false, "measure all of the corpus against libvpx, and print a table")
	compareFrames = flag.Int("compare.frames", 90, "frames of each clip")
	compareClip   = flag.String("compare.clip", "", "only the clip of this name")
)

// measurement is the result of one encoder for one clip.
type measurement struct {
	encoder string
	cpu     time.Duration // processor time of all frames
	convert time.Duration // processor time of the conversion before, for this encoder
	sizes   []int         // bytes, frame by frame
	quality quality
}

func (m *measurement) cpuPerFrame() float64 {
	return m.cpu.Seconds() * 1e3 / float64(len(m.sizes))
}

// kilobits returns the rate at 30 frames a second without the first frame, which every encoder
// makes a key frame.
func (m *measurement) kilobits() float64 {
	sum := 0
	for _, n := range m.sizes[1:] {
		sum += n
	}
	return float64(sum) * 8 * 30 / 1e3 / float64(len(m.sizes)-1)
}

// TestCompare encodes the corpus with this encoder and with libvpx through ffmpeg. Without
// -compare it encodes only a few frames, to check that the comparison works.
func TestCompare(t *testing.T) {
	requireFFmpeg(t)
	width, height, frames, clips, rates := 320, 240, 6, corpus[:1], []int{500e3}
	if *compare {
		width, height, frames, clips = 1920, 1080, *compareFrames, corpus
		rates = []int{1e6, 4e6, 12e6, 40e6}
	}
	var out io.Writer = os.Stdout
	if !*compare {
		out = t.Output()
	}
	fmt.Fprintf(out, "%dx%d, %d frames at 30 a second, %d cores; the time is that of all threads.\n", width, height, frames, runtime.NumCPU())
	fmt.Fprintf(out, "%-12s %-32s %12s %8s %9s %7s %6s %6s %7s\n", "clip", "encoder", "CPU ms/frame", "kbit/s", "first KB", "PSNR Y", "U", "V", "SSIM Y")
	for _, k := range clips {
		if *compareClip == "" || k.name == *compareClip {
			// The raw video of a clip is removed when its test ends.
			t.Run(k.name, func(t *testing.T) { compareOne(t, out, k, width, height, frames, rates) })
		}
	}
}

// compareOne writes the rows of one clip.
func compareOne(t *testing.T, out io.Writer, k clip, width, height, frames int, rates []int) {
	t.Helper()
	raw := filepath.Join(t.TempDir(), "raw.yuv")
	row := func(m *measurement) {
		fmt.Fprintf(out, "%-12s %-32s %12.1f %8.0f %9.0f %7.1f %6.1f %6.1f %7.4f\n", k.name, m.encoder, m.cpuPerFrame(), m.kilobits(), float64(m.sizes[0])/1e3,
			m.quality.psnr(0), m.quality.psnr(1), m.quality.psnr(2), m.quality.ssim(0))
	}
	ours := measureOurs(t, k, raw, Config{Width: width, Height: height, Bitrate: 4e6}, frames)
	ours.encoder = fmt.Sprintf("ours, after %.2f ms of conversion", ours.convert.Seconds()*1e3/float64(frames))
	row(ours)
	reading := ffmpegTime(t, raw, width, height, "-c:v", "rawvideo", "-f", "null", "-")
	neko := measureLibvpx(t, raw, width, height, reading, nekoSettings...)
	neko.encoder = "libvpx, neko's settings"
	row(neko)
	var points []*measurement
	for _, rate := range rates {
		m := measureLibvpx(t, raw, width, height, reading, realtimeSettings(rate)...)
		m.encoder = fmt.Sprintf("libvpx, cpu-used 8, %g Mbit/s", float64(rate)/1e6)
		points = append(points, m)
		row(m)
	}
	fmt.Fprintf(out, "%-12s %-32s %s\n", k.name, "libvpx, cpu-used 8, at our PSNR", atQuality(points, ours.quality.psnr(0)))
}

// atQuality interpolates the time and the rate that an encoder needs for a PSNR, from the two
// measurements around it.
func atQuality(points []*measurement, psnr float64) string {
	slices.SortFunc(points, func(a, b *measurement) int { return cmp.Compare(a.quality.psnr(0), b.quality.psnr(0)) })
	for i := 1; i < len(points); i++ {
		a, b := points[i-1], points[i]
		pa, pb := a.quality.psnr(0), b.quality.psnr(0)
		if pa <= psnr && psnr <= pb && pb > pa {
			f := (psnr - pa) / (pb - pa)
			// The rate grows by a factor with every dB.
			rate := math.Exp(math.Log(a.kilobits())*(1-f) + math.Log(b.kilobits())*f)
			return fmt.Sprintf("%12.1f %8.0f %9s %7.1f", a.cpuPerFrame()*(1-f)+b.cpuPerFrame()*f, rate, "", psnr)
		}
	}
	if len(points) == 0 || psnr < points[0].quality.psnr(0) {
		return "less than its lowest rate"
	}
	return "more than its highest rate"
}

// measureOurs encodes a clip with this encoder, and writes its frames to raw for other encoders.
func measureOurs(t *testing.T, k clip, raw string, cfg Config, frames int) *measurement {
	t.Helper()
	file, err := os.Create(raw)
	if err != nil {
		t.Fatal(err)
	}
	m := new(measurement)
	s := newSession(t, cfg)
	for c, damage := range k.play(t, cfg.Width, cfg.Height, frames) {
		start := processTime(t)
		s.convert(c, damage)
		converted := processTime(t)
		out := s.encode(t, false)
		m.cpu += processTime(t) - converted
		m.convert += converted - start
		m.sizes = append(m.sizes, len(out.Data))
		m.quality.add(s.encoder.Reconstructed(), s.cur)
		if err := writeI420(file, s.cur); err != nil {
			t.Fatal(err)
		}
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	return m
}

// nekoSettings are the settings of neko's default pipeline, as options of ffmpeg. The four
// threads spin while they wait for each other, so the time of this row is comparable only on an
// idle machine. With cpu-used libvpx also adapts to the clock, so a busy machine changes its
// rate.
var nekoSettings = []string{
	"-deadline", "realtime", "-cpu-used", "4", "-threads", "4", "-b:v", "1996800", "-minrate", "1996800", "-maxrate", "1996800",
	"-bufsize", "24536678", "-undershoot-pct", "95", "-g", "25", "-qmin", "4", "-qmax", "20", "-lag-in-frames", "0",
}

// realtimeSettings are usual for screen sharing: the fastest preset, a constant rate, and only
// one key frame.
func realtimeSettings(rate int) []string {
	r := strconv.Itoa(rate)
	return []string{
		"-deadline", "realtime", "-cpu-used", "8", "-threads", "1", "-b:v", r, "-minrate", r, "-maxrate", r, "-bufsize", r,
		"-g", "9999", "-qmin", "2", "-qmax", "56", "-lag-in-frames", "0", "-error-resilient", "0", "-auto-alt-ref", "0",
	}
}

// measureLibvpx encodes raw with libvpx. reading is the time that ffmpeg takes without encoding.
func measureLibvpx(t *testing.T, raw string, width, height int, reading time.Duration, settings ...string) *measurement {
	t.Helper()
	name := filepath.Join(t.TempDir(), "libvpx.ivf")
	m := new(measurement)
	m.cpu = ffmpegTime(t, raw, width, height, append(append([]string{"-c:v", "libvpx"}, settings...), "-y", name)...) - reading
	video, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	m.sizes = ivfSizes(video)
	file, err := os.Open(raw)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	want := NewFrame(width, height)
	for _, got := range decode(t, video, width, height) {
		if err := readI420(file, want); err != nil {
			t.Fatal(err)
		}
		m.quality.add(got, want)
	}
	return m
}

// ffmpegTime runs ffmpeg on a raw video and returns its processor time.
func ffmpegTime(t *testing.T, raw string, width, height int, args ...string) time.Duration {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "ffmpeg", append([]string{
		"-v", "error", "-f", "rawvideo", "-pix_fmt", "yuv420p",
		"-s", fmt.Sprintf("%dx%d", width, height), "-r", "30", "-i", raw, "-fps_mode", "passthrough",
	}, args...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, out)
	}
	return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
}

// processTime returns the processor time of this process.
func processTime(t *testing.T) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		t.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
