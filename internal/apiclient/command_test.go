package apiclient

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRequests compares what is sent for a command line.
func TestRequests(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	picture := file("picture", "\x89PNG\r\n\x1a\n")
	archive := file("archive", "\x1f\x8b\x08")
	click := file("click.json", `{"x": 1, "y": 2}`)
	for line, want := range map[string]string{
		"health":                        "GET /v1/health",
		"livez":                         "GET /livez",
		"desktop stop":                  "POST /v1/desktop/stop",
		"desktop start":                 `POST /v1/desktop/start application/json {}`,
		"desktop start --dpi 120":       `POST /v1/desktop/start application/json {"dpi":120}`,
		"desktop mouse click 10 20":     `POST /v1/desktop/mouse/click application/json {"x":10,"y":20}`,
		"desktop mouse click --x 10 20": `POST /v1/desktop/mouse/click application/json {"x":10,"y":20}`,
		"desktop mouse click --y 20 10": `POST /v1/desktop/mouse/click application/json {"x":10,"y":20}`,
		"desktop mouse click -- -10 20": `POST /v1/desktop/mouse/click application/json {"x":-10,"y":20}`,
		"desktop mouse click --x=-1 --y 2 --button right --click-count 2":      `POST /v1/desktop/mouse/click application/json {"button":"right","clickCount":2,"x":-1,"y":2}`,
		"desktop mouse click 1 2 --modifiers ctrl --modifiers alt":             `POST /v1/desktop/mouse/click application/json {"modifiers":["ctrl","alt"],"x":1,"y":2}`,
		"desktop mouse click --json @" + click:                                 `POST /v1/desktop/mouse/click application/json {"x": 1, "y": 2}`,
		"desktop mouse click --json -":                                         `POST /v1/desktop/mouse/click application/json {"from":"stdin","n":12345678901234567890}`,
		"desktop mouse click --json [1]":                                       `POST /v1/desktop/mouse/click application/json [1]`,
		"desktop keyboard press l --modifiers alt=true --modifiers ctrl=false": `POST /v1/desktop/keyboard/press application/json {"key":"l","modifiers":{"alt":true,"ctrl":false}}`,
		`desktop recordings create --region {"x":1,"y":2} --region width=3`:    `POST /v1/desktop/recordings application/json {"region":{"width":3,"x":1,"y":2}}`,
		// Those of the README, where others do not have them.
		"desktop mouse click 300 300 --button right":                                      `POST /v1/desktop/mouse/click application/json {"button":"right","x":300,"y":300}`,
		"processes run -- ls -l /tmp":                                                     `POST /v1/processes/run application/json {"args":["-l","/tmp"],"command":"ls"}`,
		"processes create bash --tty --desktop main":                                      `POST /v1/processes application/json {"command":"bash","desktop":"main","tty":true}`,
		"processes logs proc_4 --follow --decode":                                         "GET /v1/processes/proc_4/logs?follow=true",
		"fs file put /srv/model.bin --data @" + picture:                                   "PUT /v1/fs/file?path=%2Fsrv%2Fmodel.bin application/octet-stream \x89PNG\r\n\x1a\n",
		"tokens create view --ttl 3600":                                                   `POST /v1/tokens application/json {"scope":"view","ttl":3600}`,
		"processes run ls -- -l /tmp":                                                     `POST /v1/processes/run application/json {"args":["-l","/tmp"],"command":"ls"}`,
		"processes input proc_1 --data text":                                              `POST /v1/processes/proc_1/input application/json {"data":"text"}`,
		"agents install claude -r":                                                        `POST /v1/agents/claude/install application/json {"reinstall":true}`,
		"acp stream --server-id a --last-event-id 7":                                      "GET /v1/acp/a Last-Event-ID=7",
		"acp post --server-id a --agent mock --json {}":                                   "POST /v1/acp/a?agent=mock application/json {}",
		"acp post a --json-file " + click:                                                 `POST /v1/acp/a application/json {"x": 1, "y": 2}`,
		"fs upload-batch --data @" + archive:                                              "POST /v1/fs/upload-batch application/gzip \x1f\x8b\x08",
		"fs upload-batch --data tar":                                                      "POST /v1/fs/upload-batch application/gzip tar",
		"acp close --server-id a":                                                         "DELETE /v1/acp/a",
		"desktop screenshot":                                                              "GET /v1/desktop/screenshot",
		"desktop screenshot --scale .5 --show-cursor --format webp --if-none-match \"a\"": `GET /v1/desktop/screenshot?format=webp&scale=.5&showCursor=true If-None-Match="a"`,
		"desktop screenshot --show-cursor=false":                                          "GET /v1/desktop/screenshot?showCursor=false",
		"desktop screenshot region 1 2 3 4":                                               "GET /v1/desktop/screenshot/region?height=4&width=3&x=1&y=2",
		"desktops screenshot a/b%20c":                                                     "GET /v1/desktops/a%2Fb%2520c/screenshot",
		"desktops windows move main 7 -- -1 0":                                            `POST /v1/desktops/main/windows/7/move application/json {"x":-1,"y":0}`,
		"desktop launch -- xterm -e top":                                                  `POST /v1/desktop/launch application/json {"app":"xterm","args":["-e","top"]}`,
		"desktop launch xterm --wait":                                                     `POST /v1/desktop/launch application/json {"app":"xterm","wait":true}`,
		"desktop clipboard set hello --selection both":                                    `POST /v1/desktop/clipboard application/json {"selection":"both","text":"hello"}`,
		"desktop clipboard set --data @" + picture + " --selection both":                  "POST /v1/desktop/clipboard?selection=both image/png \x89PNG\r\n\x1a\n",
		"desktop clipboard set --data text --content-type text/plain":                     "POST /v1/desktop/clipboard text/plain text",
		"desktop clipboard set --data -":                                                  `POST /v1/desktop/clipboard image/png {"from":"stdin","n":12345678901234567890}`,
		"desktop clipboard set --data=":                                                   "POST /v1/desktop/clipboard image/png ",
		"GET /v1/health?a=b":                                                              "GET /v1/health?a=b",
		"/v1/health":                                                                      "GET /v1/health",
		"/v1/desktops":                                                                    "GET /v1/desktops",
		"DELETE /v1/nowhere/x":                                                            "DELETE /v1/nowhere/x",
		`PATCH /v1/nowhere --json {"a":1}`:                                                `PATCH /v1/nowhere application/json {"a":1}`,
		"PUT /v1/nowhere --data x":                                                        "PUT /v1/nowhere application/octet-stream x",
		"HEAD /v1/health":                                                                 "HEAD /v1/health",
		"health -H X-A:1 -H X-B:":                                                         "GET /v1/health X-A=1 X-B=",
		"-H X-A:1 health --header X-A:2":                                                  "GET /v1/health X-A=1 X-A=2",
		"-i health":                                                                       "GET /v1/health",
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			var got string
			at := serve(t, func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				if err != nil || r.Header.Get("Authorization") != "Bearer secret" {
					t.Errorf("%v, headers %v", err, r.Header)
				}
				got = r.Method + " " + r.URL.RequestURI()
				for _, name := range []string{"If-None-Match", "Last-Event-ID", "X-A", "X-B"} {
					for _, v := range r.Header.Values(name) {
						got += " " + name + "=" + v
					}
				}
				if kind := r.Header.Get("Content-Type"); kind != "" {
					got += " " + kind + " " + string(body)
				}
				w.WriteHeader(http.StatusNoContent)
			})
			out := doWith(t.Context(), at, `{"from":"stdin","n":12345678901234567890}`, strings.Fields(line)...)
			if out.err != nil || out.stderr != "" || got != want {
				t.Errorf("%v\n got %s\nwant %s", out.err, got, want)
			}
		})
	}
}

