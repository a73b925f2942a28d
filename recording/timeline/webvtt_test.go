package timeline

import (
	"bytes"
	"flag"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/internal/testx11"
)

var update = flag.Bool("update", false, "write the golden files")

var vttEntities = regexp.MustCompile(`&(lt|gt|amp|nbsp);`)

var vttTimes = regexp.MustCompile(`^(\d\d+):([0-5]\d):([0-5]\d)\.(\d\d\d) --> (\d\d+):([0-5]\d):([0-5]\d)\.(\d\d\d)$`)

// parseVTT parses only files that writeWebVTT may write.
func parseVTT(text string) ([]cue, error) {
	if !utf8.ValidString(text) || strings.ContainsAny(text, "\r\x00") {
		return nil, fmt.Errorf("not plain UTF-8: %q", text)
	}
	blocks := strings.Split(strings.TrimSuffix(text, "\n"), "\n\n")
	if blocks[0] != "WEBVTT" {
		return nil, fmt.Errorf("begins with %q", blocks[0])
	}
	unescape := strings.NewReplacer("&lt;", "<", "&gt;", ">", "&amp;", "&", "&nbsp;", " ")
	var cues []cue
	for i, b := range blocks[1:] {
		lines := strings.Split(b, "\n")
		if len(lines) < 3 || lines[0] != fmt.Sprint(i+1) {
			return nil, fmt.Errorf("block %d is %q", i+1, b)
		}
		m := vttTimes.FindStringSubmatch(lines[1])
		if m == nil {
			return nil, fmt.Errorf("the times of block %d are %q", i+1, lines[1])
		}
		var at [2]Milliseconds
		for j, f := range [][]string{m[1:5], m[5:9]} {
			for k, unit := range []Milliseconds{3600_000, 60_000, 1000, 1} {
				n, err := strconv.ParseInt(f[k], 10, 64)
				if err != nil {
					return nil, err
				}
				at[j] += Milliseconds(n) * unit
			}
		}
		c := cue{from: at[0], to: at[1]}
		for _, line := range lines[2:] {
			rest := vttEntities.ReplaceAllString(line, "")
			if strings.TrimSpace(line) == "" || strings.ContainsAny(rest, "&<>") {
				return nil, fmt.Errorf("block %d has the line %q", i+1, line)
			}
			c.lines = append(c.lines, unescape.Replace(line))
		}
		cues = append(cues, c)
	}
	return cues, nil
}

// checkVTT writes cues and reads them back, and checks their order.
func checkVTT(t testing.TB, cues []cue) string {
	t.Helper()
	var b bytes.Buffer
	if err := writeWebVTT(&b, cues); err != nil {
		t.Fatal(err)
	}
	back, err := parseVTT(b.String())
	if err != nil {
		t.Fatalf("%v\n%s", err, b.String())
	}
	if len(back) != len(cues) {
		t.Fatalf("%d cues became %d", len(cues), len(back))
	}
	var last Milliseconds
	for i, c := range back {
		if c.from != cues[i].from || c.to != cues[i].to || len(c.lines) != len(cues[i].lines) {
			t.Fatalf("cue %+v became %+v", cues[i], c)
		}
		if c.from < last || c.to <= c.from {
			t.Fatalf("cue %d is from %d to %d, after %d", i, c.from, c.to, last)
		}
		last = c.to
	}
	return b.String()
}

