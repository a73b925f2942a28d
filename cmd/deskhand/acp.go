package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"

	"github.com/coder/websocket"

	"github.com/deskhand/deskhand/internal/apiclient"
)

const acpAbout = `Speaks the Agent Client Protocol on standard input and output, for editors and programs
that start their agents, such as Zed and acpx. The agent runs on a running server: its
sessions are in the server's log, where all other clients see them. It ends with
standard input, after the answers to all requests. Its sessions stay and can be loaded.`

// maxACP is the largest message in bytes, as on the server.
const maxACP = 64 << 20

// acp connects standard input and output to an agent of a server.
func (p program) acp(ctx context.Context, access accessFlags, args []string) error {
	f := clientFlags{accessFlags: access}
	var agent, desktop string
	flags := p.flags("acp", acpAbout)
	f.register(flags)
	flags.StringVar(&agent, "agent", "claude", "`agent` to run")
	flags.StringVar(&desktop, "desktop", "", "`id` of a desktop for the agent")
	if err := parseNone(flags, args); err != nil {
		return err
	}
	server, err := f.server()
	hide(server.Token, p.argv)
	if err != nil {
		return err
	}
	at := server.URL.JoinPath("/v1/agents", url.PathEscape(agent), "acp")
	at.RawQuery, at.Fragment = "", ""
	if desktop != "" {
		at.RawQuery = url.Values{"desktop": {desktop}}.Encode()
	}
	header := http.Header{}
	if server.Token != "" {
		header.Set("Authorization", "Bearer "+server.Token)
	}
	in := bufio.NewReader(p.stdin)
	if _, err := in.Peek(1); err != nil { // the server ends connections without a first message
		return nil //nolint:nilerr // the client has nothing to say
	}
	opts := &websocket.DialOptions{HTTPHeader: header, HTTPClient: apiclient.NewHTTPClient()}
	conn, res, err := websocket.Dial(ctx, at.String(), opts) //nolint:bodyclose // the library has closed it, and kept how it begins
	if err != nil {
		return acpRefused(at.Host, res, err)
	}
	defer func() { _ = conn.CloseNow() }()
	conn.SetReadLimit(maxACP)
	b := &acpBridge{conn: conn, out: p.stdout}
	err = b.run(ctx, in)
	if ctx.Err() != nil {
		return nil // a signal ended it
	}
	return err
}

// acpRefused returns the error for a connection that failed. res may be nil.
func acpRefused(host string, res *http.Response, err error) error {
	if res == nil {
		return fmt.Errorf("connect to %s: %w; start a server with 'deskhand server', or name one by --endpoint", host, err)
	}
	var problem struct {
		Title  string `json:"title"`
		Detail string `json:"detail"`
	}
	if text, readErr := io.ReadAll(io.LimitReader(res.Body, 64<<10)); readErr == nil && json.Unmarshal(text, &problem) == nil && problem.Title != "" {
		return fmt.Errorf("%s: %s (status %d)", problem.Title, problem.Detail, res.StatusCode)
	}
	return fmt.Errorf("connect to %s: %w", host, err)
}

// acpBridge passes messages on between the client and the server.
type acpBridge struct {
	conn  *websocket.Conn
	out   io.Writer
	open  atomic.Int64 // requests of the client without an answer
	ended atomic.Bool  // the client sends nothing more
}

func (b *acpBridge) run(ctx context.Context, in *bufio.Reader) error {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	failed := make(chan error, 1)
	wg.Go(func() { failed <- b.receive(ctx) })
	sent := make(chan error, 1)
	go func() { sent <- b.send(ctx, in) }() // a read of standard input cannot be interrupted
	select {
	case err := <-failed:
		return err
	case err := <-sent:
		if err != nil {
			return err
		}
	}
	b.closeIfDone()
	return <-failed
}

// send sends each line of the client as a message, until the client ends.
func (b *acpBridge) send(ctx context.Context, in *bufio.Reader) error {
	for {
		line, err := in.ReadBytes('\n')
		if line = bytes.TrimSpace(line); len(line) > 0 {
			if method, id := acpMessage(line); method && id {
				b.open.Add(1)
			}
			if err := b.conn.Write(ctx, websocket.MessageText, line); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			b.ended.Store(true)
			return nil
		case err != nil:
			return fmt.Errorf("standard input: %w", err)
		}
	}
}

// receive writes each message of the server as a line, until the connection ends.
func (b *acpBridge) receive(ctx context.Context) error {
	for {
		_, text, err := b.conn.Read(ctx)
		switch status := websocket.CloseStatus(err); {
		case status == websocket.StatusNormalClosure, status == websocket.StatusGoingAway && b.ended.Load():
			return nil
		case err != nil && b.ended.Load() && b.open.Load() <= 0:
			return nil // this program has ended the connection
		case err != nil:
			return fmt.Errorf("the server ended the connection: %w", err)
		}
		line := append(bytes.ReplaceAll(text, []byte("\n"), []byte(" ")), '\n')
		if _, err := b.out.Write(line); err != nil {
			return fmt.Errorf("standard output: %w", err)
		}
		if method, id := acpMessage(text); !method && id {
			b.open.Add(-1)
			b.closeIfDone()
		}
	}
}

// closeIfDone ends the connection if the client has ended and has all its answers.
func (b *acpBridge) closeIfDone() {
	if b.ended.Load() && b.open.Load() <= 0 {
		_ = b.conn.CloseNow()
	}
}

// acpMessage reports whether a message has a method and an id.
func acpMessage(text []byte) (method, id bool) {
	var m struct {
		Method *json.RawMessage `json:"method"`
		ID     *json.RawMessage `json:"id"`
	}
	_ = json.Unmarshal(text, &m) // the server answers what is not a message
	return m.Method != nil, m.ID != nil
}
