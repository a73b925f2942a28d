package httpapi

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/fleet"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
	"github.com/deskhand/deskhand/internal/testlog"
)

func TestToken(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	if len(s.Token()) < 20 {
		t.Fatalf("token %q is short", s.Token())
	}
	right := "Bearer " + s.Token()
	for _, tc := range []struct {
		name, path, auth string
		status           int
	}{
		{"none", "/v1/health", "", 401},
		{"right", "/v1/health", right, 200},
		{"wrong", "/v1/health", right + "x", 401},
		{"empty", "/v1/health", "Bearer ", 401},
		{"lower case", "/v1/health", "bearer " + s.Token(), 401},
		{"two spaces", "/v1/health", "Bearer  " + s.Token(), 401},
		{"older scheme", "/v1/health", "Token " + s.Token(), 200},
		{"wrong in the older scheme", "/v1/health", "Token " + s.Token() + "x", 401},
		{"other scheme", "/v1/health", "Digest " + s.Token(), 401},
		{"bare", "/v1/health", s.Token(), 401},
		{"in the query of a call", "/v1/health?access_token=" + s.Token(), "", 401},
		{"in the query of status", "/v1/desktop/status?access_token=" + s.Token(), "", 401},
		{"in the query of a picture", "/v1/desktop/screenshot?access_token=" + s.Token(), "", 409},
		{"in the query of a stream", "/v1/desktop/events?access_token=" + s.Token(), "", 409},
		{"in the query of the clipboard", "/v1/desktop/clipboard?format=png&access_token=" + s.Token(), "", 401},
		{"wrong in the query", "/v1/desktop/events?access_token=x", "", 401},
		{"wrong header, right query", "/v1/desktop/events?access_token=" + s.Token(), "Bearer x", 401},
		{"no such route", "/v1/xxx", "", 404},
		{"no such desktop", "/v1/desktops/xxx", "", 401},
		{"root", "/", "", 200},
		{"page", "/ui/", "", 200},
		{"live", "/livez", "", 200},
		{"ready", "/readyz", "", 200},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			header := map[string]string{}
			if tc.auth != "" {
				header["Authorization"] = tc.auth
			}
			a := s.do(t, call{path: tc.path, anon: true, header: header}).want(t, tc.status)
			if tc.status == 401 {
				p := a.problem(t, 401, "token_invalid")
				if details, _ := p["details"].(map[string]any); details["message"] != "missing or invalid bearer token" {
					t.Errorf("details = %v", p["details"])
				}
			}
		})
	}
}

