package agenttest

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/deskhand/deskhand/internal/fakellm"
	"github.com/deskhand/deskhand/internal/testx11"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"))
}

// agent is one that is tested, and how it is made to ask our model.
type agent struct {
	name string
	env  []string
	// files are written below the home directory; {url} is the model's address.
	files map[string]string
	// mode is set after a session is made, so that it asks before it acts. Empty: it does.
	mode string
	// shell calls its shell with a command.
	shell func(command string) string
	// screenshot calls the desktop's tool.
	screenshot string
}

var agents = []agent{{
	name: "claude",
	env: []string{
		"ANTHROPIC_BASE_URL={url}", "ANTHROPIC_API_KEY=sk-ant-none", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_TELEMETRY=1",
		"ENABLE_TOOL_SEARCH=false",
	},
	shell:      func(c string) string { return call("Bash", map[string]any{"command": c, "description": "test"}) },
	screenshot: "@call mcp__desktop__screenshot {}",
}, {
	name: "codex",
	env:  []string{"OPENAI_API_KEY=sk-none", "CODEX_API_KEY=sk-none", "NO_BROWSER=1"},
	files: map[string]string{".codex/config.toml": `
model = "gpt-5"
model_provider = "test"
approvals_reviewer = "user"
approval_policy = "on-request"
sandbox_mode = "read-only"
check_for_update_on_startup = false
[model_providers.test]
name = "Test"
base_url = "{url}/v1"
env_key = "OPENAI_API_KEY"
wire_api = "responses"
requires_openai_auth = false
[analytics]
enabled = false
`},
	mode: "read-only",
	shell: func(c string) string {
		return call("exec_command|shell_command|shell", map[string]any{
			"cmd": c, "command": c, "sandbox_permissions": "require_escalated", "justification": "test",
		})
	},
	screenshot: "@call screenshot|desktop__screenshot|mcp__desktop__screenshot {}",
}, {
	name: "opencode",
	env:  []string{"OPENCODE_DISABLE_MODELS_FETCH=1", "OPENCODE_DISABLE_LSP_DOWNLOAD=1", "OPENCODE_DISABLE_DEFAULT_PLUGINS=1"},
	files: map[string]string{".config/opencode/opencode.json": `{
		"$schema": "https://opencode.ai/config.json", "autoupdate": false, "share": "disabled",
		"model": "test/test", "small_model": "test/test", "permission": {"bash": "ask", "edit": "ask"},
		"provider": {"test": {
			"npm": "@ai-sdk/openai-compatible", "name": "Test", "options": {"baseURL": "{url}/v1", "apiKey": "none"},
			"models": {"test": {
				"name": "Test", "tool_call": true, "attachment": true, "modalities": {"input": ["text", "image"], "output": ["text"]},
				"limit": {"context": 200000, "output": 8000}
			}}
		}}
	}`},
	shell:      func(c string) string { return call("bash", map[string]any{"command": c, "description": "test"}) },
	screenshot: "@call desktop_screenshot {}",
}}

func call(tool string, arguments any) string {
	text, err := json.Marshal(arguments)
	if err != nil {
		panic(err) // they are maps of strings
	}
	return fmt.Sprintf("@call %s %s", tool, text)
}

// rig is a server whose agents ask a model of ours.
type rig struct {
	*server
	agent
	model *fakellm.Server
	work  string // where the agents work
}

func newRig(t *testing.T, a agent, binary string) *rig {
	t.Helper()
	r := &rig{agent: a, model: new(fakellm.Server), work: t.TempDir()}
	r.server = &server{t: t, binary: binary, env: r.environ(t), dir: r.work}
	r.start()
	return r
}

