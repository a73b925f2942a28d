package timeline

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/deskhand/deskhand/desktop"
)

// timelineFile writes a file with markers at each second.
func timelineFile(t *testing.T, count int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "timeline.jsonl")
	for i := range count {
		at := Milliseconds(i * 1000)
		if _, err := AddMarker(path, Marker{Title: fmt.Sprint("m", i), At: &at}, time.Now(), time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

func TestReadPage(t *testing.T) {
	t.Parallel()
	path := timelineFile(t, 10)
	for _, tc := range []struct {
		query Query
		first string
		count int
		next  uint64
	}{
		{Query{}, "m0", 10, 0},
		{Query{Limit: 4}, "m0", 4, 4},
		{Query{Limit: 4, After: 4}, "m4", 4, 8},
		{Query{Limit: 4, After: 8}, "m8", 2, 0},
		{Query{Limit: 10}, "m0", 10, 10},
		{Query{After: 10}, "", 0, 0},
		{Query{Span: Span{From: 3 * time.Second}}, "m3", 7, 0},
		{Query{Span: Span{From: 3 * time.Second, To: 5 * time.Second}}, "m3", 2, 0},
		{Query{Span: Span{To: time.Millisecond}}, "m0", 1, 0},
		{Query{Limit: 2, After: 4, Span: Span{To: 6 * time.Second}}, "m4", 2, 6},
	} {
		page, next, err := ReadPage(path, tc.query)
		if err != nil || len(page) != tc.count || next != tc.next {
			t.Errorf("ReadPage(%+v) = %d entries, %d, %v, want %d, %d", tc.query, len(page), next, err, tc.count, tc.next)
			continue
		}
		if tc.count > 0 && page[0].Marker.Title != tc.first {
			t.Errorf("ReadPage(%+v) begins with %s, want %s", tc.query, page[0].Marker.Title, tc.first)
		}
	}
}

// TestReadErrors reads files that do not exist or cannot be read.
func TestReadErrors(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if page, next, err := ReadPage(filepath.Join(dir, "none"), Query{}); err != nil || len(page) != 0 || next != 0 {
		t.Errorf("ReadPage of no file = %v, %d, %v", page, next, err)
	}
	loop := filepath.Join(dir, "loop")
	if err := os.Symlink(loop, loop); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, loop} {
		if _, _, err := ReadPage(path, Query{}); err == nil {
			t.Errorf("ReadPage(%s) succeeded", path)
		}
		if _, err := Chapters(Read(path, 0), time.Minute); err == nil {
			t.Errorf("Chapters of %s succeeded", path)
		}
		for _, kind := range []VTTKind{VTTCaptions, VTTChapters} {
			if err := WriteWebVTT(&bytes.Buffer{}, kind, Read(path, 0), 0, Span{}); err == nil {
				t.Errorf("WriteWebVTT of %s succeeded", path)
			}
		}
		at := Milliseconds(0)
		if _, err := AddMarker(path, Marker{Title: "m", At: &at}, time.Now(), time.Minute); err == nil {
			t.Errorf("AddMarker to %s succeeded", path)
		}
	}
}

// TestReadEnds stops the iteration before the last entry.
func TestReadEnds(t *testing.T) {
	t.Parallel()
	count := 0
	for range Read(timelineFile(t, 5), 0) {
		if count++; count == 2 {
			break
		}
	}
	if count != 2 {
		t.Errorf("read %d entries, want 2", count)
	}
}

func TestAddMarker(t *testing.T) {
	t.Parallel()
	path := timelineFile(t, 1)
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	late, ok := Milliseconds(60_001), Milliseconds(60_000)
	for field, m := range map[string]Marker{"at": {Title: "m"}, "title": {At: &ok}, "color": {Title: "m", At: &ok, Color: "#12345"}} {
		var invalid *InvalidError
		if _, err := AddMarker(path, m, began, time.Minute); !errors.As(err, &invalid) || invalid.Field != field || !errors.Is(err, desktop.ErrInvalid) {
			t.Errorf("AddMarker(%+v) = %v, want an error about %s", m, err, field)
		}
	}
	if _, err := AddMarker(path, Marker{Title: "m", At: &late}, began, time.Minute); err == nil || !strings.Contains(err.Error(), "at most 60000") {
		t.Errorf("AddMarker after the end = %v", err)
	}
	e, err := AddMarker(path, Marker{Title: "m", At: &ok, Text: "text"}, began, time.Minute)
	if err != nil || e.Seq != 2 || e.At != ok || !e.Time.Equal(began.Add(time.Minute)) || e.Marker.At != nil {
		t.Errorf("AddMarker = %+v, %v", e, err)
	}
}

// TestAddMarkerIsBounded adds markers until they have used up their share of a file.
func TestAddMarkerIsBounded(t *testing.T) {
	t.Parallel()
	path := timelineFile(t, 1)
	at, text := Milliseconds(0), strings.Repeat("<", maxText)
	line, err := json.Marshal(Entry{Seq: 1, Type: TypeMarker, Marker: &Marker{Title: "m", Text: text}})
	if err != nil {
		t.Fatal(err)
	}
	line = append(line, '\n')
	share := int(newShares(maxFile).markers.limit)
	if err := os.WriteFile(path, bytes.Repeat(line, share/len(line)-1), 0o600); err != nil {
		t.Fatal(err)
	}
	added := 0
	for err == nil && added < 5 {
		if _, err = AddMarker(path, Marker{Title: "m", Text: text, At: &at}, time.Now(), time.Minute); err == nil {
			added++
		}
	}
	if info, statErr := os.Stat(path); !errors.Is(err, ErrFull) || added == 0 || statErr != nil || info.Size() > int64(share) {
		t.Errorf("after %d markers: %v, %v, %+v, want ErrFull and at most %d bytes", added, err, statErr, info, share)
	}
}

// TestAddMarkerToAFullFile adds a marker to a file that has no room, after entries and after
// data without any entry.
func TestAddMarkerToAFullFile(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]string{"entry": `{"seq":7,"at":1,"type":"x"}` + "\n", "no entry": "{}\n"} {
		path := filepath.Join(t.TempDir(), "timeline.jsonl")
		line := strings.Repeat(" ", 1<<20-1) + "\n"
		if err := os.WriteFile(path, []byte(begin+strings.Repeat(line, maxFile>>20)), 0o600); err != nil {
			t.Fatal(err)
		}
		at := Milliseconds(0)
		if _, err := AddMarker(path, Marker{Title: "m", At: &at}, time.Now(), time.Minute); !errors.Is(err, ErrFull) {
			t.Errorf("%s: AddMarker = %v, want ErrFull", name, err)
		}
		if err := os.Truncate(path, 8<<20); err != nil {
			t.Fatal(err)
		}
		want := uint64(1)
		if name == "entry" {
			want = 8
		}
		e, err := AddMarker(path, Marker{Title: "m", At: &at}, time.Now(), time.Minute)
		if err != nil || e.Seq != want {
			t.Errorf("%s: AddMarker = %d, %v, want the number %d", name, e.Seq, err, want)
		}
	}
}

