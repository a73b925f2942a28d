package httpapi

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/internal/testlog"
	"github.com/deskhand/deskhand/internal/testpostgres"
)

// serveShared runs a server on a database that it shares, and advertises its address.
func serveShared(t *testing.T, dsn string, cfg Config) *testServer {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	cfg.Token, cfg.EventLog = "the-token-of-all", eventlog.Config{DSN: dsn, Retention: cfg.EventLog.Retention}
	cfg.AgentHost = agents.Config{Address: "http://" + ln.Addr().String(), Launch: cfg.AgentHost.Launch}
	return serveOn(t, ln, cfg)
}

// TestServersShareSessions: each server lists the sessions of all. What needs the agent of a session
// is answered 409 with the address of its server, or passed on with ProxySessions.
func TestServersShareSessions(t *testing.T) {
	t.Parallel()
	dsn := testpostgres.Start(t).DSN()
	here, other, proxy := serveShared(t, dsn, Config{}), serveShared(t, dsn, Config{}), serveShared(t, dsn, Config{ProxySessions: true})
	here.post(t, "/v1/sessions/first", fmt.Sprintf(`{"agent":"mock","directory":%q}`, t.TempDir())).want(t, 200)
	here.turn(t, "first", "hello")
	for _, s := range []*testServer{here, other, proxy} {
		if list := string(s.get(t, "/v1/sessions").want(t, 200).body); !strings.Contains(list, `"sessionId":"first"`) {
			t.Errorf("sessions: %s", list)
		}
		if events := string(s.get(t, "/v1/sessions/first/events").want(t, 200).body); !strings.Contains(events, "hello") {
			t.Errorf("events: %s", events)
		}
	}
	server := here.get(t, "/v1/sessions/first").want(t, 200).json(t)["server"].(string)
	for _, c := range []call{
		{path: "/v1/sessions/first/messages", body: `{"message":"refused"}`},
		{path: "/v1/sessions/first/messages/stream", body: `{"message":"refused"}`},
		{path: "/v1/acp/" + server, body: acpEcho},
		{path: "/v1/acp/" + server},
		{method: http.MethodDelete, path: "/v1/acp/" + server},
		{method: http.MethodPost, path: "/v1/sessions/first/terminate"},
	} {
		if p := other.do(t, c).problem(t, 409, "conflict"); p["server"] != here.url {
			t.Errorf("%s: server = %v, want %s", c.path, p["server"], here.url)
		}
	}
	// The answer of the stream comes event by event.
	if got := said(proxy.turn(t, "first", "passed on")); !strings.Contains(got, "passed on") {
		t.Errorf("the turn by the proxy: %q", got)
	}
	large := strings.Repeat("large ", 50_000)
	proxy.post(t, "/v1/sessions/first/messages", fmt.Sprintf(`{"message":%q}`, large)).want(t, 204)
	here.sse(t, call{path: "/v1/sessions/first/events/sse"}, func(e universalEvent) bool {
		return e.Type == "item.completed" && len(e.Data.Item.Content) > 0 && e.Data.Item.Content[0].Text == large
	})
	stream := proxy.acpEvents(t, "/v1/acp/"+server+"?replay=all", nil)
	if first := stream.next(); first.id != "1" {
		t.Errorf("the first event by the proxy: %+v", first)
	}
	// A problem of the other server comes as it is.
	proxy.post(t, "/v1/sessions/first/permissions/none/reply", `{"reply":"once"}`).problem(t, 404, "not_found")
	if p := proxy.do(t, call{path: "/v1/sessions/first/messages", body: `{"message":"x"}`, header: map[string]string{"Deskhand-Forwarded": "1"}}).problem(t, 409, "conflict"); p["server"] != here.url {
		t.Errorf("passed on twice: %v", p)
	}
	proxy.do(t, call{method: http.MethodDelete, path: "/v1/acp/" + server}).want(t, 204)
	other.turn(t, "first", "taken over")
}

