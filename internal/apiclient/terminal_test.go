package apiclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/creack/pty"
	"golang.org/x/term"

	"github.com/deskhand/deskhand/internal/testlog"
)

// echoTerminal is a server's side of a terminal: it prints the input and the
// sizes, and ends the program at the line "exit".
func echoTerminal(t *testing.T) *url.URL {
	t.Helper()
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.Contains(r.URL.Path, "proc_9"):
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusConflict)
			_, _ = io.WriteString(w, `{"title":"Conflict","detail":"no terminal"}`)
			return
		case r.Header.Get("Authorization") != "Bearer secret":
			t.Errorf("headers %v", r.Header)
		}
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = c.CloseNow() }()
		text := func(s string) { _ = c.Write(r.Context(), websocket.MessageText, []byte(s)) }
		text(`{"type":"ready","processId":"proc_1"}`)
		if replay := r.URL.Query().Get("replay"); replay != "" {
			_ = c.Write(r.Context(), websocket.MessageBinary, []byte("replay "+replay+"\n"))
		}
		for {
			_, data, err := c.Read(r.Context())
			if err != nil {
				return
			}
			var f frame
			if err := json.Unmarshal(data, &f); err != nil {
				t.Errorf("%s: %v", data, err)
			}
			switch {
			case f.Type == "resize":
				_ = c.Write(r.Context(), websocket.MessageBinary, fmt.Appendf(nil, "%dx%d\r\n", f.Cols, f.Rows))
			case f.Type != "input" || f.Encoding != "base64":
				t.Errorf("%s", data)
			case string(f.Data) == "gap":
				text(`{"type":"gap","bytes":2048}`)
				text(`{"type":"error","message":"so \u001bit is"}`)
				text(`{"type":"future"}`)
			case string(f.Data) == "signal":
				text(`{"type":"exit","exitCode":null,"signal":"SIGKILL"}`)
			case string(f.Data) == "exit":
				text(`{"type":"exit","exitCode":3}`)
				_ = c.Close(websocket.StatusNormalClosure, "")
				return
			case string(f.Data) == "gone":
				_ = c.Close(websocket.StatusNormalClosure, "")
				return
			case string(f.Data) == "break":
				return
			default:
				_ = c.Write(r.Context(), websocket.MessageBinary, f.Data)
			}
		}
	})
}

// steps types one text after the other, each when it is asked to.
type steps chan string

func (s steps) Read(p []byte) (int, error) {
	text, ok := <-s
	if !ok {
		return 0, io.EOF
	}
	return copy(p, text), nil
}

// session is a command that is connected to a terminal.
type session struct {
	stdout, stderr testlog.Buffer
	done           chan error
}

func connect(ctx context.Context, at *url.URL, stdin io.Reader, args ...string) *session {
	s := &session{done: make(chan error, 1)}
	c := Command{
		Name: "deskhand api", Document: apiText(), Stdin: stdin, Stdout: &s.stdout, Stderr: &s.stderr,
		Connect: func() (Server, error) { return Server{URL: at, Token: "secret"}, nil },
	}
	go func() { s.done <- c.Run(ctx, append([]string{"processes", "terminal", "proc_1"}, args...)) }()
	return s
}

func wantText(t *testing.T, what string, o *testlog.Buffer, want string) {
	t.Helper()
	poll(t, what, func() string {
		if got := o.String(); !strings.Contains(got, want) {
			return fmt.Sprintf("%q, want %q", got, want)
		}
		return ""
	})
}

// TestTerminalOfScripts uses a terminal without having one.
func TestTerminalOfScripts(t *testing.T) {
	t.Parallel()
	at := echoTerminal(t)
	for ending, want := range map[string]struct {
		note string
		err  error
	}{"exit": {"[ended with status 3]\n", nil}, "signal": {"[ended by SIGKILL]\n", nil}, "gone": {"", nil}, "break": {"", io.EOF}} {
		stdin := make(steps)
		s := connect(t.Context(), at, stdin, "--replay", "7")
		wantText(t, "the replay", &s.stdout, "replay 7\n")
		stdin <- "a\xff\x1d\n" // a key that leaves means nothing without a keyboard
		wantText(t, "the echo", &s.stdout, "a\xff\x1d\n")
		stdin <- "gap"
		wantText(t, "the notes", &s.stderr, "[2.0 KiB of output are missing, because this connection was too slow]\n[so \ufffdit is]\n")
		stdin <- ending
		close(stdin)
		if err := <-s.done; !errors.Is(err, want.err) || !strings.HasSuffix(s.stderr.String(), want.note) {
			t.Errorf("%s: %v, stderr %q", ending, err, s.stderr.String())
		}
	}
}

// TestTerminalWithoutInput shows what is printed after the input has ended, and
// ends with the context.
func TestTerminalWithoutInput(t *testing.T) {
	t.Parallel()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s := connect(ctx, echoTerminal(t), read)
	if _, err := write.WriteString("hello"); err != nil {
		t.Fatal(err)
	}
	wantText(t, "the echo", &s.stdout, "hello")
	if err := write.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-s.done:
		t.Fatalf("it ended with its input: %v", err)
	default:
	}
	cancel()
	if err := <-s.done; !errors.As(err, new(*InterruptedError)) {
		t.Errorf("%v", err)
	}
}

