package agenttest

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/hinshun/vt10x"

	"github.com/deskhand/deskhand/internal/fakellm"
	"github.com/deskhand/deskhand/internal/testspace"
	"github.com/deskhand/deskhand/internal/testx11"
)

var update = flag.Bool("update", false, "write the golden files")

// The size of the terminal.
const (
	tuiCols = 120
	tuiRows = 40
)

// tui is OpenCode's terminal UI in a terminal.
type tui struct {
	t        *testing.T
	file     *os.File // the terminal
	terminal vt10x.Terminal
	ended    chan struct{}

	mu      sync.Mutex
	printed *sync.Cond // at each change of the screen
	over    bool
}

// startTUI runs a command in a terminal until the test ends.
func startTUI(t *testing.T, dir string, env []string, name string, args ...string) *tui {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = dir, append(env, "TERM=xterm-256color")
	file, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: tuiRows, Cols: tuiCols})
	if err != nil {
		t.Fatal(err)
	}
	u := &tui{t: t, file: file, terminal: vt10x.New(vt10x.WithSize(tuiCols, tuiRows), vt10x.WithWriter(file)), ended: make(chan struct{})}
	u.printed = sync.NewCond(&u.mu)
	go u.read()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
		_ = file.Close()
		<-u.ended
	})
	return u
}