// TestMarkAndAdd adds markers and events to an open timeline.
func TestMarkAndAdd(t *testing.T) {
	t.Parallel()
	line, path := testTimeline(t, maxFile)
	early, late := Milliseconds(0), Milliseconds(3600_000)
	if _, err := line.Mark(Marker{Title: "m", At: &late}); err == nil || !strings.Contains(err.Error(), "not longer yet") {
		t.Errorf("Mark after the present = %v", err)
	}
	if _, err := line.Mark(Marker{}); !errors.Is(err, desktop.ErrInvalid) {
		t.Errorf("Mark without a title = %v", err)
	}
	if _, err := line.Add(Event{Type: "marker"}); !errors.Is(err, desktop.ErrInvalid) {
		t.Errorf("Add of a reserved type = %v", err)
	}
	if e, err := line.Mark(Marker{Title: "begin", At: &early}); err != nil || e.At != 0 || e.Seq != 1 {
		t.Errorf("Mark at the beginning = %+v, %v", e, err)
	}
	moment := line.cfg.Epoch.Add(250 * time.Millisecond)
	if e, err := line.Add(Event{Type: "note", Title: "t", Time: moment}); err != nil || e.At != 250 || e.Seq != 2 {
		t.Errorf("Add at a time = %+v, %v", e, err)
	}
	if _, err := line.Add(Event{Type: "note", Data: json.RawMessage(`{"a":1}`)}); err != nil {
		t.Error(err)
	}
	if err := line.Flush(); err != nil {
		t.Error(err)
	}
	if all := readAll(t, path); len(all) != 3 {
		t.Errorf("%d entries after Flush, want 3", len(all))
	}
	line.Close()
	if _, err := line.Mark(Marker{Title: "m"}); !errors.Is(err, ErrClosed) {
		t.Errorf("Mark after Close = %v", err)
	}
}

