package recording

import (
	"bytes"
	"errors"
	"image"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/internal/testx11"
	"github.com/deskhand/deskhand/recording/timeline"
)

func TestMaxDuration(t *testing.T) {
	t.Parallel()
	d := startDesktop(t, desktop.Config{})
	s := openStore(t, StoreConfig{})
	info := ended(t, start(t, s, d, Config{MaxDuration: 1500 * time.Millisecond}))
	plays(t, s, info, StatusCompleted, ReasonMaxDuration)
	if info.Duration < 1500*time.Millisecond-time.Second/30 {
		t.Errorf("the video is %v long", info.Duration)
	}
}

func TestMaxBytes(t *testing.T) {
	t.Parallel()
	d := startDesktop(t, desktop.Config{})
	s := openStore(t, StoreConfig{})
	_, err := d.Launch(t.Context(), desktop.Launch{App: "xterm", Wait: true, Args: []string{
		"-geometry", "200x60+0+0", "-e", "sh", "-c", "while :; do head -c 2000 /dev/urandom | base64; sleep 0.02; done",
	}})
	if err != nil {
		t.Fatal(err)
	}
	const most = 2 << 20
	info := ended(t, start(t, s, d, Config{MaxBytes: most}))
	plays(t, s, info, StatusCompleted, ReasonMaxBytes)
	if info.Bytes > most || info.Bytes < most/4 {
		t.Errorf("the video has %d bytes", info.Bytes)
	}
}

// TestSegments records a desktop into several files, and checks that there is no gap between
// them.
func TestSegments(t *testing.T) {
	t.Parallel()
	d := startDesktop(t, desktop.Config{Size: desktop.Size{Width: 320, Height: 240}})
	s := openStore(t, StoreConfig{})
	r := start(t, s, d, Config{SegmentLength: time.Second, FrameRate: 10})
	first := r.ID()
	until(t, "the third segment has begun", func() bool { return len(s.List()) >= 3 })
	if _, err := s.Recording(first); !errors.Is(err, ErrNotActive) {
		t.Errorf("Recording of the first segment: %v", err)
	}
	e, err := r.Mark(timeline.Marker{Title: "here"})
	if err != nil {
		t.Fatal(err)
	}
	last := stop(t, r)
	all := s.List()
	if len(all) < 3 || all[0].ID != first || all[len(all)-1].ID != last.ID {
		t.Fatalf("List = %+v", all)
	}
	for i, info := range all {
		reason := ReasonSegment
		if i == len(all)-1 {
			reason = ReasonStopped
		}
		plays(t, s, repaired(t, s, info.ID), StatusCompleted, reason)
		if i > 0 {
			before := all[i-1]
			gap := info.Started.Sub(before.Started) - before.Duration
			if before.ContinuedBy != info.ID || info.Continues != before.ID || gap < -time.Millisecond || gap > time.Millisecond {
				t.Errorf("%+v continues, after %v, in %+v", before, gap, info)
			}
		}
	}
	for _, info := range all[2:] {
		entries, _, err := s.Timeline(info.ID, timeline.Query{})
		if err != nil {
			t.Fatal(err)
		}
		for _, got := range entries {
			if got.Marker != nil && got.Marker.Title == "here" && got.Seq == e.Seq {
				return
			}
		}
	}
	t.Error("the marker is in no segment")
}

// TestMarkBetweenSegments delays the start of a segment after the store lists it, and
// checks that a marker then goes to the new segment.
func TestMarkBetweenSegments(t *testing.T) {
	t.Parallel()
	d := startDesktop(t, desktop.Config{Size: desktop.Size{Width: 320, Height: 240}})
	s := openStore(t, StoreConfig{})
	r := start(t, s, d, Config{SegmentLength: time.Second, FrameRate: 10})
	r.mu.Lock()
	until(t, "the second segment is listed", func() bool { return len(s.List()) == 2 })
	if r.switching.TryLock() {
		r.switching.Unlock()
		t.Error("the second segment is listed, but Mark does not wait for its timeline")
	}
	r.mu.Unlock()
	e, err := r.Mark(timeline.Marker{Title: "here"})
	if err != nil {
		t.Fatal(err)
	}
	if e.At >= timeline.Milliseconds(900) {
		t.Errorf("the marker is at %d ms, want a position at the start of the second segment", e.At)
	}
}

