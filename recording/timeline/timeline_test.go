package timeline

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/deskhand/deskhand/desktop"
)

func click(x, y int) desktop.Event {
	return desktop.Event{Time: time.Now(), Type: desktop.EventAction, Action: &desktop.Action{
		Name: "click", Actor: desktop.Actor{Kind: desktop.ActorAPI}, At: &desktop.Point{X: x, Y: y}, Button: desktop.ButtonLeft, Count: 1,
	}}
}

func testTimeline(t testing.TB, limit int64) (*Timeline, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "timeline.jsonl")
	line, _, err := open(Config{Path: path, Epoch: time.Now()}, limit)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { line.Close() })
	return line, path
}

func readAll(t testing.TB, path string) []Entry {
	t.Helper()
	var all []Entry
	for e, err := range Read(path, 0) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

// busyDesktop has an event every 2 ms.
type busyDesktop struct{ *desktop.EventLog }

func (busyDesktop) Windows(context.Context, desktop.WindowFilter) ([]desktop.Window, error) {
	return nil, nil
}
func (busyDesktop) Control() desktop.Control { return desktop.Control{} }
func (busyDesktop) Status() desktop.Status   { return desktop.Status{} }

func TestCloseWhileEventsKeepComing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := busyDesktop{desktop.NewEventLog("d")}
		stop, stopped := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(stopped)
			for {
				select {
				case <-stop:
					return
				case <-time.After(2 * time.Millisecond):
					d.Emit(click(1, 1))
				}
			}
		}()
		tl, err := Start(d, Config{Path: filepath.Join(t.TempDir(), "timeline.jsonl"), Epoch: time.Now()})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond)
		begun := time.Now()
		tl.Close()
		if took := time.Since(begun); took > 2*drainMost {
			t.Errorf("Close took %v", took)
		}
		close(stop)
		<-stopped
		d.Close()
	})
}

func TestTimelineWritesWithinASecond(t *testing.T) {
	t.Parallel()
	line, path := testTimeline(t, maxFile)
	line.addEvent(click(1, 2))
	deadline := time.Now().Add(time.Minute)
	for len(readAll(t, path)) == 0 {
		if time.Now().After(deadline) {
			t.Fatal("the entry was not written without a Flush")
		}
		<-time.After(10 * time.Millisecond)
	}
	if _, err := line.Add(Event{Type: "note", Data: json.RawMessage(`{"a":  1}`)}); err != nil {
		t.Fatal(err)
	}
	line.Close()
	all := readAll(t, path)
	if len(all) != 2 || all[0].Seq != 1 || all[1].Seq != 2 || *all[0].Action.At != (desktop.Point{X: 1, Y: 2}) || string(all[1].Data) != `{"a":1}` {
		t.Fatalf("read %+v", all)
	}
	if _, err := line.Add(Event{Type: "note"}); !errors.Is(err, ErrClosed) {
		t.Errorf("after the end: %v, not ErrClosed", err)
	}
}

func TestTimelineClock(t *testing.T) {
	t.Parallel()
	line, path := testTimeline(t, maxFile)
	for _, at := range []time.Duration{-time.Second, 0, 1500*time.Millisecond + 999*time.Microsecond} {
		e := click(0, 0)
		e.Time = line.cfg.Epoch.Add(at)
		line.addEvent(e)
	}
	line.Close()
	var got []Milliseconds
	for _, e := range readAll(t, path) {
		got = append(got, e.At)
	}
	if !slices.Equal(got, []Milliseconds{0, 0, 1500}) {
		t.Errorf("positions %v", got)
	}
}

func TestTimelineTornByACrash(t *testing.T) {
	t.Parallel()
	line, path := testTimeline(t, maxFile)
	for i := range 10 {
		line.addEvent(click(i, i))
	}
	line.Close()
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(whole, []byte("\n"))
	for cut := range len(lines[9]) { // at every byte of the last line
		torn := whole[:len(whole)-len(lines[9])+cut]
		if err := os.WriteFile(path, torn, 0o600); err != nil {
			t.Fatal(err)
		}
		if all := readAll(t, path); len(all) != 9 || all[8].Seq != 9 {
			t.Fatalf("cut after %d bytes of the last line: %d entries", cut, len(all))
		}
	}
	// The next entry replaces the torn line.
	at := Milliseconds(5)
	e, err := AddMarker(path, Marker{Title: "later", At: &at}, time.Now(), time.Second)
	if err != nil || e.Seq != 10 {
		t.Fatalf("added %+v, %v", e, err)
	}
	all := readAll(t, path)
	if len(all) != 10 || all[9].Marker == nil || all[9].Marker.Title != "later" {
		t.Errorf("%d entries, the last %+v", len(all), all[len(all)-1])
	}
}

