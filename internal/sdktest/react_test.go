package sdktest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/deskhand/deskhand/internal/supervise"
	"github.com/deskhand/deskhand/internal/testbrowser"
	"github.com/deskhand/deskhand/internal/testx11"
)

// obeys is a program that runs the typed commands.
const obeys = `stty -echo; while read -r what; do case $what in
size) stty size;;
paint) printf '\033[48;2;1;200;3m%40s\033[0m\n' '';;
end) exit 5;;
*) echo "got $what";;
esac; done`

// TestProcessTerminal uses the terminal of @sandbox-agent/react, unmodified, as
// a person would: in a browser, with keys, looking at the pixels.
func TestProcessTerminal(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "chromium", "node", "npm")
	modules, err := Install(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	pages := httptest.NewServer(http.FileServer(http.Dir(bundle(t, modules, "terminal"))))
	defer pages.Close()
	server := startServer(t, modules, Config{Origins: []string{pages.URL}})

	id := server.startProcess(t, obeys)
	ctx := testbrowser.Open(t, pages.URL+"?"+url.Values{"url": {server.URL}, "token": {server.Token}, "process": {id}}.Encode())
	shows := func(text string) string {
		return fmt.Sprintf("document.querySelector('#root')?.innerText.includes(%q)", text)
	}
	testbrowser.Holds(ctx, t, shows("Connected"))

	testbrowser.Do(ctx, t, chromedp.KeyEvent("some 'quotes'\r"))
	server.awaitLog(t, id, func(log string) bool { return strings.Contains(log, "got some 'quotes'\r\n") })
	// The component gives the terminal the size that fits the page.
	testbrowser.Do(ctx, t, chromedp.KeyEvent("size\r"))
	server.awaitLog(t, id, func(log string) bool {
		var rows, columns int
		_, after, _ := strings.Cut(log, "quotes'\r\n")
		n, _ := fmt.Sscanf(after, "%d %d\r\n", &rows, &columns)
		return n == 2 && rows > 10 && columns > 100
	})
	testbrowser.Do(ctx, t, chromedp.KeyEvent("paint\r"))
	testbrowser.Holds(ctx, t, `(() => {
		const canvas = document.querySelector("canvas");
		const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
		let n = 0;
		for (let i = 0; i < data.length; i += 4) if (data[i] === 1 && data[i + 1] === 200 && data[i + 2] === 3) n++;
		return n > 40 * 6 * 12;
	})()`)

	testbrowser.Do(ctx, t, chromedp.KeyEvent("end\r"))
	testbrowser.Holds(ctx, t, shows("Process exited with code 5."))
	testbrowser.Holds(ctx, t, shows("exit=5"))
	if told := testbrowser.Evaluate[string](ctx, t, "JSON.stringify(told)"); told != `[{"exitCode":5,"type":"exit"}]` {
		t.Errorf("the component told %s", told)
	}
}

// bundle makes a page of a component in sdk and returns its directory.
func bundle(t *testing.T, modules, name string) string {
	t.Helper()
	from, to := copyScripts(t, modules), t.TempDir()
	err := Run(t.Context(), supervise.Spec{
		Path: filepath.Join(modules, ".bin", "esbuild"), Dir: from,
		Args: []string{
			name + ".jsx", "--bundle", "--format=esm", "--jsx=automatic", "--charset=utf8", "--log-level=error",
			"--outfile=" + filepath.Join(to, name+".js"),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	page := `<!doctype html><meta charset="utf-8"><title>` + name + `</title><div id="root"></div><script type="module" src="` + name + `.js"></script>`
	if err := os.WriteFile(filepath.Join(to, "index.html"), []byte(page), 0o600); err != nil {
		t.Fatal(err)
	}
	return to
}

// startProcess runs a shell script on a terminal and returns the process's id.
func (s *Server) startProcess(t *testing.T, script string) string {
	t.Helper()
	body, err := json.Marshal(map[string]any{"command": "sh", "args": []string{"-c", script}, "tty": true, "interactive": true})
	if err != nil {
		t.Fatal(err)
	}
	var info struct{ ID string }
	s.call(t, http.MethodPost, "/v1/processes", string(body), &info)
	return info.ID
}

// awaitLog waits until what a process has shown is as wanted.
func (s *Server) awaitLog(t *testing.T, id string, wanted func(log string) bool) {
	t.Helper()
	var text strings.Builder
	deadline := time.Now().Add(time.Minute)
	for tick := time.NewTicker(25 * time.Millisecond); ; <-tick.C {
		var logs struct{ Entries []struct{ Data []byte } }
		s.call(t, http.MethodGet, "/v1/processes/"+id+"/logs?stream=pty", "", &logs)
		text.Reset()
		for _, e := range logs.Entries {
			text.Write(e.Data)
		}
		if wanted(text.String()) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the log is %q", text.String())
		}
	}
}

// call makes a call and decodes its answer.
func (s *Server) call(t *testing.T, method, path, body string, answer any) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+s.Token)
	req.Header.Set("Content-Type", "application/json")
	req.Close = true
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%s %s: %s: %s, %v", method, path, res.Status, data, err)
	}
	if err := json.Unmarshal(data, answer); err != nil {
		t.Fatal(err)
	}
}
