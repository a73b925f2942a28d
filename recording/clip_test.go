package recording

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/deskhand/deskhand/internal/supervise"
	"github.com/deskhand/deskhand/internal/testx11"
	"github.com/deskhand/deskhand/recording/timeline"
)

// The pictures of these tests show their number in binary, one bit in each column.
const (
	numberBits   = 10
	numberWidth  = 16 * numberBits
	numberHeight = 32
	numberRate   = 30
	toneFrom     = 10 * time.Second // silence until then
)

// shownNumber is a picture of a video: its number and time.
type shownNumber struct {
	number int
	at     time.Duration
}

// numbered makes 20 s of video with sound: 40 pictures in a row, then a pause with a picture
// every two seconds, and so on. The file has fragments, as recordings have.
var numbered = sync.OnceValues(func() ([]byte, error) {
	var raw bytes.Buffer
	for n := range 20 * numberRate {
		row := make([]byte, numberWidth)
		for x := range row {
			row[x] = byte(16 + 219*(n>>(x/16)&1))
		}
		for range numberHeight {
			raw.Write(row)
		}
		raw.Write(bytes.Repeat([]byte{128}, numberWidth*numberHeight/2))
	}
	cmd := exec.Command("ffmpeg", "-v", "error", "-f", "rawvideo", "-pix_fmt", "yuv420p", "-s", fmt.Sprintf("%dx%d", numberWidth, numberHeight),
		"-r", fmt.Sprint(numberRate), "-i", "pipe:0", "-f", "lavfi", "-i", fmt.Sprintf("aevalsrc=gte(t\\,%v)*sin(6283*t)/2:d=20:s=48000", toneFrom.Seconds()),
		"-vf", `select='lt(mod(n\,150)\,40)+not(mod(n\,60))'`, "-vsync", "vfr", "-c:v", "libx264", "-preset", "ultrafast", "-crf", "20", "-bf", "0",
		"-g", "41", "-sc_threshold", "0", "-c:a", "aac", "-f", "mp4", "-movflags", "+empty_moov+default_base_moof", "-frag_duration", "500000", "pipe:1")
	cmd.Stdin = &raw
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, &stderr)
	}
	return out, err
})

// numberedVideo returns the video of numbered and its pictures.
func numberedVideo(t testing.TB) ([]byte, []shownNumber) {
	t.Helper()
	testx11.Require(t, "ffmpeg", "ffprobe")
	data, err := numbered()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "source.mp4")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return data, numbersIn(t, path)
}

// numbersIn returns the pictures of a file.
func numbersIn(t testing.TB, path string) []shownNumber {
	t.Helper()
	out := output(t, "ffmpeg", "-v", "error", "-i", path, "-map", "0:v", "-vsync", "passthrough", "-f", "rawvideo", "-pix_fmt", "gray", "-")
	times := strings.Fields(output(t, "ffprobe", "-v", "error", "-select_streams", "v:0", "-show_entries", "packet=pts_time", "-of", "csv=p=0", path))
	const size = numberWidth * numberHeight
	if len(out) != size*len(times) || len(times) == 0 {
		t.Fatalf("%s has %d packets and %d bytes of pictures", path, len(times), len(out))
	}
	list := make([]shownNumber, len(times))
	for i := range list {
		row := out[i*size+size/2:]
		for b := range numberBits {
			if row[b*16+8] > 128 {
				list[i].number |= 1 << b
			}
		}
		d, err := time.ParseDuration(times[i] + "s")
		if err != nil {
			t.Fatal(err)
		}
		list[i].at = d
	}
	return list
}

func output(t testing.TB, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil || stderr.Len() > 0 {
		t.Fatalf("%s: %v\n%s", name, err, &stderr)
	}
	return string(out)
}