// TestMarkOfAnEndedSegment marks a segment whose recording has continued in another one since
// the store found it.
func TestMarkOfAnEndedSegment(t *testing.T) {
	t.Parallel()
	d := startDesktop(t, desktop.Config{Size: desktop.Size{Width: 320, Height: 240}})
	s := openStore(t, StoreConfig{})
	r := start(t, s, d, Config{SegmentLength: time.Second, FrameRate: 10})
	first := r.ID()
	until(t, "the second segment", func() bool { return r.ID() != first })
	if e, err := r.add(first, func(t *timeline.Timeline) (timeline.Entry, error) {
		return t.Mark(timeline.Marker{Title: "of the first"})
	}); !errors.Is(err, ErrNotActive) {
		t.Errorf("a marker of the first segment is %+v, %v", e, err)
	}
	if _, err := s.AddEvent(first, timeline.Event{Type: "late"}); !errors.Is(err, ErrNotActive) {
		t.Errorf("AddEvent of the first segment = %v", err)
	}
	last := stop(t, r)
	entries, _, err := s.Timeline(last.ID, timeline.Query{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Marker != nil || e.Type == "late" {
			t.Errorf("the next segment has %+v", e)
		}
	}
}

func TestRetention(t *testing.T) {
	t.Parallel()
	leave := func(ages ...time.Duration) string {
		t.Helper()
		dir := t.TempDir()
		for i, age := range ages {
			id := ulid.ULID{5: byte(i + 1)}
			folder := filepath.Join(dir, formatID(id))
			if err := os.Mkdir(folder, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(folder, videoFile), []byte("1000 bytes"), 0o600); err != nil {
				t.Fatal(err)
			}
			info := Info{ID: formatID(id), Status: StatusFailed, Ended: time.Now().Add(-age)}
			if err := writeManifest(folder, info, false); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	ids := func(s *Store) (left []byte) {
		for _, info := range s.List() {
			id, _ := parseID(info.ID)
			left = append(left, '0'+id[5])
		}
		return left
	}
	for _, test := range []struct {
		name string
		keep Retention
		want string
	}{
		{"all", Retention{}, "1234"},
		{"count", Retention{MaxCount: 2}, "34"},
		{"age", Retention{MaxAge: 150 * time.Minute}, "34"},
		{"bytes", Retention{MaxBytes: 39}, "234"},
	} {
		s := openStore(t, StoreConfig{Dir: leave(4*time.Hour, 3*time.Hour, 2*time.Hour, time.Hour), Retention: test.keep})
		if got := string(ids(s)); got != test.want {
			t.Errorf("%s: %s are left, want %s", test.name, got, test.want)
		}
	}
	for _, keep := range []Retention{{MaxCount: 2}, {MaxBytes: 20}} {
		dir := leave(time.Hour, time.Hour, time.Hour, time.Hour)
		for _, n := range []byte{2, 3, 4} {
			id := formatID(ulid.ULID{5: n})
			info := Info{ID: id, Status: StatusFailed, Ended: time.Now().Add(-time.Hour), Guest: true}
			if err := writeManifest(filepath.Join(dir, id), info, false); err != nil {
				t.Fatal(err)
			}
		}
		if got := string(ids(openStore(t, StoreConfig{Dir: dir, Retention: keep}))); got != "134" {
			t.Errorf("three guests, %+v: %s are left, want 134", keep, got)
		}
	}
	s := openStore(t, StoreConfig{Dir: leave(time.Hour-time.Second, 0), Retention: Retention{MaxAge: time.Hour}})
	until(t, "the oldest recording is deleted", func() bool { return string(ids(s)) == "2" })
}

// TestRetentionCountsFolders bounds the bytes of recordings with tiny videos, and with
// timelines and pictures.
func TestRetentionCountsFolders(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var ids []string
	for n := range byte(3) {
		id, folder := leaveRecording(t, dir, n+1, Info{Status: StatusFailed, Ended: time.Now()}, []byte("x"))
		ids = append(ids, id)
		if err := os.Mkdir(filepath.Join(folder, thumbsDir), 0o700); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{timelineFile, posterFile, filepath.Join(thumbsDir, "000000.jpg")} {
			if err := os.WriteFile(filepath.Join(folder, name), bytes.Repeat([]byte("\n"), 1000), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	s := openStore(t, StoreConfig{Dir: dir, Retention: Retention{MaxBytes: 2 * 3001}})
	if all := s.List(); len(all) != 2 || all[0].ID != ids[1] || all[0].Bytes != 1 {
		t.Fatalf("after Open: %+v, want the newest two with a byte each", all)
	}
	at := timeline.Milliseconds(0)
	if _, err := s.Mark(ids[2], timeline.Marker{Title: "m", At: &at}); err != nil {
		t.Fatal(err)
	}
	s.retain() // as after the end of another recording
	if all := s.List(); len(all) != 2 {
		t.Errorf("after a marker: %+v, want the newest two", all)
	}
}

// TestOtherBytes checks that the manifest has the bytes of the timeline and the pictures, so that Open
// need not count them.
func TestOtherBytes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openStore(t, StoreConfig{Dir: dir})
	d := startDesktop(t, desktop.Config{Size: desktop.Size{Width: 320, Height: 240}})
	info := repaired(t, s, stop(t, start(t, s, d, Config{})).ID)
	if counted := otherBytes(filepath.Join(dir, info.ID)); counted == 0 || info.OtherBytes != counted {
		t.Errorf("%d bytes, want %d", info.OtherBytes, counted)
	}
	at := timeline.Milliseconds(0)
	if _, err := s.Mark(info.ID, timeline.Marker{Title: "m", At: &at}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openStore(t, StoreConfig{Dir: dir, Retention: Retention{MaxBytes: info.Bytes + info.OtherBytes}})
	if all := s.List(); len(all) != 1 {
		t.Errorf("after Open: %+v, want the recording", all)
	}
}

// TestFull starts more guest recordings and segments than a store keeps.
func TestFull(t *testing.T) {
	t.Parallel()
	d := startDesktop(t, desktop.Config{Size: desktop.Size{Width: 320, Height: 240}})
	s := openStore(t, StoreConfig{})
	s.mostGuests = 2
	r := start(t, s, d, Config{Guest: true, SegmentLength: time.Second, FrameRate: 10})
	info := ended(t, r)
	plays(t, s, info, StatusCompleted, ReasonStoreFull)
	if n := len(s.List()); n != 2 || !strings.Contains(info.Error, ErrFull.Error()) {
		t.Errorf("%d segments are left, the last one with %q, want 2", n, info.Error)
	}
	if _, err := s.Start(t.Context(), d, Config{Guest: true}); !errors.Is(err, ErrFull) {
		t.Errorf("Start = %v, want ErrFull", err)
	}
	stop(t, start(t, s, d, Config{}))
	if err := s.Delete(info.ID); err != nil {
		t.Fatal(err)
	}
	stop(t, start(t, s, d, Config{Guest: true}))
}

// TestRepairsShareAGoroutine opens many recordings of a crash and stops the first repair.
func TestRepairsShareAGoroutine(t *testing.T) { //nolint:paralleltest // it counts goroutines
	const count = 100
	dir := t.TempDir()
	for n := range byte(count) {
		leaveRecording(t, dir, n+1, Info{Status: StatusRecording}, []byte("x"))
	}
	before := runtime.NumGoroutine()
	begun, resume := make(chan struct{}, count), make(chan struct{})
	s := openStore(t, StoreConfig{Dir: dir, Notify: func(Info) {
		begun <- struct{}{}
		<-resume
	}})
	<-begun
	if n := runtime.NumGoroutine() - before; n > count/2 {
		t.Errorf("%d repairs have %d goroutines", count, n)
	}
	close(resume)
	until(t, "all are repaired", func() bool {
		return !slices.ContainsFunc(s.List(), func(i Info) bool { return i.Status != StatusFailed })
	})
}

// TestRepairedAreRetained opens more recordings of a crash than Retention keeps.
func TestRepairedAreRetained(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "ffprobe")
	dir := t.TempDir()
	for i := range 40 { // enough for repairs to begin while Open still reads
		id := formatID(ulid.ULID{5: byte(i + 1)})
		if err := os.Mkdir(filepath.Join(dir, id), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := writeManifest(filepath.Join(dir, id), Info{ID: id, Status: StatusRecording}, false); err != nil {
			t.Fatal(err)
		}
	}
	s := openStore(t, StoreConfig{Dir: dir, Retention: Retention{MaxCount: 1}})
	until(t, "one failed recording is left", func() bool {
		all := s.List()
		return len(all) == 1 && all[0].Status == StatusFailed
	})
}

// TestActiveIsKept checks that Retention does not delete active recordings.
func TestActiveIsKept(t *testing.T) {
	t.Parallel()
	d := startDesktop(t, desktop.Config{})
	s := openStore(t, StoreConfig{Retention: Retention{MaxCount: 1}})
	a, b := start(t, s, d, Config{}), start(t, s, d, Config{})
	stop(t, a)
	until(t, "the older recording is deleted", func() bool { return errors.Is(second(s.Get(a.ID())), ErrNotFound) })
	plays(t, s, stop(t, b), StatusCompleted, ReasonStopped)
}

func TestMissingPrograms(t *testing.T) {
	d := startDesktop(t, desktop.Config{})
	t.Setenv("PATH", t.TempDir())
	s := openStore(t, StoreConfig{})
	_, err := s.Start(t.Context(), d, Config{})
	var missing *MissingError
	if !errors.As(err, &missing) || len(missing.Programs) != 2 || !errors.Is(err, ErrMissingPrograms) {
		t.Errorf("Start without ffmpeg: %v", err)
	}
	// This program is not ffmpeg.
	dir := t.TempDir()
	for _, name := range []string{"ffmpeg", "ffprobe"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\necho ' libx265 '\n"), 0o700); err != nil { //nolint:gosec // it is run
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir)
	_, err = s.Start(t.Context(), d, Config{})
	if !errors.As(err, &missing) || len(missing.Programs) != 1 {
		t.Errorf("Start without libx264: %v", err)
	}
}

func TestTimingOption(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]string{
		"ffmpeg version 4.4.2-0ubuntu0.22.04.1 Copyright": "-vsync",
		"ffmpeg version n5.0":                             "-vsync",
		"ffmpeg version 5.1.9-0+deb12u1":                  "-fps_mode",
		"ffmpeg version 7.1":                              "-fps_mode",
		"ffmpeg version n8.0":                             "-fps_mode",
		"ffmpeg version N-110000-gabcdef":                 "-fps_mode",
		"":                                                "-fps_mode",
	} {
		if got := timingOption(version); got != want {
			t.Errorf("%q: %s, want %s", version, got, want)
		}
	}
}

// TestShrinker compares each pixel with the mean of its area, and parts of a picture with the
// whole picture.
func TestShrinker(t *testing.T) {
	t.Parallel()
	from := image.Pt(47, 31)
	pix := make([]byte, 4*from.X*from.Y)
	for i := range pix {
		pix[i] = byte(i*7 + i/47*13)
	}
	for _, to := range []image.Point{{47, 31}, {46, 30}, {24, 17}, {10, 6}, {1, 1}} {
		s := newShrinker(from, to)
		for y := range to.Y {
			row, _ := s.rows(pix, 4*from.X, y, y)
			for x := range to.X {
				for c := range 4 {
					want := meanOf(pix, from, to, x, y, c)
					if got := float64(row[4*x+c]); got < want-1.5 || got > want+1.5 {
						t.Fatalf("%v: channel %d of %d,%d is %v, want %v", to, c, x, y, got, want)
					}
				}
			}
		}
		for y := range from.Y {
			r := s.reach(image.Rect(0, y, from.X, y+1))
			for dy := range to.Y {
				first := s.down[dy].first
				uses := first <= y && y < first+len(s.down[dy].weights)
				if uses && (dy < r.Min.Y || dy >= r.Max.Y) {
					t.Fatalf("%v: row %d is made of row %d, but reach returns rows %d to %d", to, dy, y, r.Min.Y, r.Max.Y)
				}
			}
		}
	}
}

// meanOf returns the mean of the area that a pixel covers.
func meanOf(pix []byte, from, to image.Point, x, y, c int) float64 {
	var sum, area float64
	overlap := func(p, i, from, to int) float64 {
		begin, end := float64(i*from)/float64(to), float64((i+1)*from)/float64(to)
		return max(0, min(float64(p+1), end)-max(float64(p), begin))
	}
	for sy := y * from.Y / to.Y; sy*to.Y < (y+1)*from.Y; sy++ {
		for sx := x * from.X / to.X; sx*to.X < (x+1)*from.X; sx++ {
			w := overlap(sy, y, from.Y, to.Y) * overlap(sx, x, from.X, to.X)
			sum += w * float64(pix[4*(sy*from.X+sx)+c])
			area += w
		}
	}
	return sum / area
}

// TestMaxActive starts more recordings than the store allows.
func TestMaxActive(t *testing.T) {
	t.Parallel()
	d := startDesktop(t, desktop.Config{})
	s := openStore(t, StoreConfig{MaxActive: 2})
	refused := func(cfg Config) {
		t.Helper()
		if _, err := s.Start(t.Context(), d, cfg); !errors.Is(err, ErrTooMany) {
			t.Errorf("Start = %v, want ErrTooMany", err)
		}
	}
	guest := start(t, s, d, Config{Guest: true})
	refused(Config{Guest: true})
	other := start(t, s, d, Config{})
	refused(Config{})
	if !guest.Info().Guest || other.Info().Guest {
		t.Errorf("guests: %v, %v", guest.Info().Guest, other.Info().Guest)
	}
	stop(t, guest)
	if _, err := s.Start(t.Context(), d, Config{Guest: true, Region: &desktop.Rect{X: -100, Width: 16, Height: 16}}); !errors.Is(err, ErrInvalid) {
		t.Errorf("a region outside the screen: %v", err)
	}
	stop(t, start(t, s, d, Config{Guest: true}))
	stop(t, other)
}
