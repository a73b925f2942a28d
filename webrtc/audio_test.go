package webrtc

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/pion/rtp"
	pion "github.com/pion/webrtc/v4"
	"github.com/pion/webrtc/v4/pkg/media/oggwriter"
	"github.com/thesyncim/gopus"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/internal/testx11"
)

// sine returns a tone with half of the full amplitude, in stereo at 48 kHz.
func sine(hertz float64, length time.Duration) []int16 {
	n := int(length * desktop.SoundRate / time.Second)
	out := make([]int16, 0, 2*n)
	for i := range n {
		v := int16(16384 * math.Sin(2*math.Pi*hertz*float64(i)/desktop.SoundRate))
		out = append(out, v, v)
	}
	return out
}

// wav writes samples to a WAV file and returns its path.
func wav(t *testing.T, samples []int16) string {
	t.Helper()
	var b bytes.Buffer
	put := func(v any) {
		if err := binary.Write(&b, binary.LittleEndian, v); err != nil {
			t.Fatal(err)
		}
	}
	size := uint32(2 * len(samples)) //nolint:gosec // it is short
	b.WriteString("RIFF")
	put(36 + size)
	b.WriteString("WAVEfmt ")
	put([]uint16{16, 0, 1, 2})
	put([]uint32{desktop.SoundRate, 4 * desktop.SoundRate})
	put([]uint16{4, 16})
	b.WriteString("data")
	put(size)
	put(samples)
	path := filepath.Join(t.TempDir(), "sound.wav")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// decode converts a file to samples of one channel, with ffmpeg.
func decode(t *testing.T, rate string, args ...string) []int16 {
	t.Helper()
	testx11.Require(t, "ffmpeg")
	cmd := exec.Command("ffmpeg", append(append([]string{"-v", "error"}, args...), "-f", "s16le", "-ac", "1", "-ar", rate, "-")...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("ffmpeg: %v: %s", err, stderr.String())
	}
	samples := make([]int16, len(out)/2)
	for i := range samples {
		samples[i] = int16(binary.LittleEndian.Uint16(out[2*i:])) //nolint:gosec // the same bits
	}
	return samples
}

// power returns the amplitude of a frequency in samples (Goertzel's algorithm).
func power(samples []int16, rate, hertz float64) float64 {
	w := 2 * math.Cos(2*math.Pi*hertz/rate)
	var a, b float64
	for _, v := range samples {
		a, b = float64(v)+w*a-b, a
	}
	return 2 * math.Sqrt(a*a+b*b-w*a*b) / float64(len(samples))
}

// level returns the amplitude of a sine with the same power.
func level(samples []int16) float64 {
	sum := 0.0
	for _, v := range samples {
		sum += float64(v) * float64(v)
	}
	return math.Sqrt(2 * sum / float64(len(samples)))
}

// checkTone checks that samples are a tone with little noise.
func checkTone(t *testing.T, samples []int16, rate, hertz, want float64) {
	t.Helper()
	got, all := power(samples, rate, hertz), level(samples)
	if got < 0.9*want || got > 1.1*want {
		t.Errorf("%.0f Hz has an amplitude of %.0f, want %.0f", hertz, got, want)
	}
	if rest := math.Sqrt(max(0, all*all-got*got)); rest > 0.1*want {
		t.Errorf("noise beside %.0f Hz has a level of %.0f, more than a tenth of %.0f", hertz, rest, want)
	}
}

func encodeAll(t *testing.T, e audioEncoder, samples []int16) (packets [][]byte) {
	t.Helper()
	for const20ms := 1920; len(samples) >= const20ms; samples = samples[const20ms:] {
		p, err := e.encode(samples[:const20ms])
		if err != nil {
			t.Fatal(err)
		}
		packets = append(packets, bytes.Clone(p))
	}
	return packets
}

func TestG722(t *testing.T) {
	t.Parallel()
	for _, hertz := range []float64{300, 1000, 3000, 5000, 6500} {
		var all []byte
		for _, p := range encodeAll(t, new(g722Encoder), sine(hertz, time.Second)) {
			if len(p) != 160 {
				t.Fatalf("a packet of %d bytes", len(p))
			}
			all = append(all, p...)
		}
		file := filepath.Join(t.TempDir(), "sound.g722")
		if err := os.WriteFile(file, all, 0o600); err != nil {
			t.Fatal(err)
		}
		got := decode(t, "16000", "-f", "g722", "-i", file)
		if len(got) != 16000 {
			t.Errorf("%d samples, want 16000", len(got))
		}
		checkTone(t, got[4000:12000], 16000, hertz, 16384)
	}
}

// TestG722Aliases encodes tones above the highest frequency of G.722.
func TestG722Aliases(t *testing.T) {
	t.Parallel()
	var m monoFilter
	for _, hertz := range []float64{10_000, 15_000, 20_000} {
		got := m.narrow(nil, sine(hertz, 500*time.Millisecond))
		if l := level(got[1000:]); l > 30 {
			t.Errorf("%.0f Hz leaves a level of %.0f", hertz, l)
		}
	}
}

func TestOpus(t *testing.T) {
	t.Parallel()
	e, err := newOpus()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "sound.ogg")
	w, err := oggwriter.New(path, desktop.SoundRate, desktop.SoundChannels)
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range encodeAll(t, e, sine(1000, time.Second)) {
		head := rtp.Header{Version: 2, SequenceNumber: uint16(i), Timestamp: uint32(960 * i)} //nolint:gosec // it is short
		if err := w.WriteRTP(&rtp.Packet{Header: head, Payload: p}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	got := decode(t, "48000", "-c:a", "libopus", "-i", path)
	checkTone(t, got[12000:36000], 48000, 1000, 16384)
}

// FuzzAudio encodes arbitrary samples.
func FuzzAudio(f *testing.F) {
	f.Add([]byte{0, 128, 255, 127}, false)
	f.Add(bytes.Repeat([]byte{1, 2, 3}, 100), true)
	f.Fuzz(func(t *testing.T, data []byte, silent bool) {
		opus, err := newOpus()
		if err != nil {
			t.Fatal(err)
		}
		samples := make([]int16, 1920)
		for i := range samples {
			if len(data) >= 2 && !silent {
				samples[i] = int16(binary.LittleEndian.Uint16(data[2*i%(len(data)-1):])) //nolint:gosec // the same bits
			}
		}
		g722 := new(g722Encoder)
		for range 3 {
			if p, err := opus.encode(samples); err != nil || len(p) == 0 || len(p) > opusMost {
				t.Errorf("opus: %d bytes, %v", len(p), err)
			}
			if p, err := g722.encode(samples); err != nil || len(p) != 160 {
				t.Errorf("g722: %d bytes, %v", len(p), err)
			}
		}
	})
}

func TestRTPClock(t *testing.T) {
	t.Parallel()
	begin := time.Now()
	c := newRTPClock(begin, 48000)
	for i := range 100_000 {
		at := begin.Add(1234567*time.Nanosecond + time.Duration(i)*soundLength)
		if got := c.stamp(at.Add(soundLength)) - c.stamp(at); got != 960 {
			t.Fatalf("after %d packets a step of %d", i, got)
		}
	}
	if got := c.stamp(begin.Add(48 * time.Hour)); got != c.base+uint32(48*3600*48000%(1<<32)) {
		t.Errorf("after two days %d", got-c.base)
	}
	if got := ntpTime(time.Date(2036, 2, 7, 6, 28, 15, 500_000_000, time.UTC)); got != 0xffffffff_80000000 {
		t.Errorf("at the end of the era %x", got)
	}
}

// ear is a viewer that listens.
type ear struct {
	*client
	packets chan *rtp.Packet
}

// listenTo connects a viewer that wants sound.
func listenTo(t *testing.T, s *Streamer, request map[string]any) *ear {
	t.Helper()
	e := &ear{client: signal(t, s, ViewerOptions{}), packets: make(chan *rtp.Packet, 1000)}
	e.sound = func(track *pion.TrackRemote) {
		for {
			p, _, err := track.ReadRTP()
			if err != nil {
				return
			}
			e.packets <- p
		}
	}
	e.send("signal/request", map[string]any{"video": map[string]any{}, "audio": request})
	e.connect()
	return e
}

// collect returns the packets that arrive until there is a pause.
func (e *ear) collect() []*rtp.Packet {
	e.t.Helper()
	var all []*rtp.Packet
	for limit := patience; ; limit = time.Second {
		select {
		case p := <-e.packets:
			all = append(all, p)
		case <-time.After(limit):
			if all == nil {
				e.t.Fatal("no sound came")
			}
			return all
		}
	}
}

func playTone(t *testing.T, d *desktop.Desktop, hertz float64, length time.Duration) {
	t.Helper()
	if _, err := d.Launch(t.Context(), desktop.Launch{App: "paplay", Args: []string{wav(t, sine(hertz, length))}}); err != nil {
		t.Fatal(err)
	}
}

// opusSamples decodes packets to one channel.
func opusSamples(t *testing.T, packets []*rtp.Packet) []int16 {
	t.Helper()
	d, err := gopus.NewDecoder(gopus.DefaultDecoderConfig(desktop.SoundRate, desktop.SoundChannels))
	if err != nil {
		t.Fatal(err)
	}
	pcm, all := make([]float32, 2*5760), []int16(nil)
	for _, p := range packets {
		n, err := d.Decode(p.Payload, pcm)
		if err != nil {
			t.Fatal(err)
		}
		for i := range n {
			all = append(all, int16(pcm[2*i]*32767))
		}
	}
	return all
}

func TestAudioOf(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "pulseaudio", "paplay", "ffmpeg")
	for codec, step := range map[AudioCodec]uint32{Opus: 960, G722: 160} {
		t.Run(string(codec), func(t *testing.T) {
			t.Parallel()
			d := startDesktop(t, desktop.Config{})
			s := stream(t, d, Config{AudioCodec: codec})
			e := listenTo(t, s, nil)
			e.next("a picture", nil)
			if st := s.Status(); st.Audio != codec {
				t.Errorf("the status says %q", st.Audio)
			}
			playTone(t, d, 1000, time.Second)
			first := e.collect()
			checkSpurt(t, first, step)
			playTone(t, d, 2000, 100*time.Millisecond)
			second := e.collect()
			if !second[0].Marker {
				t.Error("the second sound has no marker")
			}
			// During silence the timestamps advance, and the sequence numbers do not.
			last, next := first[len(first)-1], second[0]
			if next.SequenceNumber != last.SequenceNumber+1 {
				t.Errorf("packet %d follows packet %d", next.SequenceNumber, last.SequenceNumber)
			}
			if gap := next.Timestamp - last.Timestamp; gap < 10*step || gap > 1000*step {
				t.Errorf("%d between timestamps", gap)
			}
			tone := first[5:45]
			if codec == Opus {
				checkTone(t, opusSamples(t, tone)[9600:], 48000, 1000, 16384)
				return
			}
			var all []byte
			for _, p := range tone {
				all = append(all, p.Payload...)
			}
			file := filepath.Join(t.TempDir(), "sound.g722")
			if err := os.WriteFile(file, all, 0o600); err != nil {
				t.Fatal(err)
			}
			checkTone(t, decode(t, "16000", "-f", "g722", "-i", file)[3200:], 16000, 1000, 16384)
		})
	}
}

// checkSpurt checks the packets of a second of sound and of the silence that is sent after it.
func checkSpurt(t *testing.T, packets []*rtp.Packet, step uint32) {
	t.Helper()
	if n := len(packets); n < 70 || n > 80 {
		t.Errorf("%d packets, want 75", n)
	}
	for i, p := range packets {
		if p.Marker != (i == 0) {
			t.Errorf("packet %d has marker %v", i, p.Marker)
		}
		if i > 0 && (p.Timestamp != packets[i-1].Timestamp+step || p.SequenceNumber != packets[i-1].SequenceNumber+1) {
			t.Errorf("packet %d has timestamp %d after %d, number %d after %d", i, p.Timestamp, packets[i-1].Timestamp,
				p.SequenceNumber, packets[i-1].SequenceNumber)
		}
	}
}

// TestAudioIsSwitched has a viewer switch the sound on, off and on again.
func TestAudioIsSwitched(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "pulseaudio", "paplay")
	d := startDesktop(t, desktop.Config{})
	s := stream(t, d, Config{})
	e := listenTo(t, s, map[string]any{"disabled": true})
	e.next("a picture", nil)
	if s.any((*viewer).listens) {
		t.Error("a viewer listens")
	}
	is := func(off bool) {
		t.Helper()
		e.send("signal/audio", audioState{off})
		var got audioState
		if err := json.Unmarshal(e.event("signal/audio"), &got); err != nil || got.Disabled != off {
			t.Errorf("sound is %+v, %v", got, err)
		}
	}
	is(false)
	playTone(t, d, 1000, time.Minute)
	select {
	case <-e.packets:
	case <-time.After(patience):
		t.Fatal("no sound came")
	}
	is(true)
	until(t, "no viewer listens", func() bool { return !s.any((*viewer).listens) })
	for { // drain packets in flight
		select {
		case <-e.packets:
			continue
		case <-time.After(500 * time.Millisecond):
		}
		break
	}
	is(false)
	select {
	case <-e.packets:
	case <-time.After(patience):
		t.Fatal("no sound came again")
	}
}