func of(entries []Entry) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for _, e := range entries {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// script is a session of 75 s: two windows, an agent, a person.
func script() []Entry {
	terminal := desktop.Window{ID: 1, Title: "bash", Class: "XTerm", Bounds: desktop.Rect{X: 10, Y: 30, Width: 500, Height: 300}, Frame: desktop.Rect{X: 9, Y: 10, Width: 502, Height: 321}}
	browser := desktop.Window{ID: 2, Title: "News <b>&amp;</b> --> more\nlines", Class: "Chromium", Bounds: desktop.Rect{X: 300, Y: 200, Width: 800, Height: 600}, Frame: desktop.Rect{X: 299, Y: 180, Width: 802, Height: 621}}
	agent := desktop.Actor{Kind: desktop.ActorAgent, Name: "claude"}
	ann := desktop.Actor{Kind: desktop.ActorViewer, Name: "Ann <a@b>"}
	guest, other := desktop.Actor{Kind: desktop.ActorViewer, ID: "q"}, desktop.Actor{Kind: desktop.ActorViewer, ID: "a"}
	at := func(x, y int) *desktop.Point { return &desktop.Point{X: x, Y: y} }
	action := func(ms Milliseconds, a desktop.Action) Entry {
		return Entry{At: ms, Type: "action", Action: &a}
	}
	window := func(ms Milliseconds, kind desktop.EventType, w desktop.Window) Entry {
		return Entry{At: ms, Type: kind, Window: &w}
	}
	list := []Entry{
		{At: 0, Type: TypeStarted, Control: &desktop.Control{}},
		action(500, desktop.Action{Name: "launch", App: "xterm"}),
		window(900, desktop.EventWindowOpened, terminal),
		window(950, desktop.EventWindowFocused, terminal),
		action(2000, desktop.Action{Name: "move", At: at(5, 5)}),
		action(4000, desktop.Action{Name: "click", At: at(412, 300), Button: "left", Count: 1, Actor: agent}),
		action(4300, desktop.Action{Name: "type", Text: "ls -l\n", Length: 6, Actor: agent}),
		action(4600, desktop.Action{Name: "press", Keys: "ctrl+c", Actor: agent}),
		action(4900, desktop.Action{Name: "type", Length: 8, Actor: agent}),
		{At: 9000, Type: TypeMarker, Marker: &Marker{Title: "Open the <page> --> go", Color: "#ff8800"}},
		window(10000, desktop.EventWindowOpened, browser),
		window(10100, desktop.EventWindowFocused, browser),
		action(11000, desktop.Action{Name: "scroll", At: at(600, 500), Delta: at(0, 3)}),
		action(11200, desktop.Action{Name: "scroll", At: at(600, 500), Delta: at(0, 3)}),
		action(11400, desktop.Action{Name: "scroll", At: at(600, 500), Delta: at(0, 3)}),
		action(20000, desktop.Action{Name: "drag", At: at(400, 190), To: at(500, 290), Button: "left"}),
		action(23000, desktop.Action{Name: "click", At: at(310, 205), Button: "right", Count: 2}),
		{At: 30000, Type: "control", Control: &desktop.Control{Holder: &ann, Taken: true}},
	}
	for i, r := range "hi \x00<" {
		list = append(list, action(Milliseconds(27000+200*i), desktop.Action{Name: "key_down", Keys: string(r), Actor: agent}),
			action(Milliseconds(27100+200*i), desktop.Action{Name: "key_up", Keys: string(r), Actor: agent}))
	}
	return append(list,
		action(31000, desktop.Action{Name: "type", Length: 12, Actor: ann}),
		action(33000, desktop.Action{Name: "button_down", Button: "left", At: at(412, 500), Actor: guest}),
		action(33100, desktop.Action{Name: "button_up", Button: "left", At: at(413, 501), Actor: guest}),
		action(33300, desktop.Action{Name: "button_down", Button: "left", At: at(412, 500), Actor: guest}),
		action(33380, desktop.Action{Name: "button_up", Button: "left", At: at(412, 500), Actor: guest}),
		action(34000, desktop.Action{Name: "type", Length: 1, Actor: other}),
		action(34500, desktop.Action{Name: "button_down", Button: "left", At: at(400, 600), Actor: guest}),
		action(34900, desktop.Action{Name: "scroll", Delta: at(0, 1), At: at(400, 500), Actor: other}),
		action(35000, desktop.Action{Name: "scroll", Delta: at(0, 2), At: at(401, 500), Actor: other}),
		action(35100, desktop.Action{Name: "scroll", Delta: at(0, -1), At: at(401, 500), Actor: other}),
		action(37500, desktop.Action{Name: "button_up", Button: "left", At: at(500, 700), Actor: guest}),
		action(38000, desktop.Action{Name: "button_down", Button: "left", At: at(400, 600), Actor: guest}),
		action(39900, desktop.Action{Name: "button_up", Button: "left", At: at(400, 600), Actor: guest}),
		window(40000, desktop.EventWindowFocused, terminal),
		action(41000, desktop.Action{Name: "resize_window", Window: 1, Size: &desktop.Size{Width: 600, Height: 400}, Error: "timeout"}),
		Entry{At: 42000, Type: "window_focused"},
		window(42100, desktop.EventWindowFocused, browser),
		window(42500, desktop.EventWindowFocused, terminal),
		Entry{At: 50000, Type: "tool_call", Title: "run_tests & wait", Data: []byte(`{}`)},
		Entry{At: 51000, Type: "silent", Data: []byte(`{}`)},
		Entry{At: 52000, Type: "failed", Failure: &Failure{"xserver_exited", "Xvfb was killed"}},
		action(60000, desktop.Action{Name: "set_clipboard", Length: 30}),
		action(60000, desktop.Action{Name: "resize", Size: &desktop.Size{Width: 800, Height: 600}}),
		action(74900, desktop.Action{Name: "close_window", Window: 1}),
		action(75500, desktop.Action{Name: "press", Keys: "after the end"}),
	)
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (-update writes it):\n%s", path, got)
	}
}

