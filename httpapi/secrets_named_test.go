package httpapi

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/deskhand/deskhand/desktop/secrets"
	"github.com/deskhand/deskhand/internal/testx11"
)

// TestSecretRoutes sets, lists and deletes secrets, and wants scopes and bad input refused.
func TestSecretRoutes(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	s.put(t, "/v1/secrets/B", `{"value":"hunter2"}`).want(t, 204)
	s.put(t, "/v1/secrets/A.b-c_1", `{"value":"hunter2"}`).want(t, 204)
	a := s.get(t, "/v1/secrets").want(t, 200)
	list := a.json(t)["secrets"].([]any)
	if len(list) != 2 || list[0].(map[string]any)["name"] != "A.b-c_1" || len(list[0].(map[string]any)) != 2 || strings.Contains(string(a.body), "hunter2") {
		t.Errorf("secrets = %s", a.body)
	}
	s.do(t, call{method: "DELETE", path: "/v1/secrets/B"}).want(t, 204)
	s.do(t, call{method: "DELETE", path: "/v1/secrets/B"}).problem(t, 404, "not_found")
	for path, body := range map[string]string{
		"1":                      `{"value":"hunter2"}`,
		"a%20b":                  `{"value":"hunter2"}`,
		strings.Repeat("x", 64):  `{"value":""}`,
		"nul":                    `{"value":"hunter2\u0000"}`,
		"large":                  `{"value":"` + strings.Repeat("hunter2", 10_000) + `"}`,
		"number":                 `{"value":2}`,
		"none":                   `{}`,
		strings.Repeat("x", 200): `{"value":"hunter2"}`,
	} {
		a := s.put(t, "/v1/secrets/"+path, body)
		if a.StatusCode != 400 && a.StatusCode != 422 || strings.Contains(string(a.body), "hunter2") {
			t.Errorf("PUT %s: %d %s", path, a.StatusCode, a.body)
		}
	}
	for _, scope := range []string{"view", "control", "agent", "admin"} {
		_, token := s.token(t, `{"scope":"`+scope+`"}`)
		for _, c := range []call{
			{path: "/v1/secrets"},
			{method: "PUT", path: "/v1/secrets/C", body: `{"value":"hunter2"}`},
			{method: "DELETE", path: "/v1/secrets/C"},
		} {
			c.header = map[string]string{"Authorization": "Bearer " + token}
			if a := s.do(t, c); (a.StatusCode == 403) != (scope != "admin") {
				t.Errorf("%s %s with a token of scope %s: %d", a.Request.Method, c.path, scope, a.StatusCode)
			}
		}
	}
	for i := range secrets.MaxSecrets {
		_ = s.cfg.NamedSecrets.Set(fmt.Sprintf("N%d", i), "v") // the last one is too many
	}
	s.put(t, "/v1/secrets/more", `{"value":"v"}`).problem(t, 409, "conflict")
}

// outputs collects what a server sends and writes.
type outputs struct {
	mu  sync.Mutex
	all map[string][]byte
}

func (o *outputs) add(what string, text []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.all == nil {
		o.all = map[string][]byte{}
	}
	o.all[what] = append(o.all[what], text...)
}

// addEvents adds events until one has the text "end". It returns how many name the secret BANK.
func (o *outputs) addEvents(events <-chan sse) (named int) {
	for e := range events {
		o.add("events", []byte(e.data))
		named += strings.Count(e.data, `"secret":"BANK"`)
		if strings.Contains(e.data, `"text":"end"`) {
			break
		}
	}
	return named
}

// lackSecret fails the test if an output has the secret, or a kind of output is missing.
func (o *outputs) lackSecret(t *testing.T) {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	for what, text := range o.all {
		if bytes.Contains(bytes.ToLower(text), []byte("hunter2")) {
			t.Errorf("%s have the secret: %s", what, text)
		}
	}
	if len(o.all) != 4 {
		t.Errorf("only %d kinds of output were searched", len(o.all))
	}
}

// Write makes it the output of a logger.
func (o *outputs) Write(p []byte) (int, error) {
	o.add("log", p)
	return len(p), nil
}

