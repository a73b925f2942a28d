package mockagent_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image/png"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/deskhand/deskhand/agents/mockagent"
)

func TestInitialize(t *testing.T) {
	t.Parallel()
	for _, kept := range []bool{false, true} {
		cfg := mockagent.Config{Version: "7"}
		if kept {
			cfg.Dir = filepath.Join(t.TempDir(), "made")
		}
		c := startAgent(t, cfg)
		var r struct {
			ProtocolVersion   int
			AgentInfo         struct{ Name, Version string }
			AuthMethods       []any
			AgentCapabilities struct {
				LoadSession         bool
				McpCapabilities     struct{ Http, Sse bool }
				SessionCapabilities map[string]any
			}
		}
		c.must("initialize", `{"protocolVersion":1}`, &r)
		if r.ProtocolVersion != 1 || r.AgentInfo.Name != "mock" || r.AgentInfo.Version != "7" || r.AuthMethods == nil ||
			r.AgentCapabilities.LoadSession != kept || !r.AgentCapabilities.McpCapabilities.Http {
			t.Errorf("%+v", r)
		}
		if _, ok := r.AgentCapabilities.SessionCapabilities["resume"]; ok != kept {
			t.Errorf("%+v", r)
		}
		c.must("authenticate", `{"methodId":"any"}`, new(struct{}))
		if err := c.stop(); err != nil {
			t.Error(err)
		}
	}
}

// TestEcho: the agent echoes unknown messages as sandbox-agent's mock agent does.
func TestEcho(t *testing.T) {
	t.Parallel()
	c := startAgent(t, mockagent.Config{})
	for _, m := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"x/unknown","params":{"big":1e400,"html":"<b>"}}`,
		`{"id":null,"method":"x/null"}`, `{"id":"s","method":"x/string"}`, `{"id":1,"method":"session/cancel"}`,
	} {
		c.write(m)
		echo, answer := c.read(), c.read()
		if echo.Method != "mock/echo" || string(echo.Params.Message) != m {
			t.Errorf("%s: %s", m, echo.raw)
		}
		var e struct{ ID json.RawMessage }
		if err := json.Unmarshal([]byte(m), &e); err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf(`{"id":%s,"jsonrpc":"2.0","result":{"echoed":%s}}`, e.ID, m); answer.raw != want {
			t.Errorf("got %s\nwant %s", answer.raw, want)
		}
	}
	for _, m := range []string{`{"method":"x/notification"}`, `{"id":99,"result":{}}`, `{}`} {
		c.write(m)
		if echo := c.read(); echo.Method != "mock/echo" || string(echo.Params.Message) != m {
			t.Errorf("%s: %s", m, echo.raw)
		}
	}
}

func TestPromptWords(t *testing.T) {
	t.Parallel()
	c := startAgent(t, mockagent.Config{Tick: time.Millisecond})
	var r struct{ SessionID string }
	c.must("session/new", `{"cwd":"/tmp","mcpServers":[]}`, &r)
	id := r.SessionID
	if stop := c.prompt(id, "hello"); stop != "end_turn" || !strings.HasSuffix(c.said(), "\n\nhello") {
		t.Errorf("%s %q", stop, c.said())
	}
	for _, word := range []string{"demo", "markdown", "permission", "plan", "image", "diff", "error", "slow", "burst N", "crash", "desktop X Y", "tool NAME {json}"} {
		if !strings.Contains(c.said(), "`"+word+"`") {
			t.Errorf("%q is missing in %q", word, c.said())
		}
	}
	for _, test := range []struct{ prompt, said, kinds string }{
		{"hello again", "hello again", "agent_message_chunk"},
		{"a demonstration", "a demonstration", "agent_message_chunk"},
		{"tool x {}", "tool x {}", "agent_message_chunk"},
		{
			"Demo please", "", "agent_thought_chunk agent_thought_chunk plan agent_message_chunk agent_message_chunk " +
				"tool_call:pending tool_call_update:in_progress tool_call_update:completed plan tool_call:in_progress tool_call_update:failed " +
				"plan available_commands_update agent_message_chunk usage_update",
		},
		{"image", "This is a picture:", "agent_message_chunk agent_message_chunk tool_call:in_progress tool_call_update:completed"},
		{"diff", "I changed main.go.", "tool_call:in_progress tool_call_update:completed agent_message_chunk"},
	} {
		if stop := c.prompt(id, test.prompt); stop != "end_turn" || test.said != "" && c.said() != test.said || c.kinds() != test.kinds {
			t.Errorf("%s: %s %q %s", test.prompt, stop, c.said(), c.kinds())
		}
	}
	if c.prompt(id, "markdown"); !strings.Contains(c.said(), "<script>") || !strings.Contains(c.said(), "```go\n") {
		t.Errorf("%q", c.said())
	}
	if c.prompt(id, "slow"); strings.Count(c.said(), "tick") != 20 {
		t.Errorf("%q", c.said())
	}
	if c.prompt(id, "burst 3000"); len(c.seen) != 3000 || !strings.HasSuffix(c.said(), "message 3000\n") {
		t.Errorf("%d updates", len(c.seen))
	}
	for _, bad := range []string{"error", "burst x", "burst -1", "burst 9999999999", "tool", "tool x {"} {
		if m := c.call("session/prompt", promptParams(id, bad)); m.Error == nil || m.Error.Message == "" {
			t.Errorf("%s: %s", bad, m.raw)
		}
	}
}

