package desktop_test

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/internal/testx11"
)

// soundPatience bounds the wait for an event that an idle machine has immediately.
const soundPatience = 20 * time.Second

// tone writes a WAV file of a sine (half of full scale on the left, a quarter on
// the right) and returns its path.
func tone(t *testing.T, hertz float64, length time.Duration) string {
	t.Helper()
	frames := int(length * desktop.SoundRate / time.Second)
	data := make([]byte, 0, 44+4*frames)
	put := func(v any) { data, _ = binary.Append(data, binary.LittleEndian, v) }
	data = append(data, "RIFF"...)
	put(uint32(36 + 4*frames))
	data = append(data, "WAVEfmt "...)
	put([]uint16{16, 0, 1, 2})
	put([]uint32{desktop.SoundRate, 4 * desktop.SoundRate})
	put([]uint16{4, 16})
	data = append(data, "data"...)
	put(uint32(4 * frames))
	for i := range frames {
		v := math.Sin(2 * math.Pi * hertz * float64(i) / desktop.SoundRate)
		put([]int16{int16(v * 16384), int16(v * 8192)})
	}
	path := filepath.Join(t.TempDir(), "tone.wav")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// silence writes a WAV file of zeros.
func silence(t *testing.T, length time.Duration) string {
	t.Helper()
	return tone(t, 0, length)
}

// play plays a file on the desktop, and returns the program.
func play(t *testing.T, d *desktop.Desktop, path string) desktop.App {
	t.Helper()
	app, err := d.Launch(t.Context(), desktop.Launch{App: "paplay", Args: []string{path}})
	if err != nil {
		t.Fatal(err)
	}
	return app
}

// playForever plays silence, and returns the process id of PulseAudio, or 0 if it is not
// installed.
func playForever(ctx context.Context, d *desktop.Desktop) int {
	if !d.Status().Sound.Available {
		return 0
	}
	if _, err := d.Launch(ctx, desktop.Launch{App: "paplay", Args: []string{"--raw", "/dev/zero"}}); err != nil {
		return 0
	}
	for range time.Tick(10 * time.Millisecond) {
		for _, p := range d.Status().Processes {
			if p.Name == "pulseaudio" {
				return p.PID
			}
		}
	}
	return 0
}

func listen(t *testing.T, d *desktop.Desktop) *desktop.Listener {
	t.Helper()
	l, err := d.Listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// recording is a part of the sound without a pause.
type recording struct {
	begin       time.Time
	left, right []float64
}

// record collects the sound until it has been silent for a while.
func record(t *testing.T, l *desktop.Listener) recording {
	t.Helper()
	var h recording
	var next time.Time
	for limit := soundPatience; ; limit = time.Second {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		s, err := l.Next(ctx)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) && h.left != nil {
			return h
		}
		if err != nil {
			t.Fatalf("Next: %v", err)
		}
		if len(s.Samples) != 1920 {
			t.Fatalf("got %d samples", len(s.Samples))
		}
		if h.left == nil {
			h.begin, next = s.Time, s.Time
		}
		if !s.Time.Equal(next) {
			t.Logf("a jump of %v", s.Time.Sub(next))
		}
		next = s.Time.Add(desktop.SoundLength)
		for i := 0; i < len(s.Samples); i += 2 {
			h.left = append(h.left, float64(s.Samples[i]))
			h.right = append(h.right, float64(s.Samples[i+1]))
		}
	}
}

// trim removes the silence before and after the sound.
func (h recording) trim() recording {
	first, last := -1, 0
	for i, v := range h.left {
		if v != 0 {
			if first < 0 {
				first = i
			}
			last = i
		}
	}
	if first < 0 {
		return recording{}
	}
	return recording{h.begin.Add(time.Duration(first) * time.Second / desktop.SoundRate), h.left[first : last+1], h.right[first : last+1]}
}

// withoutPauses removes pauses within the sound: more zeros in a row than a tone has.
func (h recording) withoutPauses() recording {
	s := recording{begin: h.begin}
	for i := 0; i < len(h.left); {
		end := i
		for end < len(h.left) && h.left[end] == 0 && h.right[end] == 0 {
			end++
		}
		if end-i <= 5 {
			end = max(end, i+1)
			s.left, s.right = append(s.left, h.left[i:end]...), append(s.right, h.right[i:end]...)
		}
		i = end
	}
	return s
}

func (h recording) length() time.Duration {
	return time.Duration(len(h.left)) * time.Second / desktop.SoundRate
}

// measureTone returns a sound's level and, from how often it crosses zero, its
// frequency.
func measureTone(samples []float64) (level, hertz float64) {
	crossings, power := 0, 0.0
	for i, v := range samples {
		power += v * v
		if i > 0 && samples[i-1] < 0 && v >= 0 {
			crossings++
		}
	}
	n := float64(len(samples))
	return math.Sqrt(power/n) * math.Sqrt2, float64(crossings) * desktop.SoundRate / n
}

func TestSoundIsHeard(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "pulseaudio", "paplay")
	d := start(t, desktop.Config{})
	if st := d.Status().Sound; !st.Available || st.Running || st.Problem != "" {
		t.Errorf("before anything plays: %+v", st)
	}
	l, also := listen(t, d), listen(t, d)
	before := time.Now()
	app := play(t, d, tone(t, 1000, time.Second))
	h := record(t, l).trim()
	// On a busy machine the sound may pause. No sample is lost.
	sounding := h.withoutPauses()
	if d := sounding.length(); d < 995*time.Millisecond || d > 1005*time.Millisecond || h.length() < d {
		t.Errorf("%v of it were heard within %v, want 1s", d, h.length())
	}
	level, hertz := measureTone(sounding.left)
	if hertz < 995 || hertz > 1005 || level < 16000 || level > 16700 {
		t.Errorf("left: %.0f Hz, level %.0f; want 1000 Hz, 16384", hertz, level)
	}
	if level, _ := measureTone(sounding.right); level < 8000 || level > 8400 {
		t.Errorf("right: level %.0f, want 8192", level)
	}
	until(t, "the player ends", func() bool { return !processRuns(app.PID) })
	if end := h.begin.Add(h.length()); h.begin.Before(before) || end.After(time.Now()) {
		t.Errorf("the sound began %v after play was called, and ended %v before now", h.begin.Sub(before), time.Since(end))
	}
	if second := record(t, also).trim(); !second.begin.Equal(h.begin) || !slices.Equal(second.left, h.left) {
		t.Errorf("the second listener got %v from %v on", second.length(), second.begin.Sub(h.begin))
	}
	if st := d.Status().Sound; !st.Available || !st.Running {
		t.Errorf("after something played: %+v", st)
	}
}