func TestOriginAndHost(t *testing.T) {
	t.Parallel()
	token := serve(t, Config{})
	listed := serve(t, Config{Origins: []string{"https://app.example", "http://plain.example:80"}, Credentials: true})
	open := serve(t, Config{NoToken: true})
	openListed := serve(t, Config{NoToken: true, Origins: []string{"http://desk.lan:2468"}})
	proxied := serve(t, Config{TrustProxy: true})
	openProxied := serve(t, Config{NoToken: true, TrustProxy: true, Origins: []string{"https://desk.example"}})
	all := serve(t, Config{Origins: []string{"*"}})
	host := func(s *testServer) string { return strings.TrimPrefix(s.url, "http://") }
	for _, tc := range []struct {
		name   string
		s      *testServer
		header map[string]string
		status int
	}{
		{"no origin", token, nil, 200},
		{"own origin", token, map[string]string{"Origin": token.url}, 200},
		{"own origin over TLS", token, map[string]string{"Origin": "https://" + host(token)}, 200},
		{"other origin", token, map[string]string{"Origin": "http://evil.example", "Authorization": ""}, 403},
		{"other origin, wrong token", token, map[string]string{"Origin": "http://evil.example", "Authorization": "Bearer x"}, 403},
		{"other origin, no token", open, map[string]string{"Origin": "http://evil.example"}, 403},
		{"other port", token, map[string]string{"Origin": "http://127.0.0.1:1", "Authorization": ""}, 403},
		{"null origin", token, map[string]string{"Origin": "null", "Authorization": ""}, 403},
		{"other origin, right token", token, map[string]string{"Origin": "http://localhost:5173"}, 200},
		{"null origin, right token", token, map[string]string{"Origin": "null"}, 200},
		{"own name", token, map[string]string{"Origin": "http://desk.lan", "Host": "desk.lan"}, 200},
		{"own name, default port", token, map[string]string{"Origin": "http://desk.lan", "Host": "desk.lan:80"}, 200},
		{"forwarded name, not trusted", token, map[string]string{"Origin": "https://desk.example", "X-Forwarded-Host": "desk.example", "Authorization": ""}, 403},
		{"forwarded name", proxied, map[string]string{"Origin": "https://desk.example", "X-Forwarded-Host": "desk.example"}, 200},
		{"listed", listed, map[string]string{"Origin": "https://app.example"}, 200},
		{"listed, other case and port", listed, map[string]string{"Origin": "HTTPS://App.Example:443"}, 200},
		{"listed with its port", listed, map[string]string{"Origin": "http://plain.example"}, 200},
		{"not listed", listed, map[string]string{"Origin": "https://app.example.evil.example", "Authorization": ""}, 403},
		{"any", all, map[string]string{"Origin": "https://evil.example"}, 200},

		{"any host with a token", token, map[string]string{"Host": "evil.example"}, 200},
		{"rebound name", open, map[string]string{"Host": "evil.example"}, 403},
		{"rebound name, own origin", open, map[string]string{"Host": "evil.example", "Origin": "http://evil.example"}, 403},
		{"localhost", open, map[string]string{"Host": "localhost:2468"}, 200},
		{"below localhost", open, map[string]string{"Host": "desk.localhost"}, 200},
		{"not localhost", open, map[string]string{"Host": "localhost.evil.example"}, 403},
		{"address", open, map[string]string{"Host": "[::1]:80"}, 200},
		{"another loopback address", open, map[string]string{"Host": "127.0.0.2:2468"}, 200},
		{"no address", open, map[string]string{"Host": "0.0.0.0:2468"}, 403},
		{"mapped address", open, map[string]string{"Host": "[::ffff:127.0.0.1]:2468"}, 403},
		{"no IPv6 address", open, map[string]string{"Host": "[::]:2468"}, 403},
		{"address of another network", open, map[string]string{"Host": "192.0.2.1:2468"}, 403},
		{"rebound name, forwarded as localhost", openProxied, map[string]string{"Host": "evil.example", "X-Forwarded-Host": "localhost"}, 403},
		{"forwarded rebound name", openProxied, map[string]string{"Host": "127.0.0.1", "X-Forwarded-Host": "evil.example"}, 403},
		{"forwarded listed name", openProxied, map[string]string{"Host": "127.0.0.1", "X-Forwarded-Host": "desk.example"}, 200},
		{"listed host", openListed, map[string]string{"Host": "desk.lan:2468"}, 200},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			a := tc.s.do(t, call{path: "/v1/health", header: tc.header}).want(t, tc.status)
			if tc.status == 403 {
				a.problem(t, 403, "permission_denied")
			}
		})
	}
}

// TestHostIsFreeBeyondLoopback: what listens on more than loopback is reached by
// names that it cannot know.
func TestHostIsFreeBeyondLoopback(t *testing.T) {
	t.Parallel()
	s := newServer(t, Config{NoToken: true})
	ln, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, ln) }()
	transport := &http.Transport{}
	ts := &testServer{s, fmt.Sprintf("http://127.0.0.1:%d", ln.Addr().(*net.TCPAddr).Port), &http.Client{Transport: transport}}
	ts.do(t, call{path: "/v1/health", header: map[string]string{"Host": "desk.example"}}).want(t, 200)
	transport.CloseIdleConnections()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestCORS(t *testing.T) {
	t.Parallel()
	preflight := func(s *testServer, origin string) answer {
		return s.do(t, call{method: "OPTIONS", path: "/v1/desktop/start", anon: true, header: map[string]string{
			"Origin": origin, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,content-type",
		}})
	}
	plain := serve(t, Config{Origins: []string{"https://app.example"}})
	a := preflight(plain, "https://app.example").want(t, 200)
	for name, want := range map[string]string{
		"Access-Control-Allow-Origin": "https://app.example", "Access-Control-Allow-Methods": "POST",
		"Access-Control-Allow-Headers": "authorization,content-type", "Access-Control-Allow-Credentials": "",
		"Vary": "origin, access-control-request-method, access-control-request-headers",
	} {
		if got := a.Header.Get(name); got != want {
			t.Errorf("%s = %q, want %q", name, got, want)
		}
	}
	preflight(plain, "https://evil.example").problem(t, 403, "permission_denied")
	if got := plain.do(t, call{path: "/v1/health", header: map[string]string{"Origin": "https://app.example"}}).Header; got.Get("Access-Control-Allow-Origin") != "https://app.example" ||
		!strings.Contains(got.Get("Access-Control-Expose-Headers"), "Deskhand-Observation") {
		t.Errorf("headers of an answer: %v", got)
	}
	strict := serve(t, Config{Origins: []string{"*"}, Methods: []string{"GET"}, Headers: []string{"authorization"}, Credentials: true})
	a = preflight(strict, "https://any.example").want(t, 200)
	for name, want := range map[string]string{
		"Access-Control-Allow-Origin": "https://any.example", "Access-Control-Allow-Methods": "GET",
		"Access-Control-Allow-Headers": "authorization", "Access-Control-Allow-Credentials": "true",
	} {
		if got := a.Header.Get(name); got != want {
			t.Errorf("%s = %q, want %q", name, got, want)
		}
	}
}

