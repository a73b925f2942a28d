package httpapi

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/deskhand/deskhand/internal/testx11"
)

// TestStreamsEndWithToken: every kind of stream ends within a second of its token's revocation or
// expiry.
func TestStreamsEndWithToken(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "Xvfb", "openbox", "dbus-daemon")
	s := serveACP(t, Config{})
	s.post(t, "/v1/desktop/start", `{"width":320,"height":240}`).want(t, 200)
	terminal := "/v1/processes/" + s.tty(t, "sleep 100000", "")
	s.send(t, "/v1/acp/one?agent=mock", acpEcho).want(t, 200)
	s.post(t, "/v1/sessions/two", `{"agent":"mock"}`).want(t, 200)
	for name, revoked := range map[string]bool{"revoked": true, "expired": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ttl := time.Hour
			if !revoked {
				ttl = 4 * time.Second
			}
			begun := time.Now()
			id, value := s.token(t, `{"scope":"admin","ttl":`+fmt.Sprint(ttl.Seconds())+`}`)
			ended := make(chan string)
			open := 0
			for _, path := range []string{
				"/v1/events", "/v1/desktop/events", terminal + "/logs?follow=true", "/v1/fs/watch?path=" + t.TempDir(), "/v1/acp/one", "/v1/sessions/two/events/sse",
			} {
				events := s.follow(t.Context(), t, path, bearer(value))
				open++
				go func() {
					for range events {
					}
					ended <- path
				}()
			}
			for _, path := range []string{
				terminal + "/terminal/ws", "/v1/desktop/stream/video", "/v1/desktop/stream/signaling", "/v1/agents/mock/acp",
			} {
				conn := s.dial(t, path, http.Header{"Authorization": {"Bearer " + value}})
				open++
				go func() {
					for {
						if _, _, err := conn.ReadMessage(); err != nil {
							break
						}
					}
					ended <- path
				}()
			}
			if revoked {
				begun, ttl = time.Now(), 0
				s.do(t, call{method: http.MethodDelete, path: "/v1/tokens/" + id}).want(t, 204)
			}
			for ; open > 0; open-- {
				path := <-ended
				if took := time.Since(begun) - ttl; took > time.Second {
					t.Errorf("%s ended %v after its token", path, took)
				} else if took < 0 {
					t.Errorf("%s ended %v before its token; the process: %s", path, -took, s.get(t, terminal).body)
				}
			}
		})
	}
}

// TestLargeAnswerEndsWithToken: a large answer that its client reads slowly ends with its token.
func TestLargeAnswerEndsWithToken(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{})
	process := s.create(t, shell("head -c 10000000 /dev/zero", ""))["id"].(string)
	eventually(t, "the end of the process", func() bool {
		return s.get(t, "/v1/processes/"+process).want(t, 200).json(t)["status"] == "exited"
	})
	id, value := s.token(t, `{"scope":"admin"}`)
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.(*net.TCPConn).SetReadBuffer(4096); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(conn, "GET /v1/processes/%s/logs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n", process, value); err != nil {
		t.Fatal(err)
	}
	a, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || a.StatusCode != 200 {
		t.Fatal(a, err)
	}
	defer a.Body.Close()
	s.do(t, call{method: http.MethodDelete, path: "/v1/tokens/" + id}).want(t, 204)
	n, err := io.Copy(io.Discard, a.Body)
	if err == nil || n >= a.ContentLength {
		t.Errorf("%d of %d bytes after the token's end, %v", n, a.ContentLength, err)
	}
}
