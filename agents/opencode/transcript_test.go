package opencode_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/agents/opencode"
)

var update = flag.Bool("update", false, "write the golden files")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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

func newTranscript() *opencode.Transcript {
	return opencode.NewTranscript(opencode.Config{Session: "s1", Agent: "agent", Cwd: "/srv/project"})
}

// line returns a value as one line of JSON.
func line(t testing.TB, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text) + "\n"
}

// TestGolden compares the events and messages of logs with golden files. One log was recorded
// with the mock agent. The others have messages as Claude Code, Codex, Gemini and OpenCode send
// them.
func TestGolden(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../testdata/agentlogs/*.jsonl")
	own, err2 := filepath.Glob("testdata/*.jsonl")
	if files = append(files, own...); err != nil || err2 != nil || len(files) < 3 {
		t.Fatal(files, err, err2)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			s := newTranscript()
			var got strings.Builder
			var ids []string
			asked := 0
			for _, e := range entries(t, file) {
				for _, event := range s.Apply(e) {
					got.WriteString(line(t, event))
					ids = append(ids, event.ID)
					switch event.Type {
					case "permission.asked", "question.asked":
						asked++
					case "permission.replied", "question.replied", "question.rejected":
						asked--
					}
				}
			}
			if !slices.IsSorted(ids) || len(slices.Compact(slices.Clone(ids))) != len(ids) {
				t.Error("the ids of events do not rise")
			}
			permissions, questions := s.Open()
			if asked != len(permissions)+len(questions) || s.Busy() && asked == 0 {
				t.Errorf("%d questions open by the events; %v and %v; busy %t", asked, permissions, questions, s.Busy())
			}
			for _, m := range s.Messages() {
				got.WriteString(line(t, m))
				checkMessage(t, s, m)
			}
			got.WriteString(line(t, map[string]any{"todos": s.Todos(), "diffs": s.Diffs()}))
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
				t.Errorf("run with -update if that is meant (-want +got):\n%s", diff)
			}
		})
	}
}

// checkMessage checks what clients rely on: parts in the order of their ids, below their
// message, and no tool call that runs after its turn.
func checkMessage(t *testing.T, s *opencode.Transcript, m *opencode.Message) {
	t.Helper()
	var ids []string
	for _, p := range m.Parts {
		ids = append(ids, p.ID)
		if p.Message != m.Info.ID || p.Session != "s1" {
			t.Errorf("part %+v of message %s", p, m.Info.ID)
		}
		if p.State != nil && m.Info.Time.Completed > 0 && p.State.Status != "completed" && p.State.Status != "error" {
			t.Errorf("call %s is %s after its turn", p.Call, p.State.Status)
		}
	}
	if !slices.IsSorted(ids) {
		t.Errorf("parts are not sorted: %v", ids)
	}
	if s.Message(m.Info.ID) != m {
		t.Errorf("message %s is not found", m.Info.ID)
	}
}

// script makes a log of messages. Each has a kind and a payload.
type script struct {
	at  time.Time
	log []eventlog.Event
}

func (s *script) add(dir eventlog.Direction, kind, payload string) {
	s.at = s.at.Add(time.Millisecond)
	s.log = append(s.log, eventlog.Event{Seq: int64(len(s.log) + 1), At: s.at, Process: "p", Dir: dir, Kind: kind, Payload: []byte(payload)})
}

func (s *script) prompt(id int, block string) {
	s.add(eventlog.Client, "session/prompt", fmt.Sprintf(`{"id":%d,"params":{"prompt":[%s]}}`, id, block))
}

func (s *script) say(text string) {
	s.add(eventlog.Agent, "session/update", `{"params":{"update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"`+text+`"}}}}`)
}

func (s *script) end(id int, stop string) {
	s.add(eventlog.Agent, "response:session/prompt", fmt.Sprintf(`{"id":%d,"result":{"stopReason":%q}}`, id, stop))
}

// TestLongErrors: an error of the agent is cut.
func TestLongErrors(t *testing.T) {
	t.Parallel()
	s, tr := script{at: time.UnixMilli(1_700_000_000_000)}, newTranscript()
	s.prompt(1, `{"type":"text","text":"x"}`)
	s.add(eventlog.Agent, "response:session/prompt", `{"id":1,"error":{"message":"`+strings.Repeat("x", 1<<20)+`"}}`)
	s.apply(tr)
	if text := line(t, tr.Messages()); !strings.Contains(text, "xxxx") || len(text) > 6<<10 {
		t.Errorf("the messages have %d bytes", len(text))
	}
}

// apply returns the types of the events.
func (s *script) apply(t *opencode.Transcript) (kinds []string) {
	for _, e := range s.log {
		for _, event := range t.Apply(e) {
			kinds = append(kinds, event.Type)
		}
	}
	s.log = nil
	return kinds
}

// TestTwoPrompts: a second prompt waits, and its message keeps the id that the client chose.
// The answers come after both ids, also if the client's clock is ahead.
func TestTwoPrompts(t *testing.T) {
	t.Parallel()
	s, tr := script{at: time.UnixMilli(1_700_000_000_000)}, newTranscript()
	s.prompt(1, `{"type":"text","text":"one","_meta":{"deskhand/opencode":{"messageID":"msg_f00000000000aaaaaaaaaaaaaa","partID":"prt_f00000000000bbbbbbbbbbbbbb"}}}`)
	s.say("1")
	s.prompt(2, `{"type":"text","text":"two"}`)
	s.end(1, "end_turn")
	s.say("2")
	s.end(2, "cancelled")
	kinds := s.apply(tr)
	all := tr.Messages()
	if len(all) != 4 || all[0].Info.ID != "msg_f00000000000aaaaaaaaaaaaaa" || all[0].Parts[0].ID != "prt_f00000000000bbbbbbbbbbbbbb" {
		t.Fatalf("messages %s", line(t, all))
	}
	if !slices.IsSortedFunc(all, func(a, b *opencode.Message) int { return strings.Compare(a.Info.ID, b.Info.ID) }) {
		t.Errorf("ids of messages are not sorted: %s", line(t, all))
	}
	first, second := all[1], all[3]
	if first.Info.Parent != all[0].Info.ID || second.Info.Parent != all[2].Info.ID || *first.Parts[1].Text != "1" || *second.Parts[1].Text != "2" {
		t.Errorf("answers %s", line(t, all))
	}
	if second.Info.Error == nil || second.Info.Error.Name != opencode.Aborted || first.Info.Finish != "stop" {
		t.Errorf("ends %s", line(t, all))
	}
	idle := 0
	for i, k := range kinds {
		if k == "session.idle" {
			idle++
			if i != len(kinds)-1 {
				t.Errorf("session.idle before %v", kinds[i+1:])
			}
		}
	}
	if idle != 1 {
		t.Errorf("%d times idle: %v", idle, kinds)
	}
}

// TestQuestions: the first answer counts, and the end of the agent rejects the others.
func TestQuestions(t *testing.T) {
	t.Parallel()
	s, tr := script{at: time.UnixMilli(1_700_000_000_000)}, newTranscript()
	s.prompt(1, `{"type":"text","text":"x"}`)
	const options = `"options":[{"optionId":"a","name":"Yes","kind":"allow_once"},{"optionId":"b","name":"Always","kind":"allow_always"},{"optionId":"c","name":"No","kind":"reject_once"}]`
	ask := func(id int, tool string) {
		s.add(eventlog.Agent, "session/request_permission", fmt.Sprintf(`{"id":%d,"params":{"toolCall":%s,%s}}`, id, tool, options))
	}
	answer := func(id int, option string) {
		s.add(eventlog.Client, "response:session/request_permission", fmt.Sprintf(`{"id":%d,"result":{"outcome":{"outcome":"selected","optionId":%q}}}`, id, option))
	}
	ask(1, `{"toolCallId":"t","title":"make","kind":"execute","rawInput":{"command":["make","all"]}}`)
	ask(2, `{"toolCallId":"u","title":"Ready?","kind":"switch_mode","rawInput":{"plan":"# Plan"}}`)
	s.apply(tr)
	permissions, questions := tr.Open()
	if len(permissions) != 1 || permissions[0].Permission != "bash" || !slices.Equal(permissions[0].Patterns, []string{"make all"}) || permissions[0].Tool == nil || permissions[0].Tool.Call != "t" {
		t.Fatalf("permissions %s", line(t, permissions))
	}
	if len(questions) != 1 || questions[0].Questions[0].Question != "Ready?\n\n# Plan" || len(questions[0].Questions[0].Options) != 3 {
		t.Fatalf("questions %s", line(t, questions))
	}
	answer(1, "b")
	answer(1, "c")
	answer(2, "a")
	if got := s.apply(tr); !slices.Equal(got, []string{"permission.replied", "question.replied"}) {
		t.Errorf("events %v", got)
	}
	ask(3, `{"toolCallId":"v","title":"Read","kind":"read"}`)
	s.add(eventlog.Daemon, "_adapter/agent_exited", `{"params":{"success":false}}`)
	got := s.apply(tr)
	for _, want := range []string{"permission.asked", "permission.replied", "session.error", "session.idle"} {
		if !slices.Contains(got, want) {
			t.Errorf("no %s in %v", want, got)
		}
	}
	if tr.Busy() {
		t.Error("busy after the agent's end")
	}
	var last []string
	for _, e := range tr.Interruption() {
		last = append(last, e.Type)
	}
	if len(last) == 0 || last[0] != "permission.replied" || !slices.Equal(last, got[len(got)-len(last):]) {
		t.Errorf("the interruption has %v of %v", last, got)
	}
	s.add(eventlog.Daemon, "_adapter/agent_exited", `{}`)
	s.apply(tr)
	if len(tr.Interruption()) != len(last) {
		t.Error("the end of a process without a turn ends the interruption")
	}
	s.prompt(2, `{"type":"text","text":"y"}`)
	if s.apply(tr); tr.Interruption() != nil {
		t.Errorf("with a new turn the interruption is %v", tr.Interruption())
	}
}

// TestDiffs joins several edits of a file.
func TestDiffs(t *testing.T) {
	t.Parallel()
	s, tr := script{at: time.UnixMilli(1_700_000_000_000)}, newTranscript()
	s.prompt(1, `{"type":"text","text":"x"}`)
	edit := func(id, old, text string) {
		s.add(eventlog.Agent, "session/update", `{"params":{"update":{"sessionUpdate":"tool_call","toolCallId":"`+id+`","title":"Edit","kind":"edit","status":"completed","content":[{"type":"diff","path":"/a","oldText":`+old+`,"newText":`+text+`}]}}}`)
	}
	edit("1", `null`, `"one\ntwo\n"`)
	edit("2", `"two"`, `"three"`)
	s.end(1, "end_turn")
	got := s.apply(tr)
	want := []opencode.FileDiff{{File: "/a", After: "one\nthree\n", Patch: "--- /a\n+++ /a\n@@ -0,0 +1,2 @@\n+one\n+three\n", Additions: 2, Status: "added"}}
	if diff := cmp.Diff(want, tr.Diffs()); diff != "" {
		t.Error(diff)
	}
	edited := 0
	for _, kind := range got {
		if kind == "file.edited" {
			edited++
		}
	}
	last := tr.Messages()[1]
	if p := last.Parts[len(last.Parts)-1]; edited != 2 || p.Type != "patch" || !slices.Equal(p.Files, []string{"/a"}) {
		t.Errorf("%d edits, last part %s", edited, line(t, p))
	}
}

// TestShell shows a command of the user as a message with a tool call.
func TestShell(t *testing.T) {
	t.Parallel()
	s, tr := script{at: time.UnixMilli(1_700_000_000_000)}, newTranscript()
	s.add(eventlog.Daemon, opencode.KindShell, `{"params":{"id":"sh1","command":"pwd","messageID":"msg_018bcfe56800zzzzzzzzzzzzzz"}}`)
	s.apply(tr)
	if all := tr.Messages(); len(all) != 2 || all[1].Parts[0].State.Status != "running" {
		t.Fatalf("messages %s", line(t, all))
	}
	s.add(eventlog.Daemon, opencode.KindShell, `{"params":{"id":"sh1","ended":true,"output":"/srv\n","exitCode":3}}`)
	s.apply(tr)
	all := tr.Messages()
	if state := all[1].Parts[0].State; state.Status != "completed" || *state.Output != "/srv\n" || state.Metadata["exit"] != 3 || all[1].Info.Time.Completed == 0 {
		t.Errorf("message %s", line(t, all[1]))
	}
}

// FuzzApply looks for entries that Apply panics at.
func FuzzApply(f *testing.F) {
	for _, file := range []string{"mock", "others", "refused"} {
		for _, e := range entries(f, "../../testdata/agentlogs/"+file+".jsonl") {
			f.Add(e.Kind, string(e.Payload))
		}
	}
	f.Fuzz(func(t *testing.T, kind, payload string) {
		s, tr := script{at: time.UnixMilli(1_700_000_000_000)}, newTranscript()
		s.prompt(1, `{"type":"text","text":"x"}`)
		s.add(eventlog.Agent, kind, payload)
		s.add(eventlog.Client, kind, payload)
		s.end(1, "end_turn")
		s.apply(tr)
		line(t, tr.Messages())
	})
}

// TestFencedOutput: the output of a command has no fence of Markdown around it.
func TestFencedOutput(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"```console\nout\nmore\n```": "out\nmore", "```\n```\n": "", "plain": "plain", "```sh\na\n```\nb\n```": "```sh\na\n```\nb\n```", "a\n```": "a\n```",
	} {
		s := newTranscript()
		apply := func(kind string, dir eventlog.Direction, payload string) {
			s.Apply(eventlog.Event{Seq: 1, At: time.Now(), Dir: dir, Kind: kind, Payload: []byte(payload)})
		}
		apply("session/prompt", eventlog.Client, `{"id":1,"params":{"prompt":[{"type":"text","text":"go"}]}}`)
		quoted, _ := json.Marshal(text)
		apply("session/update", eventlog.Agent, `{"params":{"update":{"sessionUpdate":"tool_call","toolCallId":"t","kind":"execute","title":"x","status":"completed","content":[{"type":"content","content":{"type":"text","text":`+string(quoted)+`}}]}}}`)
		parts := s.Messages()[1].Parts
		if got := parts[len(parts)-1].State; got == nil || *got.Output != want || got.Metadata["output"] != want {
			t.Errorf("%q: %+v", text, got)
		}
	}
}
