package apiclient

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/creack/pty"

	"github.com/deskhand/deskhand/internal/testlog"
)

// openTerminal returns a pseudo-terminal; what is printed on it is collected.
func openTerminal(t *testing.T) (screen *testlog.Buffer, keyboard, tty *os.File) {
	t.Helper()
	keyboard, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	screen = &testlog.Buffer{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(screen, keyboard) // until the other end is closed
	}()
	t.Cleanup(func() {
		_ = tty.Close()
		<-done
		_ = keyboard.Close()
	})
	return screen, keyboard, tty
}

// onTerminal runs a command line on a terminal.
func onTerminal(t *testing.T, at *url.URL, args ...string) (string, error) {
	t.Helper()
	screen, _, tty := openTerminal(t)
	var stderr testlog.Buffer
	c := Command{
		Name: "deskhand api", Document: apiText(), Stdout: tty, Stderr: &stderr,
		Connect: func() (Server, error) { return Server{URL: at}, nil },
	}
	err := c.Run(t.Context(), args)
	if _, markErr := tty.WriteString("$"); markErr != nil { // so that all is known to have come
		t.Fatal(markErr)
	}
	poll(t, "the end of the output", func() string {
		if text := screen.String(); !strings.HasSuffix(text, "$") {
			return "only " + text
		}
		return ""
	})
	return strings.ReplaceAll(strings.TrimSuffix(screen.String(), "$"), "\r\n", "\n"), err
}

// TestPrint compares what goes to programs and what goes to people.
func TestPrint(t *testing.T) {
	t.Parallel()
	png := "\x89PNG\r\n\x1a\n\x00\x00"
	for name, c := range map[string]struct {
		kind, body        string
		flags             []string
		piped, onTerminal string // empty: refused
	}{
		"JSON":           {"application/json", `{"a": [1,2], "b":"<"}`, nil, `{"a":[1,2],"b":"<"}` + "\n", "{\n  \"a\": [\n    1,\n    2\n  ],\n  \"b\": \"<\"\n}\n"},
		"other JSON":     {"application/openapi+json;version=3.1", "{\n}\n", nil, "{}\n", "{}\n"},
		"pretty":         {"application/json", `{"a":1}`, []string{"--pretty"}, "{\n  \"a\": 1\n}\n", "{\n  \"a\": 1\n}\n"},
		"raw":            {"application/json", ` {"a": 1}`, []string{"--raw"}, ` {"a": 1}`, ` {"a": 1}`},
		"big numbers":    {"application/json", `[12345678901234567890,1.0]`, nil, "[12345678901234567890,1.0]\n", "[\n  12345678901234567890,\n  1.0\n]\n"},
		"odd characters": {"application/json", "\"\u009b1m\"", nil, "\"\u009b1m\"\n", "\"\ufffd1m\"\n"},
		"text":           {"text/plain", "a\nb", nil, "a\nb", "a\nb"},
		"file of text":   {octetStream, "grüße\n", nil, "grüße\n", "grüße\n"},
		"empty file":     {octetStream, "", nil, "", ""},
		"picture":        {"image/png", png, nil, png, ""},
		"other file":     {octetStream, png, nil, png, ""},
		"to the screen":  {"image/png", "\x89PNG", []string{"-o", "-"}, "\x89PNG", "\x89PNG"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", c.kind)
				_, _ = io.WriteString(w, c.body)
			})
			args := append([]string{"GET", "/x"}, c.flags...)
			if out := do(t, at, args...); out.err != nil || out.stdout != c.piped || out.stderr != "" {
				t.Errorf("piped: %+v, want %q", out, c.piped)
			}
			got, err := onTerminal(t, at, args...)
			refused := c.onTerminal == "" && c.body != ""
			if usage, ok := errors.AsType[*UsageError](err); ok != refused || ok && !strings.Contains(usage.Text, "write it to a file with --output FILE") {
				t.Errorf("on a terminal: %v", err)
			}
			if got != c.onTerminal || !refused && err != nil {
				t.Errorf("on a terminal: %q, %v; want %q", got, err, c.onTerminal)
			}
		})
	}
}

func TestIsText(t *testing.T) {
	t.Parallel()
	for begin, want := range map[string]bool{
		"": true, "abc\n": true, "\x1b[31mred": true, "a\x00b": false, "\x89PNG\r\n\x1a\n": false, "grü"[:3]: true, "日本"[:5]: true, "\x07": false,
	} {
		if got := isText(octetStream, []byte(begin)); got != want {
			t.Errorf("%q: %v", begin, got)
		}
	}
	if isText("video/mp4", []byte("abc")) || !isText("text/html", []byte{0}) {
		t.Error("the type does not count")
	}
}

func TestBadJSON(t *testing.T) {
	t.Parallel()
	at := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, "{")
	})
	if out := do(t, at, "health"); out.err == nil || !strings.Contains(out.err.Error(), "not JSON") || out.stdout != "" {
		t.Errorf("%+v", out)
	}
}

// TestInclude wants the head before the body, and nothing for HEAD and 204.
func TestInclude(t *testing.T) {
	t.Parallel()
	at := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Date"] = nil
		w.Header().Set("Content-Type", "application/json")
		w.Header().Add("X-A", "1")
		w.Header().Add("X-A", "2")
		_, _ = io.WriteString(w, `{"a": 1}`)
	})
	head := "HTTP/1.1 200 OK\nContent-Length: 8\nContent-Type: application/json\nX-A: 1\nX-A: 2\n\n"
	if out := do(t, at, "health", "-i"); out.err != nil || out.stdout != head+"{\"a\":1}\n" {
		t.Errorf("%v, %q", out.err, out.stdout)
	}
	if out := do(t, at, "HEAD", "/v1/health", "-i"); out.err != nil || out.stdout != head {
		t.Errorf("HEAD: %v, %q", out.err, out.stdout)
	}
}

// TestStandardInputAsBody sends a file that the shell has opened, with its
// length.
func TestStandardInputAsBody(t *testing.T) {
	t.Parallel()
	var length int64
	var body string
	at := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		length, body = r.ContentLength, string(text)
	})
	file := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(file, []byte("skipped and sent"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Seek(int64(len("skipped and ")), io.SeekStart); err != nil {
		t.Fatal(err)
	}
	c := Command{
		Name: "deskhand api", Document: apiText(), Stdin: f, Stdout: io.Discard, Stderr: io.Discard,
		Connect: func() (Server, error) { return Server{URL: at}, nil },
	}
	if err := c.Run(t.Context(), []string{"PUT", "/x", "--data", "-"}); err != nil || length != 4 || body != "sent" {
		t.Errorf("%v: %d bytes %q", err, length, body)
	}
}