func processRuns(pid int) bool { return syscall.Kill(pid, 0) == nil }

// TestSilenceIsNotHeard plays zeros and then a tone. Listeners get only the tone.
func TestSilenceIsNotHeard(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "pulseaudio", "paplay")
	d := start(t, desktop.Config{})
	l := listen(t, d)
	play(t, d, silence(t, 10*time.Second))
	awaitSound(t, d, func(s desktop.SoundStatus) bool { return s.Running })
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if s, err := l.Next(ctx); err == nil {
		t.Errorf("silence was heard at %v", s.Time)
	}
	play(t, d, tone(t, 1000, 200*time.Millisecond))
	h := record(t, l)
	if rest := h.length(); rest > 800*time.Millisecond {
		t.Errorf("%v were heard of a tone of 200ms", rest)
	}
	if d := h.trim().withoutPauses().length(); d < 190*time.Millisecond || d > 210*time.Millisecond {
		t.Errorf("the tone lasted %v, want 200ms", d)
	}
}

func awaitSound(t *testing.T, d *desktop.Desktop, ok func(desktop.SoundStatus) bool) {
	t.Helper()
	until(t, "the sound changes", func() bool { return ok(d.Status().Sound) })
}

// pulse returns the process id of a desktop's PulseAudio.
func pulse(t *testing.T, d *desktop.Desktop) int {
	t.Helper()
	for _, p := range d.Status().Processes {
		if p.Name == "pulseaudio" && p.Running {
			return p.PID
		}
	}
	t.Fatal("there is no PulseAudio")
	return 0
}

// TestSoundSurvivesPulseAudio kills PulseAudio while a program plays. The listener gets the
// sound of the next one.
func TestSoundSurvivesPulseAudio(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "pulseaudio", "paplay")
	d := start(t, desktop.Config{})
	events := d.Subscribe(0)
	defer events.Close()
	l := listen(t, d)
	app := play(t, d, tone(t, 1000, time.Minute))
	ctx, cancel := context.WithTimeout(t.Context(), soundPatience)
	defer cancel()
	if _, err := l.Next(ctx); err != nil {
		t.Fatal(err)
	}
	first := pulse(t, d)
	signal(t, first, syscall.SIGKILL)
	for _, want := range []desktop.EventType{desktop.EventFailed, desktop.EventRestarted} {
		e := await(t, events, string(want), func(e desktop.Event) bool { return e.Type == want })
		if e.Failure.Code != "pulseaudio_exited" {
			t.Errorf("%s: %+v", want, e.Failure)
		}
	}
	if st := d.Status(); st.State != desktop.StateActive {
		t.Errorf("the desktop is %s", st.State)
	}
	until(t, "the player has lost its connection", func() bool { return !processRuns(app.PID) })
	record(t, l) // the rest of the first
	play(t, d, tone(t, 2000, 500*time.Millisecond))
	h := record(t, l).trim()
	if _, hertz := measureTone(h.left); hertz < 1990 || hertz > 2010 {
		t.Errorf("%.0f Hz, want 2000", hertz)
	}
	if pulse(t, d) == first {
		t.Error("PulseAudio was not replaced")
	}
}

