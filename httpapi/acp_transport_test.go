package httpapi

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/deskhand/deskhand/agents"
)

const (
	transportURL     = "/v1/agents/mock/acp"
	headerConnection = "Acp-Connection-Id"
	headerSession    = "Acp-Session-Id"
	socketPrefix     = "sock_" // of ids of connections

	mostConnections = 64
	mostStreams     = 256 // of a connection
	restingTime     = 5 * time.Minute

	acpBegin = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}`
)

// peer is a client of the transport.
type peer struct {
	*testServer

	id string
}

// connected is a client that has initialized an agent.
func (s *testServer) connected(t *testing.T) *peer {
	t.Helper()
	a := s.send(t, transportURL, acpBegin).want(t, http.StatusOK)
	id := a.Header.Get(headerConnection)
	if got := string(a.body); id == "" || got != `{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1}}` || a.Header.Get("Content-Type") != "application/json" {
		t.Fatalf("initialize = %s, %v", got, a.Header)
	}
	return &peer{s, id}
}

// header is what names the connection, the session, and what else there is.
func (p *peer) header(session string, more ...string) map[string]string {
	h := map[string]string{headerConnection: p.id}
	if session != "" {
		h[headerSession] = session
	}
	for i := 0; i < len(more); i += 2 {
		h[more[i]] = more[i+1]
	}
	return h
}

func (p *peer) say(t *testing.T, session, message string) answer {
	t.Helper()
	return p.do(t, call{path: transportURL, body: message, header: p.header(session)})
}

// accepted sends what has to be accepted.
func (p *peer) accepted(t *testing.T, session, message string) {
	t.Helper()
	if a := p.say(t, session, message).want(t, http.StatusAccepted); len(a.body) > 0 {
		t.Errorf("accepted with %q", a.body)
	}
}

// follow opens a stream.
func (p *peer) follow(t *testing.T, session string, more ...string) *acpEvents {
	t.Helper()
	return p.acpEvents(t, transportURL, p.header(session, more...))
}

// session makes a session of that id, which this agent takes from the params.
func (p *peer) session(t *testing.T, id string) {
	t.Helper()
	p.accepted(t, id, fmt.Sprintf(`{"id":"new-%s","method":"session/new","params":{"cwd":"/","sessionId":%q}}`, id, id))
}

// says expects the next events of a stream.
func (s *acpEvents) says(messages ...string) (last acpEvent) {
	s.t.Helper()
	for _, want := range messages {
		if last = s.next(); last.data != want {
			s.t.Errorf("event = %+v, want %s", last, want)
		}
	}
	return last
}

// ends expects the end of a stream.
func (s *acpEvents) ends() {
	s.t.Helper()
	defer s.bound()()
	rest, err := io.ReadAll(s.r)
	if err != nil || strings.Contains(string(rest), "data:") {
		s.t.Errorf("the stream ends with %q, %v", rest, err)
	}
}

func TestACPTransport(t *testing.T) {
	t.Parallel()
	s := serveACP(t, Config{})
	p := s.connected(t)
	own := p.follow(t, "")
	if got := own.resp.Header; got.Get("Content-Type") != "text/event-stream" || got.Get("Cache-Control") != "no-cache, no-transform" || got.Get("X-Accel-Buffering") != "no" {
		t.Errorf("headers = %v", got)
	}
	p.session(t, "one")
	own.says(`{"jsonrpc":"2.0","id":"new-one","result":{"cwd":"/","sessionId":"one"}}`)
	one := p.follow(t, "one")
	p.session(t, "two")
	own.says(`{"jsonrpc":"2.0","id":"new-two","result":{"cwd":"/","sessionId":"two"}}`)
	p.accepted(t, "two", `{"method":"notify","params":{"sessionId":"two","n":1}}`)
	p.accepted(t, "one", `{"method":"notify","params":{"sessionId":"one","n":2}}`)
	p.accepted(t, "one", `{"id":5,"method":"echo","params":{"sessionId":"one","n":1e400}}`)
	p.accepted(t, "new", `{"method":"notify","params":{"sessionId":"new"}}`) // an unknown session
	p.accepted(t, "", `{"method":"notify","params":7}`)
	one.says(`{"method":"notified","params":{"sessionId":"one","n":2}}`, `{"jsonrpc":"2.0","id":5,"result":{"sessionId":"one","n":1e400}}`)
	own.says(`{"method":"notified","params":7}`)
	p.follow(t, "two").says(`{"method":"notified","params":{"sessionId":"two","n":1}}`) // opened after it
	p.follow(t, "new").says(`{"method":"notified","params":{"sessionId":"new"}}`)

	// The agent's question, and the answer to it.
	p.accepted(t, "", `{"id":"q","method":"ask"}`)
	own.says(`{"id":7,"method":"fs/read_text_file","params":{}}`, `{"id":"q","result":{}}`)
	p.accepted(t, "", `{"id":7,"result":{"content":"x"}}`)
	own.says(`{"method":"got/answer","params":{"id":7,"result":{"content":"x"}}}`)

	if list := s.get(t, "/v1/acp"); !strings.Contains(string(list.body), `"serverId":"`+p.id+`","agent":"mock"`) {
		t.Errorf("servers = %s", list.body)
	}
	s.do(t, call{method: http.MethodDelete, path: transportURL, header: p.header("")}).want(t, http.StatusAccepted)
	own.ends()
	one.ends()
	p.say(t, "", acpEcho).problem(t, http.StatusNotFound, "not_found")
	s.do(t, call{method: http.MethodDelete, path: transportURL, header: p.header("")}).problem(t, http.StatusNotFound, "not_found")
}

// What is wrong with a request is told with the field and the remedy.
func TestACPTransportRefusals(t *testing.T) {
	t.Parallel()
	s := serveACP(t, Config{})
	p := s.connected(t)
	socket := s.dial(t, transportURL, nil)
	inSocket(t, socket, acpBegin)
	list := string(s.get(t, "/v1/acp").body)
	_, list, _ = strings.Cut(list, `"serverId":"`+socketPrefix)
	other, _, _ := strings.Cut(list, `"`)
	named := p.header("")
	for _, c := range []struct {
		call   call
		status int
		code   string
		detail string
	}{
		{call{body: acpBegin, kind: "text/plain"}, 415, "unsupported_media_type", "Content-Type must be application/json"},
		{call{body: `{`}, 400, "invalid_request", "invalid JSON body"},
		{call{body: `[` + acpBegin + `]`}, 400, "invalid_request", "must be a JSON-RPC object"},
		{call{body: `{"method":"initialize"}`}, 400, "invalid_request", "initialize must have an id"},
		{call{body: acpBegin, header: named}, 400, "invalid_request", "must be left out with initialize"},
		{call{body: acpEcho}, 400, "invalid_request", "Acp-Connection-Id is missing"},
		{call{body: acpEcho, header: map[string]string{headerConnection: "conn_x"}}, 404, "not_found", "initialize without Acp-Connection-Id"},
		{call{body: acpEcho, header: map[string]string{headerConnection: socketPrefix + other}}, 404, "not_found", "not found: connection"},
		{call{body: acpEcho, header: named, path: "/v1/agents/pi/acp"}, 400, "invalid_request", "is of a connection to mock"},
		{call{body: `{"id":1,"method":"session/prompt","params":{"sessionId":"a"}}`, header: named}, 400, "invalid_request", "Acp-Session-Id must be the sessionId"},
		{call{body: `{"id":1,"method":"session/prompt","params":{"sessionId":"a"}}`, header: p.header("b")}, 400, "invalid_request", "params: a"},
		{call{body: acpBegin, path: "/v1/agents/nope/acp"}, 400, "unsupported_agent", "nope"},
		{call{body: acpBegin, path: "/v1/agents/absent/acp"}, 404, "agent_not_installed", "absent"},
		{call{body: acpBegin, path: "/v1/agents/broken/acp"}, 502, "stream_error", "failed to start"},
		{call{body: `{"id":0,"method":"initialize","params":}`}, 400, "invalid_request", "invalid JSON body"},
		{call{}, 400, "invalid_request", "Acp-Connection-Id is missing"},
		{call{header: p.header("", "Accept", "application/json")}, 406, "not_acceptable", "Accept must allow text/event-stream"},
		{call{header: p.header("", "Last-Event-ID", "-1")}, 400, "invalid_request", "Last-Event-ID must be"},
		{call{header: p.header(strings.Repeat("x", 600))}, 400, "invalid_request", "Acp-Session-Id"},
		{call{header: map[string]string{headerConnection: "a"}}, 404, "not_found", "not found: connection a"},
		{call{method: http.MethodDelete}, 400, "invalid_request", "Acp-Connection-Id is missing"},
		{call{body: acpBegin, anon: true}, 401, "token_invalid", "token invalid"},
		{call{header: named, anon: true}, 401, "token_invalid", "token invalid"},
		{call{body: acpBegin, anon: true, header: map[string]string{"Origin": "http://elsewhere.test"}}, 403, "permission_denied", "elsewhere.test"},
	} {
		if c.call.path == "" {
			c.call.path = transportURL
		}
		problem := s.do(t, c.call).problem(t, c.status, c.code)
		if detail, _ := problem["detail"].(string); !strings.Contains(detail, c.detail) {
			t.Errorf("%+v: %s, want %q", c.call, detail, c.detail)
		}
	}
	if n := len(s.acp.Streams()); n != 2 {
		t.Errorf("%d connections are left, want the two that work", n)
	}
}