func TestPicturesAreReal(t *testing.T) {
	t.Parallel()
	c := startAgent(t, mockagent.Config{})
	id := c.session("[]")
	c.prompt(id, "image")
	var b struct {
		Data     []byte
		MimeType string
	}
	if err := json.Unmarshal(c.seen[1].Params.Update.Content, &b); err != nil {
		t.Fatal(err)
	}
	if m, err := png.Decode(bytes.NewReader(b.Data)); err != nil || m.Bounds().Dx() != 64 {
		t.Error(err)
	}
	// A picture of the client is echoed unchanged.
	c.must("session/prompt", fmt.Sprintf(`{"sessionId":%q,"prompt":[{"type":"image","data":"QUJD","mimeType":"image/png"}]}`, id), new(struct{}))
	if got := string(c.seen[0].Params.Update.Content); got != `{"type":"image","data":"QUJD","mimeType":"image/png"}` {
		t.Error(got)
	}
}

func TestPermission(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ prompt, answer, stop, said, state string }{
		{"permission", `"result":{"outcome":{"outcome":"selected","optionId":"once"}}`, "end_turn", "I was allowed to run it (allow_once).", "completed"},
		{"permission", `"result":{"outcome":{"outcome":"selected","optionId":"no"}}`, "end_turn", "I was not allowed to run it (reject_once).", "failed"},
		{"permission", `"result":{"outcome":{"outcome":"cancelled"}}`, "cancelled", "", "failed"},
		{"permission", `"result":{"outcome":{"outcome":"selected","optionId":"nonsense"}}`, "", "", "failed"},
		{"permission", `"result":7`, "", "", "failed"},
		{"permission", `"error":{"code":-1,"message":"no"}`, "", "", "failed"},
		{"plan", `"result":{"outcome":{"outcome":"selected","optionId":"normal"}}`, "end_turn", "The plan was approved.", "completed"},
		{"plan", `"result":{"outcome":{"outcome":"selected","optionId":"plan"}}`, "end_turn", "The plan was not approved.", "failed"},
		{"plan", `"result":{"outcome":{"outcome":"cancelled"}}`, "cancelled", "", "failed"},
	} {
		c := startAgent(t, mockagent.Config{})
		id := c.session("[]")
		c.seen = nil
		request := c.send("session/prompt", promptParams(id, test.prompt))
		q := c.wait(request, func(m message) bool { return m.Method == "session/request_permission" })
		if string(q.ID) != "0" || q.Params.SessionID != id || len(q.Params.Options) < 2 || q.Params.ToolCall.ToolCallID == "" {
			t.Fatalf("%s: %s", test.prompt, q.raw)
		}
		c.write(`{"jsonrpc":"2.0","id":0,` + test.answer + `}`)
		m := c.wait(request, nil)
		var r struct{ StopReason string }
		if m.Error == nil {
			if err := json.Unmarshal(m.Result, &r); err != nil {
				t.Fatal(err)
			}
		}
		if (m.Error != nil) != (test.stop == "") || r.StopReason != test.stop || c.said() != test.said || !strings.Contains(c.kinds(), "tool_call_update:"+test.state) {
			t.Errorf("%s %s: %s, %q, %s", test.prompt, test.answer, m.raw, c.said(), c.kinds())
		}
		_ = c.stop()
	}
}