func TestCaptionsGolden(t *testing.T) {
	t.Parallel()
	entries := script()
	// The order of a file differs from the order of time.
	half := len(entries) / 2
	cues, err := captions(of(slices.Concat(entries[half:], entries[:half])), 75000)
	if err != nil {
		t.Fatal(err)
	}
	text := checkVTT(t, cues)
	golden(t, "captions.vtt", text)
	ffmpegReads(t, text, len(cues))
}

// TestCaptionsWithinAMillisecond closes a window so fast that its event comes before the entry
// of the action.
func TestCaptionsWithinAMillisecond(t *testing.T) {
	t.Parallel()
	begin := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	w := &desktop.Window{ID: 7, Class: "XTerm"}
	cues, err := captions(of([]Entry{
		{At: 0, Type: desktop.EventWindowOpened, Window: w, Time: begin},
		{At: 100, Type: desktop.EventWindowClosed, Window: w, Time: begin.Add(100_900 * time.Microsecond)},
		{At: 100, Type: desktop.EventAction, Action: &desktop.Action{Name: "close_window", Window: 7}, Time: begin.Add(100_100 * time.Microsecond)},
	}), 5000)
	if err != nil {
		t.Fatal(err)
	}
	if text := checkVTT(t, cues); !strings.Contains(text, "\nClose xterm\n") {
		t.Errorf("no %q in\n%s", "Close xterm", text)
	}
}

func TestChaptersGolden(t *testing.T) {
	t.Parallel()
	cues, err := chapterCues(of(script()), 75000)
	if err != nil {
		t.Fatal(err)
	}
	text := checkVTT(t, cues)
	golden(t, "chapters.vtt", text)
	ffmpegReads(t, text, len(cues))
}

// ffmpegReads counts the cues with ffmpeg.
func ffmpegReads(t *testing.T, text string, want int) {
	t.Helper()
	testx11.Require(t, "ffprobe")
	cmd := exec.CommandContext(t.Context(), "ffprobe", "-v", "error", "-f", "webvtt", "-show_entries", "packet=pts_time", "-of", "csv=p=0", "-")
	cmd.Stdin = strings.NewReader(text)
	out, err := cmd.CombinedOutput()
	if n := len(bytes.Fields(out)); err != nil || n != want {
		t.Errorf("ffprobe found %d cues of %d: %v\n%s", n, want, err, out)
	}
}

func TestCaptionsOfASpan(t *testing.T) {
	t.Parallel()
	all := []cue{{0, 1000, []string{"a"}}, {1500, 3000, []string{"b"}}, {4000, 6000, []string{"c"}}, {7000, 8000, []string{"d"}}}
	got := cut(all, Span{2 * time.Second, 5 * time.Second})
	want := []cue{{0, 1000, []string{"b"}}, {2000, 3000, []string{"c"}}}
	if len(got) != len(want) || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("cut to %v", got)
	}
}

// TestCaptionsOfAStorm makes captions of more actions than a person can read.
func TestCaptionsOfAStorm(t *testing.T) {
	t.Parallel()
	var entries []Entry
	for i := range 5000 {
		e := entryOf(click(i, i))
		e.At = Milliseconds(i * 10)
		entries = append(entries, e)
	}
	cues, err := captions(of(entries), 0)
	if err != nil {
		t.Fatal(err)
	}
	checkVTT(t, cues)
	seen := map[string]Milliseconds{}
	for _, c := range cues {
		if len(c.lines) > maxLines {
			t.Fatalf("%d lines at %d", len(c.lines), c.from)
		}
		for _, line := range c.lines {
			if _, ok := seen[line]; !ok {
				seen[line] = c.from
			}
		}
	}
	for i := range entries {
		if at, ok := seen[fmt.Sprintf("Click at %d, %d", i, i)]; !ok || at != Milliseconds(i*10) {
			t.Fatalf("click %d appears at %d, %v", i, at, ok)
		}
	}
}

