package main

import (
	"bytes"
	"context"
	"encoding/json"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/internal/testlog"
	"github.com/deskhand/deskhand/internal/testx11"
)

// mcpClient starts deskhand mcp, as an agent does.
func mcpClient(t *testing.T, env []string, args ...string) (*mcp.ClientSession, *exec.Cmd) {
	t.Helper()
	cmd := exec.Command(binary, append([]string{"mcp"}, args...)...)
	cmd.Env = env
	var stderr testlog.Buffer
	cmd.Stderr = &stderr
	c := mcp.NewClient(&mcp.Implementation{Name: "an-agent", Version: "1"}, nil)
	ctx, cancel := context.WithTimeout(t.Context(), readyLimit)
	defer cancel()
	session, err := c.Connect(ctx, &mcp.CommandTransport{Command: cmd, TerminateDuration: 2 * stopLimit}, nil)
	if err != nil {
		t.Fatalf("%v: %s", err, &stderr)
	}
	if v := session.InitializeResult().ServerInfo.Version; v != "1.2.3-test" {
		t.Errorf("the server calls its version %q", v)
	}
	t.Cleanup(func() {
		_ = session.Close()
		if s := stderr.String(); s != "" {
			t.Errorf("it wrote %q", s)
		}
	})
	return session, cmd
}

// look takes a screenshot and returns its width.
func look(t *testing.T, session *mcp.ClientSession) (width int, text string) {
	t.Helper()
	r, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "screenshot"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range r.Content {
		switch c := c.(type) {
		case *mcp.TextContent:
			text = c.Text
		case *mcp.ImageContent:
			m, err := png.Decode(bytes.NewReader(c.Data))
			if err != nil {
				t.Fatal(err)
			}
			width = m.Bounds().Dx()
		}
	}
	return width, text
}

func requireDesktop(t *testing.T) {
	t.Helper()
	if missing := desktop.MissingPrograms(); len(missing) > 0 {
		t.Skip("missing: ", missing)
	}
}

func TestMCPOwnDesktop(t *testing.T) {
	t.Parallel()
	requireDesktop(t)
	session, cmd := mcpClient(t, environ(t), "--width", "640", "--height", "480")
	if width, text := look(t, session); width != 640 {
		t.Errorf("%d %s", width, text)
	}
	if err := session.Close(); err != nil || cmd.ProcessState.ExitCode() != 0 {
		t.Errorf("%v %v", err, cmd.ProcessState)
	}
}

// TestMCPOwnTools uses secrets, elements and the browser of a desktop that the command starts, and
// wants nothing of it left.
func TestMCPOwnTools(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "Xvfb", "openbox", "dbus-daemon", "xterm", "zenity", "chromium", "/usr/libexec/at-spi-bus-launcher")
	temporary := t.TempDir()
	session, _ := mcpClient(t, environ(t, "PIN_OF_TEST=hunter2", "TMPDIR="+temporary), "--secret", "PIN=env:PIN_OF_TEST")
	call := func(name, args string) string {
		t.Helper()
		r, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: json.RawMessage(args)})
		if err != nil || len(r.Content) == 0 {
			t.Fatalf("%s: %v", name, err)
		}
		text, ok := r.Content[0].(*mcp.TextContent)
		if !ok || r.IsError {
			t.Fatalf("%s: %+v", name, r.Content[0])
		}
		if strings.Contains(text.Text, "hunter2") {
			t.Errorf("%s tells the secret: %s", name, text.Text)
		}
		return text.Text
	}
	list, err := session.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
	}
	for _, want := range []string{"computer", "elements", "element", "browser"} {
		if !slices.Contains(names, want) || len(names) >= 25 {
			t.Errorf("%d tools without %s: %v", len(names), want, names)
		}
	}
	call("launch", `{"app":"zenity","args":["--info","--title=Told","--text=Hello"],"wait":true}`)
	ok := regexp.MustCompile(`(@e\d+) button "OK"`)
	var found []string
	for deadline := time.Now().Add(readyLimit); found == nil; {
		outline := call("elements", "{}")
		if found = ok.FindStringSubmatch(outline); time.Now().After(deadline) {
			t.Fatal(outline)
		}
	}
	call("element", `{"ref":"`+found[1]+`","do":"click"}`)
	written := filepath.Join(t.TempDir(), "written")
	call("launch", `{"app":"xterm","args":["-e","sh","-c","read x; echo $x > `+written+`"],"wait":true}`)
	call("type", `{"secret":"PIN"}`)
	call("key", `{"text":"Return"}`)
	for deadline := time.Now().Add(readyLimit); ; {
		if text, err := os.ReadFile(written); err == nil && string(text) == "hunter2\n" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the secret was not typed")
		}
	}
	call("browser", `{"action":"navigate","url":"data:text/html,<button>Press me</button>"}`)
	if text := call("browser", `{"action":"outline"}`); !strings.Contains(text, `button "Press me"`) {
		t.Errorf("outline: %s", text)
	}
	if err := session.Close(); err != nil {
		t.Error(err)
	}
	if left, err := filepath.Glob(filepath.Join(temporary, "*", "mcp-*")); err != nil || len(left) > 0 {
		t.Errorf("left: %v %v", left, err)
	}
}

func TestMCPRelay(t *testing.T) {
	t.Parallel()
	requireDesktop(t)
	env := environ(t)
	s := serve(t, env, "--desktop")
	session, cmd := mcpClient(t, append(env, "DESKHAND_ENDPOINT="+s.base, "DESKHAND_TOKEN="+s.token))
	if width, text := look(t, session); width != 1356 {
		t.Errorf("%d %s", width, text)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = session.Wait()
	late := time.AfterFunc(2*stopLimit, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	_ = session.Close()
	if cmd.ProcessState.ExitCode() != 0 {
		t.Error(cmd.ProcessState)
	}
	wrong, _ := mcpClient(t, environ(t), "-e", s.base, "-t", "wrong", "--desktop", "main")
	if width, text := look(t, wrong); width != 0 || !strings.Contains(text, "token invalid") {
		t.Errorf("%d %s", width, text)
	}
}

func TestMCPUsage(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"word"}, {"--width", "x"}, {"-e", "http://h", "--width", "5"}, {"-e", "http://h", "--secret", "A=env:HOME"}, {"--secret", "A"}, {"-e", "::"}, {"--nothing"}} {
		if r := runCommandLine(t, environ(t), append([]string{"mcp"}, args...)...); r.status != exitUsage || !strings.Contains(r.stderr, "mcp --help") || r.stdout != "" {
			t.Errorf("%q: %+v", args, r)
		}
	}
}
