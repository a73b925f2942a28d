package recording

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/internal/supervise"
	"github.com/deskhand/deskhand/recording/timeline"
)

// ended waits until a recording ends without Stop.
func ended(t testing.TB, r *Recording) Info {
	t.Helper()
	select {
	case <-r.Done():
	case <-time.After(patience):
		t.Fatalf("the recording continues: %+v", r.Info())
	}
	return r.Info()
}

// plays checks the status and reason of a recording, and decodes its video.
func plays(t testing.TB, s *Store, info Info, status Status, reason Reason) {
	t.Helper()
	if info.Status != status || info.Reason != reason || info.Ended.IsZero() || info.ProcessID != "" {
		t.Errorf("the recording is %+v, want %s because of %s", info, status, reason)
	}
	p := probe(t, videoPath(t, s, info.ID))
	if off := p.Seconds - info.Duration.Seconds(); off < -0.002 || off > 0.002 || p.Frames != fmt.Sprint(info.Frames) {
		t.Errorf("the video has %v s and %s pictures; Info says %v and %d", p.Seconds, p.Frames, info.Duration, info.Frames)
	}
}

func TestEncoderKilled(t *testing.T) {
	t.Parallel()
	d := startDesktop(t, desktop.Config{})
	s := openStore(t, StoreConfig{})
	r := start(t, s, d, Config{})
	grown(t, s, r.ID(), someVideo)
	child := supervise.Find(r.Info().ProcessID)
	if child == nil || child.Name() != "ffmpeg" {
		t.Fatalf("process %s is %v", r.Info().ProcessID, child)
	}
	if err := child.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	info := ended(t, r)
	plays(t, s, info, StatusRecovered, ReasonEncoderKilled)
	if !strings.Contains(info.Error, "SIGKILL") || info.Duration < someVideo {
		t.Errorf("the recording is %+v", info)
	}
	until(t, "the index is at the start", func() bool {
		info, err := s.Get(info.ID)
		return err == nil && info.Seekable
	})
	again, err := s.Get(info.ID)
	if err != nil {
		t.Fatal(err)
	}
	plays(t, s, again, StatusRecovered, ReasonEncoderKilled)
}

// TestEncoderStuck stops the ffmpeg process with a signal.
func TestEncoderStuck(t *testing.T) {
	t.Parallel()
	d := startDesktop(t, desktop.Config{})
	s := openStore(t, StoreConfig{})
	s.patience = 2 * time.Second
	r := start(t, s, d, Config{FrameRate: 60})
	grown(t, s, r.ID(), someVideo)
	if err := supervise.Find(r.Info().ProcessID).Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for i := 0; ; i++ {
		select {
		case <-r.Done():
			plays(t, s, r.Info(), StatusRecovered, ReasonEncoderStuck)
			return
		default:
			if i > 5000 {
				t.Fatal("the recording continues")
			}
			paint(t, d, uint32(i)) //nolint:gosec // any colour
		}
	}
}

// TestStopBehind stops a recording whose ffmpeg is slow. The last picture waits for ffmpeg.
func TestStopBehind(t *testing.T) {
	t.Parallel()
	const last = 0x118844
	d := startDesktop(t, desktop.Config{})
	s := openStore(t, StoreConfig{})
	r := start(t, s, d, Config{FrameRate: 60})
	grown(t, s, r.ID(), someVideo)
	ffmpeg := supervise.Find(r.Info().ProcessID)
	if err := ffmpeg.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for i := 0; r.Info().Dropped == 0; i++ {
		paint(t, d, uint32(i)) //nolint:gosec // any colour
	}
	paint(t, d, last)
	r.stopFor(ReasonStopped)
	// Wait for a while, or until the recording ends, as it would without waiting for ffmpeg.
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for range 50 {
		<-tick.C
		if _, err := r.Add(timeline.Event{Type: "test.tick"}); err != nil {
			break
		}
	}
	if err := ffmpeg.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	info := stop(t, r)
	plays(t, s, info, StatusCompleted, ReasonStopped)
	likeColour(t, frame(t, videoPath(t, s, info.ID), true), 600, 50, last)
}