// deaf is a desktop without sound.
type deaf struct{ *desktop.Desktop }

func (d deaf) Status() desktop.Status {
	st := d.Desktop.Status()
	st.Sound = desktop.SoundStatus{Problem: "pulseaudio is not installed"}
	return st
}

func (d deaf) Listen(context.Context) (*desktop.Listener, error) {
	return nil, &desktop.MissingError{Programs: []string{"pulseaudio"}}
}

func TestWithoutAudio(t *testing.T) {
	t.Parallel()
	s := stream(t, deaf{startDesktop(t, desktop.Config{})}, Config{})
	e := listenTo(t, s, nil)
	e.next("a picture", nil)
	if st := s.Status(); st.Audio != "" {
		t.Errorf("the status says %q", st.Audio)
	}
	e.send("signal/audio", audioState{false})
	var got audioState
	if err := json.Unmarshal(e.event("signal/audio"), &got); err != nil || !got.Disabled {
		t.Errorf("sound is %+v, %v", got, err)
	}
}

// TestSlowViewerMissesSound checks that sound is dropped for a slow viewer only.
func TestSlowViewerMissesSound(t *testing.T) {
	t.Parallel()
	s := stream(t, startDesktop(t, desktop.Config{}), Config{})
	var viewers []*viewer
	for range 2 {
		v, err := s.newViewer(ViewerOptions{}, TransportWebRTC, "")
		if err != nil {
			t.Fatal(err)
		}
		v.soundOn.Store(true)
		v.live.Store(true)
		viewers = append(viewers, v)
	}
	enc, begun := new(g722Encoder), time.Now()
	for i := range 10 * soundQueue {
		sound := desktop.Sound{Samples: make([]int16, 1920), Time: begun.Add(time.Duration(i) * soundLength)}
		if err := s.sendSound(enc, sound); err != nil {
			t.Fatal(err)
		}
		w := <-viewers[0].sounds
		if got, want := w.stamp, s.audioClock.stamp(sound.Time); got != want {
			t.Errorf("packet %d has timestamp %d, want %d", i, got, want)
		}
	}
	if n := len(viewers[1].sounds); n != soundQueue {
		t.Errorf("%d packets wait for the viewer that reads none", n)
	}
}

// broken is an encoder that panics.
type broken struct{}

func (broken) encode([]int16) ([]byte, error) { panic("out of range") }

func TestBrokenAudioEncoder(t *testing.T) {
	t.Parallel()
	s := stream(t, startDesktop(t, desktop.Config{}), Config{})
	if err := s.sendSound(broken{}, desktop.Sound{}); err == nil || err.Error() != "encode opus: out of range" {
		t.Errorf("error = %v", err)
	}
}

func TestAudioConfig(t *testing.T) {
	t.Parallel()
	if _, err := Start(t.Context(), nil, Config{AudioCodec: "mp3"}); !errors.Is(err, ErrCodec) {
		t.Errorf("error = %v", err)
	}
}