// TestSecretsAreNowhere uses a secret in every way, with success and without, and searches
// all that the server answers, logs and keeps for it.
func TestSecretsAreNowhere(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "xterm", "ffmpeg", "ffprobe")
	const value = "Hunter2-of-the-Bank"
	seen := &outputs{}
	dir := t.TempDir()
	s := startReal(t, Config{
		StateDir: dir, AccessLog: true,
		Logger: slog.New(slog.NewTextHandler(seen, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}, `{"width":640,"height":480}`)
	ask := func(c call, status int) answer {
		t.Helper()
		a := s.do(t, c)
		seen.add("answers", a.body)
		if a.StatusCode != status {
			t.Errorf("%s %s %s: %d %s, want %d", a.Request.Method, c.path, c.body, a.StatusCode, a.body, status)
		}
		return a
	}
	ask(call{method: "PUT", path: "/v1/secrets/BANK", body: `{"value":"` + value + `"}`}, 204)
	ask(call{method: "PUT", path: "/v1/secrets/LONG", body: `{"value":"` + strings.Repeat(value+`\n`, 100) + `"}`}, 204)
	ask(call{method: "PUT", path: "/v1/secrets/BELL", body: `{"value":"` + value + `\u0007"}`}, 204)
	ask(call{path: "/v1/secrets"}, 200)

	// The terminal shows nothing of what is typed into it.
	typed := filepath.Join(t.TempDir(), "typed")
	ask(call{path: mainPath + "/launch", body: `{"app":"xterm","args":["-e","sh","-c","stty -echo; exec cat >` + typed + `"],"wait":true}`}, 200)
	eventually(t, "a program that reads", func() bool { _, err := os.Stat(typed); return err == nil })
	events := s.follow(t.Context(), t, mainPath+"/events?access_token="+s.Token(), nil)
	id := ask(call{method: "POST", path: mainPath + "/recordings"}, 201).json(t)["id"].(string)
	at := mainPath + "/recordings/" + id

	_, control := s.token(t, `{"scope":"control"}`)
	by := map[string]string{"Authorization": "Bearer " + control}
	typeRoute := mainPath + "/keyboard/type"
	ask(call{path: typeRoute, body: `{"secret":"BANK"}`, header: by}, 200)
	ask(call{path: typeRoute, body: `{"secret":"BANK","delayMs":0}`, header: map[string]string{"Deskhand-Typing": "secret"}}, 200)
	ask(call{path: typeRoute, body: `{"text":"\n"}`}, 200)
	eventually(t, "the typed secret", func() bool {
		text, err := os.ReadFile(typed)
		return err == nil && string(text) == value+value+"\n"
	})
	ask(call{path: typeRoute, body: `{"secret":"BELL"}`}, 400)
	ask(call{path: typeRoute, body: `{"secret":"BANK","text":"x"}`}, 400)
	ask(call{path: typeRoute, body: `{"secret":"BANK","delayMs":70000}`}, 400)
	ask(call{path: typeRoute, body: `{"secret":7}`}, 422)
	if a := ask(call{path: typeRoute, body: `{"secret":"NONE"}`}, 404); !strings.Contains(string(a.body), `"known":["BANK","BELL","LONG"]`) {
		t.Errorf("the server's token does not get the names: %s", a.body)
	}
	if a := ask(call{path: typeRoute, body: `{"secret":"NONE"}`, header: by}, 404); strings.Contains(string(a.body), "BANK") {
		t.Errorf("a control token gets the names: %s", a.body)
	}
	ask(call{path: "/v1/secrets", header: by}, 403)

	cut := make(chan answer, 1) // typing that ends in the middle
	go func() {
		cut <- s.try(context.WithoutCancel(t.Context()), call{path: typeRoute, body: `{"secret":"LONG","delayMs":50}`})
	}()
	eventually(t, "a beginning of the long secret", func() bool {
		text, err := os.ReadFile(typed)
		return err == nil && bytes.Count(text, []byte("\n")) > 2
	})
	ask(call{path: mainPath + "/control/take", body: `{"force":true}`, header: by}, 200)
	a := <-cut
	seen.add("answers", a.body)
	if a.StatusCode != 409 || strings.Contains(string(a.body), "characters") {
		t.Errorf("typing that was cut short: %d %s", a.StatusCode, a.body)
	}
	ask(call{path: typeRoute, body: `{"secret":"BANK"}`}, 409) // another has control
	ask(call{method: "POST", path: mainPath + "/control/release", header: by}, 200)

	actions := func(secret string) call {
		return call{path: mainPath + "/actions", body: `{"actions":[{"type":"type","secret":"` + secret + `"}],"settle":{"ms":0}}`}
	}
	ask(actions("BANK"), 200)
	for _, name := range []string{"NONE", "BELL"} {
		if a := ask(actions(name), 200); !strings.Contains(string(a.body), `"done":0`) {
			t.Errorf("actions with the secret %s: %s", name, a.body)
		}
	}

	session, err := s.mcpClient(t, "", s.Token(), "model")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		tool string
		args map[string]any
		fail bool
	}{
		{"type", map[string]any{"secret": "BANK"}, false},
		{"computer", map[string]any{"actions": []any{map[string]any{"action": "type", "secret": "BANK"}}}, false},
		{"type", map[string]any{"secret": "NONE"}, true},
		{"type", map[string]any{"secret": "BELL"}, true},
		{"type", map[string]any{"secret": "BANK", "text": "x"}, true},
	} {
		text, _, failed := callTool(t, session, c.tool, c.args)
		seen.add("MCP", []byte(text))
		if failed != c.fail || strings.Contains(text, "LONG") {
			t.Errorf("%s %v: %s", c.tool, c.args, text)
		}
	}

	run := `{"command":"sh","args":["-c","test \"$KEY\" = ` + `\"$(printf Hunter2-)of-the-Bank\" && echo right"],"secretEnv":{"KEY":"BANK"}}`
	if a := ask(call{path: "/v1/processes/run", body: run}, 200); !strings.Contains(string(a.body), "right") {
		t.Errorf("the variable of a process: %s", a.body)
	}
	ask(call{path: "/v1/processes", body: `{"command":"sleep","args":["1000"],"secretEnv":{"KEY":"BANK"}}`}, 200)
	ask(call{path: "/v1/processes"}, 200)
	ask(call{path: "/v1/processes", body: `{"command":"no-such-program","secretEnv":{"KEY":"BANK"}}`}, 502)
	ask(call{path: "/v1/processes", body: `{"command":"true","secretEnv":{"K=Y":"BANK"}}`}, 400)
	ask(call{path: "/v1/processes", body: `{"command":"true","env":{"KEY":"x"},"secretEnv":{"KEY":"BANK"}}`}, 400)
	ask(call{path: "/v1/processes", body: `{"command":"true","secretEnv":{"KEY":"NONE"}}`}, 400)

	ask(call{path: typeRoute, body: `{"text":"end"}`}, 200)
	s.awaitVideo(t, at, time.Second)
	ask(call{method: "POST", path: at + "/stop"}, 200)
	for _, path := range []string{"/timeline", "/captions.vtt", "/chapters.vtt", "/download", ""} {
		a := ask(call{path: at + path}, 200)
		if path == "/captions.vtt" && !strings.Contains(string(a.body), "Type secret BANK") {
			t.Errorf("the captions do not tell when the secret was typed: %s", a.body)
		}
	}
	ask(call{path: "/openapi.json"}, 200)
	ask(call{path: mainPath + "/presence"}, 200)
	named := seen.addEvents(events)
	if named != 5 {
		t.Errorf("%d events name the secret, want 5", named)
	}
	files := 0
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		files++
		text, err := os.ReadFile(path)
		if bytes.Contains(text, []byte(value)) {
			t.Errorf("%s has the secret", path)
		}
		return err
	})
	if err != nil || files < 3 {
		t.Errorf("%d files in %s: %v", files, dir, err)
	}
	seen.lackSecret(t)
}