// TestBase puts the server behind a proxy's path.
func TestBase(t *testing.T) {
	t.Parallel()
	var got string
	at := serve(t, func(w http.ResponseWriter, r *http.Request) { got = r.URL.Path })
	at.Path = "/some/where/"
	if out := do(t, at, "health"); out.err != nil || got != "/some/where/v1/health" {
		t.Errorf("%q, %v", got, out.err)
	}
}

func TestUsageErrors(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/openapi.json" {
			t.Errorf("%s %s was sent", r.Method, r.URL)
		}
		http.NotFound(w, r)
	})
	for line, want := range map[string]string{
		"fs bogus": "there is no command 'fs bogus'", "desktop mose click": "there is no command 'desktop mose'",
		"desktop mouse click": "X is missing", "desktop mouse click 1": "Y is missing",
		"desktop mouse click 1 2 3":                      `an argument too many: "3"`,
		"desktop mouse click 1 -5":                       "unknown shorthand flag: '5'",
		"desktop mouse click 1 2 -q":                     "unknown shorthand flag: 'q'",
		"desktop mouse click 1 2 --buton left":           "unknown flag: --buton",
		"desktop mouse click --json {} --x 1":            "--x is a member of the JSON body, which --json and --data exclude",
		"desktop mouse click 1 2 --button":               "flag needs an argument: --button",
		"desktop mouse click --json @" + dir + "/none":   "none: no such file",
		"desktop mouse click 1 2 --data x":               "unknown flag: --data",
		"desktop clipboard set --json {} --data x":       "--json excludes --data",
		"desktop clipboard set --text a --data x":        "--text is a member of the JSON body, which --json and --data exclude",
		"desktop clipboard set --data @" + dir:           "is a directory",
		"desktop clipboard set --data @" + dir + "/none": "none: no such file",
		"desktop screenshot -o " + dir:                   "is a directory; name a file in it",
		"desktop screenshot --resume":                    "--resume needs a file: name it with --output",
		"desktop screenshot --raw=maybe":                 `invalid argument "maybe" for "--raw" flag`,
		"desktop events --decode -o x":                   "--decode prints to standard output",
		"desktop screenshot region 1 2 3":                "HEIGHT is missing",
		"desktops screenshot":                            "DESKTOP is missing",
		"health -H bogus":                                `--header must be 'NAME: VALUE', not "bogus"`,
		"POST":                                           "POST what?",
		"GET v1/health":                                  "GET what?",
		"GET /v1/health more":                            `an argument too many: "more"`,
		"-e":                                             "unknown shorthand flag: 'e'",
		"--output":                                       "flag needs an argument: --output",
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			out := do(t, at, strings.Fields(line)...)
			usage, ok := errors.AsType[*UsageError](out.err)
			if !ok || !strings.Contains(usage.Text, want) || out.stdout != "" {
				t.Errorf("%T %v, stdout %q; want %q", out.err, out.err, out.stdout, want)
			}
		})
	}
	// An argument may be empty where a path has it, which is another path then.
	if out := do(t, at, "desktops", "get", ""); out.err == nil || out.err.Error() != "DESKTOP is missing" {
		t.Errorf("an empty id: %v", out.err)
	}
}