func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	for _, cfg := range []Config{
		{Token: "x", NoToken: true},
		{Token: " x"},
		{Origins: []string{"example.com"}},
		{Origins: []string{"https://example.com/path"}},
		{MaxBodyBytes: -1},
	} {
		if s, err := New(cfg); err == nil {
			t.Errorf("New(%+v) = %v, want an error", cfg, s)
		}
	}
}

// TestUnreadBodyIsNoRequest: what is left of a refused body must not be taken
// for the next request on that connection.
func TestUnreadBodyIsNoRequest(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{NoToken: true, MaxBodyBytes: 100, Start: func(context.Context, string, desktop.Config) (fleet.Desktop, error) {
		t.Error("a smuggled request was served")
		return nil, errors.New("not here")
	}})
	smuggled := "POST /v1/desktop/start HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"
	padding := strings.Repeat("x", rest.DrainMost+rest.Prefetch)
	for name, request := range map[string]string{
		"length": fmt.Sprintf("POST /v1/desktop/keyboard/type HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
			len(padding)+len(smuggled), padding),
		"no body wanted": fmt.Sprintf("POST /v1/desktop/stop HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s",
			len(padding)+len(smuggled), padding),
		"no route": fmt.Sprintf("POST /nothing HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s",
			len(padding)+len(smuggled), padding),
		"chunked": fmt.Sprintf("POST /v1/desktop/keyboard/type HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s",
			len(padding)+len(smuggled), padding),
	} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		answers := make(chan []byte, 1)
		go func() {
			got, _ := io.ReadAll(conn) // may end in a reset: we are still sending
			answers <- got
		}()
		_, _ = io.WriteString(conn, request+smuggled)
		if got := <-answers; bytes.Count(got, []byte("HTTP/1.1 ")) > 1 {
			t.Errorf("%s: more than one answer: %q", name, got)
		}
		conn.Close()
	}
}

// TestConnectionIsKept: after an ordinary refusal, the connection serves on.
func TestConnectionIsKept(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{NoToken: true})
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	r := bufio.NewReader(conn)
	for _, request := range []string{
		"POST /v1/desktop/mouse/move HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\nContent-Length: 3\r\n\r\nabc",
		"POST /nothing HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
		"POST /v1/desktop/stop HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}",
		"GET /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n",
	} {
		if _, err := io.WriteString(conn, request); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatalf("after %q: %v", request, err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
}

func TestMalformedRequests(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	for request, status := range map[string]int{
		"nonsense\r\n\r\n": 400,
		"MKCOL /v1/health HTTP/1.1\r\nHost: x\r\n\r\n":                                                            501,
		"GET / HTTP/1.1\r\nHost: x\r\nX-Long: " + strings.Repeat("x", 2*rest.HeaderSize) + "\r\n\r\n":             431,
		"GET /v1/health HTTP/1.1\r\nHost: x\r\nX-Folded: a\r\n b\r\n\r\n":                                         400,
		"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding:\r\n\tchunked\r\n\r\n0\r\n\r\n":                          400,
		"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTransfer-encoding: chunked\r\n\r\n0\r\n\r\n": 400,
		"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n":    400,
	} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(time.Minute))
		_, _ = io.WriteString(conn, request)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatalf("%.40q: %v", request, err)
		}
		if resp.StatusCode != status || resp.Header.Get("Content-Type") != rest.ProblemType {
			t.Errorf("%.40q = %d %s, want %d", request, resp.StatusCode, resp.Header.Get("Content-Type"), status)
		}
		resp.Body.Close()
		conn.Close()
	}
}

