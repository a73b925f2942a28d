package recording

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"golang.org/x/sys/unix"

	"github.com/deskhand/deskhand/internal/supervise"
	"github.com/deskhand/deskhand/recording/timeline"
)

// leaveRecording writes the folder of a recording, as an earlier program would.
func leaveRecording(t *testing.T, dir string, n byte, info Info, video []byte) (id, folder string) {
	t.Helper()
	id = formatID(ulid.ULID{5: n})
	folder = filepath.Join(dir, id)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if video != nil {
		if err := os.WriteFile(filepath.Join(folder, videoFile), video, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if info.Status != "" {
		info.ID = id
		if err := writeManifest(folder, info, false); err != nil {
			t.Fatal(err)
		}
	}
	return id, folder
}

// TestOpenReadsFolders opens a directory with folders in all states.
func TestOpenReadsFolders(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	failed, _ := leaveRecording(t, dir, 1, Info{Status: StatusFailed, Error: "old"}, []byte("not a video"))
	noVideo, _ := leaveRecording(t, dir, 2, Info{Status: StatusCompleted, Bytes: 9, Seekable: true}, nil)
	noManifest, _ := leaveRecording(t, dir, 3, Info{}, []byte("not a video"))
	_, empty := leaveRecording(t, dir, 4, Info{}, nil)
	shorter, _ := leaveRecording(t, dir, 5, Info{Status: StatusCompleted, Bytes: 100, ProcessID: "p"}, []byte("not a video"))
	wrongID, folder := leaveRecording(t, dir, 6, Info{}, []byte("not a video"))
	if err := writeManifest(folder, Info{ID: failed, Status: StatusCompleted}, true); err != nil {
		t.Fatal(err)
	}
	_, part := leaveRecording(t, dir, 7, Info{Status: StatusFailed}, []byte("x"))
	part = filepath.Join(part, videoFile+partSuffix)
	trash := filepath.Join(dir, trashPrefix+"x", "y")
	other := filepath.Join(dir, "rec_OTHER")
	for _, path := range []string{trash, other} {
		if err := os.MkdirAll(path, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{part, filepath.Join(dir, formatID(ulid.ULID{5: 8}))} { // the second is not a folder
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := openStore(t, StoreConfig{Dir: dir})
	for _, want := range []struct {
		id     string
		status Status
		reason Reason
		text   string
	}{
		{failed, StatusFailed, "", "old"},
		{noVideo, StatusFailed, ReasonFilesRemoved, "its video file is gone"},
		{noManifest, StatusFailed, ReasonCrashed, "not a whole MP4 file"},
		{shorter, StatusFailed, "", "its file has 11 of 100 bytes"},
		{wrongID, StatusFailed, ReasonCrashed, "not a whole MP4 file"},
	} {
		info := repaired(t, s, want.id)
		if info.Status != want.status || info.Reason != want.reason || !strings.Contains(info.Error, want.text) {
			t.Errorf("%s: %+v, want %s, %q, %q", want.id, info, want.status, want.reason, want.text)
		}
		if info.FileName != want.id+".mp4" || info.ProcessID != "" {
			t.Errorf("%s: file name %q, process %q", want.id, info.FileName, info.ProcessID)
		}
	}
	for path, there := range map[string]bool{empty: false, part: false, filepath.Dir(trash): false, other: true} {
		if _, err := os.Stat(path); (err == nil) != there {
			t.Errorf("%s: %v, want it there: %v", path, err, there)
		}
	}
	if n := len(s.List()); n != 6 {
		t.Errorf("%d recordings, want 6", n)
	}
	e, err := s.newEntry(Info{Status: StatusRecording})
	if err != nil || e.id < wrongID {
		t.Errorf("a new recording is %s, %v, before %s", e.id, err, wrongID)
	}
	if err := s.drop(e); err != nil {
		t.Error(err)
	}
}

func TestOpenErrors(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Open(ended, StoreConfig{Dir: t.TempDir()}); !errors.Is(err, context.Canceled) {
		t.Errorf("Open with an ended context: %v", err)
	}
	for _, dir := range []string{file, filepath.Join(file, "dir")} {
		if _, err := Open(t.Context(), StoreConfig{Dir: dir}); err == nil {
			t.Errorf("Open(%s) succeeded", dir)
		}
	}
	for field, cfg := range map[string]StoreConfig{
		"dir": {}, "maxActive": {Dir: "d", MaxActive: -1}, "minFree": {Dir: "d", MinFree: -1},
		"retention.maxCount": {Dir: "d", Retention: Retention{MaxCount: -1}},
		"retention.maxAge":   {Dir: "d", Retention: Retention{MaxAge: -1}},
		"retention.maxBytes": {Dir: "d", Retention: Retention{MaxBytes: -1}},
	} {
		var invalid *InvalidError
		if _, err := Open(t.Context(), cfg); !errors.As(err, &invalid) || invalid.Field != field {
			t.Errorf("Open(%+v): %v, want an error about %s", cfg, err, field)
		}
	}
}

// TestUnknownID calls all methods of a store with an unknown id.
func TestUnknownID(t *testing.T) {
	t.Parallel()
	s := openStore(t, StoreConfig{})
	at := timeline.Milliseconds(0)
	_, _, video := s.Video("x")
	_, _, live := s.Live(t.Context(), "x")
	_, _, page := s.Timeline("x", timeline.Query{})
	_, _, thumbnail := s.Thumbnail("x", 0)
	errs := map[string]error{
		"Get": second(s.Get("x")), "Recording": second(s.Recording("x")), "Video": video, "Live": live, "Delete": s.Delete("x"),
		"Timeline": page, "Thumbnail": thumbnail, "Thumbnails": second(s.Thumbnails("x")), "Poster": second(s.Poster("x")),
		"Clip": second(s.Clip(t.Context(), "x", ClipRequest{})), "Mark": second(s.Mark("x", timeline.Marker{Title: "m", At: &at})),
		"AddEvent":    second(s.AddEvent("x", timeline.Event{Type: "e"})),
		"WriteWebVTT": s.WriteWebVTT(&strings.Builder{}, "x", timeline.VTTCaptions, timeline.Span{}),
	}
	for _, err := range s.Entries("x", 0) {
		errs["Entries"] = err
	}
	if len(errs) != 14 {
		t.Errorf("%d methods were called", len(errs))
	}
	for name, err := range errs {
		if !errors.Is(err, ErrNotFound) {
			t.Errorf("%s = %v, want ErrNotFound", name, err)
		}
	}
	if more, writing := s.growth("x"); more != nil || writing {
		t.Errorf("growth = %v, %v", more, writing)
	}
}

// TestNotifyOrder checks that StatusDeleted is the last call of Notify for recordings that are
// changed, removed and deleted.
func TestNotifyOrder(t *testing.T) {
	t.Parallel()
	calls := map[string][]Status{}
	s := openStore(t, StoreConfig{Notify: func(info Info) { calls[info.ID] = append(calls[info.ID], info.Status) }})
	deleted, lost := keep(t, s, []byte("x"), time.Second), keep(t, s, []byte("x"), time.Second)
	for _, e := range []*entry{deleted, lost} {
		if err := s.change(e, func(i *Info) { i.Title = "t" }); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Delete(deleted.id); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(lost.dir); err != nil {
		t.Fatal(err)
	}
	if list := s.List(); len(list) != 0 {
		t.Errorf("List = %+v", list)
	}
	s.notify(deleted)
	if err := s.change(lost, func(i *Info) { i.Title = "u" }); !errors.Is(err, ErrNotFound) {
		t.Errorf("change of a removed recording: %v", err)
	}
	if err := s.delete(deleted); !errors.Is(err, ErrNotFound) {
		t.Errorf("delete twice: %v", err)
	}
	for _, e := range []*entry{deleted, lost} {
		if !slices.Equal(calls[e.id], []Status{StatusCompleted, StatusDeleted}) {
			t.Errorf("Notify was called with %v", calls[e.id])
		}
	}
	for name, get := range map[string]func(string) error{
		"Get":   func(id string) error { return second(s.Get(id)) },
		"Video": func(id string) error { _, _, err := s.Video(id); return err },
	} {
		e := keep(t, s, []byte("x"), time.Second)
		if err := os.RemoveAll(e.dir); err != nil {
			t.Fatal(err)
		}
		if err := get(e.id); !errors.Is(err, ErrNotFound) {
			t.Errorf("%s of a folder that was removed: %v", name, err)
		}
	}
}

func TestManifests(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"version":1,"status":"completed"}`: "", `{"version":1,"status":"recovering","id":"x"}`: "",
		`{`: "unexpected end", `{"version":2,"status":"completed"}`: "version 2; this program knows 1",
		`{"version":1,"status":"lost"}`: `unknown status "lost"`, `{"version":1}`: "unknown status", `[]`: "cannot unmarshal",
	} {
		_, err := parseManifest([]byte(text))
		if got := errorText(err); !strings.Contains(got, want) || (err == nil) != (want == "") {
			t.Errorf("parseManifest(%s) = %q, want %q", text, got, want)
		}
	}
	dir := t.TempDir()
	if _, err := readManifest(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("readManifest of an empty folder: %v", err)
	}
	if err := os.Mkdir(filepath.Join(dir, manifestFile), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := readManifest(dir); err == nil {
		t.Error("readManifest read a folder")
	}
	if err := writeManifest(filepath.Join(dir, "none"), Info{}, true); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("writeManifest to no folder: %v", err)
	}
	if err := overwrite(filepath.Join(dir, "x"), make([]byte, 4097)); err == nil || errors.Is(err, os.ErrNotExist) {
		t.Errorf("overwrite with more than a block: %v", err)
	}
	for _, err := range []error{replace(filepath.Join(dir, "none"), filepath.Join(dir, "x")), syncPath(filepath.Join(dir, "none"))} {
		if !errors.Is(err, os.ErrNotExist) {
			t.Errorf("of a file that does not exist: %v", err)
		}
	}
}

// TestLinksInFolders checks that the files of a recording are not followed if they are links.
func TestLinksInFolders(t *testing.T) {
	t.Parallel()
	dir, secret := t.TempDir(), filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	id, folder := leaveRecording(t, dir, 1, Info{Status: StatusFailed}, nil)
	for _, name := range []string{videoFile, timelineFile, posterFile} {
		if err := os.Symlink(secret, filepath.Join(folder, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(secret, filepath.Join(dir, manifestFile)); err != nil {
		t.Fatal(err)
	}
	s := openStore(t, StoreConfig{Dir: dir})
	at := timeline.Milliseconds(0)
	_, _, video := s.Video(id)
	_, _, page := s.Timeline(id, timeline.Query{})
	_, mark := s.Mark(id, timeline.Marker{Title: "m", At: &at})
	_, poster := s.Poster(id)
	_, manifest := readManifest(dir)
	_, movie := readMovieFile(filepath.Join(folder, videoFile))
	for name, err := range map[string]error{
		"Video": video, "Timeline": page, "Mark": mark, "Poster": poster, "readManifest": manifest,
		"readMovieFile": movie, "overwrite": overwrite(filepath.Join(dir, manifestFile), []byte("x")),
	} {
		if !errors.Is(err, unix.ELOOP) {
			t.Errorf("%s = %v, want ELOOP", name, err)
		}
	}
	if got, err := os.ReadFile(secret); err != nil || string(got) != "secret\n" {
		t.Errorf("the file that the links lead to holds %q, %v", got, err)
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestClipRequests resolves requests for a video of a minute.
func TestClipRequests(t *testing.T) {
	t.Parallel()
	const s = time.Second
	entries := func(yield func(timeline.Entry, error) bool) {
		_ = yield(timeline.Entry{Seq: 7, At: 1000}, nil) && yield(timeline.Entry{Seq: 8, At: 30_000}, nil) && yield(timeline.Entry{Seq: 9, At: 90_000}, nil)
	}
	for _, tc := range []struct {
		request  ClipRequest
		from, to time.Duration
		field    string
	}{
		{ClipRequest{}, 0, 60 * s, ""},
		{ClipRequest{From: 5 * s, To: 10 * s}, 5 * s, 10 * s, ""},
		{ClipRequest{From: 5 * s, To: 90 * s}, 5 * s, 60 * s, ""},
		{ClipRequest{From: -1}, 0, 0, "from"},
		{ClipRequest{From: 60 * s}, 0, 0, "from"},
		{ClipRequest{From: 5 * s, To: 5 * s}, 0, 0, "to"},
		{ClipRequest{Around: 7}, 0, 4 * s, ""},
		{ClipRequest{Around: 8}, 28 * s, 33 * s, ""},
		{ClipRequest{Around: 8, Before: s, After: 2 * s}, 29 * s, 32 * s, ""},
		{ClipRequest{Around: 8, After: time.Hour}, 28 * s, 60 * s, ""},
		{ClipRequest{Around: 9}, 0, 0, "around"},
		{ClipRequest{Around: 10}, 0, 0, "around"},
		{ClipRequest{Around: 8, From: s}, 0, 0, "around"},
		{ClipRequest{Around: 8, To: s}, 0, 0, "around"},
		{ClipRequest{Around: 8, Before: -1}, 0, 0, "before"},
		{ClipRequest{Around: 8, After: -1}, 0, 0, "after"},
	} {
		request, err := tc.request, error(nil)
		if request.Around != 0 {
			request, err = request.around(entries)
		}
		var span timeline.Span
		if err == nil {
			span, err = request.span(60 * s)
		}
		var invalid *InvalidError
		switch {
		case tc.field != "":
			if !errors.As(err, &invalid) || invalid.Field != tc.field {
				t.Errorf("%+v: %v, want an error about %s", tc.request, err, tc.field)
			}
		case err != nil || span.From != tc.from || span.To != tc.to:
			t.Errorf("%+v: %v to %v, %v, want %v to %v", tc.request, span.From, span.To, err, tc.from, tc.to)
		}
	}
	if _, err := (ClipRequest{}).span(2 * time.Hour); !errors.Is(err, ErrInvalid) {
		t.Errorf("a clip of two hours: %v", err)
	}
	failed := errors.New("failed")
	if _, err := (ClipRequest{Around: 1}).around(func(yield func(timeline.Entry, error) bool) { yield(timeline.Entry{}, failed) }); !errors.Is(err, failed) {
		t.Errorf("entries that cannot be read: %v", err)
	}
}

// TestRun runs programs that fail, write too much output or do not end.
func TestRun(t *testing.T) {
	t.Parallel()
	s := openStore(t, StoreConfig{})
	shell := func(script string) supervise.Spec {
		return supervise.Spec{Name: "tool", Path: "/bin/sh", Args: []string{"-c", script}}
	}
	out, err := run(t.Context(), s.group, shell("head -c 2000000 /dev/zero"))
	if err != nil || len(out) != maxOutput {
		t.Errorf("a program with too much output: %d bytes, %v", len(out), err)
	}
	_, err = run(t.Context(), s.group, shell("printf 'x%.0s' $(seq 600) >&2; echo ' the end' >&2; exit 3"))
	if text := errorText(err); !strings.HasPrefix(text, "tool: ") || !strings.Contains(text, "...x") || !strings.HasSuffix(text, "x the end") || len(text) > 600 {
		t.Errorf("a program that fails: %q", text)
	}
	if _, err = run(t.Context(), s.group, shell("exit 3")); err == nil || strings.HasSuffix(err.Error(), ": ") {
		t.Errorf("a program that fails without a message: %v", err)
	}
	why := errors.New("not needed any more")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 20*time.Millisecond, why)
	defer cancel()
	if _, err := run(ctx, s.group, shell("sleep 1000")); !errors.Is(err, why) {
		t.Errorf("a program that does not end: %v", err)
	}
	if err := s.group.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := run(t.Context(), s.group, shell("exit 0")); !errors.Is(err, ErrClosed) {
		t.Errorf("after the end of the group: %v", err)
	}
}

// TestSwapRefuses checks that swap rejects copies that lack pictures.
func TestSwapRefuses(t *testing.T) {
	t.Parallel()
	s := openStore(t, StoreConfig{})
	video := append(smallMovie(), smallFragment(0, 3)...)
	e := keep(t, s, video, time.Second)
	part := filepath.Join(e.dir, videoFile+partSuffix)
	for name, tc := range map[string]struct {
		data   []byte
		frames int64
		err    error
	}{
		"no copy":      {nil, 3, os.ErrNotExist},
		"damaged":      {[]byte("not a video"), 3, errBoxes},
		"too short":    {video, 4, ErrEncoder},
		"no picture":   {smallMovie(), 0, nil},
		"of a deleted": {video, 3, ErrNotFound},
	} {
		if tc.data != nil {
			if err := os.WriteFile(part, tc.data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		e.update(func() { e.gone = name == "of a deleted" })
		if err := s.swap(e, part, Info{Frames: tc.frames}); err == nil || tc.err != nil && !errors.Is(err, tc.err) {
			t.Errorf("%s: %v, want %v", name, err, tc.err)
		}
		e.update(func() { e.gone = false })
		_ = os.Remove(part)
	}
	if data, err := os.ReadFile(filepath.Join(e.dir, videoFile)); err != nil || string(data) != string(video) {
		t.Errorf("the video has changed, %v", err)
	}
	s.free = func(string) (int64, error) { return s.cfg.MinFree + int64(len(video)) - 1, nil }
	if err := s.moveIndex(t.Context(), e, Info{Bytes: int64(len(video)), Frames: 3}); !errors.Is(err, ErrNoSpace) {
		t.Errorf("moveIndex without room: %v", err)
	}
	s.free = func(string) (int64, error) { return 0, os.ErrPermission }
	if err := s.checkRoom(1); !errors.Is(err, os.ErrPermission) {
		t.Errorf("checkRoom: %v", err)
	}
}

// TestMarkOnFullDisk marks a recording that has ended while only MinFree is free.
func TestMarkOnFullDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	id, folder := leaveRecording(t, dir, 1, Info{Status: StatusFailed}, []byte("x"))
	s := openStore(t, StoreConfig{Dir: dir})
	s.free = func(string) (int64, error) { return s.cfg.MinFree, nil }
	at := timeline.Milliseconds(0)
	if _, err := s.Mark(id, timeline.Marker{Title: "m", At: &at}); !errors.Is(err, ErrNoSpace) {
		t.Errorf("Mark = %v, want ErrNoSpace", err)
	}
	if _, err := os.Stat(filepath.Join(folder, timelineFile)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the timeline: %v", err)
	}
}

// TestCutOff checks that only data after the last whole fragment is removed.
func TestCutOff(t *testing.T) {
	t.Parallel()
	video := append(smallMovie(), smallFragment(0, 3)...)
	for name, tc := range map[string]struct{ before, after []byte }{
		"whole":     {video, video},
		"torn":      {append(slices.Clone(video), 0, 0, 0, 99, 'm', 'o'), video},
		"no video":  {[]byte("not a video"), []byte("not a video")},
		"no frames": {smallMovie(), smallMovie()},
	} {
		path := filepath.Join(t.TempDir(), videoFile)
		if err := os.WriteFile(path, tc.before, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := cutOff(path); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if data, err := os.ReadFile(path); err != nil || string(data) != string(tc.after) {
			t.Errorf("%s: %d bytes became %d, %v, want %d", name, len(tc.before), len(data), err, len(tc.after))
		}
	}
}

// TestPackets parses lines of ffprobe.
func TestPackets(t *testing.T) {
	t.Parallel()
	got := parsePackets("0.000000,K__\n0.5,__\nN/A,K\n1e12,K\nx\n\n1.25,K_\n")
	want := []videoPacket{{0, true}, {500 * time.Millisecond, false}, {1250 * time.Millisecond, true}}
	if !slices.Equal(got, want) {
		t.Errorf("parsePackets = %v, want %v", got, want)
	}
}

// TestStopAll calls StopAll without recordings, and with a recording that does not end in time.
func TestStopAll(t *testing.T) {
	t.Parallel()
	s := openStore(t, StoreConfig{})
	if err := s.StopAll(t.Context(), ReasonStopped); err != nil {
		t.Errorf("StopAll of nothing: %v", err)
	}
	e := keep(t, s, []byte("x"), time.Second)
	r := &Recording{store: s, segment: &segment{entry: e}, stopping: make(chan struct{}), done: make(chan struct{})}
	s.mu.Lock()
	s.active[r] = struct{}{}
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := s.StopAll(ctx, ReasonDesktopClosed); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("StopAll = %v", err)
	}
	if _, err := r.Stop(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Stop = %v", err)
	}
	if reason := r.stopReason(); reason != ReasonDesktopClosed {
		t.Errorf("stops because of %s", reason)
	}
	close(r.done)
	if info, err := r.Stop(t.Context()); err != nil || info.ID != e.id {
		t.Errorf("Stop = %+v, %v", info, err)
	}
}