func TestUsageErrorsNameTheirCommand(t *testing.T) {
	t.Parallel()
	at := &url.URL{Scheme: "http", Host: "127.0.0.1:1"}
	for line, want := range map[string]string{
		"desktop mouse click 1": "desktop mouse click", "desktop mose": "desktop", "bogus": "", "POST /v1/desktop/mouse/click --x a": "POST /v1/desktop/mouse/click",
	} {
		usage, ok := errors.AsType[*UsageError](do(t, at, strings.Fields(line)...).err)
		if !ok || usage.Command != want {
			t.Errorf("%q: %+v, want %q", line, usage, want)
		}
	}
}

func TestProblems(t *testing.T) {
	t.Parallel()
	const text = `{"type":"urn:x","title":"No Such Thing","status":404,"detail":"not found: thing \u001b[31m7"}`
	at := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/problem":
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, text)
		case "/plain":
			http.Error(w, "so it is", http.StatusTeapot)
		case "/html":
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(http.StatusBadGateway)
			_, _ = io.WriteString(w, "<html>")
		case "/token":
			w.WriteHeader(http.StatusUnauthorized)
		case "/elsewhere":
			http.Redirect(w, r, "https://example.com/", http.StatusPermanentRedirect)
		case "/late":
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, "\n\n"+`{"type":"urn:sandbox-agent:error:install_failed","title":"Install Failed","status":500,"detail":"no space"}`)
		case "/unchanged":
			w.WriteHeader(http.StatusNotModified)
		}
	})
	for path, want := range map[string]string{
		"/problem":   "No Such Thing: not found: thing \ufffd[31m7 (status 404)",
		"/plain":     "I'm a teapot: so it is (status 418)",
		"/html":      "Bad Gateway (status 502)",
		"/token":     "Unauthorized (status 401); the server prints its token when it starts: give it with --token-file, or in DESKHAND_TOKEN",
		"/late":      "Install Failed: no space (status 500)",
		"/elsewhere": "Permanent Redirect (status 308); the server redirects to https://example.com/; if that is right, give it with --endpoint",
	} {
		out := do(t, at, "GET", path)
		if problem, ok := errors.AsType[*ProblemError](out.err); !ok || problem.Error() != want || out.stdout != "" {
			t.Errorf("%s: %v, stdout %q; want %q", path, out.err, out.stdout, want)
		}
	}
	if out := do(t, at, "GET", "/unchanged"); out != (result{}) {
		t.Errorf("not modified: %+v", out)
	}
	if out := do(t, at, "GET", "/problem", "--raw"); out.err == nil || out.stdout != text {
		t.Errorf("--raw: %v, stdout %q", out.err, out.stdout)
	}
	out := do(t, at, "GET", "/problem", "-i")
	if out.err == nil || !strings.HasPrefix(out.stdout, "HTTP/1.1 404 Not Found\n") || !strings.Contains(out.stdout, "\nContent-Type: application/problem+json\n") || !strings.HasSuffix(out.stdout, "\n\n"+text+"\n") {
		t.Errorf("-i: %v, stdout %q", out.err, out.stdout)
	}
}

