package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/coder/websocket"
)

// flood is the size of the file that is shown in a terminal.
const flood = 50_000_000

// openTTY runs a shell script on a pseudo-terminal in raw mode and returns the
// WebSocket to it. The script must not print until it gets input.
func (b *bed) openTTY(ctx context.Context, script string) (*websocket.Conn, error) {
	id, err := b.begin(ctx, map[string]any{
		"command": "sh", "args": []string{"-c", "stty raw -echo; printf ready; " + script}, "tty": true, "interactive": true,
	})
	if err != nil {
		return nil, err
	}
	path := "/v1/processes/" + url.PathEscape(id)
	for b.body.Reset(); !bytes.Contains(b.body.Bytes(), []byte(`"entries":[{`)); {
		if _, err := b.call(ctx, http.MethodGet, path+"/logs?stream=pty", nil); err != nil {
			return nil, err
		}
	}
	address := "ws" + strings.TrimPrefix(b.server.URL, "http") + path + "/terminal/ws"
	conn, _, err := websocket.Dial(ctx, address, &websocket.DialOptions{ //nolint:bodyclose // its documentation says that it need not be closed
		HTTPHeader: http.Header{"Authorization": {"Bearer " + b.server.Token}},
	})
	if err != nil {
		return nil, fmt.Errorf("%s: terminal: %w", b.name, err)
	}
	conn.SetReadLimit(-1)
	// The frames after the first one are new output.
	var first struct{ Type string }
	_, data, err := conn.Read(ctx)
	if err == nil {
		err = json.Unmarshal(data, &first)
	}
	if err == nil && first.Type != "ready" {
		err = fmt.Errorf("the first frame is %q", data)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: terminal: %w", b.name, err), conn.CloseNow())
	}
	return conn, nil
}

// key is the frame that types one character.
var key = []byte(`{"type":"input","data":"x"}`)

// openEcho opens a terminal whose program repeats what it reads.
func openEcho(ctx context.Context, b *bed) (err error) {
	b.tty, err = b.openTTY(ctx, "exec cat")
	return err
}

func echo(ctx context.Context, b *bed) (time.Duration, error) {
	begin := time.Now()
	if err := b.tty.Write(ctx, websocket.MessageText, key); err != nil {
		return 0, err
	}
	kind, data, err := b.tty.Read(ctx)
	took := time.Since(begin)
	if err == nil && (kind != websocket.MessageBinary || string(data) != "x") {
		err = fmt.Errorf("%s: terminal: a key came back as %q", b.name, data)
	}
	return took, err
}

func closeEcho(ctx context.Context, b *bed) error {
	return errors.Join(b.tty.CloseNow(), endProcesses(ctx, b))
}

// showFlood shows a file in a terminal and reads it there as fast as it comes,
// until the end or until nothing has come for a while.
func showFlood(ctx context.Context, b *bed) (took time.Duration, err error) {
	defer func() { err = errors.Join(err, endProcesses(ctx, b)) }()
	conn, err := b.openTTY(ctx, "head -c 1 >/dev/null; exec cat '"+inMemory(b)+"'")
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.CloseNow() }()
	reading, cancel := context.WithCancel(ctx)
	defer cancel()
	silence := time.AfterFunc(quiet, cancel)
	defer silence.Stop()

	begin := time.Now()
	if err := conn.Write(ctx, websocket.MessageText, key); err != nil {
		return 0, err
	}
	got := 0
	for buf := make([]byte, 64<<10); got < flood; {
		kind, message, err := conn.Reader(reading)
		if err != nil || kind != websocket.MessageBinary {
			return 0, incomplete(1) // the end, or a frame that reports missing bytes
		}
		n, err := matching(message, noise()[got:flood], buf)
		if err != nil {
			return 0, err
		}
		got += n
		silence.Reset(quiet)
	}
	return time.Since(begin), nil
}

// matching reads all of r, which must be a prefix of want, and returns its length.
func matching(r io.Reader, want, buf []byte) (length int, err error) {
	for {
		n, err := r.Read(buf)
		if !bytes.HasPrefix(want[min(length, len(want)):], buf[:n]) {
			return length, incomplete(1)
		}
		length += n
		if errors.Is(err, io.EOF) {
			return length, nil
		}
		if err != nil {
			return length, err
		}
	}
}
