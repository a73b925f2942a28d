package httpapi

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/deskhand/deskhand/internal/testspace"
	"github.com/deskhand/deskhand/internal/testx11"
)

// offer is what a WHEP player sends that wants video.
var offer = strings.ReplaceAll(`v=0
o=- 1 1 IN IP4 127.0.0.1
s=-
t=0 0
a=group:BUNDLE 0
a=fingerprint:sha-256 `+strings.TrimSuffix(strings.Repeat("AB:", 32), ":")+`
m=video 9 UDP/TLS/RTP/SAVPF 96
c=IN IP4 0.0.0.0
a=setup:actpass
a=mid:0
a=ice-ufrag:abcd
a=ice-pwd:abcdefghijklmnopqrstuvwx
a=recvonly
a=rtcp-mux
a=rtpmap:96 VP8/90000
`, "\n", "\r\n")

func bearer(value string) map[string]string {
	return map[string]string{"Authorization": "Bearer " + value}
}

// play begins to watch as a WHEP player does, and returns the viewer's path.
func (s *testServer) play(t *testing.T, token string) string {
	t.Helper()
	return s.do(t, call{path: mainPath + "/stream/whep", body: offer, kind: sdpType, header: bearer(token)}).want(t, 201).Header.Get("Location")
}

// viewers returns the viewers that a token is told of.
func (s *testServer) viewers(t *testing.T, token string) []any {
	t.Helper()
	list, _ := s.do(t, call{path: mainPath + "/stream/status", header: bearer(token)}).want(t, 200).json(t)["viewers"].([]any)
	return list
}

// left waits until as many viewers are left, which must be so within a second.
func (s *testServer) left(t *testing.T, n int, since time.Time) {
	t.Helper()
	eventually(t, "viewers end with their token", func() bool { return len(s.viewers(t, s.Token())) == n })
	if took := time.Since(since); took > time.Second {
		t.Errorf("the viewers of a token went on for %v", took)
	}
}

func TestViewersOfTokens(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "Xvfb", "openbox", "dbus-daemon")
	s := serve(t, Config{})
	s.post(t, "/v1/desktop/start", `{"width":320,"height":240}`).want(t, 200)
	id, ann := s.token(t, `{"scope":"view"}`)
	_, bob := s.token(t, `{"scope":"view"}`)
	first := s.play(t, ann)
	s.play(t, bob)
	s.do(t, call{method: http.MethodDelete, path: first, header: bearer(bob)}).problem(t, 404, "not_found")
	for i, v := range s.viewers(t, bob) {
		if v := v.(map[string]any); (v["remote"] != nil) != (i == 1) || (v["token"] != nil) != (i == 1) {
			t.Errorf("viewer %d, as another token sees it: %v", i, v)
		}
	}
	for _, token := range []string{bob, s.Token()} {
		got := s.do(t, call{path: mainPath + "/stream/diagnose", header: bearer(token)}).want(t, 200).json(t)["viewers"].([]any)
		if want := map[string]int{bob: 1, s.Token(): 2}[token]; len(got) != want {
			t.Errorf("%d viewers are diagnosed, want %d", len(got), want)
		}
	}
	begun := time.Now()
	s.do(t, call{method: http.MethodDelete, path: "/v1/tokens/" + id}).want(t, 204)
	s.left(t, 1, begun)

	// One token fills no more than half of the places, and all together leave some
	// for the server's own.
	for range 31 {
		s.play(t, bob)
	}
	watch := func(token string) answer {
		return s.do(t, call{path: mainPath + "/stream/whep", body: offer, kind: sdpType, header: bearer(token)})
	}
	watch(bob).problem(t, http.StatusTooManyRequests, "too_many_viewers")
	end, eve := s.token(t, `{"scope":"control"}`)
	for range 24 {
		s.play(t, eve)
	}
	watch(eve).problem(t, http.StatusServiceUnavailable, "too_many_viewers")
	conn := s.dial(t, mainPath+"/stream/video?access_token="+eve, http.Header{})
	if why, _ := signal(t, conn, "system/disconnect")["message"].(string); !strings.Contains(why, "too many viewers") {
		t.Errorf("who is refused is told %q", why)
	}
	s.play(t, s.Token())
	begun = time.Now()
	s.do(t, call{method: http.MethodDelete, path: "/v1/tokens/" + end}).want(t, 204)
	s.left(t, 33, begun)

	_, short := s.token(t, `{"scope":"view","ttl":1}`)
	begun = time.Now().Add(time.Second)
	s.play(t, short)
	s.left(t, 33, begun)
}

