package recording

import (
	"encoding/binary"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/internal/testx11"
)

// toneFile writes a second of a 1 kHz tone to a file.
func toneFile(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tone.wav")
	output(t, "ffmpeg", "-v", "error", "-f", "lavfi", "-i", "sine=frequency=1000:duration=1:sample_rate=48000", "-ac", "2", path)
	return path
}

// soundOf decodes a video's sound as one channel.
func soundOf(t testing.TB, path string) []int16 {
	t.Helper()
	raw := output(t, "ffmpeg", "-v", "error", "-i", path, "-map", "0:a", "-af", "aresample=async=1:first_pts=0", "-ac", "1", "-ar", "48000", "-f", "s16le", "-")
	list := make([]int16, len(raw)/2)
	for i := range list {
		list[i] = int16(binary.LittleEndian.Uint16([]byte(raw[2*i:]))) //nolint:gosec // the bits are what is wanted
	}
	return list
}

// loud returns where sound begins and ends.
func loud(list []int16) (from, to time.Duration) {
	first, last := -1, 0
	for i, v := range list {
		if v > 1000 || v < -1000 {
			if first < 0 {
				first = i
			}
			last = i
		}
	}
	at := func(i int) time.Duration { return time.Duration(i) * time.Second / soundRate }
	return at(first), at(last)
}

// TestSound plays a tone while the screen changes its colour, and checks the times of both in
// the video.
func TestSound(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "pulseaudio", "paplay")
	d := startDesktop(t, desktop.Config{Background: 0x202020})
	s := openStore(t, StoreConfig{})
	tone := toneFile(t)
	env, err := d.Environ()
	if err != nil {
		t.Fatal(err)
	}
	listen, err := d.Listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listen.Close() }()
	r := start(t, s, d, Config{Sound: true})
	began := time.Now() // about the video's zero
	play := exec.CommandContext(t.Context(), "paplay", tone)
	play.Env = env
	if out, err := play.CombinedOutput(); err != nil {
		t.Fatalf("paplay: %v\n%s", err, out)
	}
	heard, err := listen.Next(t.Context()) // the first piece of the tone, still in the queue
	if err != nil {
		t.Fatal(err)
	}
	grown(t, s, r.ID(), time.Since(began)+time.Second)
	info := stop(t, r)
	plays(t, s, info, StatusCompleted, ReasonStopped)
	if !info.Sound || info.SoundProblem != "" {
		t.Errorf("the recording is %+v", info)
	}
	want := heard.Time.Sub(info.Started)
	for range 2 {
		list := soundOf(t, videoPath(t, s, info.ID))
		from, to := loud(list)
		if off := from - want; off < -60*time.Millisecond || off > 60*time.Millisecond {
			t.Errorf("the tone begins at %v, want %v", from, want)
		}
		if length := to - from; length < 950*time.Millisecond || length > 1050*time.Millisecond {
			t.Errorf("the tone is %v long", length)
		}
		if f := frequency(list, from+100*time.Millisecond); f < 990 || f > 1010 {
			t.Errorf("the tone has %v Hz", f)
		}
		if all := time.Duration(len(list)) * time.Second / soundRate; all < info.Duration-100*time.Millisecond || all > info.Duration+100*time.Millisecond {
			t.Errorf("there are %v of sound in a video of %v", all, info.Duration)
		}
		info = repaired(t, s, info.ID)
	}
}

// frequency returns the frequency of half a second of sound, from its zero crossings.
func frequency(list []int16, from time.Duration) float64 {
	part := list[samples(from):][:soundRate/2]
	n := 0
	for i := 1; i < len(part); i++ {
		if part[i-1] < 0 && part[i] >= 0 {
			n++
		}
	}
	return math.Round(float64(n) / 0.5)
}

// TestNoSound records a desktop without PulseAudio.
func TestNoSound(t *testing.T) {
	d := startDesktop(t, desktop.Config{})
	dir := t.TempDir()
	for _, name := range []string{"ffmpeg", "ffprobe"} {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	s := openStore(t, StoreConfig{})
	deaf := struct{ Desktop }{d} // it has no Listen
	info := stop(t, start(t, s, deaf, Config{Sound: true}))
	if info.Status != StatusCompleted || info.Sound || !strings.Contains(info.SoundProblem, "cannot be listened to") {
		t.Errorf("the recording is %+v", info)
	}
}