// keep adds a finished recording to a store.
func keep(t testing.TB, s *Store, video []byte, length time.Duration) *entry {
	t.Helper()
	e, err := s.newEntry(Info{
		Status: StatusCompleted, Started: time.Now().Add(-length), Duration: length, FrameRate: numberRate,
		Width: numberWidth, Height: numberHeight, Sound: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(e.dir, videoFile), video, 0o600); err != nil {
		t.Fatal(err)
	}
	e.mu.Lock()
	e.writing = false
	e.mu.Unlock()
	return e
}

// save writes a clip to a file and returns its path.
func save(t testing.TB, c *Clip) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "clip.mp4")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	n, err := io.Copy(f, c.File)
	if err := errors.Join(err, f.Close(), c.Close()); err != nil {
		t.Fatal(err)
	}
	if n != c.Bytes || n == 0 {
		t.Errorf("the clip has %d bytes, not %d", n, c.Bytes)
	}
	return path
}

// checkClip compares a clip with the recording's pictures in that span.
func checkClip(t *testing.T, source []shownNumber, path string, span timeline.Span) {
	t.Helper()
	const frame, near = time.Second / numberRate, 3 * time.Millisecond
	var want []shownNumber
	for _, s := range source {
		switch {
		case s.at <= span.From+near:
			want = []shownNumber{{s.number, 0}}
		case s.at < span.To-near:
			want = append(want, shownNumber{s.number, s.at - span.From})
		}
	}
	got := numbersIn(t, path)
	same := slices.EqualFunc(got, want, func(a, b shownNumber) bool { return a.number == b.number && (a.at-b.at).Abs() <= near })
	if !same {
		t.Errorf("shows %v\ninstead of %v", got, want)
	}
	for _, stream := range []string{"v:0", "a:0"} {
		text := output(t, "ffprobe", "-v", "error", "-select_streams", stream, "-show_entries", "stream=duration", "-of", "csv=p=0", path)
		length, err := time.ParseDuration(strings.TrimSpace(text) + "s")
		if err != nil || (length-(span.To-span.From)).Abs() > frame {
			t.Errorf("%s is %v long, not %v (%v)", stream, length, span.To-span.From, err)
		}
	}
}

func TestClip(t *testing.T) {
	t.Parallel()
	fragments, source := numberedVideo(t)
	s := openStore(t, StoreConfig{})
	plain := filepath.Join(t.TempDir(), "plain.mp4")
	raw := filepath.Join(t.TempDir(), "raw.mp4")
	if err := os.WriteFile(raw, fragments, 0o600); err != nil {
		t.Fatal(err)
	}
	output(t, "ffmpeg", "-v", "error", "-i", raw, "-c", "copy", "-movflags", "+faststart", plain)
	indexed, err := os.ReadFile(plain)
	if err != nil {
		t.Fatal(err)
	}
	keys := keyTimes(t, plain)
	second, late := keys[1], keys[len(keys)-1]
	const frame = time.Second / numberRate
	for _, c := range []struct {
		name     string
		from, to time.Duration
		copied   bool
	}{
		{"from the beginning", 0, 3 * time.Second, true},
		{"all", 0, 0, true},
		{"from a key picture", second, second + 4*time.Second, true},
		{"just after it", second + 5*time.Millisecond, second + time.Second, true},
		{"just before a key picture", late - frame/2, late + 2*time.Second, true},
		{"between two", 700 * time.Millisecond, 1700 * time.Millisecond, false},
		{"in a pause", 3900 * time.Millisecond, 9100 * time.Millisecond, false},
		{"in a pause after a key picture", 9200 * time.Millisecond, 12 * time.Second, true},
		{"where the sound begins", 9500 * time.Millisecond, 10500 * time.Millisecond, true},
		{"where the sound has begun", 10500 * time.Millisecond, 13 * time.Second, false},
		{"to the end", 17 * time.Second, time.Hour, true},
		{"a moment", 5500 * time.Millisecond, 5501 * time.Millisecond, false},
	} {
		for file, video := range map[string][]byte{"fragments": fragments, "indexed": indexed} {
			t.Run(c.name+"/"+file, func(t *testing.T) {
				t.Parallel()
				e := keep(t, s, video, 20*time.Second)
				clip, err := s.Clip(t.Context(), e.id, ClipRequest{From: c.from, To: c.to})
				if err != nil {
					t.Fatal(err)
				}
				if clip.Copied != c.copied || (clip.From-c.from).Abs() > frame {
					t.Errorf("copied %v from %v; it should be %v from %v", clip.Copied, clip.From, c.copied, c.from)
				}
				path := save(t, clip)
				if c.name != "a moment" {
					checkClip(t, source, path, timeline.Span{From: clip.From, To: clip.To})
				} else if n := numbersIn(t, path); len(n) != 1 {
					t.Errorf("the clip of a moment has the pictures %v", n)
				}
				if strings.HasSuffix(c.name, "begins") {
					checkTone(t, path, toneFrom-clip.From)
				}
			})
		}
	}
}

