package httpapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/fleet"
)

// TestAmbiguousFraming sends requests of which a proxy in front might see
// another end than this server does (RFC 9112, section 6.3): none may hide a
// second one.
func TestAmbiguousFraming(t *testing.T) {
	t.Parallel()
	var served atomic.Bool
	s := serve(t, Config{NoToken: true, Start: func(context.Context, string, desktop.Config) (fleet.Desktop, error) {
		served.Store(true)
		return nil, errors.New("not here")
	}})
	const hidden = "POST /v1/desktop/start HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"
	const head = "POST /v1/desktop/stop HTTP/1.1\r\nHost: localhost\r\n"
	for name, request := range map[string]string{
		"length and chunked":    head + "Content-Length: 200\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden,
		"chunked and length":    head + "Transfer-Encoding: chunked\r\nContent-Length: 200\r\n\r\n0\r\n\r\n" + hidden,
		"unknown coding":        head + "Content-Length: 200\r\nTransfer-Encoding: xchunked\r\n\r\n" + hidden,
		"spaced name":           head + "Content-Length : 200\r\n\r\n" + hidden,
		"tab before chunked":    head + "Content-Length: 200\r\nTransfer-Encoding:\tchunked\r\n\r\n0\r\n\r\n" + hidden,
		"two lengths":           head + "Content-Length: 0\r\nContent-Length: 200\r\n\r\n" + hidden,
		"two lengths, reversed": head + "Content-Length: 200\r\nContent-Length: 0\r\n\r\n" + hidden,
		"signed length":         head + "Content-Length: +0\r\n\r\n" + hidden,
		"negative length":       head + "Content-Length: -1\r\n\r\n" + hidden,
		"no number":             head + "Content-Length: 0x0\r\n\r\n" + hidden,
		"chunk extension":       head + "Transfer-Encoding: chunked\r\n\r\n0;\n\r\n\r\n" + hidden,
		"folded coding":         head + "Content-Length: 200\r\nTransfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n" + hidden,
		"chunked, of HTTP/1.0":  strings.Replace(head, "HTTP/1.1", "HTTP/1.0", 1) + "Connection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden,
		"chunked, gzip":         head + "Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n" + hidden,
	} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(3 * time.Second))
		_, _ = io.WriteString(conn, request)
		_ = conn.(*net.TCPConn).CloseWrite()
		got, _ := io.ReadAll(conn)
		conn.Close()
		if n, did := bytes.Count(got, []byte("HTTP/1.1 ")), served.Swap(false); n > 1 || did {
			t.Errorf("%s: %d answers: %.300q", name, n, got)
		}
	}
}

// TestStalledBody sends parts of bodies and of a message, and waits until the server ends the
// connection.
func TestStalledBody(t *testing.T) {
	t.Parallel()
	const slow = 8 * time.Second
	s := serve(t, Config{NoToken: true, also: func(s *Server) {
		echo(s)
		s.rest.ReadTime, s.rest.MessageTime = slow, slow
	}})
	const websocket = "GET /v1/test/echo HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
	post := func(path string, length int) string {
		return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", path, length)
	}
	var wait sync.WaitGroup
	defer wait.Wait()
	large := "{" + strings.Repeat(" ", 70<<10) // more than is read with the headers
	for name, c := range map[string]struct {
		request string
		status  string
		after   time.Duration
	}{
		"small":            {post(mainPath+"/mouse/move", 100) + "{", "408", slow},
		"large":            {post(mainPath+"/mouse/move", 200_000) + large, "408", 5 * time.Second},
		"message to agent": {post("/v1/acp/one?agent=mock", 200_000) + large, "408", slow},
		"message of MCP":   {post("/v1/mcp", 200_000) + large, "408", slow},
		"clipboard":        {post(mainPath+"/clipboard", 200_000) + large, "408", slow},
		"message":          {websocket + "\x81\xe40000{", "101", slow}, // text of 100 bytes
	} {
		wait.Go(func() {
			conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(3 * time.Minute))
			begun := time.Now()
			if _, err := io.WriteString(conn, c.request); err != nil {
				t.Error(err)
				return
			}
			got, err := io.ReadAll(conn)
			took := time.Since(begun)
			if err != nil || !bytes.HasPrefix(got, []byte("HTTP/1.1 "+c.status)) || took < c.after-time.Second || took > c.after+30*time.Second {
				t.Errorf("%s: after %v, want %v: %.300q, %v", name, took, c.after, got, err)
			}
		})
	}
}
