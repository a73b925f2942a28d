package computer

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/deskhand/deskhand/internal/jsonlimit"
	"github.com/deskhand/deskhand/internal/jsonlines"
)

// stdio is the SDK's transport of one message per line, with two differences: a line
// that is not a message is answered with an error and does not end the connection, and
// the end of the input waits for the answers to earlier requests.
type stdio struct {
	in  io.ReadCloser
	out io.WriteCloser
}

// lastAnswers is how long the end of the input waits for answers. Clients kill a server
// about five seconds after that end.
const lastAnswers = 4 * time.Second

func (s stdio) Connect(ctx context.Context) (mcp.Connection, error) {
	out := &lockedWriter{WriteCloser: s.out}
	lines := &messageReader{in: s.in, lines: jsonlines.NewReader(s.in, mcp.DefaultMaxLineLength, nil), out: out}
	// messageReader has its own limit, which does not end the connection.
	inner, err := (&mcp.IOTransport{Reader: lines, Writer: out, MaxLineLength: -1}).Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &stdioConn{Connection: inner, asked: map[jsonrpc.ID]struct{}{}, closed: make(chan struct{})}, nil
}

// stdioConn tracks the requests that are not answered yet.
type stdioConn struct {
	mcp.Connection
	closed chan struct{}
	once   sync.Once

	mu    sync.Mutex // guards the fields below
	asked map[jsonrpc.ID]struct{}
	idle  chan struct{} // closed when the last answer is written; nil before the input's end
}

func (c *stdioConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	m, err := c.Connection.Read(ctx)
	if errors.Is(err, io.EOF) {
		// After this error the SDK writes no answers.
		c.wait(ctx)
	}
	if r, ok := m.(*jsonrpc.Request); ok && err == nil && r.IsCall() {
		c.mu.Lock()
		c.asked[r.ID] = struct{}{}
		c.mu.Unlock()
	}
	return m, err
}

func (c *stdioConn) wait(ctx context.Context) {
	c.mu.Lock()
	if len(c.asked) == 0 {
		c.mu.Unlock()
		return
	}
	c.idle = make(chan struct{})
	idle := c.idle
	c.mu.Unlock()
	select {
	case <-idle:
	case <-c.closed:
	case <-ctx.Done():
	case <-time.After(lastAnswers):
	}
}

func (c *stdioConn) Write(ctx context.Context, m jsonrpc.Message) error {
	err := c.Connection.Write(ctx, m)
	if r, ok := m.(*jsonrpc.Response); ok {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.asked, r.ID)
		if len(c.asked) == 0 && c.idle != nil {
			close(c.idle)
			c.idle = nil
		}
	}
	return err
}

func (c *stdioConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Connection.Close()
}

// lockedWriter is a writer for several goroutines.
type lockedWriter struct {
	io.WriteCloser
	mu sync.Mutex
}

func (w *lockedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.WriteCloser.Write(p)
}

// messageReader passes on lines that are messages and answers other lines with an error.
type messageReader struct {
	in    io.ReadCloser
	lines *jsonlines.Reader
	out   io.Writer
	rest  []byte // of the current line
}

func (r *messageReader) Close() error { return r.in.Close() }

func (r *messageReader) Read(p []byte) (int, error) {
	for len(r.rest) == 0 {
		line, long, err := r.lines.Next()
		if err != nil {
			return 0, err
		}
		fault := faultOf(line, long)
		if fault == nil {
			r.rest = append(line, '\n')
		} else if err := r.refuse(line, fault); err != nil {
			return 0, err
		}
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// faultOf returns the answer to a line that is not a message, or nil for a message or a
// batch of them.
func faultOf(line []byte, long *jsonlines.TooLong) *jsonrpc.Error {
	invalid := func(message string) *jsonrpc.Error {
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: message}
	}
	switch {
	case long != nil:
		return invalid("the line is too long")
	case !json.Valid(line):
		return &jsonrpc.Error{Code: jsonrpc.CodeParseError, Message: "the line is not JSON"}
	}
	if err := jsonlimit.Check(line); err != nil {
		return invalid("the line " + err.Error())
	}
	parts := []json.RawMessage{line}
	if line[0] == '[' {
		if err := json.Unmarshal(line, &parts); err != nil || len(parts) == 0 {
			return invalid("the batch is empty")
		}
	}
	seen := map[jsonrpc.ID]bool{}
	for _, part := range parts {
		m, err := jsonrpc.DecodeMessage(part)
		if err != nil {
			return invalid("the line is not a JSON-RPC message: " + err.Error())
		}
		if q, ok := m.(*jsonrpc.Request); ok && q.IsCall() {
			if seen[q.ID] {
				return invalid("the batch has an id twice")
			}
			seen[q.ID] = true
		}
	}
	return nil
}

// refuse answers a line that is not a message, with its id if it has one.
func (r *messageReader) refuse(line []byte, fault *jsonrpc.Error) error {
	var request struct {
		ID any `json:"id"`
	}
	if json.Unmarshal(line, &request) != nil {
		request.ID = nil
	}
	if id, err := jsonrpc.MakeID(request.ID); err != nil || !id.IsValid() {
		request.ID = nil
	}
	// The SDK's own encoding leaves out an id that is null.
	answer, err := json.Marshal(struct {
		Version string         `json:"jsonrpc"`
		ID      any            `json:"id"`
		Error   *jsonrpc.Error `json:"error"`
	}{"2.0", request.ID, fault})
	if err != nil {
		return err
	}
	_, err = r.out.Write(append(answer, '\n'))
	return err
}
