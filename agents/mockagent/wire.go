package mockagent

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// Error codes of JSON-RPC 2.0, section 5.1, and of the Agent Client Protocol.
const (
	codeParse          = -32700
	codeInvalidRequest = -32600
	codeInvalidParams  = -32602
	codeInternal       = -32603
	codeNotFound       = -32002
)

// envelope is what every message is looked at for.
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

// rpcError is a failure that the client is told.
type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (e *rpcError) Error() string { return e.Message }

func rpcErrorf(code int, format string, args ...any) *rpcError {
	return &rpcError{Code: code, Message: fmt.Sprintf(format, args...)}
}

var errTooLong = errors.New("line is too long")

// line is one line of the input, or why there is none.
type line struct {
	data []byte
	err  error
}

// read delivers lines until the input ends, which it tells with the last one,
// or done is closed.
func read(in io.Reader, limit int, lines chan<- line, done <-chan struct{}) {
	r := bufio.NewReaderSize(in, 64<<10)
	for {
		data, err := readLine(r, limit)
		if len(bytes.TrimSpace(data)) == 0 && err == nil {
			continue
		}
		last := err
		if errors.Is(err, io.EOF) && len(data) > 0 {
			err = nil // the last line has no line feed; the next read tells of the end
		}
		select {
		case lines <- line{data, err}:
		case <-done:
			return
		}
		if err != nil && !errors.Is(last, errTooLong) {
			return
		}
	}
}

// readLine reads up to a line feed. What is beyond the limit is read and
// forgotten.
func readLine(r *bufio.Reader, limit int) ([]byte, error) {
	var all []byte
	long := false
	for {
		part, err := r.ReadSlice('\n')
		if long = long || len(all)+len(part) > limit; long {
			all = nil
		} else {
			all = append(all, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case long && err == nil:
			return nil, errTooLong
		default:
			return all, err
		}
	}
}

// output writes messages, each as one line. It is for any goroutine.
type output struct {
	end context.CancelCauseFunc // told of the first failure

	mu   sync.Mutex
	w    *bufio.Writer
	json *json.Encoder
	dead bool // nothing is written any more
}

func newOutput(w io.Writer, end context.CancelCauseFunc) *output {
	o := &output{end: end, w: bufio.NewWriterSize(w, 32<<10)}
	o.json = json.NewEncoder(o.w)
	o.json.SetEscapeHTML(false)
	return o
}

// put writes a message that may wait for the next one that does not.
func (o *output) put(message any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.dead {
		o.check(o.json.Encode(message))
	}
}

// send writes a message, and what waited, at once.
func (o *output) send(message any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.dead && o.check(o.json.Encode(message)) {
		o.check(o.w.Flush())
	}
}

func (o *output) flush() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.dead {
		o.check(o.w.Flush())
	}
}

// check is called with mu held.
func (o *output) check(err error) bool {
	if err != nil {
		o.dead = true
		o.end(fmt.Errorf("mock agent: write: %w", err))
	}
	return err == nil
}

// stop writes what waits, and nothing after it.
func (o *output) stop() {
	o.flush()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.dead = true
}

func (o *output) answer(id json.RawMessage, result any) {
	o.send(response{ID: id, Version: "2.0", Result: result})
}

// fail answers with an error; an id that is not known is null (JSON-RPC 2.0,
// section 5).
func (o *output) fail(id json.RawMessage, err *rpcError) {
	if id == nil {
		id = json.RawMessage("null")
	}
	o.send(response{ID: id, Version: "2.0", Error: err})
}
