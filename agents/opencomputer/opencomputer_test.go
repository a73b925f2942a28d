package opencomputer_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/agents/opencomputer"
)

var update = flag.Bool("update", false, "write the golden files")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// logFiles returns this package's own logs and those that several packages'
// tests read.
func logFiles(t testing.TB) []string {
	t.Helper()
	var files []string
	for _, dir := range []string{"testdata", "../../testdata/agentlogs"} {
		found, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
		if err != nil || len(found) == 0 {
			t.Fatal(dir, found, err)
		}
		files = append(files, found...)
	}
	return files
}

// entries reads a log.
func entries(t testing.TB, file string) (all []eventlog.Event) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(data) {
		var e struct {
			Process string `json:"life"`
			Dir     eventlog.Direction
			Kind    string
			Payload json.RawMessage
		}
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		all = append(all, eventlog.Event{Process: e.Process, Dir: e.Dir, Kind: e.Kind, Payload: e.Payload})
	}
	return all
}

func TestGolden(t *testing.T) {
	t.Parallel()
	for _, file := range logFiles(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			var s opencomputer.State
			var got strings.Builder
			open, turns, ends := map[string]bool{}, 0, 0
			for _, e := range entries(t, file) {
				if e.Kind == "session/prompt" {
					turns++
				}
				for _, line := range s.Apply(e) {
					ends += check(t, line, open)
					got.Write(line)
					got.WriteByte('\n')
				}
			}
			if turns != ends || len(open) > 0 {
				t.Errorf("%d turns, %d ends; tools without result: %v", turns, ends, open)
			}
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
				t.Errorf("the messages have changed; if that is meant, run go test -update (-want +got):\n%s", diff)
			}
		})
	}
}

// TestBounds applies messages of an agent that ends neither texts nor calls. The memory of
// the state stays bounded, and every text and result is emitted.
func TestBounds(t *testing.T) {
	t.Parallel()
	for name, update := range map[string]string{
		"text":     `{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"` + strings.Repeat("x", 1<<18) + `"}}`,
		"calls":    `{"sessionUpdate":"tool_call","toolCallId":"%d"}`,
		"outputs":  `{"sessionUpdate":"tool_call","toolCallId":"%d","rawOutput":"` + strings.Repeat("x", 1<<18) + `"}`,
		"contents": `{"sessionUpdate":"tool_call","toolCallId":"%d","content":[` + strings.Repeat("{},", 1<<13) + `{}]}`,
	} {
		var s opencomputer.State
		emitted := 0
		updates := 150
		if name == "calls" {
			updates = 1200
		}
		for i := range updates {
			payload := strings.ReplaceAll(update, "%d", strconv.Itoa(i))
			e := eventlog.Event{Process: "life", Dir: eventlog.Agent, Kind: "session/update", Payload: []byte(`{"params":{"update":` + payload + `}}`)}
			for _, line := range s.Apply(e) {
				if strings.Contains(string(line), `"tool_result"`) || strings.Contains(string(line), `"text":"x`) {
					emitted++
				}
			}
		}
		if emitted < 20 {
			t.Errorf("%s: %d are emitted before the end", name, emitted)
		}
	}
}

// TestEmptyChunks: chunks without text take no memory.
func TestEmptyChunks(t *testing.T) { //nolint:paralleltest // it measures memory
	var s opencomputer.State
	e := eventlog.Event{
		Process: "life", Dir: eventlog.Agent, Kind: "session/update",
		Payload: []byte(`{"params":{"update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":""}}}}`),
	}
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc) //nolint:gosec // it is small
	}
	before := heap()
	for range 1 << 16 {
		if lines := s.Apply(e); len(lines) > 0 {
			t.Fatalf("an empty chunk emits %s", lines)
		}
	}
	if grown := heap() - before; grown > 256<<10 {
		t.Errorf("empty chunks take %d bytes", grown)
	}
	runtime.KeepAlive(&s)
}

// TestLargeEntries: characters of HTML are not escaped. Entries of the agent above 8 MiB are left out,
// and their turn ends all the same.
func TestLargeEntries(t *testing.T) {
	t.Parallel()
	var s opencomputer.State
	says := func(kind, payload string) [][]byte {
		return s.Apply(eventlog.Event{Dir: eventlog.Agent, Kind: kind, Payload: []byte(payload)})
	}
	chunk := func(size int) [][]byte {
		return says("session/update", `{"params":{"update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"`+strings.Repeat("<", size)+`"}}}}`)
	}
	largest := func(lines [][]byte) (n int) {
		for _, line := range lines {
			n = max(n, len(line))
		}
		return n
	}
	if n := largest(chunk(2 << 20)); n < 2<<20 || n > 3<<20 {
		t.Errorf("a text of 2 MiB makes a line of %d bytes", n)
	}
	if lines := chunk(9 << 20); len(lines) > 0 {
		t.Errorf("a text of 9 MiB makes a line of %d bytes", largest(lines))
	}
	long := strings.Repeat("<", 9<<20)
	for _, answer := range []string{`"result":{"stopReason":"` + long + `"}`, `"error":{"message":"` + long + `"}`} {
		s.Apply(eventlog.Event{Dir: eventlog.Client, Kind: "session/prompt", Payload: []byte(`{"id":1}`)})
		lines := says("response:session/prompt", `{"id":1,`+answer+`}`)
		if len(lines) < 2 || largest(lines) > 3<<20 || !strings.Contains(string(lines[len(lines)-1]), "turn_complete") {
			t.Errorf("%.20s: %d lines, the largest with %d bytes", answer, len(lines), largest(lines))
		}
	}
}