// TestMissedEventsAreCounted gives a timeline a gap of the desktop's events.
func TestMissedEventsAreCounted(t *testing.T) {
	t.Parallel()
	dropped := uint64(0)
	path := filepath.Join(t.TempDir(), "timeline.jsonl")
	line, _, err := open(Config{Path: path, Epoch: time.Now(), After: 5, Dropped: func(n uint64) { dropped += n }}, maxFile)
	if err != nil {
		t.Fatal(err)
	}
	line.addEvent(desktop.Event{Seq: 9, Time: time.Now(), Type: desktop.EventGap, Dropped: 3})
	line.addEvent(desktop.Event{Seq: 8, Time: time.Now(), Type: desktop.EventFailed, Failure: &desktop.Failure{Code: "c", Message: "m"}})
	if seen := line.Close(); seen != 9 || dropped != 3 {
		t.Errorf("Close = %d with %d dropped, want 9 with 3", seen, dropped)
	}
	all := readAll(t, path)
	if len(all) != 2 || all[0].Dropped != 3 || all[1].Failure == nil || *all[1].Failure != (Failure{"c", "m"}) {
		t.Errorf("the file has %+v", all)
	}
	if _, _, err := open(Config{Path: path}, maxFile); !errors.Is(err, os.ErrExist) {
		t.Errorf("open of a file that exists = %v", err)
	}
}

func TestWebVTTArguments(t *testing.T) {
	t.Parallel()
	entries := Read(timelineFile(t, 2), 0)
	for field, err := range map[string]error{
		"kind": WriteWebVTT(&bytes.Buffer{}, "subtitles", entries, 0, Span{}),
		"from": WriteWebVTT(&bytes.Buffer{}, VTTCaptions, entries, 0, Span{From: -1}),
		"to":   WriteWebVTT(&bytes.Buffer{}, VTTCaptions, entries, 0, Span{To: -1}),
	} {
		var invalid *InvalidError
		if !errors.As(err, &invalid) || invalid.Field != field || invalid.Error() != field+": "+invalid.Reason {
			t.Errorf("bad %s: %v", field, err)
		}
	}
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	if err := WriteWebVTT(full, VTTChapters, entries, time.Minute, Span{}); err == nil {
		t.Error("a full disk took the chapters")
	}
}

// TestChapters divides videos with markers and windows.
func TestChapters(t *testing.T) {
	t.Parallel()
	focus := func(ms Milliseconds, id desktop.WindowID, title string) Entry {
		return Entry{At: ms, Type: desktop.EventWindowFocused, Window: &desktop.Window{ID: id, Title: title, Class: "App"}}
	}
	mark := func(ms Milliseconds, title string) Entry {
		return Entry{At: ms, Type: TypeMarker, Marker: &Marker{Title: title}}
	}
	renamed := focus(2000, 1, "b")
	renamed.Type = desktop.EventWindowRenamed
	started := Entry{Type: TypeStarted, Windows: []desktop.Window{{ID: 1, Title: "a", Active: true}, {ID: 2, Title: "z"}}}
	for name, tc := range map[string]struct {
		entries []Entry
		want    string
	}{
		"nothing":                 {nil, ""},
		"one window":              {[]Entry{focus(0, 1, "a")}, ""},
		"two windows":             {[]Entry{focus(0, 1, "a"), focus(30000, 2, "b")}, "0-30000 a, 30000-60000 b"},
		"started":                 {[]Entry{started, focus(30000, 2, "b")}, "0-30000 a, 30000-60000 b"},
		"renamed":                 {[]Entry{focus(0, 1, "a"), renamed, focus(30000, 2, "c")}, "0-30000 b, 30000-60000 c"},
		"without a title":         {[]Entry{focus(0, 1, " "), focus(30000, 2, "b")}, "0-30000 app, 30000-60000 b"},
		"glimpse":                 {[]Entry{focus(0, 1, "a"), focus(10000, 2, "b"), focus(10500, 1, "a"), focus(30000, 3, "c")}, "0-30000 a, 30000-60000 c"},
		"late window":             {[]Entry{focus(20000, 1, "a"), focus(40000, 2, "b")}, "0-20000 Start, 20000-40000 a, 40000-60000 b"},
		"marker":                  {[]Entry{mark(9000, "m")}, "0-9000 Start, 9000-60000 m"},
		"two markers at a moment": {[]Entry{mark(0, "m"), mark(0, "n")}, "0-60000 m / n"},
		"window beside a marker":  {[]Entry{focus(0, 1, "a"), mark(30000, "m"), focus(31000, 2, "b")}, "0-30000 a, 30000-60000 m"},
		"after the end":           {[]Entry{focus(0, 1, "a"), mark(90000, "m")}, "0-59999 a, 59999-60000 m"},
	} {
		list, err := Chapters(of(tc.entries), time.Minute)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		var got []string
		for _, c := range list {
			got = append(got, fmt.Sprintf("%d-%d %s", c.From, c.To, c.Title))
		}
		if strings.Join(got, ", ") != tc.want {
			t.Errorf("%s: got %q, want %q", name, strings.Join(got, ", "), tc.want)
		}
	}
	list, err := Chapters(of([]Entry{mark(1000, "m")}), 0)
	if err != nil || len(list) != 2 || list[1].To != 2000 {
		t.Errorf("of a video that is not complete: %+v, %v", list, err)
	}
}