func TestTimelineReadsAroundRubbish(t *testing.T) {
	t.Parallel()
	good := `{"seq":%d,"at":1,"time":"2026-01-02T03:04:05Z","type":"marker"}` + "\n"
	text := fmt.Sprintf(good, 1) + "\x00\xff\n" + "{}\n" + strings.Repeat("x", 3*maxLine) + "\n" + fmt.Sprintf(good, 2) +
		`{"seq":3,"at":-1,"type":"marker"}` + "\n\n" + fmt.Sprintf(good, 4) + `{"seq":5,`
	var seqs []uint64
	for e, err := range read(strings.NewReader(text), 0) {
		if err != nil {
			t.Fatal(err)
		}
		seqs = append(seqs, e.Seq)
	}
	if !slices.Equal(seqs, []uint64{1, 2, 4}) {
		t.Errorf("read %v", seqs)
	}
}

// TestTimelineIsBounded floods a timeline with entries of each kind in turn, and checks that a
// kind uses up only its own share.
func TestTimelineIsBounded(t *testing.T) {
	t.Parallel()
	const limit = 1 << 20
	line, path := testTimeline(t, limit)
	dropped := 0
	line.cfg.Dropped = func(n uint64) { dropped += int(n) }
	renamed := desktop.Event{Type: desktop.EventWindowRenamed, Time: time.Now(), Window: &desktop.Window{Title: strings.Repeat("<", 256)}}
	data, _ := json.Marshal(strings.Repeat("x", maxData-2))
	kinds := []struct {
		name string
		add  func() error
	}{
		{"windows", func() error { _, err := line.put(entryOf(renamed)); return err }},
		{"events", func() error { _, err := line.Add(Event{Type: "note", Data: data}); return err }},
		{"markers", func() error {
			_, err := line.Mark(Marker{Title: "m", Text: strings.Repeat("<", maxText)})
			return err
		}},
		{"actions", func() error { _, err := line.put(entryOf(click(1, 2))); return err }},
	}
	for i, flood := range kinds {
		var err error
		for range 10000 {
			if err = flood.add(); err != nil {
				break
			}
			if err := line.Flush(); err != nil {
				t.Fatal(err)
			}
		}
		if !errors.Is(err, ErrFull) {
			t.Errorf("a flood of %s ends with %v", flood.name, err)
		}
		for _, other := range kinds[i+1:] {
			if err := other.add(); err != nil {
				t.Errorf("after a flood of %s, %s: %v", flood.name, other.name, err)
			}
		}
	}
	line.Close()
	if info, err := os.Stat(path); err != nil || info.Size() > limit {
		t.Errorf("the file has %d bytes, %v; the limit is %d", info.Size(), err, limit)
	}
	missed := 0
	for i, e := range readAll(t, path) {
		missed += int(e.Dropped)
		if e.Seq != uint64(i+1) {
			t.Fatalf("entry %d has the number %d", i, e.Seq)
		}
	}
	if missed != 3 || dropped != 4 { // a gap is written only before a later entry
		t.Errorf("gaps count %d entries, and %d were dropped", missed, dropped)
	}
}

// TestTimelineOnAFullDisk writes to a full disk that gets room later.
func TestTimelineOnAFullDisk(t *testing.T) {
	t.Parallel()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	line, path := testTimeline(t, maxFile)
	line.writing.Lock()
	disk := line.file
	line.file = full
	line.writing.Unlock()
	const many = 25000 // more than the buffer holds
	for i := range many {
		line.addEvent(click(i, i))
	}
	if err := line.Flush(); err == nil {
		t.Error("a full disk took it")
	}
	line.mu.Lock()
	if len(line.buf) > maxWaiting {
		t.Errorf("%d bytes wait", len(line.buf))
	}
	line.mu.Unlock()
	line.writing.Lock()
	line.file = disk
	line.writing.Unlock()
	if err := line.Flush(); err != nil {
		t.Fatal(err)
	}
	line.addEvent(click(0, 0))
	line.Close()
	all := readAll(t, path)
	gap := all[len(all)-2]
	if gap.Type != desktop.EventGap || int(gap.Dropped)+len(all)-2 != many {
		t.Errorf("%d entries, of which the last but one is %+v", len(all), gap)
	}
}

