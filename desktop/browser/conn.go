package browser

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"strconv"
	"sync"
	"time"
)

const (
	// maxMessage bounds an answer of the browser, and maxEvent an event. Pages choose the size of
	// events, such as messages on the console. This package decodes smaller answers: see answerSize.
	maxMessage = 64 << 20
	maxEvent   = 16 << 20

	// writeLimit is how long the browser may take to accept a message.
	writeLimit = 30 * time.Second

	// readSize is how much is read from the pipe at least.
	readSize = 64 << 10
)

var (
	errTooLarge = &Fault{Code: -32000, Message: "the browser's answer is larger than 64 MiB"}

	// errNoSession is how the browser answers commands to a session that has ended.
	errNoSession = &Fault{Code: -32001, Message: "Session with given id not found."}
)

// conn is the connection to a browser by --remote-debugging-pipe: messages end with a NUL
// byte.
type conn struct {
	in, out *os.File        // ends of pipes
	route   func(m message) // see newConn

	writes chan []byte // to the goroutine that writes

	mu      sync.Mutex // guards the fields below
	last    int64
	pending map[int64]*pendingCall
	err     error // why the connection ended

	ended chan struct{} // closed by end
	done  chan struct{} // closed when no message is read any more
}

// pendingCall is a command that the browser has not answered. answered is called by the
// goroutine that reads, so one answer is decoded at a time. It must not block. The members of the
// message are valid during the call.
type pendingCall struct {
	from     *client // nil: this package
	session  string
	answered func(m message)
}

// newConn returns a connection. route is called with each event, and with each answer that no call
// waits for, as answered is.
func newConn(in, out *os.File, route func(m message)) *conn {
	return &conn{
		in: in, out: out, route: route, writes: make(chan []byte),
		pending: map[int64]*pendingCall{}, ended: make(chan struct{}), done: make(chan struct{}),
	}
}

// send sends a command of a client, or of this package if from is nil, and returns its id. answered
// gets the answer, unless the connection or the session ends first; it is nil if the answer does not
// matter. send blocks while the browser does not read, until ctx ends.
func (c *conn) send(ctx context.Context, from *client, session, method, params []byte, answered func(m message)) (id int64, err error) {
	c.mu.Lock()
	if c.err != nil {
		defer c.mu.Unlock()
		return 0, c.err
	}
	c.last++
	id = c.last
	if answered != nil {
		c.pending[id] = &pendingCall{from, plain(session), answered}
	}
	c.mu.Unlock()
	text := message{id: strconv.AppendInt(nil, id, 10), method: method, params: params, session: session}.encode()
	select {
	case c.writes <- append(text, 0):
		return id, nil
	case <-ctx.Done():
		c.forget(id)
		return 0, ctx.Err()
	case <-c.ended:
		c.mu.Lock()
		defer c.mu.Unlock()
		return 0, c.err
	}
}

// write writes messages until the connection ends.
func (c *conn) write() {
	for {
		select {
		case text := <-c.writes:
			_ = c.in.SetWriteDeadline(time.Now().Add(writeLimit))
			if _, err := c.in.Write(text); err != nil {
				c.end(fmt.Errorf("send to the browser: %w", err)) // a part of the message may have been sent
				return
			}
		case <-c.ended:
			return
		}
	}
}

func (c *conn) forget(id int64) *pendingCall {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.pending[id]
	delete(c.pending, id)
	return p
}

// forgetCalls forgets the commands for which f returns true.
func (c *conn) forgetCalls(f func(*pendingCall) bool) (forgotten []*pendingCall) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.pending, func(_ int64, p *pendingCall) bool {
		ends := f(p)
		if ends {
			forgotten = append(forgotten, p)
		}
		return ends
	})
	return forgotten
}

// sessionEnded answers the commands of a session that has ended, which the browser does not answer.
// The caller does not have tabs.mu.
func (c *conn) sessionEnded(session string) {
	for _, p := range c.forgetCalls(func(p *pendingCall) bool { return p.session == session }) {
		p.answered(message{fault: encode(errNoSession)})
	}
}

// call sends a command and decodes its result into result, unless that is nil. The error is
// a *Fault if the browser refuses the command.
func (c *conn) call(ctx context.Context, session, method string, params, result any) error {
	return c.callUntil(ctx, nil, session, method, params, result, answerSize(method))
}

// errStopped is returned by callUntil.
var errStopped = errors.New("stopped")