// TestServersWhoseAddressIsWrong: a server that cannot be reached is told from one that is busy.
func TestServersWhoseAddressIsWrong(t *testing.T) {
	t.Parallel()
	dsn := testpostgres.Start(t).DSN()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nowhere := "http://" + ln.Addr().String()
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	here := serve(t, Config{Token: "the-token-of-all", EventLog: eventlog.Config{DSN: dsn}, AgentHost: agents.Config{Address: nowhere}})
	log := new(testlog.Buffer)
	proxy := serveShared(t, dsn, Config{ProxySessions: true, Logger: slog.New(slog.NewTextHandler(log, nil))})
	here.send(t, "/v1/acp/one?agent=mock", acpEcho).want(t, 200)
	a := proxy.send(t, "/v1/acp/one", acpEcho)
	if p := a.problem(t, 503, "stream_error"); p["server"] != nowhere || a.Header.Get("Retry-After") != "1" {
		t.Errorf("problem = %v, %v", p, a.Header)
	}
	proxy.do(t, call{path: "/v1/acp/one?access_token=" + proxy.Token(), anon: true}).problem(t, 503, "stream_error")
	if text := log.String(); !strings.Contains(text, "connection refused") || strings.Contains(text, proxy.Token()) {
		t.Errorf("the log:\n%s", text)
	}
	if _, err := New(Config{AgentHost: agents.Config{Address: "deskhand:2468/path"}}); err == nil || !strings.Contains(err.Error(), "Address") {
		t.Errorf("New with a wrong address: %v", err)
	}
}

// TestAnswersOfAnotherServer passes requests on to a server that answers wrongly.
func TestAnswersOfAnotherServer(t *testing.T) {
	t.Parallel()
	dsn := testpostgres.Start(t).DSN()
	stalled, left := make(chan struct{}), make(chan struct{})
	odd := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodDelete {
			w.Header().Set("Content-Length", "10")
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
			close(stalled)
			<-r.Context().Done()
			close(left)
			return
		}
		w.Header().Set("Set-Cookie", "deskhand=theirs")
		w.Header().Set("Clear-Site-Data", "*")
		w.Header().Set("X-Other", "kept"+r.Header.Get("X-Mine"))
		if r.Method == http.MethodGet {
			w.Header().Set("Connection", "Upgrade")
			w.Header().Set("Upgrade", "websocket")
			w.WriteHeader(http.StatusSwitchingProtocols)
		}
	}))
	defer odd.Close()
	here := serve(t, Config{Token: "the-token-of-all", EventLog: eventlog.Config{DSN: dsn}, AgentHost: agents.Config{Address: odd.URL}})
	proxy := serveShared(t, dsn, Config{ProxySessions: true})
	here.send(t, "/v1/acp/one?agent=mock", acpEcho).want(t, 200)
	// X-Mine is for the proxy alone.
	a := proxy.do(t, call{path: "/v1/acp/one", body: acpEcho, header: map[string]string{"Connection": "keep-alive, x-mine", "X-Mine": "1"}}).want(t, 200)
	if h := a.Header; h.Get("Set-Cookie") != "" || h.Get("Clear-Site-Data") != "" || h.Get("X-Other") != "kept" {
		t.Errorf("headers of the answer: %v", h)
	}
	proxy.get(t, "/v1/acp/one").problem(t, 503, "stream_error")
	// The client leaves before the answer is complete.
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	answered := make(chan answer, 1)
	go func() { answered <- proxy.try(ctx, call{method: http.MethodDelete, path: "/v1/acp/one"}) }()
	<-stalled
	leave()
	<-left
	if a := <-answered; a.err == nil {
		t.Errorf("answered %d", a.StatusCode)
	}
}