// Without a desktop, or with servers that have no such tools, the agent says so.
func TestDesktopIsMissing(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(toolHandler())
	t.Cleanup(server.Close)
	other := fmt.Sprintf(`[{"type":"http","name":"web","url":%q,"headers":[{"name":"Authorization","value":"Bearer secret"}]}]`, server.URL)
	for servers, want := range map[string]string{"[]": "This session has no desktop.", other: "I have no desktop: no mounted MCP server has a tool \"screenshot\""} {
		c := startAgent(t, mockagent.Config{})
		if stop := c.prompt(c.session(servers), "desktop 1 2"); stop != "end_turn" || !strings.Contains(c.said(), want) {
			t.Errorf("%s: %s %q", servers, stop, c.said())
		}
	}
	c := startAgent(t, mockagent.Config{})
	if m := c.call("session/prompt", promptParams(c.session("[]"), "desktop here")); m.Error == nil || !strings.Contains(m.Error.Message, "say the coordinates") {
		t.Errorf("%s", m.raw)
	}
}

func TestPermissionIsRememberedWhenAlways(t *testing.T) {
	t.Parallel()
	c := startAgent(t, mockagent.Config{})
	id := c.session("[]")
	request := c.send("session/prompt", promptParams(id, "permission"))
	c.wait(request, func(m message) bool { return m.Method == "session/request_permission" })
	c.write(`{"jsonrpc":"2.0","id":0,"result":{"outcome":{"outcome":"selected","optionId":"always"}}}`)
	c.wait(request, nil)
	if stop := c.prompt(id, "permission"); stop != "end_turn" || c.said() != "I was allowed to run it (allow_always)." {
		t.Errorf("%s %q", stop, c.said())
	}
}

func TestCancel(t *testing.T) {
	t.Parallel()
	c := startAgent(t, mockagent.Config{Tick: time.Hour})
	id := c.session("[]")
	running := c.send("session/prompt", promptParams(id, "slow"))
	waiting := c.send("session/prompt", promptParams(id, "slow"))
	single := c.send("session/prompt", promptParams(id, "never"))
	c.wait("", func(m message) bool { return m.Params.Update.text() == "tick 1\n" })
	c.write(fmt.Sprintf(`{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":%s}}`, single))
	if m := c.wait(single, nil); !strings.Contains(m.raw, `"cancelled"`) {
		t.Error(m.raw)
	}
	c.write(fmt.Sprintf(`{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":%q}}`, id))
	answers := map[string]string{}
	for len(answers) < 2 {
		m := c.wait("", func(m message) bool { return m.Method == "" })
		answers[string(m.ID)] = m.raw
	}
	for _, r := range []string{running, waiting} {
		if !strings.Contains(answers[r], `"cancelled"`) {
			t.Errorf("%s: %s", r, answers[r])
		}
	}
	if strings.Contains(c.said(), "never") {
		t.Error("a turn that was cancelled before it began said something")
	}
	// The open question is cancelled. A later answer is echoed.
	asking := c.send("session/prompt", promptParams(id, "permission"))
	c.wait(asking, func(m message) bool { return m.Method == "session/request_permission" })
	c.write(fmt.Sprintf(`{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":%q}}`, id))
	if m := c.wait(asking, nil); !strings.Contains(m.raw, `"cancelled"`) {
		t.Error(m.raw)
	}
	c.write(`{"jsonrpc":"2.0","id":0,"result":{"outcome":{"outcome":"cancelled"}}}`)
	if m := c.read(); m.Method != "mock/echo" {
		t.Error(m.raw)
	}
	if stop := c.prompt(id, "go on"); stop != "end_turn" || c.said() != "go on" {
		t.Errorf("%s %q", stop, c.said())
	}
}