// keyTimes returns the positions of key pictures.
func keyTimes(t *testing.T, path string) []time.Duration {
	t.Helper()
	var keys []time.Duration
	for _, p := range parsePackets(output(t, "ffprobe", "-v", "error", "-select_streams", "v:0", "-show_entries", "packet=pts_time,flags", "-of", "csv=p=0", path)) {
		if p.key {
			keys = append(keys, p.at)
		}
	}
	if len(keys) < 3 {
		t.Fatalf("key pictures at %v", keys)
	}
	return keys
}

// checkTone checks when a clip's sound begins.
func checkTone(t *testing.T, path string, want time.Duration) {
	t.Helper()
	pcm := []byte(output(t, "ffmpeg", "-v", "error", "-i", path, "-map", "0:a", "-f", "s16le", "-ar", "48000", "-ac", "1", "-"))
	for i := 0; i+1 < len(pcm); i += 2 {
		if v := int16(binary.LittleEndian.Uint16(pcm[i:])); math.Abs(float64(v)) > 3000 {
			if at := time.Duration(i/2) * time.Second / 48000; (at - want).Abs() > 60*time.Millisecond {
				t.Errorf("the sound begins at %v, not %v", at, want)
			}
			return
		}
	}
	t.Error("there is no sound")
}

func TestClipAround(t *testing.T) {
	t.Parallel()
	video, source := numberedVideo(t)
	s := openStore(t, StoreConfig{})
	e := keep(t, s, video, 20*time.Second)
	at := timeline.Milliseconds(10_500)
	marker, err := s.Mark(e.id, timeline.Marker{Title: "here", At: &at})
	if err != nil {
		t.Fatal(err)
	}
	clip, err := s.Clip(t.Context(), e.id, ClipRequest{Around: marker.Seq})
	if err != nil {
		t.Fatal(err)
	}
	if clip.From != 8500*time.Millisecond || clip.To != 13500*time.Millisecond {
		t.Errorf("from %v to %v", clip.From, clip.To)
	}
	checkClip(t, source, save(t, clip), timeline.Span{From: clip.From, To: clip.To})
	var b bytes.Buffer
	if err := s.WriteWebVTT(&b, e.id, timeline.VTTCaptions, timeline.Span{From: clip.From, To: clip.To}); err != nil {
		t.Fatal(err)
	}
	if want := "00:00:02.000 --> 00:00:03.740\nhere\n"; !strings.Contains(b.String(), want) {
		t.Errorf("its captions are\n%s", b.String())
	}
}