// TestServersShareTokens: a token of one server is valid on all from then on, and ends on all.
// Tokens for one desktop are valid where the desktop is.
func TestServersShareTokens(t *testing.T) {
	t.Parallel()
	dsn := testpostgres.Start(t).DSN()
	bounds := Config{EventLog: eventlog.Config{Retention: eventlog.Retention{Events: 1}}}
	one, two := serveShared(t, dsn, bounds), serveShared(t, dsn, bounds)
	health := func(s *testServer, token string) int {
		return s.do(t, call{path: "/v1/health", header: bearer(token)}).StatusCode
	}
	first, admin := one.token(t, `{"scope":"admin"}`)
	if got := health(two, admin); got != 200 {
		t.Fatalf("the token on the other server: %d", got)
	}
	made := two.do(t, call{path: "/v1/tokens", body: `{"scope":"view"}`, header: bearer(admin)}).want(t, 200).json(t)
	child, _ := made["token"].(string)
	desktop := two.do(t, call{path: "/v1/tokens", body: `{"scope":"view","desktop":"main"}`, header: bearer(admin)}).want(t, 200).json(t)["token"].(string)
	if got := [3]int{health(one, child), health(two, desktop), health(one, desktop)}; got != [3]int{200, 200, 401} {
		t.Errorf("tokens made with it: %v", got)
	}
	if list := string(one.get(t, "/v1/tokens").want(t, 200).body); !strings.Contains(list, made["id"].(string)) {
		t.Errorf("tokens: %s", list)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, two.url+"/v1/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+admin)
	stream, err := two.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	one.do(t, call{method: http.MethodDelete, path: "/v1/tokens/" + first}).want(t, 204)
	if _, err := io.Copy(io.Discard, stream.Body); err != nil && t.Context().Err() != nil {
		t.Errorf("the stream did not end with its token: %v", err)
	}
	eventually(t, "all tokens have ended everywhere", func() bool {
		return health(one, admin) == 401 && health(two, admin) == 401 && health(one, child) == 401 && health(two, child) == 401 && health(two, desktop) == 401
	})
	id, kept := two.token(t, `{"scope":"supervise"}`)
	one.do(t, call{method: http.MethodDelete, path: "/v1/tokens/" + id}).want(t, 204)
	_, kept2 := two.token(t, `{"scope":"supervise"}`)
	three := serveShared(t, dsn, bounds) // reads the stream from its beginning
	if got := [3]int{health(three, admin), health(three, kept), health(three, kept2)}; got != [3]int{401, 401, 200} {
		t.Errorf("tokens on a new server: %v", got)
	}
}

// TestRevocationWithoutPostgres: while Postgres cannot be reached, a token that is revoked ends at
// once on that server, and on the others when Postgres is back.
func TestRevocationWithoutPostgres(t *testing.T) {
	t.Parallel()
	postgres := testpostgres.Start(t)
	one, two := serveShared(t, postgres.DSN(), Config{}), serveShared(t, postgres.DSN(), Config{})
	health := func(s *testServer, token string) int {
		return s.do(t, call{path: "/v1/health", header: bearer(token)}).StatusCode
	}
	revoke := func(id string) answer {
		return one.do(t, call{method: http.MethodDelete, path: "/v1/tokens/" + id})
	}
	shared, value := one.token(t, `{"scope":"supervise"}`)
	local, desktop := one.token(t, `{"scope":"view","desktop":"main"}`)
	if got := health(two, value); got != 200 {
		t.Fatalf("the token on the other server: %d", got)
	}
	postgres.Stop()
	for range 2 { // the second only tries to store it
		revoke(shared).problem(t, 503, "stream_error")
	}
	revoke(local).want(t, 204)
	revoke("tok_unknown").problem(t, 503, "stream_error")
	one.get(t, "/v1/tokens").problem(t, 503, "stream_error")
	if got := [2]int{health(one, value), health(one, desktop)}; got != [2]int{401, 401} {
		t.Errorf("after the revocation: %v", got)
	}
	postgres.Restart(t)
	eventually(t, "the token has ended on the other server", func() bool { return health(two, value) == 401 })
	if got := health(one, value); got != 401 {
		t.Errorf("at last: %d", got)
	}
}