// TestSoundsAreApart has one of two desktops play something.
func TestSoundsAreApart(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "pulseaudio", "paplay")
	one, other := start(t, desktop.Config{}), start(t, desktop.Config{})
	heard, unheard := listen(t, one), listen(t, other)
	play(t, one, tone(t, 1000, 300*time.Millisecond))
	record(t, heard)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := unheard.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Next on the other desktop: %v", err)
	}
	if other.Status().Sound.Running {
		t.Error("the other desktop has a PulseAudio")
	}
}

func TestListenEnds(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "pulseaudio")
	d := start(t, desktop.Config{})
	l := listen(t, d)
	end := make(chan error, 1)
	go func() {
		_, err := l.Next(context.Background())
		end <- err
	}()
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-end; !errors.Is(err, desktop.ErrClosed) {
		t.Errorf("Next: %v", err)
	}
	if _, err := d.Listen(t.Context()); !errors.Is(err, desktop.ErrClosed) {
		t.Errorf("Listen: %v", err)
	}
}

func TestSoundWithoutPulseAudio(t *testing.T) {
	testx11.Require(t, "Xvfb", "openbox", "dbus-daemon", "sh")
	bin := t.TempDir()
	for _, name := range []string{"Xvfb", "openbox", "dbus-daemon", "xkbcomp", "sh"} {
		for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
			if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
				if err := os.Symlink(filepath.Join(dir, name), filepath.Join(bin, name)); err != nil {
					t.Fatal(err)
				}
				break
			}
		}
	}
	t.Setenv("PATH", bin)
	d := start(t, desktop.Config{})
	if st := d.Status().Sound; st.Available || st.Running || st.Problem == "" {
		t.Errorf("the sound is %+v", st)
	}
	var missing *desktop.MissingError
	if _, err := d.Listen(t.Context()); !errors.As(err, &missing) || len(missing.Programs) != 1 || missing.Programs[0] != "pulseaudio" {
		t.Errorf("Listen: %v", err)
	}
	if _, err := d.Screenshot(t.Context(), desktop.ScreenshotOptions{}); err != nil {
		t.Error(err)
	}
}

// TestBrokenPulseAudio has a pulseaudio that ends immediately. Programs are not kept
// waiting for it.
func TestBrokenPulseAudio(t *testing.T) {
	testx11.Require(t, "Xvfb", "openbox", "dbus-daemon", "paplay")
	bin := t.TempDir()
	script := "#!/bin/sh\necho no sound today >&2\nexit 3\n"
	if err := os.WriteFile(filepath.Join(bin, "pulseaudio"), []byte(script), 0o755); err != nil { //nolint:gosec // it is to be run
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	d := start(t, desktop.Config{})
	app, err := d.Launch(t.Context(), desktop.Launch{App: "paplay", Args: []string{tone(t, 1000, time.Second)}})
	if err != nil {
		t.Fatal(err)
	}
	awaitSound(t, d, func(s desktop.SoundStatus) bool { return s.Problem != "" })
	if p := d.Status().Sound.Problem; p != "pulseaudio exited: exit status 3: no sound today" {
		t.Errorf("the problem is %q", p)
	}
	until(t, "the player gives up", func() bool { return !processRuns(app.PID) })
	if st := d.Status().State; st != desktop.StateActive {
		t.Errorf("the desktop is %s", st)
	}
}

// TestIdleSoundCostsNothing listens to a desktop on which a program has played something, and
// checks that PulseAudio is idle.
func TestIdleSoundCostsNothing(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "pulseaudio", "paplay")
	d := start(t, desktop.Config{})
	l := listen(t, d)
	play(t, d, tone(t, 1000, 100*time.Millisecond))
	record(t, l)
	pid := pulse(t, d)
	// PulseAudio suspends its device after a second. After that nothing wakes it.
	before, looked := switches(t, pid), time.Now()
	until(t, "PulseAudio rests", func() bool {
		if time.Since(looked) < time.Second {
			return false
		}
		woken := switches(t, pid) - before
		before, looked = before+woken, time.Now()
		return woken < 5
	})
}

// switches returns how often the threads of a process were woken.
func switches(t *testing.T, pid int) int {
	t.Helper()
	total := 0
	tasks, err := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/status")
	if err != nil || len(tasks) == 0 {
		t.Fatal("no tasks", err)
	}
	for _, path := range tasks {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		total += statusField(t, string(text), "voluntary_ctxt_switches:")
	}
	return total
}

func statusField(t *testing.T, text, name string) int {
	t.Helper()
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == name {
			n, err := strconv.Atoi(f[1])
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("no %s", name)
	return 0
}