func TestMarkersAndEventsAreChecked(t *testing.T) {
	t.Parallel()
	at := Milliseconds(-1)
	for field, m := range map[string]Marker{
		"title": {Title: " "}, "color": {Title: "a", Color: "red"}, "text": {Title: "a", Text: strings.Repeat("é", 4097)}, "at": {Title: "a", At: &at},
	} {
		var invalid *InvalidError
		if err := m.check(); !errors.As(err, &invalid) || invalid.Field != field {
			t.Errorf("marker with a bad %s: %v", field, err)
		}
	}
	for field, e := range map[string]Event{
		"type": {Type: "action"}, "data": {Type: "a", Data: json.RawMessage("{")}, "title": {Type: "a", Title: "\xff"},
	} {
		var invalid *InvalidError
		if err := e.check(); !errors.As(err, &invalid) || invalid.Field != field {
			t.Errorf("event with a bad %s: %v", field, err)
		}
	}
	for _, name := range []desktop.EventType{"", "Tool", "a b", "1a", desktop.EventType(strings.Repeat("a", 65)), "marker", "started", "gap"} {
		if err := (Event{Type: name}).check(); err == nil {
			t.Errorf("the type %q passed", name)
		}
	}
	big := json.RawMessage(`"` + strings.Repeat("a", maxData) + `"`)
	if err := (Event{Type: "a", Data: big}).check(); err == nil {
		t.Error("65 KiB of data passed")
	}
	if err := (Event{Type: "tool_call", Title: "run", Data: json.RawMessage(`{"a":[1]}`)}).check(); err != nil {
		t.Error(err)
	}
}

func TestQueryIsChecked(t *testing.T) {
	t.Parallel()
	for field, q := range map[string]Query{
		"limit": {Limit: MaxLimit + 1}, "from": {Span: Span{From: -1}}, "to": {Span: Span{From: 5, To: 5}},
	} {
		var invalid *InvalidError
		if _, _, err := ReadPage("", q); !errors.As(err, &invalid) || invalid.Field != field {
			t.Errorf("query with a bad %s: %v", field, err)
		}
	}
}

func FuzzTimeline(f *testing.F) {
	f.Add([]byte(`{"seq":1,"at":1,"type":"marker","marker":{"title":"x"}}` + "\n{\"seq\":2"))
	f.Add([]byte(`{"seq":1,"at":0,"type":"action","action":{"name":"click","at":{"x":1,"y":2}}}` + "\n"))
	f.Add([]byte(`{"seq":1,"seq":2,"at":0,"type":"x"}` + "\n{\"at\":1,\"seq\":3,\"type\":\"x\"}\n"))
	f.Add([]byte(`{"seq":1,"at":0,"type":"window_focused","window":{"id":7,"title":"a --> b\n"}}` + "\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		readData := func() []Entry {
			var all []Entry
			for e, err := range read(bytes.NewReader(data), 0) {
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, e)
			}
			return all
		}
		later := 0
		for _, e := range readData() {
			if e.Seq == 0 || e.At < 0 {
				t.Fatalf("read %+v", e)
			}
			if e.Seq > 1 {
				later++
			}
		}
		for _, err := range read(bytes.NewReader(data), 1) {
			if err != nil {
				t.Fatal(err)
			}
			later--
		}
		if later != 0 {
			t.Fatalf("%d more entries after the first when all are read", later)
		}
		// AddMarker keeps complete lines.
		fd, err := unix.MemfdCreate("timeline.jsonl", 0)
		if err != nil {
			t.Fatal(err)
		}
		file := os.NewFile(uintptr(fd), "timeline.jsonl")
		defer file.Close()
		if _, err := file.Write(data); err != nil {
			t.Fatal(err)
		}
		before := len(readData())
		e, err := appendTo(file, Entry{Type: TypeMarker, Marker: &Marker{Title: "x"}})
		if err != nil {
			t.Fatal(err)
		}
		if data, err = os.ReadFile(fmt.Sprintf("/proc/self/fd/%d", fd)); err != nil {
			t.Fatal(err)
		}
		after := readData()
		if len(after) != before+1 || after[before].Seq != e.Seq {
			t.Fatalf("%d entries became %d", before, len(after))
		}
		for _, kind := range []func() ([]cue, error){
			func() ([]cue, error) { return captions(read(bytes.NewReader(data), 0), 0) },
			func() ([]cue, error) { return chapterCues(read(bytes.NewReader(data), 0), 0) },
		} {
			cues, err := kind()
			if err != nil {
				t.Fatal(err)
			}
			checkVTT(t, cues)
		}
	})
}

// BenchmarkTimeline measures the cost of an action for its caller.
func BenchmarkTimeline(b *testing.B) {
	line, _ := testTimeline(b, 1<<40)
	e := click(412, 300)
	b.ReportAllocs()
	for b.Loop() {
		line.addEvent(e)
	}
}