func TestPromptsOfOneSessionWaitForEachOther(t *testing.T) {
	t.Parallel()
	c := startAgent(t, mockagent.Config{})
	id := c.session("[]")
	c.seen = nil
	var last string
	for i := range 20 {
		last = c.send("session/prompt", promptParams(id, fmt.Sprintf("burst %d", i+1)))
	}
	c.wait(last, nil)
	var want strings.Builder
	for i := range 20 {
		for j := range i + 1 {
			fmt.Fprintf(&want, "message %d\n", j+1)
		}
	}
	if c.said() != want.String() {
		t.Errorf("%q", c.said())
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	c := startAgent(t, mockagent.Config{})
	id := c.session("[]")
	values := func(m message) string {
		t.Helper()
		var r struct {
			ConfigOptions []struct {
				ID, Category, Type, CurrentValue string
				Options                          []struct{ Value, Name string }
			}
		}
		if err := json.Unmarshal(m.Result, &r); err != nil {
			t.Fatalf("%v in %s", err, m.raw)
		}
		var all []string
		for _, o := range r.ConfigOptions {
			if o.ID != o.Category || o.Type != "select" || len(o.Options) < 2 {
				t.Errorf("%+v", o)
			}
			all = append(all, o.ID+"="+o.CurrentValue)
		}
		return strings.Join(all, " ")
	}
	c.must("session/set_mode", fmt.Sprintf(`{"sessionId":%q,"modeId":"plan"}`, id), new(struct{}))
	if c.kinds() != "current_mode_update config_option_update" || c.seen[0].Params.Update.CurrentModeID != "plan" {
		t.Error(c.kinds())
	}
	c.must("session/set_model", fmt.Sprintf(`{"sessionId":%q,"modelId":"mock-fast"}`, id), new(struct{}))
	m := c.call("session/set_config_option", fmt.Sprintf(`{"sessionId":%q,"configId":"thought_level","value":"high"}`, id))
	if got := values(m); got != "mode=plan model=mock-fast thought_level=high" {
		t.Error(got)
	}
	for _, bad := range []string{
		`session/set_mode {"sessionId":"ID","modeId":"none"}`, `session/set_model {"sessionId":"ID"}`,
		`session/set_config_option {"sessionId":"ID","configId":"x","value":"y"}`, `session/set_config_option {"sessionId":"ID","configId":"model","value":true}`,
		`session/set_mode {"sessionId":"mock-0000000000000000","modeId":"plan"}`, `session/set_mode {"sessionId":7}`,
		`session/prompt {"sessionId":"ID","prompt":[]}`, `session/prompt {"sessionId":"ID","prompt":"x"}`, `session/prompt {"sessionId":"missing","prompt":[{"type":"text"}]}`,
		`session/new {"cwd":"relative"}`, `session/new {}`, `session/new {"cwd":"/","mcpServers":[{"type":"sse","name":"x","url":"http://x"}]}`,
		`session/new {"cwd":"/","mcpServers":[{"type":"http","name":"x"}]}`, `session/new {"cwd":"/","mcpServers":[{"name":"x"}]}`,
		`session/new {"cwd":"/","mcpServers":[{"command":"x"}]}`, `session/load {"cwd":"/","sessionId":"../../etc/passwd"}`, `session/close {"sessionId":"missing"}`,
	} {
		method, params, _ := strings.Cut(strings.ReplaceAll(bad, `"ID"`, `"`+id+`"`), " ")
		if m := c.call(method, params); m.Error == nil || m.Error.Message == "" || m.Error.Code == 0 {
			t.Errorf("%s: %s", bad, m.raw)
		}
	}
}

func TestRestore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := startAgent(t, mockagent.Config{Dir: dir})
	id := c.session("[]")
	c.must("session/set_mode", fmt.Sprintf(`{"sessionId":%q,"modeId":"plan"}`, id), new(struct{}))
	c.prompt(id, "burst 50")
	c.prompt(id, "diff")
	other := c.session("[]")
	_ = c.stop()

	c = startAgent(t, mockagent.Config{Dir: dir})
	var about struct {
		Modes struct{ CurrentModeID string }
	}
	c.must("session/load", fmt.Sprintf(`{"sessionId":%q,"cwd":"/tmp","mcpServers":[]}`, id), &about)
	const want = "user_message_chunk agent_message_chunk user_message_chunk agent_message_chunk user_message_chunk " +
		"tool_call:in_progress tool_call_update:completed agent_message_chunk"
	if about.Modes.CurrentModeID != "plan" || c.kinds() != want || !strings.Contains(c.said(), "message 49\nmessage 50\n") {
		t.Errorf("%+v %s %q", about, c.kinds(), c.said())
	}
	if c.prompt(id, "not the first"); c.said() != "not the first" {
		t.Errorf("%q", c.said())
	}
	c.must("session/resume", fmt.Sprintf(`{"sessionId":%q,"cwd":"/tmp","mcpServers":[]}`, other), &about)
	if len(c.seen) != 0 || about.Modes.CurrentModeID != "normal" {
		t.Errorf("%s %+v", c.kinds(), about)
	}
	var list struct {
		Sessions []struct{ SessionID, Cwd, Title, UpdatedAt string }
	}
	c.must("session/list", `{}`, &list)
	if len(list.Sessions) != 2 || list.Sessions[0].Title != "hello" || list.Sessions[0].Cwd != "/tmp" {
		t.Errorf("%+v", list)
	}
	c.must("session/close", fmt.Sprintf(`{"sessionId":%q}`, other), new(struct{}))
	c.must("session/delete", fmt.Sprintf(`{"sessionId":%q}`, id), new(struct{}))
	c.must("session/list", `{"cwd":"/tmp"}`, &list)
	if len(list.Sessions) != 1 || list.Sessions[0].SessionID != other {
		t.Errorf("%+v", list)
	}
	if err := os.WriteFile(filepath.Join(dir, other+".jsonl"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	m := c.call("session/load", fmt.Sprintf(`{"sessionId":%q,"cwd":"/tmp"}`, other))
	if m.Error == nil || !strings.Contains(m.Error.Message, "damaged") {
		t.Error(m.raw)
	}
}

func TestCrash(t *testing.T) {
	t.Parallel()
	c := startAgent(t, mockagent.Config{})
	id := c.session("[]")
	c.send("session/prompt", promptParams(id, "crash"))
	c.wait("", func(m message) bool { return m.Params.Update.text() == "I am about to crash." })
	select {
	case <-c.done:
	case <-time.After(limit):
		t.Fatal("it lives")
	}
	if !errors.Is(c.err, mockagent.ErrCrash) {
		t.Error(c.err)
	}
	if l, ok := <-c.lines; ok {
		t.Errorf("%q after the crash", l)
	}
}

func TestBadMessages(t *testing.T) {
	t.Parallel()
	c := startAgent(t, mockagent.Config{MaxLine: 1 << 20})
	for _, test := range []struct {
		line string
		code int
	}{
		{"nonsense", -32700},
		{"[1,2]", -32600},
		{`"text"`, -32600},
		{`{"method":7}`, -32600},
		{"{", -32700},
		{`{"id":1,"method":"` + strings.Repeat("x", 2<<20) + `"}`, -32600},
		{strings.Repeat("y", 3<<20), -32600},
	} {
		c.write(test.line)
		if m := c.read(); m.Error == nil || m.Error.Code != test.code || string(m.ID) != "null" {
			t.Errorf("%.40q: %s", test.line, m.raw)
		}
	}
	c.write("")
	c.write("  ")
	c.session("[]")
}

// TestEnd ends connections in every way.
func TestEnd(t *testing.T) {
	t.Parallel()
	if err := mockagent.Run(t.Context(), strings.NewReader(`{"id":1,"method":"x"}`), io.Discard, mockagent.Config{}); err != nil {
		t.Error(err)
	}
	broken := errors.New("broken")
	in := io.MultiReader(strings.NewReader(`{"id":1,"method":"x"}`+"\n"), readerFunc(func([]byte) (int, error) { return 0, broken }))
	if err := mockagent.Run(t.Context(), in, io.Discard, mockagent.Config{}); !errors.Is(err, broken) {
		t.Error(err)
	}
	r, w := io.Pipe()
	go func() { _, _ = io.WriteString(w, `{"id":1,"method":"x"}`+"\n") }()
	if err := mockagent.Run(t.Context(), r, writerFunc(func([]byte) (int, error) { return 0, broken }), mockagent.Config{}); !errors.Is(err, broken) {
		t.Error(err)
	}
	_ = w.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r, w = io.Pipe()
	if err := mockagent.Run(ctx, r, io.Discard, mockagent.Config{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	_ = w.Close()
	if err := mockagent.Run(t.Context(), strings.NewReader(""), io.Discard, mockagent.Config{MaxLine: -1}); err == nil {
		t.Error("a negative limit was taken")
	}
	c := startAgent(t, mockagent.Config{Tick: time.Hour})
	id := c.session("[]")
	c.send("session/prompt", promptParams(id, "slow"))
	c.wait("", func(m message) bool { return m.Params.Update.text() == "tick 1\n" })
	if err := c.stop(); err != nil {
		t.Error(err)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// BenchmarkPrompt is a turn that echoes, from prompt to answer.
func BenchmarkPrompt(b *testing.B) {
	theirIn, in := io.Pipe()
	out, theirOut := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- mockagent.Run(context.Background(), theirIn, theirOut, mockagent.Config{}) }()
	answers := json.NewDecoder(out)
	call := func(line string) (r struct{ Result struct{ SessionID string } }) {
		if _, err := io.WriteString(in, line+"\n"); err != nil {
			b.Fatal(err)
		}
		for {
			var m struct {
				ID     *int
				Result struct{ SessionID string }
			}
			if err := answers.Decode(&m); err != nil {
				b.Fatal(err)
			}
			if m.ID != nil {
				r.Result = m.Result
				return r
			}
		}
	}
	id := call(`{"id":1,"method":"session/new","params":{"cwd":"/"}}`).Result.SessionID
	line := fmt.Sprintf(`{"id":2,"method":"session/prompt","params":%s}`, promptParams(id, "hello"))
	call(line)
	for b.Loop() {
		call(line)
	}
	_ = in.Close()
	if err := <-done; err != nil {
		b.Fatal(err)
	}
}
