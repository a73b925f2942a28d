package main

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
)

// TestACPBridge has a client that starts its agent: messages pass in both directions, and the
// session is in the log of the server.
func TestACPBridge(t *testing.T) {
	t.Parallel()
	s := serve(t, environ(t))
	ctx, cancel := context.WithTimeout(t.Context(), readyLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, "acp", "--agent", "mock")
	cmd.Env = append(environ(t), "DESKHAND_ENDPOINT="+s.base, "DESKHAND_TOKEN="+s.token)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	type message struct {
		ID     json.RawMessage
		Method string
		Result struct {
			SessionID, StopReason string
			ProtocolVersion       int
		}
	}
	next := func() (m message) {
		t.Helper()
		line, err := lines.ReadString('\n')
		if err != nil || json.Unmarshal([]byte(line), &m) != nil {
			t.Fatalf("%q, %v", line, err)
		}
		return m
	}
	send := func(text string) {
		t.Helper()
		if _, err := in.Write([]byte(text + "\n")); err != nil {
			t.Fatal(err)
		}
	}
	answer := func(id string) message {
		t.Helper()
		for {
			switch m := next(); {
			case m.Method == "session/request_permission":
				send(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":{"outcome":{"outcome":"selected","optionId":"once"}}}`)
			case m.Method == "" && string(m.ID) == id:
				return m
			}
		}
	}
	send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}`)
	if m := answer("1"); m.Result.ProtocolVersion != 1 {
		t.Errorf("initialize: %+v", m)
	}
	send(`{"jsonrpc":"2.0","id":"two","method":"session/new","params":{"cwd":"/tmp","mcpServers":[]}}`)
	session := answer(`"two"`).Result.SessionID
	send(`{"jsonrpc":"2.0","id":3,"method":"session/prompt","params":{"sessionId":"` + session + `","prompt":[{"type":"text","text":"permission"}]}}`)
	if m := answer("3"); m.Result.StopReason != "end_turn" {
		t.Errorf("the turn: %+v", m)
	}
	if list := s.wantAPI(t, nil, "sessions", "list"); !strings.Contains(list, session) {
		t.Errorf("the server has the sessions %s", list)
	}
	// The answer to the last request comes after the end of standard input.
	send(`{"jsonrpc":"2.0","id":4,"method":"session/list","params":{}}`)
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	answer("4")
	if rest, err := lines.ReadString('\n'); rest != "" {
		t.Errorf("after the end: %q, %v", rest, err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}

	for args, want := range map[string]string{
		"-t wrong --agent mock":          "(status 401)",
		"-e http://127.0.0.1:1 -t x -n ": "excludes",
	} {
		cmd := exec.CommandContext(ctx, binary, append([]string{"acp"}, strings.Fields(args)...)...)
		cmd.Env = append(environ(t), "DESKHAND_ENDPOINT="+s.base, "DESKHAND_TOKEN="+s.token)
		if strings.Contains(args, "wrong") {
			cmd.Env = append(environ(t), "DESKHAND_ENDPOINT="+s.base)
		}
		cmd.Stdin = strings.NewReader("{}\n")
		if got := finish(t, cmd); got.status == exitOK || !strings.Contains(got.stderr, want) {
			t.Errorf("%s: %+v", args, got)
		}
	}
	if got := runCommandLine(t, environ(t), "acp", "-e", s.base); got.status != exitOK || got.stdout != "" {
		t.Errorf("a client without a message: %+v", got)
	}
}

// TestACPRedirect has an endpoint that redirects: the token goes nowhere else.
func TestACPRedirect(t *testing.T) {
	t.Parallel()
	moved := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("%s got %q", r.URL, r.Header.Get("Authorization"))
	}))
	defer moved.Close()
	from := httptest.NewServer(http.RedirectHandler(moved.URL, http.StatusTemporaryRedirect))
	defer from.Close()
	ctx, cancel := context.WithTimeout(t.Context(), readyLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, "acp", "--agent", "mock")
	cmd.Env = append(environ(t), "DESKHAND_ENDPOINT="+from.URL, "DESKHAND_TOKEN=secret")
	cmd.Stdin = strings.NewReader("{}\n")
	if out, err := cmd.CombinedOutput(); err == nil || ctx.Err() != nil {
		t.Errorf("%v: %s", err, out)
	}
}