// callUntil is like call, but returns errStopped once stop is closed, and ErrTooLarge if the result has
// more than most bytes.
func (c *conn) callUntil(ctx context.Context, stop <-chan struct{}, session, method string, params, result any, most int) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	var raw []byte
	if params != nil {
		raw = encode(params)
	}
	var decoding sync.Mutex // result is the caller's once left is true
	left := false
	defer func() {
		decoding.Lock()
		defer decoding.Unlock()
		left = true
	}()
	answers := make(chan error, 1)
	id, err := c.send(ctx, nil, quote(session), quote(method), raw, func(m message) {
		decoding.Lock()
		defer decoding.Unlock()
		if !left {
			answers <- m.decode(result, most)
		}
	})
	if err != nil {
		return fmt.Errorf("%s: %w", method, c.why(err))
	}
	select {
	case err := <-answers:
		if err != nil {
			return fmt.Errorf("%s: %w", method, err)
		}
		return nil
	case <-stop:
		c.forget(id)
		return errStopped
	case <-ctx.Done():
		c.forget(id)
		return fmt.Errorf("%s: %w", method, ctx.Err())
	case <-c.done:
		return fmt.Errorf("%s: %w", method, c.why(ErrEnded))
	}
}

// why returns ErrEnded once the connection has ended, and otherwise err.
func (c *conn) why(err error) error {
	select {
	case <-c.done:
		return ErrEnded
	default:
		return err
	}
}

// read reads messages until the connection ends.
func (c *conn) read() {
	defer close(c.done)
	var s splitter
	for {
		space := s.space()
		n, err := c.out.Read(space)
		s.filled(n, c.received)
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = ErrEnded
			}
			c.end(err)
			return
		}
	}
}

// end closes the connection.
func (c *conn) end(err error) {
	c.mu.Lock()
	first := c.err == nil
	if first {
		c.err = err
		c.pending = map[int64]*pendingCall{}
	}
	c.mu.Unlock()
	if first {
		close(c.ended)
		_ = c.in.Close()
		_ = c.out.Close()
	}
}

// received handles a message. whole is false for the beginning of one that was too large.
func (c *conn) received(text []byte, whole bool) {
	m, err := parseMessage(text)
	if !whole {
		if m = (message{}); !bytes.HasPrefix(text, answerPrefix) {
			return // an event
		}
		m.id = text[len(answerPrefix):min(skipValue(text, len(answerPrefix)), len(text))]
		m.fault = encode(errTooLarge)
	} else if err != nil {
		return
	}
	if m.id == nil {
		if m.method != nil {
			c.route(m)
		}
		return
	}
	if id, ok := number(m.id); ok {
		if p := c.forget(id); p != nil {
			p.answered(m)
		} else {
			c.route(m)
		}
	}
}

// answerPrefix is how the browser begins answers, unlike events.
var answerPrefix = []byte(`{"id":`)

// splitter splits what is read at NUL bytes.
type splitter struct {
	buf  []byte // messages that are not complete
	n    int    // bytes of buf that were read
	from int    // bytes of buf that were searched
	skip bool   // until the next NUL byte: the message is too large
}

func (s *splitter) space() []byte {
	if len(s.buf)-s.n < readSize {
		size := max(4*readSize, 2*len(s.buf))
		if s.n < len(s.buf)/8 && len(s.buf) > 16*readSize {
			size = 4 * readSize // after a large message
		}
		buf := make([]byte, max(size, s.n+readSize))
		copy(buf, s.buf[:s.n])
		s.buf = buf
	}
	return s.buf[s.n:]
}

// filled calls f with each message that is complete now that n more bytes were read.
func (s *splitter) filled(n int, f func(text []byte, whole bool)) {
	s.n += n
	begin := 0
	for {
		i := bytes.IndexByte(s.buf[s.from:s.n], 0)
		if i < 0 {
			break
		}
		i += s.from
		if !s.skip {
			f(s.buf[begin:i], true)
		}
		s.skip = false
		begin, s.from = i+1, i+1
	}
	most := maxEvent
	if bytes.HasPrefix(s.buf[begin:s.n], answerPrefix) {
		most = maxMessage
	}
	if s.n-begin > most && !s.skip {
		f(s.buf[begin:begin+readSize], false)
		s.skip = true
	}
	if s.skip {
		begin = s.n
	}
	copy(s.buf, s.buf[begin:s.n])
	s.n -= begin
	s.from = s.n
	if len(s.buf) > 64*readSize && s.n < readSize {
		small := make([]byte, 4*readSize) // after a large message
		copy(small, s.buf[:s.n])
		s.buf = small
	}
}
