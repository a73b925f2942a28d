package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/deskhand/deskhand/httpapi/internal/grants"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
	"github.com/deskhand/deskhand/internal/jsonlimit"
)

// TestBodyMemory stalls requests before the last byte of their bodies. Further large
// bodies get 503 while the limit is reached; small bodies and files do not.
func TestBodyMemory(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	s.rest.Bodies.SetBounds(3<<20, 2<<20)
	_, control := s.token(t, `{"scope":"control"}`)
	// A body for the clipboard may take 60 s, others 5 s.
	const path, png = "/v1/desktop/clipboard", "image/png"
	large := func(token string) answer {
		return s.do(t, call{
			path: path, kind: png, body: pngMagic + strings.Repeat("x", 1<<20-20),
			header: map[string]string{"Authorization": "Bearer " + token},
		})
	}
	full := func(token string) {
		t.Helper()
		if got := large(token); got.Header.Get("Retry-After") != "1" {
			t.Errorf("Retry-After = %q", got.Header.Get("Retry-After"))
		} else {
			got.problem(t, 503, "stream_error")
		}
	}
	used := func(want int64) {
		t.Helper()
		eventually(t, fmt.Sprintf("%d bytes of bodies", want), func() bool {
			return s.rest.Bodies.Size() == want
		})
	}
	stall := func(token, framing, body string) *rawConn {
		c := dialServer(t, s)
		c.send("POST %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Type: image/png\r\n%s\r\n\r\n%s", path, token, framing, body)
		return c
	}
	const mib = 1 << 20
	whole := stall(control, fmt.Sprintf("Content-Length: %d", mib), strings.Repeat("x", mib-1))
	used(mib)
	large(control).want(t, 409)
	chunked := stall(control, "Transfer-Encoding: chunked", fmt.Sprintf("%x\r\n%s", 2*mib, strings.Repeat("x", mib)))
	used(2 * mib)
	full(control)
	large(s.Token()).want(t, 409)
	admin := stall(s.Token(), fmt.Sprintf("Content-Length: %d", mib), strings.Repeat("x", mib-1))
	used(3 * mib)
	full(s.Token())
	s.do(t, call{path: path, body: `{"text":"x"}`, header: map[string]string{"Authorization": "Bearer " + control}}).want(t, 409)
	s.do(t, call{method: "PUT", path: fsPath("file", "path", t.TempDir()+"/file"), body: strings.Repeat("x", 4*mib), kind: "-"}).want(t, 200)
	for _, c := range []*rawConn{whole, chunked, admin} {
		c.Close()
	}
	used(0)
	large(control).want(t, 409)
}

// TestManyValues sends bodies that would take thirty times their size when they are decoded.
func TestManyValues(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	_, control := s.token(t, `{"scope":"control"}`)
	body := `{"keys":[` + strings.Repeat("{},", jsonlimit.MaxBodyValues) + `{}]}`
	p := s.do(t, call{path: mainPath + "/keyboard/press", body: body, header: map[string]string{"Authorization": "Bearer " + control}}).problem(t, 400, "invalid_request")
	if !strings.Contains(fmt.Sprint(p["detail"]), "at most 10000 elements and members") {
		t.Errorf("the problem is %v", p)
	}
}

// TestGuestPlaces: requests with tokens of a scope other than admin wait while too many of
// them are handled. Those of the server's token do not.
func TestGuestPlaces(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	_, control := s.token(t, `{"scope":"control"}`)
	for range rest.GuestPlaces {
		s.rest.Guests <- struct{}{}
	}
	s.get(t, mainPath+"/status").want(t, 200)
	c := dialServer(t, s)
	c.send("GET %s/status HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n", mainPath, control)
	gone := dialServer(t, s)
	gone.send("GET %s/status HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n", mainPath, control)
	gone.Close()
	select {
	case s.rest.Guests <- struct{}{}:
		t.Error("there is room")
	case <-time.After(rest.WatchAfter):
	}
	<-s.rest.Guests
	if a := c.answer(); a.StatusCode != 200 {
		t.Errorf("the answer that waited is %d %s", a.StatusCode, a.body)
	}
	eventually(t, "the place is given back", func() bool { return len(s.rest.Guests) == rest.GuestPlaces-1 })
}