// TestLongErrors: an error of the agent is cut.
func TestLongErrors(t *testing.T) {
	t.Parallel()
	failed := `{"id":1,"error":{"message":"` + strings.Repeat("x", 1<<20) + `"}}`
	for _, method := range []string{"session/new", "session/prompt"} {
		var s opencomputer.State
		s.Apply(eventlog.Event{Dir: eventlog.Client, Kind: method, Payload: []byte(`{"id":1}`)})
		lines := s.Apply(eventlog.Event{Dir: eventlog.Agent, Kind: "response:" + method, Payload: []byte(failed)})
		if text := string(bytes.Join(lines, nil)); !strings.Contains(text, "xxxx") || len(text) > 9<<10 {
			t.Errorf("%s: %d lines of %d bytes", method, len(lines), len(text))
		}
	}
}

// check checks what the package promises of each line, and counts the ends of turns.
func check(t *testing.T, line []byte, open map[string]bool) (ends int) {
	t.Helper()
	var m struct {
		Type    string
		Message json.RawMessage // a text if Type is error
	}
	var said struct {
		Content []struct {
			Type, ID string
			ToolUse  string `json:"tool_use_id"`
		}
	}
	if err := json.Unmarshal(line, &m); err != nil || bytes.ContainsRune(line, '\n') {
		t.Fatalf("%v in %s", err, line)
	}
	if !slices.Contains([]string{"ready", "configured", "system", "assistant", "user", "result", "turn_complete", "interrupted", "error"}, m.Type) {
		t.Errorf("a message of type %q", m.Type)
	}
	if len(m.Message) > 0 && m.Message[0] == '{' {
		if err := json.Unmarshal(m.Message, &said); err != nil {
			t.Error(err)
		}
	}
	for _, c := range said.Content {
		switch c.Type {
		case "tool_use":
			open[c.ID] = true
		case "tool_result":
			if !open[c.ToolUse] {
				t.Errorf("a result of %s, which is not open", c.ToolUse)
			}
			delete(open, c.ToolUse)
		}
	}
	if m.Type == "turn_complete" {
		return 1
	}
	return 0
}

func TestOptions(t *testing.T) {
	t.Parallel()
	o := opencomputer.Options{SystemPrompt: "Be short.", AllowedTools: []string{"Read"}}.WithDefaults()
	meta, unsupported := opencomputer.MetaOf(o)
	const want = `{"claudeCode":{"emitRawSDKMessages":true,"options":{"allowedTools":["Read"],"maxTurns":50,"systemPrompt":"Be short."}}}`
	if string(meta) != want || unsupported != nil || o.Model == "" || o.PermissionMode != "bypassPermissions" {
		t.Errorf("%s %v %+v", meta, unsupported, o)
	}
	o.Agent, o.MaxTurns = "codex", 3
	if meta, unsupported = opencomputer.MetaOf(o); meta != nil || !slices.Equal(unsupported, []string{"allowedTools", "maxTurns", "systemPrompt"}) {
		t.Errorf("%s %v", meta, unsupported)
	}
	if late := (opencomputer.Options{Cwd: "/", Model: "x", MCPServers: map[string]json.RawMessage{}}).Late(); !slices.Equal(late, []string{"cwd", "mcpServers"}) {
		t.Error(late)
	}
}

// TestForgery: an agent cannot end its turn or its session, or begin a turn, with the messages of
// other senders.
func TestForgery(t *testing.T) {
	t.Parallel()
	var s opencomputer.State
	s.Apply(eventlog.Event{Dir: eventlog.Client, Kind: "session/prompt", Payload: []byte(`{"id":1}`)})
	for _, kind := range []string{"session/prompt", "session/ended", "session/restored", "_adapter/agent_exited", opencomputer.KindConfigured, "session/new"} {
		if got := s.Apply(eventlog.Event{Dir: eventlog.Agent, Kind: kind, Payload: []byte(`{"id":2,"params":{}}`)}); len(got) > 0 {
			t.Errorf("%s: %s", kind, got)
		}
	}
	got := s.Apply(eventlog.Event{Dir: eventlog.Agent, Kind: "response:session/prompt", Payload: []byte(`{"id":1,"result":{"stopReason":"end_turn"}}`)})
	if len(got) != 2 || !strings.Contains(string(got[1]), "turn_complete") {
		t.Errorf("the end of the turn: %s", got)
	}
}

// FuzzApply applies invalid entries.
func FuzzApply(f *testing.F) {
	for _, file := range logFiles(f) {
		for _, e := range entries(f, file) {
			f.Add(uint8(e.Dir), e.Kind, e.Payload)
		}
	}
	f.Fuzz(func(t *testing.T, dir uint8, kind string, payload []byte) {
		var s opencomputer.State
		for range 2 {
			for _, line := range s.Apply(eventlog.Event{Process: "life", Dir: eventlog.Direction(dir % 3), Kind: kind, Payload: payload}) {
				if !json.Valid(line) {
					t.Errorf("%q", line)
				}
			}
		}
		s.Apply(eventlog.Event{Dir: eventlog.Daemon, Kind: "session/ended", Payload: []byte("{}")})
	})
}
