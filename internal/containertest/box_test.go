package containertest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"image/png"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// box is a container of an image.
type box struct {
	e    *engine
	name string
	at   string // host:port of the API

	scheme string        // default: http
	token  string        // default: this test's
	client *http.Client  // default: one without cookies
	grace  time.Duration // for docker stop; default: stopLimit
}

// start starts a container. Without words, its server takes this test's token.
func (e *engine) start(t *testing.T, image string, flags []string, words ...string) *box {
	t.Helper()
	if len(words) == 0 {
		words = []string{"server", "--host", "0.0.0.0", "--token", token}
	}
	b := &box{e: e, name: fmt.Sprintf("deskhand-test-%d", time.Now().UnixNano())}
	args := append([]string{"run", "-d", "--name", b.name}, flags...)
	if !slices.Contains(flags, "-p") {
		args = append(args, "-p", "2468")
	}
	t.Cleanup(func() {
		if t.Failed() {
			out, err := e.command(context.Background(), "logs", b.name).CombinedOutput()
			t.Logf("the container said (%v):\n%s", err, out)
		}
		_, _ = e.try("rm", "-f", "-v", b.name)
	})
	e.run(t, append(append(args, imagePrefix+image), words...)...)
	b.waitReady(t)
	return b
}

// waitReady waits for the server, whose published port may be another one after a
// restart.
func (b *box) waitReady(t *testing.T) {
	t.Helper()
	poll(t, startLimit, "the server is ready", func() (bool, string) {
		ports, err := b.e.try("inspect", "--format", `{{range $p, $l := .NetworkSettings.Ports}}{{range $l}}{{$p}} {{.HostPort}}{{"\n"}}{{end}}{{end}}`, b.name)
		if err != nil {
			return false, err.Error()
		}
		for line := range strings.Lines(ports) {
			if inside, outside, _ := strings.Cut(strings.TrimSpace(line), " "); strings.HasSuffix(inside, "/tcp") {
				b.at = net.JoinHostPort("127.0.0.1", outside)
			}
		}
		if b.at == "" {
			return false, "no port is published: " + ports + b.e.output(b)
		}
		status, _, err := b.request(http.MethodGet, "/livez", "")
		return err == nil && status == http.StatusOK, fmt.Sprint(status, err)
	})
}

// output is what a container has printed.
func (e *engine) output(b *box) string {
	out, _ := e.command(context.Background(), "logs", b.name).CombinedOutput()
	return string(out)
}

// request asks the server.
func (b *box) request(method, path, body string) (status int, answer []byte, err error) {
	req, err := http.NewRequest(method, cmp.Or(b.scheme, "http")+"://"+b.at+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Authorization", "Bearer "+cmp.Or(b.token, token))
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	client := cmp.Or(b.client, &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: callLimit})
	resp, err := client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(resp.Body)
	return resp.StatusCode, answer, err
}

// call is request for what must succeed.
func (b *box) call(t *testing.T, method, path, body string) []byte {
	t.Helper()
	status, answer, err := b.request(method, path, body)
	if err != nil || status < 200 || status > 299 {
		t.Fatalf("%s %s: %d, %v: %s", method, path, status, err, answer)
	}
	return answer
}

// ask is call for an answer in JSON.
func (b *box) ask(t *testing.T, method, path, body string, result any) {
	t.Helper()
	answer := b.call(t, method, path, body)
	if err := json.Unmarshal(answer, result); err != nil {
		t.Fatalf("%s %s: %v: %s", method, path, err, answer)
	}
}

// shell runs a script in the container through the API.
func (b *box) shell(t *testing.T, script string) string {
	t.Helper()
	body, err := json.Marshal(map[string]any{"command": "sh", "args": []string{"-c", script}})
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		ExitCode       int
		Stdout, Stderr string
	}
	if b.ask(t, http.MethodPost, "/v1/processes/run", string(body), &got); got.ExitCode != 0 {
		t.Fatalf("%s: exit status %d: %s%s", script, got.ExitCode, got.Stdout, got.Stderr)
	}
	return strings.TrimSpace(got.Stdout)
}

// screenshot wants a picture of the desktop, and starts one if there is none.
func (b *box) screenshot(t *testing.T) {
	t.Helper()
	b.call(t, http.MethodPost, "/v1/desktop/start", `{}`)
	img, err := png.Decode(bytes.NewReader(b.call(t, http.MethodGet, "/v1/desktop/screenshot", "")))
	if err != nil || img.Bounds().Dx() != 1440 || img.Bounds().Dy() != 900 {
		t.Fatalf("screenshot: %v", err)
	}
}

// browse wants a page in Chromium.
func (b *box) browse(t *testing.T) {
	t.Helper()
	b.call(t, http.MethodPost, "/v1/desktop/launch", `{"app":"chromium","args":["--no-first-run","data:text/html,<title>container page</title>"],"wait":true}`)
	poll(t, callLimit, "Chromium shows the page", func() (bool, string) {
		list := b.call(t, http.MethodGet, "/v1/desktop/windows", "")
		return bytes.Contains(list, []byte("container page")), string(list)
	})
}

// healthy checks that the container's health check succeeds, and that only root can read deskhand's
// programs.
func (b *box) healthy(t *testing.T) {
	t.Helper()
	if out := b.e.run(t, "exec", b.name, "deskhand", "health"); out != "ok" {
		t.Errorf("deskhand health says %q", out)
	}
	if out := b.e.run(t, "exec", b.name, "stat", "-c", "%U %a", "/usr/local/bin/deskhand", "/usr/local/libexec/deskhand-entry"); out != "root 711\nroot 711" {
		t.Errorf("owners and modes of the programs: %q", out)
	}
}

// end stops the container, which must end in time and in order.
func (b *box) end(t *testing.T) {
	t.Helper()
	begun := time.Now()
	b.e.run(t, "stop", b.name)
	if took, limit := time.Since(begun), cmp.Or(b.grace, stopLimit); took > limit {
		t.Errorf("docker stop took %v, want at most %v", took, limit)
	}
	if code := b.e.run(t, "inspect", "--format", "{{.State.ExitCode}}", b.name); code != "0" {
		t.Errorf("exit status %s after docker stop", code)
	}
}

// use uses what a container must have, and stops it.
func (b *box) use(t *testing.T, browser bool) {
	t.Helper()
	b.screenshot(t)
	if browser {
		b.browse(t)
	}
	b.shell(t, "touch ~/probe && whoami")
	b.healthy(t)
	b.end(t)
}