// TestPlacesOfOneToken: long calls with one token leave places for others.
func TestPlacesOfOneToken(t *testing.T) {
	t.Parallel()
	s := startReal(t, Config{}, `{"width":64,"height":64}`)
	_, busy := s.token(t, `{"scope":"view"}`)
	_, other := s.token(t, `{"scope":"view"}`)
	const calls = 2 * rest.GuestPlaces
	for range calls {
		c := dialServer(t, s)
		c.send("GET %s/screenshot?settleMs=20000&timeoutMs=60000 HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n", mainPath, busy)
	}
	eventually(t, "the token has its places", func() bool { return len(s.rest.Guests) > 0 && len(s.rest.Guests) == len(s.tokens.Find(busy).Places()) })
	begun := time.Now()
	s.do(t, call{path: mainPath + "/status", header: map[string]string{"Authorization": "Bearer " + other}}).want(t, 200)
	if d := time.Since(begun); d > 5*time.Second {
		t.Errorf("a call with another token took %v", d)
	}
}

// TestOverAfterHandler: a handler that does not end with its token answers nothing after it.
func TestOverAfterHandler(t *testing.T) {
	t.Parallel()
	entered, leave := make(chan struct{}), make(chan struct{})
	s := serve(t, Config{also: func(s *Server) {
		rest.Add(s.routes, rest.Route{ID: "deaf", Method: http.MethodGet, Path: "/v1/test/deaf", Scope: grants.ScopeView}, func(context.Context, *struct{}) (*rest.OKOutput, error) {
			close(entered)
			<-leave
			return &rest.OKOutput{}, nil
		})
	}})
	made, view := s.token(t, `{"scope":"view"}`)
	got := make(chan answer)
	go func() {
		got <- s.do(t, call{path: "/v1/test/deaf", header: map[string]string{"Authorization": "Bearer " + view}})
	}()
	<-entered
	s.do(t, call{method: http.MethodDelete, path: "/v1/tokens/" + made}).want(t, 204)
	close(leave)
	a := <-got
	a.problem(t, 401, "token_invalid")
}

// TestOwnToken: a token that revokes itself is told so.
func TestOwnToken(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	made, admin := s.token(t, `{"scope":"admin"}`)
	s.do(t, call{method: http.MethodDelete, path: "/v1/tokens/" + made, header: map[string]string{"Authorization": "Bearer " + admin}}).want(t, 204)
}

// TestAnswerNotSent: a call that was carried out is not answered with an invitation to repeat it if there
// is no memory for its answer.
func TestAnswerNotSent(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	s.rest.Answers.SetBounds(1<<10, 1<<10)
	file := filepath.Join(t.TempDir(), "runs")
	got := s.post(t, "/v1/processes/run", shell("echo run >>"+file+"; head -c 100000 /dev/zero | tr '\\\\0' x", ""))
	p := got.problem(t, 500, "answer_not_sent")
	if detail, _ := p["detail"].(string); !strings.Contains(detail, "the call was carried out") || got.Header.Get("Retry-After") != "" {
		t.Errorf("problem = %v, Retry-After = %q", p, got.Header.Get("Retry-After"))
	}
	if runs, err := os.ReadFile(file); string(runs) != "run\n" {
		t.Errorf("runs = %q, %v", runs, err)
	}
	long := `{"command":"true","args":[` + strings.Repeat("1,", 2000) + `1]}`
	p = s.post(t, "/v1/processes/run", long).problem(t, 500, "answer_not_sent")
	if detail, _ := p["detail"].(string); !strings.Contains(detail, "the call has failed") {
		t.Errorf("problem of a refused call = %v", p)
	}
}