// TestRefusalsAreLogged sends many requests with wrong tokens.
func TestRefusalsAreLogged(t *testing.T) {
	t.Parallel()
	var log testlog.Buffer
	s := serve(t, Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	begun := time.Now()
	for range 50 {
		s.do(t, call{path: "/v1/desktop/screenshot?access_token=guess", anon: true, header: map[string]string{"Authorization": "Bearer guess", "X-Request-Id": "first"}})
	}
	text := log.String()
	if n := strings.Count(text, "without a valid token"); n < 1 || n > 1+int(time.Since(begun)/time.Second) {
		t.Errorf("%d lines about 50 requests, want one a second:\n%s", n, text)
	}
	for _, want := range []string{"level=WARN", "path=/v1/desktop/screenshot ", "client=127.0.0.1:", "request=first"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in the log:\n%s", want, text)
		}
	}
	if strings.Contains(text, "guess") {
		t.Errorf("a token is in the log:\n%s", text)
	}
}

// TestLogHidesRefusedSecrets sends values of secrets where their names are meant.
func TestLogHidesRefusedSecrets(t *testing.T) {
	t.Parallel()
	var log testlog.Buffer
	s := serve(t, Config{AccessLog: true, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	s.put(t, "/v1/secrets/hunter2%20hunter2", `{"value":"x"}`)
	s.put(t, "/v1/secrets/"+strings.Repeat("hunter2", 20), `{"value":"x"}`)
	s.put(t, "/v1/secrets/hunter2", `{"value":""}`)
	s.put(t, "/v1/Secrets/hunter2", `{"value":"x"}`)
	s.put(t, "/v1//secrets/hunter2", `{"value":"x"}`)
	s.put(t, "/v1/%73ecrets/hunter2", `{"value":"x"}`)
	s.do(t, call{method: "DELETE", path: "/v1/secrets/hunter2?dry=1"})
	s.do(t, call{method: "PUT", path: "/v1/secrets/hunter2", anon: true})
	s.put(t, "/v1/secrets/BANK", `{"value":"x"}`).want(t, 204)
	text := log.String()
	if strings.Contains(text, "hunter2") {
		t.Errorf("a value is in the log:\n%s", text)
	}
	for _, want := range []string{"url=/v1/secrets/REDACTED status=400", "path=/v1/secrets/REDACTED", "url=/v1/secrets/BANK status=204"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in the log:\n%s", want, text)
		}
	}
}

func TestAccessLogHidesTokens(t *testing.T) {
	t.Parallel()
	var log testlog.Buffer
	s := serve(t, Config{AccessLog: true, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	s.do(t, call{path: "/v1/desktop/screenshot?format=png&access%5Ftoken=" + s.Token(), anon: true})
	s.do(t, call{path: "/?token=" + s.Token(), anon: true})
	_, made := s.token(t, `{"scope":"view"}`)
	for _, misspelt := range []string{"?ACCESS_TOKEN=", "?access_token[]=", "?a=1;access_token=", "%3Faccess_token="} {
		s.do(t, call{path: "/v1/health" + misspelt + made, anon: true})
	}
	s.do(t, call{path: "/ui/?t=" + s.Token(), anon: true})
	id := s.do(t, call{path: "/v1/health", header: map[string]string{"X-Request-Id": "my-id.1"}}).Header.Get("X-Request-Id")
	text := log.String()
	if strings.Contains(text, s.Token()) || strings.Contains(text, made) {
		t.Errorf("a token is in the log:\n%s", text)
	}
	for _, want := range []string{"access_token=REDACTED", "format=png", "?token=REDACTED", "?t=REDACTED", "request=my-id.1", "status=409"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in the log:\n%s", want, text)
		}
	}
	if id != "my-id.1" {
		t.Errorf("X-Request-Id = %q", id)
	}
	if id := s.do(t, call{path: "/v1/health", header: map[string]string{"X-Request-Id": "a b"}}).Header.Get("X-Request-Id"); id == "a b" || id == "" {
		t.Errorf("X-Request-Id = %q", id)
	}
}