func TestClipRefuses(t *testing.T) {
	t.Parallel()
	video, _ := numberedVideo(t)
	s := openStore(t, StoreConfig{})
	e := keep(t, s, video, 20*time.Second)
	for _, c := range []struct {
		field string
		req   ClipRequest
	}{
		{"from", ClipRequest{From: -1}},
		{"from", ClipRequest{From: 20 * time.Second}},
		{"to", ClipRequest{From: 2, To: 1}},
		{"to", ClipRequest{To: -1}},
		{"around", ClipRequest{Around: 7}},
		{"around", ClipRequest{Around: 7, From: 1}},
		{"before", ClipRequest{Around: 7, Before: -1}},
		{"after", ClipRequest{Around: 7, After: -1}},
	} {
		_, err := s.Clip(t.Context(), e.id, c.req)
		if invalid, ok := errors.AsType[*InvalidError](err); !ok || invalid.Field != c.field {
			t.Errorf("%+v: %v", c.req, err)
		}
	}
	if _, err := s.Clip(t.Context(), "../"+e.id, ClipRequest{}); !errors.Is(err, ErrNotFound) {
		t.Errorf("another folder: %v", err)
	}
	long := keep(t, s, video, 3*time.Hour)
	if _, err := s.Clip(t.Context(), long.id, ClipRequest{}); !errors.Is(err, ErrInvalid) {
		t.Errorf("three hours: %v", err)
	}
	empty := keep(t, s, nil, time.Second)
	if _, err := s.Clip(t.Context(), empty.id, ClipRequest{}); err == nil {
		t.Error("a clip was made of an empty span")
	}
}

// children counts the running programs of a store.
func children(s *Store) int {
	n := 0
	for _, c := range s.group.Children() {
		if c.Running {
			n++
		}
	}
	return n
}

// busy makes 10 s of video with much detail, one key picture and no sound.
var busy = sync.OnceValues(func() ([]byte, error) {
	return exec.Command("ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc2=s=1280x720:r=30:d=10", "-c:v", "libx264", "-preset", "ultrafast",
		"-g", "300", "-pix_fmt", "yuv420p", "-f", "mp4", "-movflags", "+empty_moov+default_base_moof", "-frag_duration", "500000", "pipe:1").Output()
})

// slow makes a recording whose exact clips take a while.
func slow(t testing.TB, s *Store) *entry {
	t.Helper()
	testx11.Require(t, "ffmpeg", "ffprobe")
	video, err := busy()
	if err != nil {
		t.Fatal(err)
	}
	return keep(t, s, video, 10*time.Second)
}