// A client that comes back gets what it missed, once.
func TestACPTransportResumes(t *testing.T) {
	t.Parallel()
	s := serveACP(t, Config{})
	p := s.connected(t)
	own := p.follow(t, "")
	p.session(t, "one")
	own.next()
	first := p.follow(t, "one")
	notify := func(n int) {
		t.Helper()
		p.accepted(t, "one", fmt.Sprintf(`{"method":"notify","params":{"sessionId":"one","n":%d}}`, n))
	}
	said := func(n int) string {
		return fmt.Sprintf(`{"method":"notified","params":{"sessionId":"one","n":%d}}`, n)
	}
	notify(1)
	seen := first.says(said(1))
	second := p.follow(t, "one") // while the first is open still
	first.ends()
	notify(2)
	second.says(said(2))
	second.resp.Body.Close()
	until(t, "the stream is closed", func() bool { return !p.isOpen("one") })
	notify(3)
	third := p.follow(t, "one")
	third.says(said(3))
	p.follow(t, "one", "Last-Event-ID", seen.id).says(said(2), said(3))
	third.ends()
	p.follow(t, "one", "Last-Event-ID", "0").says(said(1), said(2), said(3))
	head := s.do(t, call{method: http.MethodHead, path: transportURL, header: p.header("one")}).want(t, http.StatusOK)
	if len(head.body) > 0 || p.isOpen("one") {
		t.Errorf("HEAD answers %q and leaves a stream: %v", head.body, p.isOpen("one"))
	}
}