// TestEndedWhileReading wants the command to end without input.
func TestEndedWhileReading(t *testing.T) {
	t.Parallel()
	at := serve(t, func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = c.CloseNow() }()
		_ = c.Write(r.Context(), websocket.MessageText, []byte(`{"type":"exit","exitCode":0}`))
		_ = c.Close(websocket.StatusNormalClosure, "")
	})
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	defer write.Close()
	if err := <-connect(t.Context(), at, read).done; err != nil {
		t.Error(err)
	}
}

// slowScreen takes what is shown only later.
type slowScreen struct {
	testlog.Buffer

	asked, later chan struct{}
}

func (s *slowScreen) Write(p []byte) (int, error) {
	select {
	case <-s.asked:
	default:
		close(s.asked)
	}
	<-s.later
	return s.Buffer.Write(p)
}

// TestTypedAtTheEnd: keys that the connection does not take any more do not hide
// how the program ended.
func TestTypedAtTheEnd(t *testing.T) {
	t.Parallel()
	screen := &slowScreen{asked: make(chan struct{}), later: make(chan struct{})}
	at := serve(t, func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		_ = c.Write(r.Context(), websocket.MessageBinary, []byte("x"))
		<-screen.asked
		_ = c.Write(r.Context(), websocket.MessageText, []byte(`{"type":"exit","exitCode":3}`))
		_ = c.CloseNow()
	})
	stdin, done, errs := make(steps), make(chan error, 1), &testlog.Buffer{}
	c := Command{
		Name: "deskhand api", Document: apiText(), Stdin: stdin, Stdout: screen, Stderr: errs,
		Connect: func() (Server, error) { return Server{URL: at, Token: "secret"}, nil },
	}
	go func() { done <- c.Run(t.Context(), []string{"processes", "terminal", "proc_1"}) }()
	<-screen.asked
	for taken := true; taken; { // until what was typed could not be sent
		select {
		case stdin <- "k":
		case <-time.After(200 * time.Millisecond):
			taken = false
		}
	}
	close(stdin)
	close(screen.later)
	if err := <-done; err != nil || !strings.Contains(errs.String(), "[ended with status 3]") {
		t.Errorf("%v, stderr %q", err, errs)
	}
}

func TestTerminalRefused(t *testing.T) {
	t.Parallel()
	at := echoTerminal(t)
	out := do(t, at, "processes", "terminal", "proc_9")
	if problem, ok := errors.AsType[*ProblemError](out.err); !ok || problem.Error() != "Conflict: no terminal (status 409)" {
		t.Errorf("%v", out.err)
	}
	d := strings.Replace(string(apiText()), "/terminal/ws", "/something/ws", 1)
	c := Command{Name: "deskhand api", Document: []byte(d), Stdout: io.Discard, Stderr: io.Discard, Connect: func() (Server, error) { return Server{URL: at}, nil }}
	if err := c.Run(t.Context(), []string{"processes", "something", "proc_1"}); !errors.As(err, new(*UsageError)) || !strings.Contains(err.Error(), "is a WebSocket") {
		t.Errorf("%v", err)
	}
}

// TestTerminalOnTerminal sits in front of a terminal: keys go through as they
// are, the size follows, Ctrl-] detaches, and the terminal is restored.
func TestTerminalOnTerminal(t *testing.T) {
	t.Parallel()
	at := echoTerminal(t)
	for _, leave := range []string{"\x1d", "exit"} {
		screen, keyboard, tty := openTerminal(t)
		if err := pty.Setsize(keyboard, &pty.Winsize{Cols: 91, Rows: 33}); err != nil {
			t.Fatal(err)
		}
		before, err := term.GetState(int(tty.Fd()))
		if err != nil {
			t.Fatal(err)
		}
		c := Command{
			Name: "deskhand api", Document: apiText(), Stdin: tty, Stdout: tty, Stderr: tty,
			Connect: func() (Server, error) { return Server{URL: at, Token: "secret"}, nil },
		}
		done := make(chan error, 1)
		go func() { done <- c.Run(t.Context(), []string{"processes", "terminal", "proc_1"}) }()
		wantText(t, "how to leave", screen, "[Ctrl-] detaches; the program goes on]\r\n")
		wantText(t, "the size", screen, "91x33\r\n")
		if _, err := keyboard.WriteString("\x03\r"); err != nil { // Ctrl-C is for the program there
			t.Fatal(err)
		}
		wantText(t, "Ctrl-C and return, from the other side alone", screen, "91x33\r\n\x03\r")
		if _, err := keyboard.WriteString(leave); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Errorf("%q: %v", leave, err)
		}
		wantText(t, "the usual modes", screen, usualModes)
		after, err := term.GetState(int(tty.Fd()))
		if err != nil || *after != *before {
			t.Errorf("the terminal is left in another state: %+v, was %+v; %v", after, before, err)
		}
	}
}

func TestCutDetach(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"": "", "abc": "abc", "\x1d": "", "a\x1db": "a"} {
		got, found := cutDetach([]byte(text))
		if string(got) != want || found != strings.Contains(text, "\x1d") {
			t.Errorf("%q: %q, %v", text, got, found)
		}
	}
}