// TestRequestsEndWithToken: what a token is used for ends with it, whatever that is.
func TestRequestsEndWithToken(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	id, value := s.token(t, `{"scope":"admin"}`)
	file := filepath.Join(t.TempDir(), "large")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(file, 1<<30); err != nil {
		t.Fatal(err)
	}
	began := file + ".began"
	ran := make(chan answer, 1)
	go func() {
		ran <- s.try(t.Context(), call{
			path: "/v1/processes/run", header: bearer(value),
			body: fmt.Sprintf(`{"command":"sh","args":["-c","touch %s; exec sleep 60"],"timeoutMs":60000}`, began),
		})
	}()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+fsPath("file", "path", file), nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+value)
	resp, err := s.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.ReadFull(resp.Body, make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the process runs", func() bool { return present(began) })
	begun := time.Now()
	s.do(t, call{method: http.MethodDelete, path: "/v1/tokens/" + id}).want(t, 204)
	if n, err := io.Copy(io.Discard, resp.Body); err == nil {
		t.Errorf("%d bytes more came, to the end of the file", n)
	}
	if a := <-ran; a.err != nil || a.StatusCode != 401 {
		t.Errorf("a request under way: %v %s", a.err, a.body)
	}
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("requests went on for %v", took)
	}
}

// TestToolsEndWithToken: a call of a tool does nothing more once its token is revoked.
func TestToolsEndWithToken(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "Xvfb", "openbox", "dbus-daemon")
	s := serve(t, Config{})
	s.post(t, "/v1/desktop/start", `{"width":320,"height":240}`).want(t, 200)
	id, value := s.token(t, `{"scope":"agent"}`)
	called := make(chan answer, 1)
	go func() {
		header := bearer(value)
		header["Accept"] = "application/json, text/event-stream"
		called <- s.try(t.Context(), call{path: mcpPath, header: header, body: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"computer",` +
			`"arguments":{"screenshot":false,"actions":[{"action":"move","coordinate":[7,9]},{"action":"wait","duration":20},{"action":"move","coordinate":[30,40]}]}}}`})
	}()
	pointer := func() string { return string(s.get(t, mainPath+"/mouse/position").want(t, 200).body) }
	eventually(t, "the first action is done", func() bool { return strings.Contains(pointer(), `"x":7,"y":9`) })
	begun := time.Now()
	s.do(t, call{method: http.MethodDelete, path: "/v1/tokens/" + id}).want(t, 204)
	if a := <-called; a.err != nil || a.StatusCode != 401 {
		t.Errorf("the call: %v %d %s", a.err, a.StatusCode, a.body)
	}
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("the call went on for %v", took)
	}
	if p := pointer(); !strings.Contains(p, `"x":7,"y":9`) {
		t.Errorf("the pointer is at %s after the last action", p)
	}
}

// TestActionsEndWithToken: a call that does a part of what it should is answered like others.
func TestActionsEndWithToken(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "Xvfb", "openbox", "dbus-daemon")
	s := serve(t, Config{})
	s.post(t, "/v1/desktop/start", `{"width":320,"height":240}`).want(t, 200)
	for i, c := range []struct{ path, body string }{
		{"/actions", `{"actions":[{"type":"move","x":%d,"y":1},{"type":"wait","ms":60000}]}`},
		{"/actions", `{"actions":[{"type":"move","x":%d,"y":2},{"type":"type","text":"slowly","delayMs":9000}]}`},
		{"/actions", `{"actions":[{"type":"move","x":%d,"y":3}],"waitControlMs":60000}`},
		{"/mouse/move?waitControlMs=60000", `{"x":%d,"y":4}`},
	} {
		waits := strings.Contains(c.path+c.body, "waitControlMs")
		if waits {
			s.post(t, mainPath+"/control/take", `{}`).want(t, 200)
		}
		id, value := s.token(t, `{"scope":"control"}`)
		called := make(chan answer, 1)
		go func() {
			called <- s.try(t.Context(), call{path: mainPath + c.path, body: fmt.Sprintf(c.body, 10+i), header: bearer(value)})
		}()
		eventually(t, "the call runs", func() bool {
			if waits {
				return len(s.tokens.Find(value).Places()) == 1
			}
			return strings.Contains(string(s.get(t, mainPath+"/mouse/position").want(t, 200).body), fmt.Sprintf(`"x":%d`, 10+i))
		})
		s.do(t, call{method: http.MethodDelete, path: "/v1/tokens/" + id}).want(t, 204)
		if a := <-called; a.err != nil || a.StatusCode != 401 {
			t.Errorf("%s %s: %v %d %s", c.path, c.body, a.err, a.StatusCode, a.body)
		}
	}
}

// TestTokensEndTogether: with the token that made them, and with their desktop.
func TestTokensEndTogether(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "Xvfb", "openbox", "dbus-daemon")
	dir := t.TempDir()
	s := serve(t, Config{StateDir: dir})
	works := func(value string) bool {
		return s.do(t, call{path: "/v1/health", header: bearer(value)}).StatusCode == 200
	}
	made := func(by, body string) map[string]any {
		t.Helper()
		return s.do(t, call{path: "/v1/tokens", body: body, header: bearer(by)}).want(t, 200).json(t)
	}
	parent := made(s.Token(), `{"scope":"admin","ttl":600}`)
	child := made(parent["token"].(string), `{"scope":"admin","ttl":6000}`)
	grandchild := made(child["token"].(string), `{"scope":"view"}`)
	if child["expiresAt"] != parent["expiresAt"] || grandchild["expiresAt"] != parent["expiresAt"] {
		t.Errorf("tokens outlive the one that made them: %v, %v, %v", parent["expiresAt"], child["expiresAt"], grandchild["expiresAt"])
	}
	s.post(t, "/v1/desktops", `{"id":"other","width":320,"height":240}`).want(t, 201)
	_, narrow := s.token(t, `{"scope":"view","desktop":"other"}`)
	_, wide := s.token(t, `{"scope":"view"}`)
	s.do(t, call{method: http.MethodDelete, path: "/v1/tokens/" + parent["id"].(string)}).want(t, 204)
	s.do(t, call{method: http.MethodDelete, path: "/v1/desktops/other"}).want(t, 204)
	for again := range 2 {
		for _, gone := range []any{parent["token"], child["token"], grandchild["token"], narrow} {
			if works(gone.(string)) {
				t.Errorf("restart %d: a token that has ended is accepted", again)
			}
		}
		if !works(wide) {
			t.Errorf("restart %d: a token that has not ended is refused", again)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = serve(t, Config{StateDir: dir})
	}
}

// TestTokensOfMissingDesktop: a desktop ends with its server, and its tokens when it is deleted.
func TestTokensOfMissingDesktop(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := serve(t, Config{StateDir: dir})
	_, value := s.token(t, `{"scope":"view","desktop":"other"}`)
	_, wide := s.token(t, `{"scope":"view"}`)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = serve(t, Config{StateDir: dir})
	health := func(value string) int { return s.do(t, call{path: "/v1/health", header: bearer(value)}).StatusCode }
	if got := health(value); got != 200 {
		t.Errorf("after a restart: %d", got)
	}
	s.do(t, call{method: http.MethodDelete, path: "/v1/desktops/other"}).problem(t, 404, "not_found")
	if got := [2]int{health(value), health(wide)}; got != [2]int{401, 200} {
		t.Errorf("after the desktop was deleted: %v", got)
	}
}

// TestRevocationNotStored: the client is told, and the server goes on trying.
func TestRevocationNotStored(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := serve(t, Config{StateDir: dir})
	id, value := s.token(t, `{"scope":"view"}`)
	file := filepath.Join(filepath.Join(dir, "tokens"), id+".json")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	// A directory that is not empty is not removed, not even for root.
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(file, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		p := s.do(t, call{method: http.MethodDelete, path: "/v1/tokens/" + id}).problem(t, 503, "stream_error")
		if detail, _ := p["detail"].(string); !strings.Contains(detail, "revoked") || !strings.Contains(detail, file) {
			t.Errorf("detail = %q", detail)
		}
		s.do(t, call{path: "/v1/health", header: bearer(value)}).problem(t, 401, "token_invalid")
	}
	if err := os.RemoveAll(file); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the server tries again", func() bool { return !present(file) })
	// The store forgets the token a moment after it has removed the file.
	var again answer
	eventually(t, "the revocation is stored", func() bool {
		again = s.do(t, call{method: http.MethodDelete, path: "/v1/tokens/" + id})
		return again.StatusCode != http.StatusNoContent
	})
	again.problem(t, 404, "not_found")
}

// TestRevocationStoredAtExit: a revocation that could not be stored is stored when the server ends.
func TestRevocationStoredAtExit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := serve(t, Config{StateDir: dir})
	id, value := s.token(t, `{"scope":"view"}`)
	file := filepath.Join(dir, "tokens", id+".json")
	aside := filepath.Join(dir, "aside")
	if err := errors.Join(os.Rename(file, aside), os.MkdirAll(filepath.Join(file, "x"), 0o700)); err != nil {
		t.Fatal(err)
	}
	s.do(t, call{method: http.MethodDelete, path: "/v1/tokens/" + id}).problem(t, 503, "stream_error")
	// The server may try again at any time, and must not find the file missing.
	if err := errors.Join(unix.Renameat2(unix.AT_FDCWD, aside, unix.AT_FDCWD, file, unix.RENAME_EXCHANGE), s.Close()); err != nil {
		t.Fatal(err)
	}
	s = serve(t, Config{StateDir: dir})
	s.do(t, call{path: "/v1/health", header: bearer(value)}).problem(t, 401, "token_invalid")
}

// TestTokensOnFullDisk: tokens are revoked, but not made.
func TestTokensOnFullDisk(t *testing.T) {
	t.Parallel()
	disk := testspace.Disk(t, "1m")
	if disk == "" {
		return
	}
	dir := filepath.Join(disk, "state")
	s := serve(t, Config{StateDir: dir})
	id, value := s.token(t, `{"scope":"view"}`)
	fill, err := os.Create(filepath.Join(disk, "fill"))
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = fill.Write(make([]byte, 4096))
	}
	_ = fill.Close()
	s.post(t, "/v1/tokens", `{"scope":"view"}`).problem(t, 507, "stream_error")
	s.do(t, call{method: http.MethodDelete, path: "/v1/tokens/" + id}).want(t, 204)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = serve(t, Config{StateDir: dir})
	s.do(t, call{path: "/v1/health", header: bearer(value)}).problem(t, 401, "token_invalid")
}

// TestStateDirIsPrivate: others can neither enter it nor hold requests up by locks.
func TestStateDirIsPrivate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	open, err := os.Open(dir) // as another program, before the mode changes
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	if err := syscall.Flock(int(open.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	s := serve(t, Config{StateDir: dir, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	begun := time.Now()
	id, _ := s.token(t, `{"scope":"view"}`)
	s.do(t, call{method: http.MethodDelete, path: "/v1/tokens/" + id}).want(t, 204)
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("another's lock held requests up for %v", took)
	}
	for _, path := range []string{dir, filepath.Join(dir, "tokens")} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log.String(), "was open to other users") {
		t.Errorf("the log does not tell of the change:\n%s", log.String())
	}
	if err := os.Chmod(dir, 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	claim := func() error {
		_, err := newServer(t, Config{StateDir: dir}).fleet.StateDir().Claim()
		return err
	}
	if err := claim(); err == nil || !strings.Contains(err.Error(), "choose a directory in it") {
		t.Errorf("a directory like /tmp: %v", err)
	}
	if os.Geteuid() != 0 {
		return
	}
	if err := errors.Join(os.Chmod(dir, 0o700), os.Chown(dir, 65534, 65534)); err != nil {
		t.Fatal(err)
	}
	if err := claim(); err == nil || !strings.Contains(err.Error(), "make state directory "+dir+" private: it belongs to user 65534") {
		t.Errorf("a directory of another user: %v", err)
	}
}

// TestDamagedToken: its file is named with the remedy; other tokens work.
func TestDamagedToken(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := serve(t, Config{StateDir: dir})
	_, value := s.token(t, `{"scope":"view"}`)
	id, damaged := s.token(t, `{"scope":"view"}`)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(filepath.Join(dir, "tokens"), id+".json")
	if err := os.WriteFile(file, []byte("garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(filepath.Join(dir, "tokens"), "tok_PIPE"+".json"), 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	s = serve(t, Config{StateDir: dir, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	s.do(t, call{path: "/v1/health", header: bearer(value)}).want(t, 200)
	s.do(t, call{path: "/v1/health", header: bearer(damaged)}).problem(t, 401, "token_invalid")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if got := log.String(); !strings.Contains(got, file) || !strings.Contains(got, "repair the file or remove it") || !strings.Contains(got, "level=ERROR") {
		t.Errorf("the log:\n%s", got)
	}
}

// present reports whether there is an entry of that path, or it cannot be known.
func present(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, os.ErrNotExist)
}

// TestEventStreamsOfTokens: each action is sent to each event stream, so tokens have a limited
// number of them.
func TestEventStreamsOfTokens(t *testing.T) {
	t.Parallel()
	s := startReal(t, Config{}, `{"width":64,"height":64}`)
	path := mainPath + "/events"
	follow := func(token string) *http.Response {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = resp.Body.Close() })
		return resp
	}
	var tokens []string
	var first *http.Response
	for i := range 3 {
		_, token := s.token(t, `{"scope":"view"}`)
		tokens = append(tokens, token)
		for n := range 65 {
			resp := follow(token)
			if first == nil {
				first = resp
			}
			want := http.StatusOK
			if n == 64 || i == 2 {
				want = http.StatusServiceUnavailable
			}
			if resp.StatusCode != want || want != http.StatusOK && resp.Header.Get("Retry-After") == "" {
				t.Fatalf("stream %d of token %d: %s", n, i, resp.Status)
			}
		}
	}
	path = "/v1/events" // counts as well
	if resp := follow(tokens[0]); resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("a stream of all events: %s", resp.Status)
	}
	if resp := follow(s.Token()); resp.StatusCode != http.StatusOK {
		t.Errorf("the server's own token: %s", resp.Status)
	}
	_ = first.Body.Close()
	eventually(t, "a place is free again", func() bool { return follow(tokens[0]).StatusCode == http.StatusOK })
}