func (p *peer) isOpen(session string) bool { return slices.Contains(p.acp.Streams()[p.id], session) }

func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", what)
		}
		time.Sleep(5 * time.Millisecond) //nolint:forbidigo // polls to a deadline
	}
}

// After a restart a client goes on with its connection.
func TestACPTransportRestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var p *peer
	var seen acpEvent
	t.Run("before", func(t *testing.T) {
		p = serveACP(t, Config{StateDir: dir}).connected(t)
		own := p.follow(t, "")
		p.accepted(t, "", `{"method":"notify","params":1}`)
		p.accepted(t, "", `{"method":"notify","params":2}`)
		seen = own.next()
	})
	p.testServer = serveACP(t, Config{StateDir: dir})
	own := p.follow(t, "", "Last-Event-ID", seen.id)
	own.says(`{"method":"notified","params":2}`)
	p.accepted(t, "", `{"id":1,"method":"echo","params":{}}`)
	own.says(`{"jsonrpc":"2.0","id":1,"result":{}}`)
	// Who does not say what it has seen gets nothing twice.
	p.follow(t, "")
	p.accepted(t, "", `{"method":"notify","params":3}`)
	p.follow(t, "", "Last-Event-ID", seen.id).says(`{"method":"notified","params":2}`, `{"jsonrpc":"2.0","id":1,"result":{}}`, `{"method":"notified","params":3}`)
}

// An agent whose client is gone ends, and the client's next message finds all
// that was said.
func TestACPTransportIdle(t *testing.T) {
	t.Parallel()
	var running atomic.Int32
	launch := func(ctx context.Context, agent string) (agents.Launch, error) {
		l, err := acpLaunch(ctx, agent)
		l.Run = func(ctx context.Context, in io.Reader, out io.Writer) error {
			running.Add(1)
			defer running.Add(-1)
			return acpAgent(ctx, in, out)
		}
		return l, err
	}
	s := serve(t, Config{AgentHost: agents.Config{IdleTimeout: time.Millisecond, Launch: launch}})
	p := s.connected(t)
	own := p.follow(t, "")
	p.accepted(t, "", `{"method":"notify","params":1}`)
	seen := own.says(`{"method":"notified","params":1}`)
	p.accepted(t, "", `{"method":"notify","params":2}`)
	own.next()
	own.cancel()
	until(t, "the agent has ended", func() bool { return running.Load() == 0 })
	p.accepted(t, "", `{"id":1,"method":"echo","params":{}}`)
	p.follow(t, "", "Last-Event-ID", seen.id).says(`{"method":"notified","params":2}`, `{"jsonrpc":"2.0","id":1,"result":{}}`)
}

