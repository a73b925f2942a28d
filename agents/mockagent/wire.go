package mockagent

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/deskhand/deskhand/internal/jsonlines"
)

// Error codes of JSON-RPC 2.0, section 5.1, and of the Agent Client Protocol.
const (
	codeParse          = -32700
	codeInvalidRequest = -32600
	codeInvalidParams  = -32602
	codeInternal       = -32603
	codeNotFound       = -32002
)

// envelope is a message whose params are not decoded.
type envelope struct {
	ID     json.RawMessage `json:"id"`
	Method *string         `json:"method"`
	Params json.RawMessage `json:"params"`
}

type request struct {
	Version string `json:"jsonrpc"`
	ID      int64  `json:"id"`
	Method  string `json:"method"`
	Params  any    `json:"params"`
}

type notification struct {
	Version string `json:"jsonrpc"`
	Method  string `json:"method"`
	Params  any    `json:"params"`
}

type response struct {
	ID      json.RawMessage `json:"id"`
	Version string          `json:"jsonrpc"`
	Result  any             `json:"result,omitempty"`
	Error   *rpcError       `json:"error,omitempty"`
}

// rpcError is an error for the client.
type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (e *rpcError) Error() string { return e.Message }

func rpcErrorf(code int, format string, args ...any) *rpcError {
	return &rpcError{Code: code, Message: fmt.Sprintf(format, args...)}
}

var errTooLong = errors.New("line is too long")

// line is a line of the input, or an error.
type line struct {
	data []byte
	err  error
}

// read delivers the lines of in. It ends with the input or with done.
func read(in io.Reader, limit int, lines chan<- line, done <-chan struct{}) {
	for r := jsonlines.NewReader(in, limit, nil); ; {
		data, long, err := r.Next()
		if long != nil {
			err = errTooLong
		}
		select {
		case lines <- line{data, err}:
		case <-done:
			return
		}
		if err != nil && long == nil {
			return
		}
	}
}

// output writes messages, each as one line. Any goroutine may use it.
type output struct {
	end context.CancelCauseFunc // gets the first error

	mu      sync.Mutex
	w       *bufio.Writer
	json    *json.Encoder
	stopped bool // later messages are discarded
}

func newOutput(w io.Writer, end context.CancelCauseFunc) *output {
	o := &output{end: end, w: bufio.NewWriterSize(w, 32<<10)}
	o.json = json.NewEncoder(o.w)
	o.json.SetEscapeHTML(false)
	return o
}

// put writes a message to the buffer.
func (o *output) put(message any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.stopped {
		o.check(o.json.Encode(message))
	}
}

// send writes a message and flushes the buffer.
func (o *output) send(message any) {
	o.put(message)
	o.flush()
}

func (o *output) flush() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.stopped {
		o.check(o.w.Flush())
	}
}

// check handles an error of a write. The caller holds o.mu.
func (o *output) check(err error) {
	if err != nil {
		o.stopped = true
		o.end(fmt.Errorf("mock agent: write: %w", err))
	}
}

// stop flushes the buffer and discards all later messages.
func (o *output) stop() {
	o.flush()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.stopped = true
}

func (o *output) answer(id json.RawMessage, result any) {
	o.send(response{ID: id, Version: "2.0", Result: result})
}

// fail answers with an error. An unknown id is null (JSON-RPC 2.0, section 5).
func (o *output) fail(id json.RawMessage, err *rpcError) {
	if id == nil {
		id = json.RawMessage("null")
	}
	o.send(response{ID: id, Version: "2.0", Error: err})
}
