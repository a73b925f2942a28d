package httpapi

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
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
