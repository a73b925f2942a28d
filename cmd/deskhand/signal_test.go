package main

import (
	"bufio"
	"bytes"
	"context"
	"image/png"
	"net"
	"net/http"
	"net/http/httptrace"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/deskhand/deskhand/internal/testx11"
)

const launchTerminal = `{"app":"xterm","wait":true}`

// TestSignal ends servers whose X server hangs, while a call waits for it and a
// client listens to events.
func TestSignal(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "Xvfb", "openbox", "dbus-daemon", "xterm")
	for name, sig := range map[string]syscall.Signal{"TERM": syscall.SIGTERM, "INT": syscall.SIGINT} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := environ(t)
			s := serve(t, env, "--desktop")
			s.ask(t, "/v1/desktop/launch", launchTerminal, nil)
			wait := s.busy(t)
			children := descendants(t, s.pid)
			if len(children) < 4 {
				t.Errorf("its descendants are %v; want an X server, a window manager, a bus and a terminal at least", children)
			}
			if took := s.signal(t, sig); took > stopLimit {
				t.Errorf("it took %v to end, want at most %v", took, stopLimit)
			} else {
				t.Logf("ended after %v", took)
			}
			if s.state.ExitCode() != exitOK {
				t.Errorf("it ended with %v, want status 0\n%s", s.state, &s.stderr)
			}
			wait()
			wantGone(t, children)
			if left := marked(t, home(env)); len(left) > 0 {
				t.Errorf("left running: %v", left)
			}
		})
	}
}

// busy hangs the X server and has two requests under way: the wait for an
// event, and a screenshot. The function that it returns waits for their end.
func (s *server) busy(t *testing.T) (wait func()) {
	t.Helper()
	stream := s.begin(t, "/v1/desktop/events")
	if err := syscall.Kill(named(t, s.pid, "Xvfb").pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	picture := s.begin(t, "/v1/desktop/screenshot")
	s.ask(t, "/v1/health", "", nil)
	return func() { <-stream; <-picture }
}

// begin sends a request and returns when it is on its way; the channel is
// closed at the end of the answer, or of the connection.
func (s *server) begin(t *testing.T, path string) <-chan struct{} {
	t.Helper()
	sent, done := make(chan error, 1), make(chan struct{})
	ctx := httptrace.WithClientTrace(context.WithoutCancel(t.Context()), &httptrace.ClientTrace{
		WroteRequest: func(info httptrace.WroteRequestInfo) { sent <- info.Err },
	})
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.base+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+s.token)
	go func() {
		defer close(done)
		res, err := s.client.Do(req)
		if err != nil {
			return // the server ended
		}
		defer res.Body.Close()
		for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		}
	}()
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	return done
}

// TestEarlySignal ends servers at moments of their start. Before they listen to
// signals they may be killed by one; none may stay.
func TestEarlySignal(t *testing.T) {
	t.Parallel()
	for n := range 40 {
		cmd := exec.Command(binary, "server", "--port", "0")
		cmd.Env = environ(t)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() { _ = cmd.Wait(); close(ended) }()
		<-time.After(time.Duration(n) * time.Millisecond)
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(readyLimit):
			t.Errorf("a server that was ended %d ms after its start lives on", n)
			_ = cmd.Process.Kill()
			<-ended
		}
		status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
		if !ok || status.Signaled() && status.Signal() == syscall.SIGKILL || status.Exited() && status.ExitStatus() != exitOK {
			t.Errorf("a server that was ended %d ms after its start: %v", n, cmd.ProcessState)
		}
		if t.Failed() {
			return
		}
	}
}

// TestSecondSignal wants a server that takes long to end to do so immediately after
// a second signal.
func TestSecondSignal(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "Xvfb", "openbox", "dbus-daemon", "xterm")
	s := serve(t, environ(t), "--desktop")
	wait := s.busy(t)
	children := descendants(t, s.pid)
	if err := syscall.Kill(s.pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	poll(t, readyLimit, "it heeds the first signal", func() string {
		c, err := net.Dial("tcp", strings.TrimPrefix(s.base, "http://"))
		if err != nil {
			return ""
		}
		c.Close()
		return "it takes connections"
	})
	took := s.signal(t, syscall.SIGTERM)
	if status, ok := s.state.Sys().(syscall.WaitStatus); !ok || !status.Signaled() {
		t.Errorf("it ended with %v, want it to be killed by the second signal", s.state)
	}
	t.Logf("ended after %v", took)
	wait()
	wantGone(t, children)
}

// TestKilled kills a server that has a terminal and a browser on its desktop,
// and wants the next one to have a desktop again and nothing left of the first.
func TestKilled(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "Xvfb", "openbox", "dbus-daemon", "xterm", "chromium")
	env := environ(t)
	first := serve(t, env, "--desktop")
	first.ask(t, "/v1/desktop/launch", launchTerminal, nil)
	first.ask(t, "/v1/desktop/launch", `{"app":"chromium","args":["--no-first-run","about:blank"],"wait":true}`, nil)
	children := descendants(t, first.pid)
	before := marked(t, home(env))
	if len(children) < 8 || len(before) < 8 {
		t.Fatalf("too few processes to be a desktop with a terminal and a browser: %v, marked %v", children, before)
	}
	first.signal(t, syscall.SIGKILL)

	second := serve(t, env)
	wantGone(t, append(children, before...))
	second.ask(t, "/v1/desktop/start", `{}`, nil)
	second.ask(t, "/v1/desktop/launch", launchTerminal, nil)
	_, picture := second.call(t, "/v1/desktop/screenshot", "")
	if img, err := png.Decode(bytes.NewReader(picture)); err != nil || img.Bounds().Dx() != 1440 {
		t.Errorf("screenshot of the second desktop: %v", err)
	}
	own := descendants(t, second.pid)
	second.signal(t, syscall.SIGTERM)
	wantGone(t, own)
	if left := marked(t, home(env)); len(left) > 0 {
		t.Errorf("left running: %v", left)
	}
}
