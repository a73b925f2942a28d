package universal_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/agents/universal"
)

var update = flag.Bool("update", false, "write the golden files")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// logs holds the logs of sessions that several packages' tests read.
const logs = "../../testdata/agentlogs/"

// entries reads a log.
func entries(t testing.TB, file string) (all []eventlog.Event) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e struct {
			Seq     int64
			At      time.Time
			Process string `json:"life"`
			Dir     eventlog.Direction
			Kind    string
			Payload json.RawMessage
		}
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatal(err)
		}
		all = append(all, eventlog.Event{Seq: e.Seq, ID: fmt.Sprint("evt_", e.Seq), At: e.At, Process: e.Process, Dir: e.Dir, Kind: e.Kind, Payload: e.Payload})
	}
	return all
}

// TestGolden compares the events of logs with golden files. One log was recorded with the
// mock agent. The others have messages as Claude Code, Codex, Gemini and OpenCode send them.
func TestGolden(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(logs + "*.jsonl")
	if err != nil || len(files) < 3 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			log := entries(t, file)
			s := universal.NewState("s1")
			var got strings.Builder
			var all []universal.Event
			for _, e := range log {
				for _, u := range s.Apply(e) {
					text, err := u.JSON(e.Payload)
					if err != nil {
						t.Fatal(err)
					}
					got.Write(text)
					got.WriteByte('\n')
					all = append(all, u)
				}
			}
			check(t, all)
			golden := "testdata/" + strings.TrimSuffix(filepath.Base(file), ".jsonl") + ".golden"
			if *update {
				if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got.String(), "\n")); diff != "" {
				t.Errorf("the events have changed, which breaks stored offsets; if that is meant, run go test -update (-want +got):\n%s", diff)
			}
			again(t, log, all)
		})
	}
}

// again applies a log with the state going through JSON before each entry.
func again(t *testing.T, log []eventlog.Event, want []universal.Event) {
	t.Helper()
	s := universal.NewState("s1")
	var got []universal.Event
	for _, e := range log {
		text, err := s.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		if s = universal.Restore(text); s == nil {
			t.Fatalf("not restored: %s", text)
		}
		got = append(got, s.Apply(e)...)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("a restored state makes other events (-want +got):\n%s", diff)
	}
}

// check checks what the package promises of all events.
func check(t testing.TB, all []universal.Event) {
	t.Helper()
	items, turns, questions := map[string]string{}, map[string]string{}, map[string]bool{}
	for i, e := range all {
		if e.Sequence != int64(i+1) || e.Session != "s1" || e.ID == "" || e.Synthetic && e.Source != "daemon" {
			t.Errorf("event %d is %+v", i+1, e)
		}
		var d struct {
			Item       struct{ ItemID, Status string } `json:"-"`
			Raw        json.RawMessage                 `json:"item"`
			ItemID     string                          `json:"item_id"`
			TurnID     string                          `json:"turn_id"`
			Permission string                          `json:"permission_id"`
			Question   string                          `json:"question_id"`
		}
		if err := json.Unmarshal(e.Data, &d); err != nil {
			t.Fatal(err)
		}
		id := d.ItemID
		var item universal.Item
		if d.Raw != nil {
			if err := json.Unmarshal(d.Raw, &item); err != nil {
				t.Fatal(err)
			}
			id = item.ID
		}
		switch e.Type {
		case universal.ItemStarted:
			if items[id] != "" || item.Status != "in_progress" {
				t.Errorf("%s begins as %s, and was %q", id, item.Status, items[id])
			}
			items[id] = "started"
			if p := item.Parent; p != nil && items[*p] == "" {
				t.Errorf("the parent %s of %s has not begun", *p, id)
			}
		case universal.ItemDelta:
			if items[id] != "started" {
				t.Errorf("a delta of %s, which is %q", id, items[id])
			}
		case universal.ItemCompleted:
			if items[id] != "started" || item.Status == "in_progress" {
				t.Errorf("%s ends as %s, and was %q", id, item.Status, items[id])
			}
			items[id] = "completed"
		case universal.TurnStarted:
			turns[d.TurnID] += "started "
		case universal.TurnEnded:
			turns[d.TurnID] += "ended "
		case universal.PermissionAsked, universal.QuestionAsked:
			questions[d.Permission+d.Question] = true
		case universal.PermissionResolved, universal.QuestionResolved:
			if !questions[d.Permission+d.Question] {
				t.Errorf("%s was not asked, or is answered twice", d.Permission+d.Question)
			}
			delete(questions, d.Permission+d.Question)
		case universal.SessionEnded:
			for id, state := range items {
				if state != "completed" {
					t.Errorf("%s is %s when the session ends", id, state)
				}
			}
		}
	}
	for id, state := range turns {
		if state != "started ended " && state != "started " {
			t.Errorf("%s: %s", id, state)
		}
	}
}

