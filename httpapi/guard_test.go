package httpapi

import (
	"encoding/base64"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/internal/testbrowser"
	"github.com/deskhand/deskhand/internal/testlog"
	"github.com/deskhand/deskhand/internal/testx11"
)

// An error in the log tells of which request it is, without an access log, too.
func TestErrorNamesRequest(t *testing.T) {
	t.Parallel()
	var log testlog.Buffer
	cfg := Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}
	cfg.AgentHost = agents.Config{Launch: acpLaunch}
	s := serve(t, cfg)
	id := map[string]string{"X-Request-Id": "my-id.2"}
	s.do(t, call{path: "/v1/acp/a?agent=mock&token=x", body: `{"id":1,"method":"exit"}`, header: id}).problem(t, 500, "agent_process_exited")
	if text := log.String(); !strings.Contains(text, "request=my-id.2 method=POST path=/v1/acp/a operation=") || strings.Contains(text, "nil") {
		t.Errorf("log = %s", text)
	}
}

// TestForeignPages asks a server without a token as browsers do for pages of
// other sites, which send no Origin with what an <img> or a <script> loads.
func TestForeignPages(t *testing.T) {
	t.Parallel()
	open := serve(t, Config{NoToken: true, Origins: []string{"https://app.example"}})
	all := serve(t, Config{NoToken: true, Origins: []string{"*"}})
	token := serve(t, Config{})
	const health = "/v1/health"
	for _, c := range []struct {
		name, path string
		s          *testServer
		header     string // "site mode dest referer"
		status     int
		policy     string
	}{
		{"img of another site", health, open, "cross-site no-cors image", 403, "same-origin"},
		{"img of another port", health, open, "same-site no-cors image", 403, "same-origin"},
		{"video that says whose", health, open, "cross-site no-cors video https://evil.example/", 403, "same-origin"},
		{"img of a listed site", health, open, "cross-site no-cors image https://app.example/x", 200, "cross-origin"},
		{"img where all are listed", health, all, "cross-site no-cors image", 200, "cross-origin"},
		{"own page", health, open, "same-origin cors empty", 200, "same-origin"},
		{"typed by its user", health, open, "none navigate document", 200, "same-origin"},
		{"a program", health, open, "", 200, "same-origin"},
		{"a link to a route", health, open, "cross-site navigate document", 403, "same-origin"},
		{"a link to the page", "/ui/", open, "cross-site navigate document", 200, "same-origin"},
		{"a link to the documentation", "/docs/security", open, "cross-site navigate document", 200, "same-origin"},
		{"the documentation in a frame", "/docs/", open, "cross-site navigate iframe", 403, "same-origin"},
		{"a link to the root", "/", open, "same-site navigate document", 200, "same-origin"},
		{"the page in a frame", "/ui/", open, "cross-site navigate iframe", 403, "same-origin"},
		{"a file of the page", "/ui/main.js", open, "cross-site no-cors script", 403, "same-origin"},
		{"right token", health, token, "cross-site no-cors image", 200, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			header := map[string]string{}
			values := strings.Fields(c.header)
			for i, name := range []string{"Sec-Fetch-Site", "Sec-Fetch-Mode", "Sec-Fetch-Dest", "Referer"} {
				if i < len(values) {
					header[name] = values[i]
				}
			}
			a := c.s.do(t, call{path: c.path, header: header}).want(t, c.status)
			if c.status == 403 {
				a.problem(t, 403, "permission_denied")
			}
			if got := a.Header.Get("Cross-Origin-Resource-Policy"); got != c.policy {
				t.Errorf("Cross-Origin-Resource-Policy = %q, want %q", got, c.policy)
			}
		})
	}
}

