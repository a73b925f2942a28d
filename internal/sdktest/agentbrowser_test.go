package sdktest

import (
	"bytes"
	"context"
	"embed"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/deskhand/deskhand/internal/supervise"
	"github.com/deskhand/deskhand/internal/testx11"
)

//go:embed agentbrowser/package.json agentbrowser/package-lock.json
var agentBrowser embed.FS

// TestAgentBrowser has agent-browser of npm drive the browser of a desktop through a server with
// a token.
func TestAgentBrowser(t *testing.T) {
	t.Parallel()
	if reference {
		t.Skip("the reference server has no browser")
	}
	testx11.Require(t, "node", "npm", "Xvfb", "openbox", "dbus-daemon", "chromium")
	modules, err := installFrom(t.Context(), agentBrowser, "agentbrowser")
	if err != nil {
		t.Skipf("agent-browser cannot be installed: %v", err)
	}
	s := startServer(t, modules, Config{})
	post := func(method, path string) string {
		t.Helper()
		var body any
		if method == http.MethodPost {
			body = struct{}{}
		}
		r, err := s.Request(t.Context(), method, path, body)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil || answer.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s %s, %v", path, answer.Status, text, err)
		}
		return string(text)
	}
	post(http.MethodPost, "/v1/desktop/start")
	post(http.MethodPost, "/v1/desktop/browser/start")

	home := t.TempDir()
	run := func(args ...string) (string, error) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		c := exec.CommandContext(ctx, filepath.Join(modules, ".bin", "agent-browser"), args...)
		c.Env = supervise.Environ(environ(home), "AGENT_BROWSER_SESSION=deskhand")
		var out bytes.Buffer
		c.Stdout, c.Stderr, c.WaitDelay = &out, &out, time.Second
		err := c.Run()
		return out.String(), err
	}
	must := func(args ...string) string {
		t.Helper()
		out, err := run(args...)
		if err != nil {
			t.Fatalf("agent-browser %s: %v\n%s", args[0], err, out)
		}
		return out
	}
	t.Cleanup(func() { _, _ = run("close") })
	address := strings.Replace(s.URL, "http", "ws", 1) + "/v1/desktop/browser/devtools/browser/current"
	if out, err := run("connect", address); err == nil || !strings.Contains(out, "401") {
		t.Errorf("without a token: %s, %v", out, err)
	}
	must("connect", address+"?access_token="+s.Token)
	must("open", `data:text/html,<title>Here</title><input aria-label=Name><button onclick="document.title='hi '+document.querySelector('input').value">Go</button>`)
	outline := must("snapshot", "-i")
	ref := func(line string) string {
		t.Helper()
		found := regexp.MustCompile(line + `.*\[ref=(e\d+)\]`).FindStringSubmatch(outline)
		if found == nil {
			t.Fatalf("no %s in\n%s", line, outline)
		}
		return "@" + found[1]
	}
	must("fill", ref(`textbox "Name"`), "Zoë 你好")
	must("click", ref(`button "Go"`))
	if title := must("get", "title"); strings.TrimSpace(title) != "hi Zoë 你好" {
		t.Errorf("title %q", title)
	}
	if state := post(http.MethodGet, "/v1/desktop/browser"); !strings.Contains(state, `"url":"data:text/html,`) || !strings.Contains(state, `"clients":1`) {
		t.Errorf("the server's browser: %s", state)
	}
	must("close")
	if state := post(http.MethodGet, "/v1/desktop/browser"); !strings.Contains(state, `"state":"running"`) || !strings.Contains(state, `"clients":0`) {
		t.Errorf("after close: %s", state)
	}
}