func TestXServerKilled(t *testing.T) {
	t.Parallel()
	const after = 0x118844
	d := startDesktop(t, desktop.Config{})
	s := openStore(t, StoreConfig{})
	r := start(t, s, d, Config{})
	for _, p := range d.Status().Processes {
		if p.Name == "Xvfb" {
			if err := supervise.Find(p.ID).Signal(syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
	}
	until(t, "there is another X server", func() bool {
		st := d.Status()
		return st.State == desktop.StateActive && st.Restarts > 0
	})
	paint(t, d, after)
	info := stop(t, r)
	plays(t, s, info, StatusCompleted, ReasonStopped)
	likeColour(t, frame(t, videoPath(t, s, info.ID), true), 600, 50, after)
}

func TestDesktopClosed(t *testing.T) {
	t.Parallel()
	d := startDesktop(t, desktop.Config{})
	s := openStore(t, StoreConfig{})
	r := start(t, s, d, Config{})
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	plays(t, s, ended(t, r), StatusCompleted, ReasonDesktopClosed)
	if _, err := s.Start(t.Context(), d, Config{}); !errors.Is(err, desktop.ErrClosed) {
		t.Errorf("Start on a closed desktop: %v", err)
	}
	if all := s.List(); len(all) != 1 {
		t.Errorf("List = %+v", all)
	}
}

// childVariable is an environment variable that names a directory. If it is set, the test
// program records a desktop into the directory until it is killed.
const childVariable = "DESKHAND_TEST_RECORD"

func recordUntilKilled(dir string) {
	fail := func(err error) {
		fmt.Println(err)
		os.Exit(1)
	}
	d, err := desktop.Start(context.Background(), desktop.Config{Size: desktop.Size{Width: 640, Height: 480}})
	if err != nil {
		fail(err)
	}
	s, err := Open(context.Background(), StoreConfig{Dir: dir})
	if err != nil {
		fail(err)
	}
	r, err := s.Start(context.Background(), d, Config{})
	if err != nil {
		fail(err)
	}
	fmt.Println(r.ID())
	select {}
}

func TestProgramKilled(t *testing.T) {
	t.Parallel()
	startDesktop(t, desktop.Config{}) // skips the test if a program is missing
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	killed := false
	defer func() {
		if !killed {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	id := strings.TrimSpace(line)
	if err != nil || !strings.HasPrefix(id, idPrefix) {
		t.Fatalf("the child said %q, %v", line, err)
	}
	path := filepath.Join(dir, id, videoFile)
	until(t, "the file has video", func() bool {
		m, err := readMovieFile(path)
		return err == nil && m.duration >= someVideo
	})
	if _, err := Open(t.Context(), StoreConfig{Dir: dir}); !errors.Is(err, ErrLocked) {
		t.Errorf("Open of a directory that is in use: %v", err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	killed = true
	s := openStore(t, StoreConfig{Dir: dir})
	info := repaired(t, s, id)
	plays(t, s, info, StatusRecovered, ReasonCrashed)
}

// repaired waits until a recording has failed or has its index at the start.
func repaired(t testing.TB, s *Store, id string) Info {
	t.Helper()
	var info Info
	until(t, "the recording is repaired", func() bool {
		var err error
		if info, err = s.Get(id); err != nil {
			t.Fatal(err)
		}
		return info.Status == StatusFailed || info.Seekable
	})
	return info
}

// TestPowerCut opens recordings as a power failure may leave them: with files that are empty,
// cut off anywhere, or followed by garbage or zeros, and with the manifest of an active
// recording.
func TestPowerCut(t *testing.T) {
	t.Parallel()
	d := startDesktop(t, desktop.Config{})
	made := openStore(t, StoreConfig{})
	r := start(t, made, d, Config{FrameRate: 10})
	for i := range 12 {
		paint(t, d, uint32(0x010203*i))
		grown(t, made, r.ID(), time.Duration(i)*100*time.Millisecond)
	}
	file, err := os.ReadFile(videoPath(t, made, r.ID()))
	if err != nil {
		t.Fatal(err)
	}
	stop(t, r)
	whole, err := readMovie(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}

	leave := func(files map[string][]byte, text string) *Store {
		dir := t.TempDir()
		for id, f := range files {
			folder := filepath.Join(dir, id)
			if err := os.Mkdir(folder, 0o700); err != nil {
				t.Fatal(err)
			}
			info := Info{ID: id, Status: StatusRecording, Started: time.Now(), ProcessID: "proc_1"}
			if err := writeManifest(folder, info, true); err != nil {
				t.Fatal(err)
			}
			if text != "" {
				if err := os.WriteFile(filepath.Join(folder, manifestFile), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.WriteFile(filepath.Join(folder, videoFile), f, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(folder, videoFile+partSuffix), []byte("half"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return openStore(t, StoreConfig{Dir: dir})
	}
	files, playable := map[string][]byte{}, map[string]bool{}
	add := func(f []byte, plays bool) {
		id := formatID(ulid.Make())
		files[id], playable[id] = f, plays
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	add(file, true)
	add(file[:len(file)-min(64<<10, len(file)/3)], true)
	for range 4 {
		half := len(file)/2 + rnd.IntN(len(file)/2)
		add(file[:half], true)
	}
	add(append(bytes.Clone(file), make([]byte, 10000)...), true)
	add(append(bytes.Clone(file), "\x00\x00\xff\xffmoof rubbish"...), true)
	add(nil, false)
	add(make([]byte, 5000), false)
	add(file[:30], false)
	add(file[:700], false)
	for _, manifest := range []string{"", "{", strings.Repeat("\x00", 300)} {
		if manifest != "" { // one file is enough to show that the manifest does not matter
			clear(files)
			clear(playable)
			add(file, true)
		}
		s := leave(files, manifest)
		for id, want := range playable {
			info := repaired(t, s, id)
			if !want {
				if info.Status != StatusFailed || info.Error == "" {
					t.Errorf("%d bytes are %+v", len(files[id]), info)
				}
				continue
			}
			plays(t, s, info, StatusRecovered, ReasonCrashed)
			if len(files[id]) >= len(file) && (info.Frames != whole.frames || info.Duration != whole.duration) {
				t.Errorf("%d pictures in %v, want %d in %v", info.Frames, info.Duration, whole.frames, whole.duration)
			}
			until(t, "temporary files are removed", func() bool {
				parts, err := filepath.Glob(filepath.Join(s.cfg.Dir, id, "*"+partSuffix))
				return err == nil && len(parts) == 0
			})
		}
	}
}

func TestDiskFull(t *testing.T) {
	t.Parallel()
	d := startDesktop(t, desktop.Config{})
	s := openStore(t, StoreConfig{})
	var full sync.Mutex
	left := int64(1 << 30)
	s.free = func(string) (int64, error) {
		full.Lock()
		defer full.Unlock()
		return left, nil
	}
	r := start(t, s, d, Config{})
	full.Lock()
	left = s.cfg.MinFree
	full.Unlock()
	info := ended(t, r)
	plays(t, s, info, StatusCompleted, ReasonDiskFull)
	if !strings.Contains(info.Error, "256 MiB") {
		t.Errorf("the recording says %q", info.Error)
	}
	if _, err := s.Start(t.Context(), d, Config{}); !errors.Is(err, ErrNoSpace) {
		t.Errorf("Start on a full disk: %v", err)
	}
}

// TestNoSpaceLeft records to a disk that has no room for a fragment.
func TestNoSpaceLeft(t *testing.T) {
	t.Parallel()
	f, err := os.OpenFile("/dev/full", os.O_RDWR, 0)
	if err != nil {
		t.Skip(err)
	}
	v := &video{e: &entry{}, file: f, begun: make(chan struct{}), failed: make(chan struct{})}
	box := "\x00\x00\x00\x0cfreexxxx\x00\x00\x00\x08moof\x00\x00\x00\x0cmdatxxxx"
	if err := v.copy(strings.NewReader(box + box)); err != nil {
		t.Fatal(err)
	}
	<-v.failed
	if v.reason != ReasonDiskFull || v.size != 0 || !errors.Is(v.err, syscall.ENOSPC) {
		t.Errorf("the video ended because of %s: %v, at %d", v.reason, v.err, v.size)
	}
	_ = v.close() // /dev/full cannot be synced
}

func TestFilesRemoved(t *testing.T) {
	t.Parallel()
	d := startDesktop(t, desktop.Config{})
	s := openStore(t, StoreConfig{})
	r := start(t, s, d, Config{})
	dir := filepath.Dir(videoPath(t, s, r.ID()))
	// A concurrent write of the poster can make RemoveAll fail.
	until(t, "its files are removed", func() bool { return os.RemoveAll(dir) == nil })
	info := ended(t, r)
	if info.Status != StatusFailed || info.Reason != ReasonFilesRemoved || info.Error == "" {
		t.Errorf("the recording is %+v", info)
	}
	if _, err := s.Get(info.ID); !errors.Is(err, ErrNotFound) {
		t.Errorf("Get: %v", err)
	}
	plays(t, s, stop(t, start(t, s, d, Config{})), StatusCompleted, ReasonStopped)
}

func TestClockSetBack(t *testing.T) {
	t.Parallel()
	d := startDesktop(t, desktop.Config{})
	dir := t.TempDir()
	var future ulid.ULID
	if err := future.SetTime(ulid.Timestamp(time.Now().Add(24 * time.Hour))); err != nil {
		t.Fatal(err)
	}
	for i := 6; i < len(future); i++ {
		future[i] = 255
	}
	future[7] = 1
	old := filepath.Join(dir, formatID(future))
	if err := os.Mkdir(old, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := writeManifest(old, Info{ID: formatID(future), Status: StatusFailed}, true); err != nil {
		t.Fatal(err)
	}
	s := openStore(t, StoreConfig{Dir: dir})
	last := formatID(future)
	for range 2 {
		info := stop(t, start(t, s, d, Config{}))
		if info.ID <= last {
			t.Errorf("%s comes after %s", info.ID, last)
		}
		last = info.ID
	}
}

func TestDeleteWhileRead(t *testing.T) {
	t.Parallel()
	d := startDesktop(t, desktop.Config{})
	var mu sync.Mutex
	told := map[Status]int{}
	s := openStore(t, StoreConfig{Notify: func(i Info) {
		mu.Lock()
		defer mu.Unlock()
		told[i.Status]++
	}})
	r := start(t, s, d, Config{})
	if err := s.Delete(r.ID()); !errors.Is(err, ErrActive) {
		t.Errorf("Delete of an active recording: %v", err)
	}
	info := stop(t, r)
	f, info, err := s.Video(info.ID)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := s.Delete(info.ID); err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, f); err != nil || n < 500 {
		t.Errorf("read %d bytes, %v", n, err)
	}
	for name, err := range map[string]error{
		"Delete":    s.Delete(info.ID),
		"Get":       second(s.Get(info.ID)),
		"Recording": second(s.Recording(info.ID)),
	} {
		if !errors.Is(err, ErrNotFound) {
			t.Errorf("%s after Delete: %v", name, err)
		}
	}
	if left, err := filepath.Glob(filepath.Join(s.cfg.Dir, "*rec*")); err != nil || len(left) > 0 {
		t.Errorf("left over: %v, %v", left, err)
	}
	mu.Lock()
	defer mu.Unlock()
	if told[StatusRecording] == 0 || told[StatusCompleted] == 0 || told[StatusDeleted] != 1 {
		t.Errorf("Notify was called with %v", told)
	}
}

func second[T any](_ T, err error) error { return err }

func TestIDs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "mine"), 0o700); err != nil {
		t.Fatal(err)
	}
	s := openStore(t, StoreConfig{Dir: filepath.Join(dir, "store")})
	for _, id := range []string{
		"", ".", "..", "../mine", "rec_../../mine", "rec_", "rec_1", "/etc", "rec_01m80cjysrnhegya002p85pw04/..", lockFile,
		"REC_01M80CJYSRNHEGYA002P85PW04", "rec_01m80cjysrnhegya002p85pw0\x00", strings.Repeat("a", 1<<20),
	} {
		_, _, video := s.Video(id)
		for _, err := range []error{video, second(s.Get(id)), second(s.Recording(id)), s.Delete(id)} {
			if !errors.Is(err, ErrNotFound) || len(err.Error()) > 300 {
				t.Errorf("%.40q: %v", id, err)
			}
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "mine")); err != nil {
		t.Error(err)
	}
}

func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	d := startDesktop(t, desktop.Config{Size: desktop.Size{Width: 320, Height: 240}})
	s := openStore(t, StoreConfig{MaxActive: 20})
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			r, err := s.Start(t.Context(), d, Config{FrameRate: 10})
			if err != nil {
				t.Error(err)
				return
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			info, err := r.Stop(ctx)
			if err != nil {
				t.Error(err)
				return
			}
			plays(t, s, info, StatusCompleted, ReasonStopped)
		})
	}
	all.Wait()
	seen := map[string]bool{}
	for _, info := range s.List() {
		seen[info.ID] = true
	}
	if len(seen) != 20 {
		t.Errorf("%d recordings are listed", len(seen))
	}
}

func TestBadInput(t *testing.T) {
	t.Parallel()
	d := startDesktop(t, desktop.Config{})
	s := openStore(t, StoreConfig{})
	for _, test := range []struct {
		field string
		cfg   Config
	}{
		{"frameRate", Config{FrameRate: 61}},
		{"frameRate", Config{FrameRate: -1}},
		{"scale", Config{Scale: math.NaN()}},
		{"scale", Config{Scale: math.Inf(1)}},
		{"scale", Config{Scale: 0.01}},
		{"scale", Config{Scale: 0.1, Region: &desktop.Rect{Width: 100, Height: 100}}},
		{"quality", Config{Quality: "best"}},
		{"cursor", Config{Cursor: "cross"}},
		{"region", Config{Region: &desktop.Rect{Width: 15, Height: 16}}},
		{"region", Config{Region: &desktop.Rect{X: 640, Width: 16, Height: 16}}},
		{"region", Config{Region: &desktop.Rect{X: math.MinInt, Width: 16, Height: 16}}},
		{"maxDuration", Config{MaxDuration: -1}},
		{"maxBytes", Config{MaxBytes: 1}},
		{"segmentLength", Config{SegmentLength: time.Millisecond}},
		{"title", Config{Title: "\xff"}},
	} {
		_, err := s.Start(t.Context(), d, test.cfg)
		var bad *InvalidError
		if !errors.As(err, &bad) || bad.Field != test.field || !errors.Is(err, ErrInvalid) {
			t.Errorf("%+v: %v, want an error of %s", test.cfg, err, test.field)
		}
	}
	if all := s.List(); len(all) != 0 {
		t.Errorf("List = %+v", all)
	}
	names, err := os.ReadDir(s.cfg.Dir)
	if err != nil || len(names) != 1 {
		t.Errorf("the directory has %v, %v", names, err)
	}
	for _, cfg := range []StoreConfig{{}, {Dir: t.TempDir(), MinFree: -1}, {Dir: t.TempDir(), Retention: Retention{MaxCount: -1}}} {
		if _, err := Open(t.Context(), cfg); !errors.Is(err, ErrInvalid) {
			t.Errorf("Open(%+v): %v", cfg, err)
		}
	}
	if _, err := Open(t.Context(), StoreConfig{Dir: s.cfg.Dir}); !errors.Is(err, ErrLocked) {
		t.Errorf("Open twice: %v", err)
	}
}

func TestClosed(t *testing.T) {
	t.Parallel()
	d := startDesktop(t, desktop.Config{})
	s := openStore(t, StoreConfig{})
	r := start(t, s, d, Config{})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	plays(t, s, ended(t, r), StatusCompleted, ReasonStoreClosed)
	if _, err := s.Start(t.Context(), d, Config{}); !errors.Is(err, ErrClosed) {
		t.Errorf("Start after Close: %v", err)
	}
	if err := s.Delete(r.ID()); !errors.Is(err, ErrClosed) {
		t.Errorf("Delete after Close: %v", err)
	}
	at := timeline.Milliseconds(0)
	if _, err := s.Mark(r.ID(), timeline.Marker{Title: "late", At: &at}); !errors.Is(err, ErrClosed) {
		t.Errorf("Mark after Close: %v", err)
	}
	again := openStore(t, StoreConfig{Dir: s.cfg.Dir})
	plays(t, again, repaired(t, again, r.ID()), StatusCompleted, ReasonStoreClosed)
	if _, err := os.Stat(filepath.Join(s.cfg.Dir, r.ID(), "chapters.txt"+partSuffix)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("left over: %v", err)
	}
}
