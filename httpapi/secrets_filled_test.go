package httpapi

import (
	"bytes"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/deskhand/deskhand/internal/testx11"
)

// TestFilledSecretsAreNowhere fills a secret into a page by routes, actions and tools, with
// success and without, and searches all that the server answers, logs and keeps for it.
func TestFilledSecretsAreNowhere(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "chromium", "ffmpeg", "ffprobe")
	const value = "Hunter2-of-the-Bank"
	seen := &outputs{}
	dir := t.TempDir()
	s := startReal(t, Config{
		StateDir: dir, AccessLog: true,
		Logger: slog.New(slog.NewTextHandler(seen, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}, `{"width":800,"height":600}`)
	const at = mainPath + "/browser"
	ask := func(path, body string, status int) string {
		t.Helper()
		a := s.do(t, call{path: path, body: body})
		seen.add("answers", a.body)
		if a.StatusCode != status {
			t.Errorf("%s %s: %d %s, want %d", path, body, a.StatusCode, a.body, status)
		}
		return string(a.body)
	}
	s.put(t, "/v1/secrets/BANK", `{"value":"`+value+`"}`).want(t, 204)
	page := url.PathEscape(`<title>Bank</title><input id=p type=password aria-label=Password><input id=d type=date><input id=n readonly>`)
	ask(at+"/start", `{"profile":"secrets"}`, 200)
	ask(at+"/navigate", `{"url":"data:text/html,`+page+`"}`, 200)
	events := s.follow(t.Context(), t, mainPath+"/events?access_token="+s.Token(), nil)
	recording := mainPath + "/recordings/" + s.do(t, call{method: "POST", path: mainPath + "/recordings"}).json(t)["id"].(string)

	filled := func(by string) {
		t.Helper()
		check := `{"expression":"((p) => { const same = p.value === '` + value + `'; p.value = ''; return same; })(document.getElementById('p'))"}`
		if a := ask(at+"/evaluate", check, 200); !strings.Contains(a, "true") {
			t.Errorf("%s: the field does not have the secret", by)
		}
	}
	ask(at+"/fill", `{"selector":"#p","secret":"BANK"}`, 200)
	if a := s.get(t, at+"/outline"); !strings.Contains(string(a.body), "•••") || strings.Contains(string(a.body), "••••") {
		t.Errorf("the outline hides the value and its length: %s", a.body)
	}
	filled("route")
	ask(mainPath+"/actions", `{"actions":[{"type":"browser","do":"fill","args":{"selector":"#p","secret":"BANK"}}],"settle":{"ms":0}}`, 200)
	filled("actions")
	session, err := s.mcpClient(t, "", s.Token(), "model")
	if err != nil {
		t.Fatal(err)
	}
	tool := func(name string) bool {
		t.Helper()
		text, _, failed := callTool(t, session, "browser", map[string]any{"action": "fill", "selector": "#p", "secret": name})
		seen.add("MCP", []byte(text))
		return !failed
	}
	if !tool("BANK") || tool("NONE") {
		t.Error("the tool fills in an unknown secret, or not a known one")
	}
	filled("tool")

	ask(at+"/fill", `{"selector":"#p","secret":"NONE"}`, 404)
	ask(at+"/fill", `{"selector":"#p","secret":"BANK","text":"x"}`, 400)
	ask(at+"/fill", `{"selector":"#d","secret":"BANK"}`, 409)
	ask(at+"/fill", `{"selector":"#n","secret":"BANK"}`, 409)
	ask(at+"/fill", `{"selector":"#nothing","secret":"BANK"}`, 404)
	ask(mainPath+"/control/take", `{"force":true}`, 200)
	for _, path := range []string{"/console", "/network", "/text", "/outline", "/state"} {
		seen.add("answers", s.get(t, at+path).want(t, 200).body)
	}
	ask(mainPath+"/keyboard/type", `{"text":"end"}`, 200)
	s.awaitVideo(t, recording, time.Second)
	ask(recording+"/stop", `{}`, 200)
	for _, path := range []string{"/timeline", "/captions.vtt", "/chapters.vtt", ""} {
		a := s.get(t, recording+path).want(t, 200)
		seen.add("answers", a.body)
		if path == "/captions.vtt" && !strings.Contains(string(a.body), "with secret BANK") {
			t.Errorf("the captions do not have the time of the secret: %s", a.body)
		}
	}
	named := seen.addEvents(events)
	if named < 3 {
		t.Errorf("%d events name the secret, want 3 or more", named)
	}
	ask(at+"/stop", `{}`, 200)
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() || strings.Contains(path, "/.config/deskhand/browser/") { // the browser's own files
			return err
		}
		text, err := os.ReadFile(path)
		if bytes.Contains(text, []byte(value)) {
			t.Errorf("%s has the secret", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	seen.lackSecret(t)
}