func (u *tui) read() {
	defer close(u.ended)
	buf := make([]byte, 64<<10)
	for {
		n, err := u.file.Read(buf)
		_, _ = u.terminal.Write(buf[:n]) // it takes everything
		u.mu.Lock()
		u.over = err != nil
		u.printed.Broadcast()
		u.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// screen returns what the terminal shows.
func (u *tui) screen() string {
	var b strings.Builder
	for line := range strings.Lines(u.terminal.String()) {
		b.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	return b.String()
}

// until waits until the screen satisfies a condition.
func (u *tui) until(what string, is func(screen string) bool) {
	u.t.Helper()
	late := time.AfterFunc(patience, func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.over = true
		u.printed.Broadcast()
	})
	defer late.Stop()
	u.mu.Lock()
	defer u.mu.Unlock()
	for !is(u.screen()) {
		if u.over {
			u.t.Fatalf("the terminal UI does not show %s; it shows:\n%s", what, u.screen())
		}
		u.printed.Wait()
	}
}

// shows waits until the screen has all texts.
func (u *tui) shows(texts ...string) {
	u.t.Helper()
	u.until(fmt.Sprintf("%q", texts), func(screen string) bool {
		for _, text := range texts {
			if !strings.Contains(screen, text) {
				return false
			}
		}
		return true
	})
}

// press sends keys.
func (u *tui) press(keys string) {
	u.t.Helper()
	if _, err := u.file.WriteString(keys); err != nil {
		u.t.Fatal(err)
	}
}

// unstable are the parts of a screen that differ between two runs.
var unstable = []struct {
	pattern *regexp.Regexp
	text    string
}{
	{regexp.MustCompile(`[■⬝]{6,}|[\x{2800}-\x{28ff}]`), "SPINNER"},
	{regexp.MustCompile(`Chunk ID: \w+`), "Chunk ID: ID"},
	{regexp.MustCompile(`Wall time: [\d.]+`), "Wall time: TIME"},
	{regexp.MustCompile(`\d+(\.\d+)?(ms|s)\b`), "TIME"},
	{regexp.MustCompile(`\d\d?:\d\d [AP]M`), "TIME"},
	{regexp.MustCompile(`\b\d+\.\dK\b`), "TOKENS"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:.]+Z?`), "TIME"},
	{regexp.MustCompile(`/tmp/[^ :]+ *`), "DIR "},
	{regexp.MustCompile(`\b\d+\.\d+\.\d+\b`), "VERSION"},
	{regexp.MustCompile(`Tip .*`), "TIP"},
}

// stable returns a screen without its unstable parts.
func stable(screen string) string {
	for _, one := range unstable {
		screen = one.pattern.ReplaceAllString(screen, one.text)
	}
	return strings.Trim(screen, "\n") + "\n"
}

// golden waits until the screen is the one in a file. It is drawn in several steps.
func (u *tui) golden(name string) {
	u.t.Helper()
	file := filepath.Join("testdata", "opencode", name+".txt")
	if *update {
		u.awaitRest()
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			u.t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(stable(u.screen())), 0o600); err != nil {
			u.t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		u.t.Fatal(err)
	}
	u.until("the screen of "+file+", which go test -update writes", func(screen string) bool { return stable(screen) == string(want) })
}

// awaitRest waits until the stable parts of the screen were the same for two seconds.
func (u *tui) awaitRest() {
	const rest = 2 * time.Second
	quiet, last := false, ""
	timer := time.AfterFunc(rest, func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		quiet = true
		u.printed.Broadcast()
	})
	defer timer.Stop()
	u.until("a screen at rest", func(screen string) bool {
		if now := stable(screen); now != last {
			quiet, last = false, now
			timer.Reset(rest)
		}
		return quiet
	})
}

// requireOpenCode installs the program opencode with the other agents. Without a directory for
// agents, the test is skipped unless the program is on PATH.
func requireOpenCode(t *testing.T, binary string) {
	t.Helper()
	if os.Getenv("DESKHAND_AGENTS") != "" {
		install(t, binary, "opencode")
	} else if _, err := exec.LookPath("opencode"); err != nil {
		t.Skip("no program opencode: make test-agents installs it")
	}
}

// tuiEnviron returns the environment of the terminal UI and its server.
func tuiEnviron(t *testing.T, r *rig) []string {
	t.Helper()
	return append(r.environ(t), "OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_MODELS_FETCH=1")
}

// openTUI runs deskhand opencode with an agent, in an environment. The server in the background
// ends with the test.
func openTUI(t *testing.T, binary, agent string, r *rig) *tui {
	t.Helper()
	port := testspace.Port(t)
	env := tuiEnviron(t, r)
	t.Cleanup(func() {
		cmd := exec.CommandContext(context.WithoutCancel(t.Context()), binary, "daemon", "stop", "--port", port)
		cmd.Env = env
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("daemon stop: %v: %s", err, out)
		}
	})
	u := startTUI(t, r.work, env, binary, "opencode", "--port", port, "--agent", agent)
	u.shows("ctrl+p commands", "Build ·")
	return u
}

// send sends a prompt.
func (u *tui) send(prompt string) {
	u.t.Helper()
	if strings.Contains(prompt, "\n") {
		u.press("\x1b[200~" + prompt + "\x1b[201~") // as a terminal pastes
		u.shows("[Pasted")
	} else {
		u.press(prompt)
		u.shows(prompt)
	}
	u.press("\r")
}

// TestOpenCodeTUI: a prompt is typed into OpenCode's terminal UI, the mock agent calls a tool,
// the permission is answered there, and the result is shown.
func TestOpenCodeTUI(t *testing.T) {
	binary := build(t)
	requireOpenCode(t, binary)
	u := openTUI(t, binary, "mock", &rig{model: new(fakellm.Server), work: t.TempDir()})
	u.shows("Mock")
	u.send("permission")
	u.shows("△ Permission required", "$ rm -rf build", "Allow once")
	u.golden("mock-permission")
	u.press("\r")
	u.until("the result", func(screen string) bool {
		return !strings.Contains(screen, "△ Permission required") && strings.Contains(screen, "I was allowed to run it (allow_once).") && took.MatchString(screen)
	})
	u.golden("mock-result")
}

// TestOpenCodeTUIAfterCrash: the server is killed while an agent waits for a permission, and
// started again. The terminal UI connects again and shows that the turn has ended. The session
// continues.
func TestOpenCodeTUIAfterCrash(t *testing.T) {
	binary := build(t)
	requireOpenCode(t, binary)
	r := &rig{model: new(fakellm.Server), work: t.TempDir()}
	env := tuiEnviron(t, r)
	access := []string{"--token", "the-token-of-this-test", "--port", testspace.Port(t)}
	r.server = &server{t: t, binary: binary, env: env, dir: r.work, access: access}
	r.start()
	u := startTUI(t, r.work, env, binary, append([]string{"opencode", "--agent", "mock"}, access...)...)
	u.shows("ctrl+p commands", "Build ·", "Mock")
	u.send("hello")
	u.until("the first turn", took.MatchString)
	u.send("permission")
	u.shows("△ Permission required", "$ rm -rf build", "Allow once")
	r.kill()
	r.start()
	u.until("the end of the turn", func(screen string) bool { return !strings.Contains(screen, "△ Permission required") })
	u.until("no message about it", func(screen string) bool { return !strings.Contains(screen, "Failed to send prompt") })
	u.golden("mock-interrupted")
	u.send("still there?")
	u.until("the answer", func(screen string) bool { return strings.Count(screen, "still there?") == 2 })
	u.golden("mock-continued")
}

// choose chooses a mode of the agent, which OpenCode calls an agent.
func (u *tui) choose(mode string) {
	u.t.Helper()
	u.press("/agents")
	u.shows("/agents")
	u.press("\r")
	u.shows("Select agent", mode)
	u.press(mode)
	u.until("one agent", func(screen string) bool { return !strings.Contains(screen, "bypassPermissions") })
	u.press("\r")
	u.until("the mode "+mode, func(screen string) bool {
		return !strings.Contains(screen, "Select agent") && strings.Contains(strings.ToLower(screen), mode+" ·")
	})
}

// took is the end of a turn.
var took = regexp.MustCompile(`▣  \S+ · \S.* · \d`)

// TestOpenCodeTUIWithAgents does the same with Claude Code and Codex, whose model does as the prompt
// says.
func TestOpenCodeTUIWithAgents(t *testing.T) {
	if os.Getenv("DESKHAND_AGENTS") == "" {
		t.Skip("DESKHAND_AGENTS names no directory for the agents: make test-agents")
	}
	testx11.Require(t, "node", "npm")
	binary := build(t)
	requireOpenCode(t, binary)
	for _, a := range agents[:2] {
		t.Run(a.name, func(t *testing.T) {
			install(t, binary, a.name)
			r := &rig{agent: a, model: new(fakellm.Server), work: t.TempDir()}
			u := openTUI(t, binary, a.name, r)
			if a.mode != "" {
				u.choose(a.mode)
			}
			u.send("do this\n@say I begin.\n" + a.shell("echo written > made.txt && echo it is done") + "\n@say Result: {result}")
			u.shows("△ Permission required", "I begin.", "Allow once")
			u.golden(a.name + "-permission")
			u.press("\r")
			u.until("the result", func(screen string) bool {
				return !strings.Contains(screen, "△ Permission required") && strings.Contains(screen, "Result:") && took.MatchString(screen)
			})
			u.golden(a.name + "-result")
			if got, err := os.ReadFile(filepath.Join(r.work, "made.txt")); err != nil || string(got) != "written\n" {
				t.Errorf("the command wrote %q, %v", got, err)
			}
		})
	}
}