// environ returns the environment of an agent that asks the model, with a new home.
func (r *rig) environ(t *testing.T) []string {
	t.Helper()
	llm := httptest.NewServer(r.model)
	t.Cleanup(func() { llm.CloseClientConnections(); llm.Close() })
	home := t.TempDir()
	for name, text := range r.files {
		path := filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(strings.ReplaceAll(text, "{url}", llm.URL)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if agents := os.Getenv("DESKHAND_AGENTS"); agents != "" {
		// The agents are kept; all else is new.
		data := filepath.Join(home, ".local/share/deskhand")
		if err := os.MkdirAll(data, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join(agents, "deskhand", "agents"), filepath.Join(data, "agents")); err != nil {
			t.Fatal(err)
		}
	}
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "LANG=C.UTF-8"}
	for _, e := range r.agent.env {
		env = append(env, strings.ReplaceAll(e, "{url}", llm.URL))
	}
	return env
}

// session makes one and returns its id.
func (r *rig) session(a *acp) string {
	r.t.Helper()
	a.call("initialize", map[string]any{
		"protocolVersion": 1, "clientInfo": map[string]any{"name": "test", "version": "1"}, "clientCapabilities": map[string]any{},
	})
	var made struct{ SessionID string }
	raw := a.call("session/new", map[string]any{"cwd": r.work, "mcpServers": []any{}})
	if err := json.Unmarshal(raw, &made); err != nil || made.SessionID == "" {
		r.t.Fatalf("session/new: %v: %s", err, raw)
	}
	if r.mode != "" {
		a.call("session/set_mode", map[string]any{"sessionId": made.SessionID, "modeId": r.mode})
	}
	return made.SessionID
}

func TestAgents(t *testing.T) {
	if os.Getenv("DESKHAND_AGENTS") == "" {
		t.Skip("DESKHAND_AGENTS names no directory for the agents: make test-agents")
	}
	testx11.Require(t, "node", "npm", "Xvfb", "openbox", "dbus-daemon")
	binary := build(t)
	for _, a := range agents {
		t.Run(a.name, func(t *testing.T) {
			install(t, binary, a.name)
			t.Run("turn", func(t *testing.T) { testTurn(t, newRig(t, a, binary)) })
			t.Run("cancel", func(t *testing.T) { testCancel(t, newRig(t, a, binary)) })
			t.Run("desktop", func(t *testing.T) { testDesktop(t, newRig(t, a, binary)) })
			if a.name == "claude" {
				t.Run("question", func(t *testing.T) { testQuestion(t, newRig(t, a, binary)) })
			}
			t.Run("restart", func(t *testing.T) { testRestart(t, newRig(t, a, binary)) })
		})
	}
}

// install installs an agent with npm as this user has set it up.
func install(t *testing.T, binary, name string) {
	t.Helper()
	cmd := exec.Command(binary, "install-agent", name)
	cmd.Env = append(os.Environ(), "XDG_DATA_HOME="+os.Getenv("DESKHAND_AGENTS"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// testTurn wants a tool to be called after its permission, and its result to be shown.
func testTurn(t *testing.T, r *rig) {
	t.Helper()
	c := newACP(r.server, "turn", r.name, "")
	session := r.session(c)
	f := r.follow(c.path, "")
	stop := c.prompt(session, "do this\n@think hm\n@say I begin.\n"+r.shell("echo written > made.txt && echo it is done")+"\n@say Result: {result}")
	if stop != "end_turn" {
		t.Errorf("the turn stopped with %s", stop)
	}
	if got, err := os.ReadFile(filepath.Join(r.work, "made.txt")); err != nil || string(got) != "written\n" {
		t.Errorf("the command wrote %q, %v", got, err)
	}
	if said := f.afterTurn(c, session); !strings.Contains(said, "I begin.") || !strings.Contains(said, "it is done") {
		t.Errorf("it said %q%s", said, r.offers())
	}
	if f.asked != 1 {
		t.Errorf("it asked %d times, want once%s", f.asked, f.tail())
	}
	stop = c.prompt(session, "and\n@say second turn")
	if said := f.afterTurn(c, session); stop != "end_turn" || !strings.Contains(said, "second turn") {
		t.Errorf("the second turn stopped with %s; it said %q", stop, said)
	}
}

// offers is what tools the model was offered, for messages.
func (r *rig) offers() string {
	var b strings.Builder
	for _, req := range r.model.Requests() {
		var in struct {
			Tools []struct {
				Name     string
				Function struct{ Name string }
			}
		}
		if json.Unmarshal(req.Body, &in) == nil {
			fmt.Fprintf(&b, "\n%s offers", req.Path)
			for _, o := range in.Tools {
				fmt.Fprintf(&b, " %s%s", o.Name, o.Function.Name)
			}
		}
	}
	return b.String()
}

// testCancel: a turn can be cancelled, and another follows.
func testCancel(t *testing.T, r *rig) {
	t.Helper()
	c := newACP(r.server, "cancel", r.name, "")
	session := r.session(c)
	f := r.follow(c.path, "")
	stopped := make(chan string, 1)
	go func() {
		stop, err := c.tryPrompt(session, "go\n"+r.shell("touch running && sleep 60")+"\n@say too late")
		if err != nil {
			t.Error(err)
		}
		stopped <- stop
	}()
	path := filepath.Join(r.work, "running")
	eventually(t, "the command runs", func() bool { _, err := os.Stat(path); return err == nil })
	second := newACP(r.server, "cancel", r.name, "")
	second.next = 100
	second.notify("session/cancel", map[string]any{"sessionId": session})
	if stop := <-stopped; stop != "cancelled" {
		t.Errorf("the turn stopped with %s", stop)
	}
	stop := second.prompt(session, "and\n@say still here")
	if said := f.afterTurn(second, session); stop != "end_turn" || !strings.Contains(said, "still here") {
		t.Errorf("the next turn stopped with %s; it said %q", stop, said)
	}
}

// testDesktop: the model sees the desktop.
func testDesktop(t *testing.T, r *rig) {
	t.Helper()
	r.post("/v1/desktop/start", map[string]any{"width": 800, "height": 600})
	c := newACP(r.server, "desktop", r.name, "&desktop=main")
	session := r.session(c)
	f := r.follow(c.path, "")
	if stop := c.prompt(session, "look\n"+r.screenshot+"\n@say I got {images} pictures"); stop != "end_turn" {
		t.Errorf("the turn stopped with %s", stop)
	}
	if said := f.afterTurn(c, session); !strings.Contains(said, "I got 1 pictures") {
		t.Errorf("it said %q%s", said, r.offers())
	}
}

// testRestart: the server is killed in the middle of a turn; the client goes on
// with the next server, and nothing is missing or doubled.
func testRestart(t *testing.T, r *rig) {
	t.Helper()
	c := newACP(r.server, "restart", r.name, "")
	session := r.session(c)
	f := r.follow(c.path, "")
	c.prompt(session, "one\n@say first turn")
	ended := make(chan error, 1)
	go func() {
		_, err := c.tryPrompt(session, "two\n@say I begin the long one.\n"+r.shell("touch running && sleep 60")+"\n@say never said")
		ended <- err
	}()
	path := filepath.Join(r.work, "running")
	eventually(t, "the command runs", func() bool { _, err := os.Stat(path); return err == nil })
	r.kill()
	if err := <-ended; err == nil {
		t.Error("the turn had an answer although the server was killed")
	}
	<-f.done
	seen := f.last()

	r.start()
	g := r.follow(c.path, seen)
	second := newACP(r.server, "restart", r.name, "")
	second.first, second.next = false, 200
	if stop := second.prompt(session, "three\n@say second life"); stop != "end_turn" {
		t.Errorf("the turn after the restart stopped with %s", stop)
	}
	if said := g.afterTurn(second, session); !strings.Contains(said, "second life") || strings.Contains(said, "first turn") {
		t.Errorf("after the restart it said %q", said)
	}
	all := r.follow(c.path+"?replay=all", "")
	said := all.afterTurn(second, session)
	for text, want := range map[string]int{"first turn": 1, "I begin the long one.": 1, "second life": 1, "never said": 0} {
		if n := strings.Count(said, text); n != want {
			t.Errorf("the history has %q %d times, want %d: %q", text, n, want, said)
		}
	}
	ids(t, all)
	// The agent remembers the turns before: its model is told of them.
	requests := r.model.Requests()
	if body := string(requests[len(requests)-1].Body); !strings.Contains(body, "first turn") {
		t.Errorf("the model was not told of the first turn: %.2000s", body)
	}
}

// ids checks that the events are numbered without a hole.
func ids(t *testing.T, f *follower) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, e := range f.events {
		if e.id != fmt.Sprint(i+1) {
			t.Fatalf("event %d has the id %s", i+1, e.id)
		}
	}
}