// TestMarkersOfOneMoment joins only the first titles of many markers.
func TestMarkersOfOneMoment(t *testing.T) {
	t.Parallel()
	title := strings.Repeat("ä", maxQuote)
	entries := slices.Repeat([]Entry{{At: 1000, Type: TypeMarker, Marker: &Marker{Title: title}}}, 12_000)
	list, err := chapters(of(entries), 60_000)
	if err != nil || len(list) != 2 || list[1].Title != strings.Repeat(title+" / ", 7)+"…" {
		t.Fatalf("%d chapters, %v: %d bytes of titles", len(list), err, len(list[1].Title))
	}
}

func TestFewChapters(t *testing.T) {
	t.Parallel()
	var entries []Entry
	for i := range 3600 { // another window every second for an hour, with half an hour in one window
		at := Milliseconds(i) * 1000
		if i >= 1800 && i < 2000 {
			continue
		}
		entries = append(entries, Entry{At: at, Type: "window_focused", Window: &desktop.Window{ID: desktop.WindowID(i % 5), Title: fmt.Sprint("w", i%5)}})
	}
	list, err := chapters(of(entries), 3600_000)
	if err != nil || len(list) > int(maxVisits)+1 {
		t.Fatalf("%d chapters, %v", len(list), err)
	}
	// A single window makes no chapter, but a marker does.
	one := []Entry{{At: 10, Type: "window_focused", Window: &desktop.Window{ID: 1, Title: "w"}}}
	if list, err := chapters(of(one), 60000); err != nil || list != nil {
		t.Errorf("%v, %v", list, err)
	}
	list, err = chapters(of(append(one, Entry{At: 30000, Type: TypeMarker, Marker: &Marker{Title: "m"}})), 60000)
	if err != nil || len(list) != 2 || list[0] != (Chapter{0, 30000, "w"}) || list[1].Title != "m" || list[1].To != 60000 {
		t.Errorf("%+v, %v", list, err)
	}
}

func FuzzWebVTT(f *testing.F) {
	f.Add("a", "b --> c", "xterm", int64(1), int64(2))
	f.Add("", "\n\n00:00:00.000 --> 00:00:01.000\n", "\r\n\x00<v>&amp;", int64(0), int64(0))
	f.Add("NOTE", "\u2028\xff", " ", int64(-5), int64(1<<40))
	f.Fuzz(func(t *testing.T, title, text, class string, a, b int64) {
		entry := func(at int64, e Entry) Entry {
			e.At = Milliseconds(at) & (maxAt - 1)
			return e
		}
		w := desktop.Window{ID: 1, Title: title, Class: class, Frame: desktop.Rect{Width: 1 << 20, Height: 1 << 20}}
		entries := []Entry{
			entry(0, Entry{Type: "window_focused", Window: &w}),
			entry(a, Entry{Type: TypeMarker, Marker: &Marker{Title: title}}),
			entry(b, Entry{Type: "action", Action: &desktop.Action{Name: "type", Text: text, Actor: desktop.Actor{Name: class}}}),
			entry(a, Entry{Type: "action", Action: &desktop.Action{Name: desktop.ActionName(class), Keys: text, At: &desktop.Point{}, Button: desktop.Button(title)}}),
			entry(b, Entry{Type: "x", Title: text}),
			entry(b, Entry{Type: "failed", Failure: &Failure{Message: text}}),
		}
		for _, end := range []Milliseconds{0, 1, entry(b, Entry{}).At + 10} {
			cues, err := captions(of(entries), end)
			if err != nil {
				t.Fatal(err)
			}
			checkVTT(t, cues)
			if cues, err = chapterCues(of(entries), end); err != nil {
				t.Fatal(err)
			}
			checkVTT(t, cues)
			checkVTT(t, cut(cues, Span{time.Second, 5 * time.Second}))
		}
	})
}

// TestCuesHoldNoData: the data of callers' events can be most of a
func TestCuesHoldNoData(t *testing.T) {
	t.Parallel()
	entries := func(yield func(Entry, error) bool) {
		yield(Entry{Seq: 1, Type: "x", Title: "t", Data: []byte(`"data"`)}, nil)
	}
	got, err := chronological(entries, 0, func(Entry) bool { return true })
	if err != nil || len(got) != 1 || got[0].Title != "t" || got[0].Data != nil {
		t.Errorf("%+v, %v", got, err)
	}
}