// The end of the agent is the end of the connection.
func TestACPTransportExit(t *testing.T) {
	t.Parallel()
	p := serveACP(t, Config{}).connected(t)
	own := p.follow(t, "")
	p.session(t, "one")
	own.next()
	one := p.follow(t, "one")
	p.accepted(t, "one", `{"id":1,"method":"hang","params":{"sessionId":"one"}}`)
	p.accepted(t, "", `{"method":"notify","params":"last"}`)
	p.accepted(t, "", `{"method":"exit"}`)
	own.says(`{"method":"notified","params":"last"}`)
	own.ends()
	one.ends()
	problem := p.say(t, "", acpEcho).problem(t, http.StatusGone, "agent_process_exited")
	if detail, _ := problem["detail"].(string); !strings.Contains(detail, "initialize another") {
		t.Errorf("problem = %v", problem)
	}
}

// A reader that stalls delays no other reader and misses no event.
func TestACPTransportStalledReader(t *testing.T) {
	t.Parallel()
	p := serveACP(t, Config{}).connected(t)
	stalled := p.follow(t, "")
	p.session(t, "one")
	for range 3 {
		p.accepted(t, "", `{"id":1,"method":"burst"}`)
	}
	other := p.follow(t, "one")
	p.accepted(t, "one", `{"id":2,"method":"echo","params":{"sessionId":"one"}}`)
	other.says(`{"jsonrpc":"2.0","id":2,"result":{"sessionId":"one"}}`)
	stalled.next() // the session
	for range 3 {
		for i := range 5000 {
			if got := stalled.next().data; got != fmt.Sprintf(`{"method":"part","params":%d}`, i) {
				t.Fatalf("event %d = %s", i, got)
			}
		}
		stalled.says(`{"id":1,"result":{}}`)
	}
}

// Streams and WebSockets end with the server, at once.
func TestACPTransportEndsWithTheServer(t *testing.T) {
	t.Parallel()
	s := serveACP(t, Config{})
	p := s.connected(t)
	own := p.follow(t, "")
	conn := s.dial(t, transportURL, nil)
	inSocket(t, conn, acpBegin)
	p.accepted(t, "", `{"id":1,"method":"hang"}`)
	begun := time.Now()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begun); took > 8*time.Second {
		t.Errorf("Close took %v", took)
	}
	own.ends()
	if _, _, err := conn.ReadMessage(); err == nil {
		t.Error("the WebSocket is open still")
	}
}

// A connection that its client has left is closed, which makes room for others.
func TestACPTransportBounds(t *testing.T) {
	t.Parallel()
	var later atomic.Int64
	s := serveACP(t, Config{also: func(s *Server) {
		s.acp.Now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	}})
	p := s.connected(t)
	own := p.follow(t, "")
	for range mostConnections - 2 {
		s.connected(t)
	}
	later.Store(-int64(time.Minute))
	last := s.connected(t)
	later.Store(0)
	problem := s.send(t, transportURL, acpBegin).problem(t, http.StatusServiceUnavailable, "stream_error")
	if detail, _ := problem["detail"].(string); !strings.Contains(detail, "end one by DELETE") {
		t.Errorf("problem = %v", problem)
	}
	if conn, resp, err := s.tryDial(t.Context(), transportURL, nil); err == nil || resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("dial: %v %v %v", conn, resp, err)
	}
	later.Store(int64(restingTime + time.Second))
	s.connected(t)
	last.say(t, "", acpEcho).problem(t, http.StatusNotFound, "not_found")
	p.accepted(t, "", `{"method":"notify","params":1}`) // not this one: its stream is open
	own.says(`{"method":"notified","params":1}`)

	for i := range mostStreams - 1 {
		p.follow(t, fmt.Sprint(i))
	}
	s.do(t, call{path: transportURL, header: p.header("more")}).problem(t, http.StatusServiceUnavailable, "stream_error")
	p.follow(t, "").resp.Body.Close() // one that is open gives way
}

// The ids of sessions that only the agent knows do not fill the memory.
func TestACPTransportLongSessionIDs(t *testing.T) {
	p := serveACP(t, Config{}).connected(t)
	own := p.follow(t, "")
	heap := func(method string) int64 {
		p.accepted(t, "", `{"id":1,"method":"`+method+`","params":{}}`)
		own.says(`{"jsonrpc":"2.0","id":1,"result":{}}`) // the stream has passed what is before it
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc) //nolint:gosec // it is small
	}
	before := heap("echo")
	if grown := heap("strangers") - before; grown > longIDs*longID/2 {
		t.Errorf("%d ids of %d bytes need %d bytes", longIDs, longID, grown)
	}
}