// FuzzApply applies invalid entries.
func FuzzApply(f *testing.F) {
	files, err := filepath.Glob(logs + "*.jsonl")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		for _, e := range entries(f, file) {
			f.Add(uint8(e.Dir), e.Kind, e.Payload, uint8(1), "session/update", []byte(`{"params":{"update":{"sessionUpdate":"tool_call","toolCallId":"x"}}}`))
		}
	}
	f.Fuzz(func(t *testing.T, dir1 uint8, kind1 string, payload1 []byte, dir2 uint8, kind2 string, payload2 []byte) {
		s := universal.NewState("s1")
		var all []universal.Event
		for i := range 4 {
			e := eventlog.Event{Seq: int64(i + 1), Process: "life_1", Dir: eventlog.Direction(dir1 % 3), Kind: kind1, Payload: payload1}
			if i%2 == 1 {
				e.Dir, e.Kind, e.Payload = eventlog.Direction(dir2%3), kind2, payload2
			}
			all = append(all, s.Apply(e)...)
		}
		all = append(all, s.Apply(eventlog.Event{Seq: 5, Dir: eventlog.Daemon, Kind: "session/ended", Payload: []byte("{}")})...)
		for _, e := range all {
			if _, err := e.JSON(nil); err != nil {
				t.Error(err)
			}
		}
		seen := map[string]bool{}
		for i, e := range all {
			if e.Sequence != int64(i+1) || seen[e.ID] {
				t.Errorf("%+v", e)
			}
			seen[e.ID] = true
		}
	})
}

func BenchmarkApply(b *testing.B) {
	log := entries(b, logs+"mock.jsonl")
	for b.Loop() {
		s := universal.NewState("s1")
		for _, e := range log {
			s.Apply(e)
		}
	}
	b.ReportMetric(float64(b.N*len(log))/b.Elapsed().Seconds(), "entries/s")
}

// TestProblem: an entry session/problem becomes an error event.
func TestProblem(t *testing.T) {
	t.Parallel()
	s := universal.NewState("mine")
	events := s.Apply(eventlog.Event{
		Seq: 3, Dir: eventlog.Daemon, Kind: "session/problem",
		Payload: []byte(`{"jsonrpc":"2.0","method":"session/problem","params":{"message":"skill a/b: not found"}}`),
	})
	if len(events) != 1 || events[0].Type != universal.Failed || events[0].Source != "daemon" ||
		!strings.Contains(string(events[0].Data), `"message":"skill a/b: not found"`) {
		t.Errorf("%+v", events)
	}
}

// TestLongErrors: an error of the agent is cut, and loses data that is large.
func TestLongErrors(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		method     string
		data, most int
	}{
		{"session/prompt", 32 << 10, 40 << 10}, {"session/prompt", 1 << 20, 5 << 10},
		{"session/new", 1 << 20, 5 << 10}, {"session/set_mode", 1 << 20, 5 << 10},
	} {
		s := universal.NewState("s1")
		s.Apply(eventlog.Event{Process: "p", Dir: eventlog.Client, Kind: tt.method, Payload: []byte(`{"id":1,"params":{"prompt":[]}}`)})
		failed := 0
		for _, e := range s.Apply(eventlog.Event{
			Process: "p", Dir: eventlog.Agent, Kind: "response:" + tt.method,
			Payload: fmt.Appendf(nil, `{"id":1,"error":{"code":5,"message":"%s","data":"%s"}}`, strings.Repeat("m", 1<<20), strings.Repeat("d", tt.data)),
		}) {
			if e.Type == universal.Failed {
				failed++
			}
			if len(e.Data) > tt.most {
				t.Errorf("%s: the event %s has %d bytes", tt.method, e.Type, len(e.Data))
			}
			if e.Type == universal.Failed && (tt.data == 32<<10) != strings.Contains(string(e.Data), "dddd") {
				t.Errorf("%s: the error with %d bytes of data is an event of %d bytes", tt.method, tt.data, len(e.Data))
			}
		}
		if failed != 1 {
			t.Errorf("%s: %d errors", tt.method, failed)
		}
	}
}

// TestRunningTool: what a tool prints while it runs makes an event without text, whose message
// has the output.
func TestRunningTool(t *testing.T) {
	t.Parallel()
	s := universal.NewState("s1")
	var got []string
	for i, update := range []string{
		`{"sessionUpdate":"tool_call","toolCallId":"1","title":"go test","status":"in_progress"}`,
		`{"sessionUpdate":"tool_call_update","toolCallId":"1","status":"in_progress"}`,
		`{"sessionUpdate":"tool_call_update","toolCallId":"1","content":[{"type":"content","content":{"type":"text","text":"ok"}}]}`,
		`{"sessionUpdate":"tool_call_update","toolCallId":"1","rawOutput":"ok ok"}`,
		`{"sessionUpdate":"tool_call_update","toolCallId":"1","status":"completed"}`,
	} {
		e := eventlog.Event{Seq: int64(i + 1), At: time.Unix(1, 0), Process: "p", Dir: eventlog.Agent, Kind: "session/update", Payload: json.RawMessage(`{"jsonrpc":"2.0","method":"session/update","params":{"update":` + update + `}}`)}
		types := ""
		for _, u := range s.Apply(e) {
			types += " " + string(u.Type)
		}
		got = append(got, types)
	}
	want := []string{" item.started", "", " item.delta", " item.delta", " item.delta item.completed item.started item.delta item.completed"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}
