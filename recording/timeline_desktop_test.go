package recording

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"image"
	"image/png"
	"io"
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
	"github.com/deskhand/deskhand/recording/timeline"
)

// firstOf waits for an entry that a recording's timeline must have.
func firstOf(t testing.TB, s *Store, id, what string, is func(timeline.Entry) bool) timeline.Entry {
	t.Helper()
	var found timeline.Entry
	until(t, what, func() bool {
		for e, err := range s.Entries(id, 0) {
			if err != nil {
				t.Fatal(err)
			}
			if is(e) {
				found = e
				return true
			}
		}
		return false
	})
	return found
}

func isAction(name desktop.ActionName) func(timeline.Entry) bool {
	return func(e timeline.Entry) bool { return e.Action != nil && e.Action.Name == name }
}

func byAnn(e timeline.Entry) bool { return e.Action != nil && e.Action.Actor.Name == "Ann" }

// terminal starts a terminal that shows typed text.
func terminal(t testing.TB, d *desktop.Desktop) desktop.Window {
	t.Helper()
	testx11.Require(t, "xterm")
	file := filepath.Join(t.TempDir(), "ready")
	app, err := d.Launch(t.Context(), desktop.Launch{
		App: "xterm", Args: []string{"-title", "cat", "-geometry", "60x15+20+40", "-e", "sh", "-c", `: > "$0"; exec cat`, file}, Wait: true,
	})
	if err != nil || app.Window == 0 {
		t.Fatal(app, err)
	}
	// A terminal that gets a close request before it has started its program ignores it.
	until(t, "the terminal's program", func() bool {
		_, err := os.Stat(file)
		return err == nil
	})
	w, err := d.FocusWindow(t.Context(), app.Window)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// stop ends a recording.
func stop(t testing.TB, r *Recording) Info {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	info, err := r.Stop(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

const hidden = "hunter2-correct-horse"

// session acts on a desktop and types secrets.
func session(t testing.TB, d *desktop.Desktop, w desktop.Window) {
	t.Helper()
	ctx := desktop.WithActor(t.Context(), desktop.Actor{Kind: desktop.ActorAgent, Name: "claude"})
	at := desktop.Point{X: w.Bounds.X + 50, Y: w.Bounds.Y + 60}
	title := desktop.Point{X: w.Bounds.X + 60, Y: w.Bounds.Y - 8}
	if _, err := d.Click(ctx, desktop.Click{At: &at}); err != nil {
		t.Fatal(err)
	}
	if err := d.Type(ctx, desktop.Type{Text: "hello --> <world> & all"}); err != nil {
		t.Fatal(err)
	}
	if err := d.Type(ctx, desktop.Type{Text: hidden, Secret: true}); err != nil {
		t.Fatal(err)
	}
	if err := d.SetClipboard(ctx, desktop.Content{Data: []byte(hidden)}); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Drag(ctx, desktop.Drag{Path: []desktop.Point{title, {X: title.X + 40, Y: title.Y + 30}}}); err != nil {
		t.Fatal(err)
	}
	ann := desktop.Actor{Kind: desktop.ActorViewer, Name: "Ann"}
	viewer := desktop.WithActor(t.Context(), ann)
	if err := d.Type(viewer, desktop.Type{Text: hidden}); err != nil {
		t.Fatal(err)
	}
	for _, r := range hidden {
		if err := errors.Join(d.KeyDown(viewer, string(r)), d.KeyUp(viewer, string(r))); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.RequestControl(ctx, ann); err != nil {
		t.Fatal(err)
	}
}

func TestTimelineOfADesktop(t *testing.T) {
	t.Parallel()
	d := startDesktop(t, desktop.Config{})
	s := openStore(t, StoreConfig{})
	w := terminal(t, d)
	r, err := s.Start(t.Context(), d, Config{})
	if err != nil {
		t.Fatal(err)
	}
	id := r.ID()
	started := firstOf(t, s, id, "the beginning", func(e timeline.Entry) bool { return e.Type == timeline.TypeStarted })
	if started.Size == nil || *started.Size != (desktop.Size{Width: 640, Height: 480}) || !slices.ContainsFunc(started.Windows, func(o desktop.Window) bool { return o.ID == w.ID }) {
		t.Errorf("begins with %+v", started)
	}
	session(t, d, w)
	marker, err := r.Mark(timeline.Marker{Title: "Signed in", Text: "all is well", Color: "#00ff88"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.AddEvent(id, timeline.Event{Type: "tool_call", Title: "Read the page", Data: json.RawMessage(`{"tool":"screenshot"}`)}); err != nil {
		t.Fatal(err)
	}
	control := firstOf(t, s, id, "the change of control", func(e timeline.Entry) bool { return e.Control != nil && e.Control.Holder != nil })
	// Otherwise the last entries would all be at the end of the video.
	until(t, "the video is longer", func() bool { return r.Info().Duration > marker.At.Duration()+300*time.Millisecond })
	info := stop(t, r)
	if control.Control.Holder.Name != "Ann" {
		t.Errorf("control: %+v", control.Control.Holder)
	}
	all, _, err := s.Timeline(id, timeline.Query{})
	if err != nil {
		t.Fatal(err)
	}
	var last timeline.Milliseconds
	for i, e := range all {
		if e.Seq != uint64(i+1) {
			t.Errorf("entry %d has the number %d", i, e.Seq)
		}
		if e.At.Duration() > info.Duration+time.Second || (e.Time.Sub(info.Started)-e.At.Duration()).Abs() > 50*time.Millisecond {
			t.Errorf("%s is at %d, %v, in a recording of %v from %v", e.Type, e.At, e.Time, info.Duration, info.Started)
		}
		if byAnn(e) && (e.Action.Keys != "" || e.Action.Text != "" || e.Action.Name != "type") {
			t.Errorf("of what a viewer typed the timeline has %+v", e.Action)
		}
		if (isAction("click")(e) || isAction("type")(e) || isAction("drag")(e)) && !byAnn(e) {
			if e.At < last || e.Action.Actor.Name != "claude" {
				t.Errorf("%s by %v at %d, after one at %d", e.Action.Name, e.Action.Actor, e.At, last)
			}
			last = e.At
		}
	}
	pagesAddUp(t, s, id, all)
	captionsTell(t, s, id, info.Duration)
	nowhere(t, s, id)
	chaptersInFile(t, s, id)
	afterwards(t, s, r, info, marker)
	clipShowsTyping(t, s, id)
}

// chaptersInFile checks the chapters in the file with its index at the start.
func chaptersInFile(t *testing.T, s *Store, id string) {
	t.Helper()
	e, err := s.entry(id)
	if err != nil {
		t.Fatal(err)
	}
	dir := e.dir
	inFile := output(t, "ffprobe", "-v", "error", "-show_entries", "chapter_tags=title", "-of", "csv=p=0", filepath.Join(dir, videoFile))
	if !slices.Equal(strings.Fields(inFile), []string{"Start", "Signed", "in"}) && !slices.Equal(strings.Fields(inFile), []string{"cat", "Signed", "in"}) {
		t.Errorf("the file's chapters are %q", inFile)
	}
}

// afterwards adds an event and markers to a recording that has ended.
func afterwards(t *testing.T, s *Store, r *Recording, info Info, marker timeline.Entry) {
	t.Helper()
	id, before := info.ID, marker.Seq
	if _, err := r.Add(timeline.Event{Type: "late"}); !errors.Is(err, ErrNotActive) {
		t.Errorf("an event after the end: %v", err)
	}
	if _, err := s.AddEvent(id, timeline.Event{Type: "late"}); !errors.Is(err, ErrNotActive) {
		t.Errorf("an event after the end: %v", err)
	}
	if _, err := s.Mark(id, timeline.Marker{Title: "nowhere"}); !errors.Is(err, ErrInvalid) {
		t.Errorf("a marker without a position: %v", err)
	}
	zero := timeline.Milliseconds(0)
	late, err := s.Mark(id, timeline.Marker{Title: "Beginning", At: &zero})
	if err != nil || late.Seq <= before || late.At != 0 {
		t.Errorf("a marker after the end: %+v, %v", late, err)
	}
	var b bytes.Buffer
	if err := s.WriteWebVTT(&b, id, timeline.VTTChapters, timeline.Span{}); err != nil {
		t.Fatal(err)
	}
	length := info.Duration.Truncate(time.Millisecond)
	if want := vttTime(min(marker.At.Duration(), length-time.Millisecond)) + " --> " + vttTime(length) + "\nSigned in\n"; !strings.Contains(b.String(), want) || !strings.Contains(b.String(), "Beginning") {
		t.Errorf("no %q in\n%s", want, b.String())
	}
}

// pagesAddUp checks that pages have the same entries as the whole timeline.
func pagesAddUp(t *testing.T, s *Store, id string, all []timeline.Entry) {
	t.Helper()
	var pages []timeline.Entry
	for after := uint64(0); ; {
		page, _, err := s.Timeline(id, timeline.Query{After: after, Limit: 3})
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		pages = append(pages, page...)
		after = page[len(page)-1].Seq
	}
	if len(pages) != len(all) {
		t.Errorf("%d entries in pages, %d in one page", len(pages), len(all))
	}
}

// vttTime formats a WebVTT timestamp of the first day.
func vttTime(d time.Duration) string { return time.Time{}.Add(d).Format("15:04:05.000") }

// captionsTell checks that the captions have the actions of the session.
func captionsTell(t *testing.T, s *Store, id string, length time.Duration) {
	t.Helper()
	var b bytes.Buffer
	if err := s.WriteWebVTT(&b, id, timeline.VTTCaptions, timeline.Span{}); err != nil {
		t.Fatal(err)
	}
	appears := map[string]time.Duration{} // each line, when it first appears
	var from time.Duration
	for line := range strings.Lines(html.UnescapeString(b.String())) {
		line = strings.TrimSuffix(line, "\n")
		at, err := time.Parse("15:04:05.000", strings.Split(line, " --> ")[0])
		if _, ok := appears[line]; err == nil {
			from = at.Sub(at.Truncate(24 * time.Hour))
		} else if !ok {
			appears[line] = from
		}
	}
	for e, err := range s.Entries(id, 0) {
		if err != nil {
			t.Fatal(err)
		}
		var want string
		switch {
		case isAction("click")(e):
			want = fmt.Sprintf("agent claude: Click at %d, %d in xterm", e.Action.At.X, e.Action.At.Y)
		case byAnn(e):
			want = "Ann typed 42 characters in xterm"
		case isAction("type")(e) && e.Action.Text != "":
			want = "agent claude: Type in xterm: hello --> <world> & all"
		case isAction("type")(e):
			want = "agent claude: Type 21 hidden characters in xterm"
		case e.Marker != nil:
			want = "Signed in"
		case e.Type == "tool_call":
			want = "Read the page"
		default:
			continue
		}
		if at, ok := appears[want]; !ok || at != min(e.At.Duration(), length.Truncate(time.Millisecond)-time.Millisecond) {
			t.Errorf("%q appears at %d, %v, instead of %d, in\n%s", want, at, ok, e.At, b.String())
		}
	}
}

// nowhere checks that the secret is in no written file.
func nowhere(t *testing.T, s *Store, id string) {
	t.Helper()
	e, err := s.entry(id)
	if err != nil {
		t.Fatal(err)
	}
	dir := e.dir
	until(t, "the index to be moved", func() bool {
		info, err := s.Get(id)
		return err != nil || info.Seekable
	})
	texts := map[string]string{}
	for _, kind := range []timeline.VTTKind{timeline.VTTCaptions, timeline.VTTChapters} {
		var b bytes.Buffer
		if err := s.WriteWebVTT(&b, id, kind, timeline.Span{}); err != nil {
			t.Fatal(err)
		}
		texts[string(kind)] = b.String()
	}
	err = filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		texts[path] = string(text)
		return err
	})
	if err != nil || len(texts) < 5 {
		t.Fatal(err, len(texts))
	}
	for name, text := range texts {
		if strings.Contains(text, hidden) || strings.Contains(text, hidden[:7]) {
			t.Errorf("the secret is in %s", name)
		}
	}
	if !strings.Contains(texts[filepath.Join(dir, timelineFile)], "hello") {
		t.Error("the text that is not secret is missing, too")
	}
}

// clipShowsTyping compares pictures before and after an action.
func clipShowsTyping(t *testing.T, s *Store, id string) {
	t.Helper()
	typed := firstOf(t, s, id, "the typing", isAction("type"))
	clip, err := s.Clip(t.Context(), id, ClipRequest{Around: typed.Seq, Before: time.Second, After: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	path := save(t, clip)
	before := pictureAt(t, path, typed.At.Duration()-clip.From-40*time.Millisecond)
	after := pictureAt(t, path, clip.To-clip.From-50*time.Millisecond)
	if n := differing(before, after); n < 100 {
		t.Errorf("only %d pixels differ before and after typing, in a clip from %v to %v", n, clip.From, clip.To)
	}
}

// pictureAt decodes the picture that a file shows at a position.
func pictureAt(t testing.TB, path string, at time.Duration) image.Image {
	t.Helper()
	out := output(t, "ffmpeg", "-v", "error", "-i", path, "-vf", "fps=100:round=up,trim=start="+seconds(max(0, at)), "-frames:v", "1", "-c:v", "png", "-f", "image2pipe", "-")
	img, err := png.Decode(strings.NewReader(out))
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// differing counts the pixels in which two pictures differ.
func differing(a, b image.Image) int {
	n := 0
	for y := a.Bounds().Min.Y; y < a.Bounds().Max.Y; y++ {
		for x := a.Bounds().Min.X; x < a.Bounds().Max.X; x++ {
			r, g, bl, _ := a.At(x, y).RGBA()
			r2, g2, bl2, _ := b.At(x, y).RGBA()
			if max(r, r2)-min(r, r2) > 0x4000 || max(g, g2)-min(g, g2) > 0x4000 || max(bl, bl2)-min(bl, bl2) > 0x4000 {
				n++
			}
		}
	}
	return n
}

// TestTimelineOfSegments acts on the desktop while segments change.
func TestTimelineOfSegments(t *testing.T) {
	t.Parallel()
	d := startDesktop(t, desktop.Config{})
	s := openStore(t, StoreConfig{})
	r, err := s.Start(t.Context(), d, Config{SegmentLength: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	moves, marks := 0, 0
	until(t, "the third segment", func() bool {
		if _, err := d.Move(t.Context(), desktop.Move{At: desktop.Point{X: moves % 640, Y: moves / 640}}); err != nil {
			t.Fatal(err)
		}
		moves++
		if moves%10 == 0 {
			if _, err := r.Mark(timeline.Marker{Title: fmt.Sprint(marks)}); err != nil {
				t.Fatal(err)
			}
			marks++
		}
		return len(s.List()) >= 3
	})
	stop(t, r)
	var at, title []int
	for _, info := range s.List() {
		for e, err := range s.Entries(info.ID, 0) {
			switch {
			case err != nil:
				t.Fatal(err)
			case e.At.Duration() > info.Duration+time.Second: // a busy machine begins the next segment late
				t.Errorf("%s at %v of a segment of %v", e.Type, e.At.Duration(), info.Duration)
			case e.Type == desktop.EventGap:
				t.Errorf("a gap of %d", e.Dropped)
			case isAction("move")(e):
				at = append(at, e.Action.At.Y*640+e.Action.At.X)
			case e.Marker != nil:
				n, err := strconv.Atoi(e.Marker.Title)
				if err != nil {
					t.Fatal(err)
				}
				title = append(title, n)
			}
		}
	}
	for i, list := range [][]int{at, title} {
		want := []int{moves, marks}[i]
		for j, n := range list {
			if n != j {
				t.Fatalf("%d follows %d of %d", n, j-1, want)
			}
		}
		if len(list) != want {
			t.Errorf("%d of %d entries are in the timelines", len(list), want)
		}
	}
}

// TestLiveOfADesktop reads an active recording, and the same recording after its end.
func TestLiveOfADesktop(t *testing.T) {
	t.Parallel()
	d := startDesktop(t, desktop.Config{})
	s := openStore(t, StoreConfig{})
	r, err := s.Start(t.Context(), d, Config{ThumbnailInterval: time.Hour}) // longer than this takes
	if err != nil {
		t.Fatal(err)
	}
	id := r.ID()
	live, _, err := s.Live(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	defer live.Close()
	head := make([]byte, 1000)
	if _, err := io.ReadFull(live, head); err != nil {
		t.Fatal(err)
	}
	w := terminal(t, d)
	session(t, d, w)
	running, err := s.Clip(t.Context(), id, ClipRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if len(pictureTimes(t, save(t, running))) == 0 || running.To == 0 {
		t.Errorf("the clip of the active recording is from %v to %v", running.From, running.To)
	}
	info := stop(t, r)
	rest, err := io.ReadAll(live)
	if err != nil {
		t.Fatal(err)
	}
	m, err := readMovie(bytes.NewReader(append(head, rest...)), int64(len(head)+len(rest)))
	if err != nil || m.frames != info.Frames || m.duration != info.Duration || !m.fragmented {
		t.Errorf("read %d pictures, %v, %v; the recording has %d, %v", m.frames, m.duration, err, info.Frames, info.Duration)
	}
	f, err := s.Poster(id)
	poster := decode(t, f, err)
	if poster.Bounds() != image.Rect(0, 0, 640, 480) {
		t.Errorf("the poster is %v", poster.Bounds())
	}
	if f, at, err := s.Thumbnail(id, time.Hour); err != nil || at != 0 {
		t.Errorf("a thumbnail of %v, %v", at, err)
	} else if thumb := decode(t, f, nil); thumb.Bounds() != image.Rect(0, 0, 320, 240) {
		t.Errorf("a thumbnail of %v", thumb.Bounds())
	}
}

// pictureTimes lists the times of a file's pictures.
func pictureTimes(t testing.TB, path string) []string {
	t.Helper()
	return strings.Fields(output(t, "ffprobe", "-v", "error", "-count_frames", "-select_streams", "v:0", "-show_entries", "frame=pts_time", "-of", "csv=p=0", path))
}

// TestTimelineOfDesktop checks the entries for changes of windows, of the screen's size and of
// the X server.
func TestTimelineOfDesktop(t *testing.T) {
	t.Parallel()
	d := startDesktop(t, desktop.Config{MaxSize: desktop.Size{Width: 800, Height: 600}})
	s := openStore(t, StoreConfig{})
	r, err := s.Start(t.Context(), d, Config{})
	if err != nil {
		t.Fatal(err)
	}
	id := r.ID()
	w := terminal(t, d)
	if err := d.CloseWindow(t.Context(), w.ID); err != nil {
		t.Fatal(err)
	}
	if err := d.Resize(t.Context(), desktop.Size{Width: 800, Height: 600}); err != nil {
		t.Fatal(err)
	}
	of := func(kind desktop.EventType, window bool) timeline.Entry {
		return firstOf(t, s, id, string(kind), func(e timeline.Entry) bool {
			return e.Type == kind && (!window || e.Window != nil && e.Window.ID == w.ID)
		})
	}
	opened, focused, closed := of(desktop.EventWindowOpened, true), of(desktop.EventWindowFocused, true), of(desktop.EventWindowClosed, true)
	if opened.At > focused.At || focused.At > closed.At {
		t.Errorf("opened at %d, focused at %d, closed at %d", opened.At, focused.At, closed.At)
	}
	if resized := of(desktop.EventResized, false); *resized.Size != (desktop.Size{Width: 800, Height: 600}) {
		t.Errorf("resized to %v", *resized.Size)
	}
	for _, p := range d.Status().Processes {
		if p.Name == "Xvfb" {
			if err := syscall.Kill(p.PID, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
	}
	if failed := of(desktop.EventFailed, false); failed.Failure == nil || failed.Failure.Code != "xserver_exited" {
		t.Errorf("failed: %+v", failed.Failure)
	}
	restarted := of(desktop.EventRestarted, false)
	info := stop(t, r)
	if info.Duration+100*time.Millisecond < restarted.At.Duration() {
		t.Errorf("the recording is %v long; the X server was restarted at %v", info.Duration, restarted.At.Duration())
	}
	var b bytes.Buffer
	if err := s.WriteWebVTT(&b, id, timeline.VTTCaptions, timeline.Span{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Launch xterm", "Close xterm", "Resize the desktop to 800 x 600", "Failure: "} {
		if !strings.Contains(b.String(), "\n"+want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}