func TestUnreachable(t *testing.T) {
	t.Parallel()
	at := serve(t, func(http.ResponseWriter, *http.Request) {})
	at.Host = strings.Replace(at.Host, "127.0.0.1", "127.0.0.77", 1) // without a listener
	for _, args := range [][]string{{"health"}, {"processes", "terminal", "proc_1"}} {
		out := do(t, at, args...)
		if out.err == nil || !strings.Contains(out.err.Error(), "no server answers at http://127.0.0.77:") ||
			!strings.Contains(out.err.Error(), "connection refused); start one with 'deskhand server'") || strings.Contains(out.err.Error(), "v1") {
			t.Errorf("%q: %v", args, out.err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if out := doWith(ctx, at, "", "health"); !errors.As(out.err, new(*InterruptedError)) {
		t.Errorf("a context that has ended: %v", out.err)
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	at := &url.URL{Scheme: "http", Host: "127.0.0.1:1"} // no server
	for name, line := range map[string]string{
		"help.txt": "--help", "help-group.txt": "desktop windows -h", "help-click.txt": "desktop mouse click --help",
		"help-press.txt": "desktops keyboard press -h", "help-launch.txt": "desktop launch -h", "help-clipboard.txt": "desktop clipboard set -h",
		"help-raw.txt": "POST /v1/nowhere -h",
	} {
		out := do(t, at, strings.Fields(line)...)
		if out.err != nil || out.stderr != "" {
			t.Errorf("%q: %v, stderr %q", line, out.err, out.stderr)
		}
		golden(t, name, out.stdout)
	}
}

// TestList wants every command in the list, further desktops as one
// line, and nothing beside commands and headings.
func TestList(t *testing.T) {
	t.Parallel()
	out := do(t, &url.URL{Scheme: "http", Host: "127.0.0.1:1"})
	if out.err != nil || out.stderr != "" {
		t.Fatalf("%+v", out)
	}
	for _, op := range apiDocument(t).operations {
		further := op.alias || strings.HasPrefix(op.path, "/v1/desktops/{desktop}/")
		if listed := strings.Contains(out.stdout, "\n  "+op.signature()+"  "); listed == further {
			t.Errorf("%s: listed is %v", op.signature(), listed)
		}
	}
	if !strings.Contains(out.stdout, "\nFor other desktops, 'desktop WORDS' is 'desktops WORDS DESKTOP'.\n") {
		t.Error("no word about further desktops")
	}
	for line := range strings.Lines(out.stdout) {
		if strings.HasPrefix(line, "  ") && !strings.Contains(strings.TrimSpace(line), "  ") {
			t.Errorf("no summary: %q", line)
		}
	}
}