// TestProxyAddsToken: a proxy that adds a token to the requests of all pages does not open the server to
// pages of other sites, but to its own.
func TestProxyAddsToken(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{AgentHost: agents.Config{Launch: acpLaunch}})
	_, view := s.token(t, `{"scope":"view"}`)
	const evil, own, lan = "https://evil.example", "http://localhost:5173", "https://app.example"
	for _, c := range []struct {
		origin, site string
		http, socket int
	}{
		{evil, "cross-site", 403, 403},
		{evil, "same-site", 403, 403},
		{evil, "", 200, 403}, // Chromium's WebSocket, and a program's request
		{own, "same-origin", 200, 101},
		{own, "", 200, 101},
		{own, "same-site", 403, 403}, // of another port
		{lan, "same-origin", 200, 403},
	} {
		header := map[string]string{"Origin": c.origin, "Sec-Fetch-Site": c.site, "Authorization": "Bearer " + s.Token()}
		if c.http == 403 { // a smaller token of the page's own is no leave for the proxy's
			s.do(t, call{path: "/v1/health?t=" + view, anon: true, header: header}).want(t, c.http)
		}
		s.do(t, call{path: "/v1/health", anon: true, header: header}).want(t, c.http)
		h := http.Header{}
		for name, value := range header {
			h.Set(name, value)
		}
		conn, resp, err := s.tryDial(t.Context(), "/v1/agents/mock/acp", h)
		if err == nil {
			_ = conn.Close()
		}
		if resp == nil || resp.StatusCode != c.socket {
			t.Errorf("WebSocket from %s, %q: %v, %v, want %d", c.origin, c.site, resp, err, c.socket)
		}
	}
}

// TestForeignPageWithToken: a page of another site that has a stored token can use it, but gets
// nothing from a server that needs no token, where every request has all rights.
func TestForeignPageWithToken(t *testing.T) {
	t.Parallel()
	cfg := Config{StateDir: t.TempDir(), AgentHost: agents.Config{Launch: acpLaunch}}
	tokens := serve(t, cfg)
	_, all := tokens.token(t, `{"scope":"admin"}`)
	_, view := tokens.token(t, `{"scope":"view"}`)
	for _, c := range []struct {
		name, token       string
		open              bool
		inHeader, inQuery int // status of the POST with the token there
		socket            int // status of the WebSocket
	}{
		{"with a token", all, false, 200, 401, 101}, // the route has no token in its query
		{"without a token", view, true, 403, 403, 403},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := tokens
			if c.open {
				if err := tokens.Close(); err != nil {
					t.Fatal(err)
				}
				cfg.NoToken = true
				s = serve(t, cfg)
			}
			const origin = "https://evil.example"
			basic := base64.StdEncoding.EncodeToString([]byte(":" + c.token))
			s.do(t, call{path: "/opencode/session?auth_token=" + basic, anon: true, header: map[string]string{"Origin": origin}}).want(t, c.inHeader)
			made := filepath.Join(t.TempDir(), "made")
			post := call{method: http.MethodPost, path: fsPath("mkdir", "path", made), anon: true, header: map[string]string{"Origin": origin}}
			post.path += "&access_token=" + c.token
			s.do(t, post).want(t, c.inQuery)
			if _, err := os.Stat(made); err == nil {
				t.Error("the token in the query made a directory")
			}
			post.path = fsPath("mkdir", "path", made)
			post.header["Authorization"] = "Bearer " + c.token
			s.do(t, post).want(t, c.inHeader)
			if _, err := os.Stat(made); (err == nil) != (c.inHeader == 200) {
				t.Errorf("the directory after status %d: %v", c.inHeader, err)
			}
			dial := func(query string, header http.Header) {
				header.Set("Origin", origin)
				conn, resp, err := s.tryDial(t.Context(), "/v1/agents/mock/acp"+query, header)
				if err == nil {
					_ = conn.Close()
				}
				if resp == nil || resp.StatusCode != c.socket {
					t.Errorf("WebSocket with query %t: %v, %v, want %d", query != "", resp, err, c.socket)
				}
			}
			dial("?access_token="+c.token, http.Header{})
		})
	}
}

// TestForeignImage has Chromium load a picture of the server into the page of
// another one, and follow a link.
func TestForeignImage(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "chromium")
	s := serve(t, Config{NoToken: true})
	listed := serve(t, Config{NoToken: true, Origins: []string{"*"}})
	foreign := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<img id=own src="%s/ui/icon.svg"><img id=listed src="%s/ui/icon.svg"><a href="%s/">to the page</a>`, s.url, listed.url, s.url)
	}))
	t.Cleanup(foreign.Close)
	ctx := testbrowser.Open(t, foreign.URL)
	if got := testbrowser.Evaluate[string](ctx, t, `[own.naturalWidth > 0, listed.naturalWidth > 0].join()`); got != "false,true" {
		t.Errorf("pictures that are seen: %s, want false,true", got)
	}
	testbrowser.Evaluate[bool](ctx, t, `document.querySelector("a").click(), true`)
	eventually(t, "the page", func() bool {
		return testbrowser.Evaluate[string](ctx, t, `document.querySelector("#video") ? location.href : ""`) == s.url+"/ui/"
	})
}