func TestClipWithoutSound(t *testing.T) {
	t.Parallel()
	s := openStore(t, StoreConfig{})
	e := slow(t, s)
	for from, copied := range map[time.Duration]bool{0: true, 9500 * time.Millisecond: false} {
		clip, err := s.Clip(t.Context(), e.id, ClipRequest{From: from, To: from + 300*time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		if clip.Copied != copied {
			t.Errorf("from %v: copied is %v", from, clip.Copied)
		}
		if n := len(pictureTimes(t, save(t, clip))); n != 9 {
			t.Errorf("from %v: %d pictures", from, n)
		}
	}
}

func TestClipEndsWithItsContext(t *testing.T) {
	t.Parallel()
	s := openStore(t, StoreConfig{})
	e := slow(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := s.Clip(ctx, e.id, ClipRequest{From: time.Second})
		failed <- err
	}()
	until(t, "ffmpeg", func() bool {
		return slices.ContainsFunc(s.group.Children(), func(c supervise.Info) bool {
			return c.Running && strings.HasSuffix(c.Path, "ffmpeg") && len(c.Args) > 20
		})
	})
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if n := children(s); n != 0 {
		t.Errorf("%d programs still run", n)
	}
	nothingLeft(t, s.cfg.Dir)
}

// TestClipOnFullDisk checks that no clip begins without room for it, and that one ends when there is none
// left.
func TestClipOnFullDisk(t *testing.T) {
	t.Parallel()
	s := openStore(t, StoreConfig{})
	e := slow(t, s)
	video, err := os.Stat(filepath.Join(e.dir, videoFile))
	if err != nil {
		t.Fatal(err)
	}
	var left atomic.Int64
	s.free = func(string) (int64, error) { return s.cfg.MinFree + left.Load(), nil }
	left.Store(video.Size() / 3)
	if _, err := s.Clip(t.Context(), e.id, ClipRequest{To: 5 * time.Second}); !errors.Is(err, ErrNoSpace) {
		t.Errorf("a clip of a half in room for a third: %v", err)
	}
	left.Store(video.Size())
	failed := make(chan error, 1)
	go func() {
		_, err := s.Clip(t.Context(), e.id, ClipRequest{From: time.Second})
		failed <- err
	}()
	until(t, "ffmpeg stops", func() bool {
		for _, c := range s.group.Children() {
			if c.Running && strings.HasSuffix(c.Path, "ffmpeg") && len(c.Args) > 20 {
				return syscall.Kill(c.PID, syscall.SIGSTOP) == nil // it would end by itself
			}
		}
		return false
	})
	left.Store(0)
	select {
	case err = <-failed:
	case <-time.After(10 * time.Second):
		err = errors.New("it is still being made")
	}
	if !errors.Is(err, ErrNoSpace) {
		t.Errorf("a clip when the disk is full: %v", err)
	}
	if n := children(s); n != 0 {
		t.Errorf("%d programs still run", n)
	}
	nothingLeft(t, s.cfg.Dir)
}

func TestClipsAtOnce(t *testing.T) {
	t.Parallel()
	s := openStore(t, StoreConfig{})
	e := slow(t, s)
	results := make(chan error)
	const many = 5
	for range many {
		go func() {
			clip, err := s.Clip(t.Context(), e.id, ClipRequest{From: time.Second, To: 2 * time.Second})
			if err == nil {
				err = clip.Close()
			}
			results <- err
		}()
	}
	most := 0
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for done := 0; done < many; {
		select {
		case err := <-results:
			done++
			if err != nil {
				t.Error(err)
			}
		case <-look.C:
			most = max(most, children(s))
		}
	}
	if most != maxClipping {
		t.Errorf("%d programs ran concurrently, not %d", most, maxClipping)
	}
	nothingLeft(t, s.cfg.Dir)
}

// TestClipsNotClosed checks that a clip counts until it is closed.
func TestClipsNotClosed(t *testing.T) {
	t.Parallel()
	s := openStore(t, StoreConfig{})
	e := slow(t, s)
	var clips []*Clip
	for range maxClips {
		clip, err := s.Clip(t.Context(), e.id, ClipRequest{From: time.Second, To: 2 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		clips = append(clips, clip)
	}
	refused := func() {
		t.Helper()
		if _, err := s.Clip(t.Context(), e.id, ClipRequest{}); !errors.Is(err, ErrTooManyClips) {
			t.Errorf("Clip = %v, want ErrTooManyClips", err)
		}
	}
	refused()
	for range 2 { // the second Close of a clip fails and frees nothing
		_ = clips[0].Close()
	}
	last, err := s.Clip(t.Context(), e.id, ClipRequest{From: time.Second, To: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	refused()
	for _, c := range append(clips[1:], last) {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

// nothingLeft checks that a store's directory has only its recordings.
func nothingLeft(t *testing.T, dir string) {
	t.Helper()
	parts, err := filepath.Glob(filepath.Join(dir, "*"+partSuffix))
	if err != nil || len(parts) > 0 {
		t.Errorf("left behind: %v, %v", parts, err)
	}
}

func TestClipOfAStoreThatCloses(t *testing.T) {
	t.Parallel()
	s := openStore(t, StoreConfig{})
	e := slow(t, s)
	failed := make(chan error, 1)
	go func() {
		_, err := s.Clip(t.Context(), e.id, ClipRequest{From: time.Second})
		failed <- err
	}()
	until(t, "a program", func() bool { return children(s) > 0 })
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; !errors.Is(err, ErrClosed) {
		t.Errorf("closed: %v", err)
	}
	if _, err := s.Clip(t.Context(), e.id, ClipRequest{}); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}
