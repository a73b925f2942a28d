package webrtc

import (
	"encoding/binary"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pion/stun/v4"
)

// Share returns a listener for an HTTP server that keeps viewers' connections
// from it: what it accepts is what ln accepts, but a connection that begins as
// one of ICE ends, for the server, before its first byte. Everything else passes
// unchanged, TLS too, so that a TLS listener may be put on top. Connections that
// are not *net.TCPConn are not looked at.
//
// Connections are looked at when the server reads from them, so one that sends
// nothing holds nobody up, and the server's own deadlines bound it.
func (t *TCP) Share(ln net.Listener) net.Listener { return &sharedListener{ln, t} }

type sharedListener struct {
	net.Listener
	t *TCP
}

// Accept implements net.Listener.
func (l *sharedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if tcp, ok := conn.(*net.TCPConn); ok {
		return &sharedConn{TCPConn: tcp, t: l.t}, nil
	}
	return conn, err
}

// mostFirst is the longest first message of a viewer that is waited for: a STUN
// request must fit the smallest MTU (RFC 8489, section 6.1).
const mostFirst = 0x1ff

// sharedConn is a connection that may turn out to be a viewer's. Once it is the
// server's it only passes on.
type sharedConn struct {
	*net.TCPConn
	t *TCP

	theirs atomic.Bool // the server's, and head is empty

	reading sync.Mutex // guards known and head
	known   bool       // that it is the server's
	head    []byte     // what was read before that was known

	mu   sync.Mutex // guards gone
	gone bool       // it is a viewer's now, or closed
}

// Read implements net.Conn.
func (c *sharedConn) Read(b []byte) (int, error) {
	if c.theirs.Load() {
		return c.TCPConn.Read(b)
	}
	c.reading.Lock()
	defer c.reading.Unlock()
	if c.isGone() {
		return 0, io.EOF
	}
	if !c.known && len(b) > 0 {
		if n, err := c.look(b); n > 0 || err != nil {
			return n, err
		}
	}
	n := copy(b, c.head)
	if c.head = c.head[n:]; len(c.head) == 0 && c.known {
		c.head = nil
		c.theirs.Store(true)
	}
	return n, nil
}

// look reads until it is known whose the connection is. What it returns are
// bytes in b, if it is the server's as nearly always.
func (c *sharedConn) look(b []byte) (int, error) {
	if len(c.head) == 0 {
		n, err := c.TCPConn.Read(b)
		if n == 0 || b[0] > mostFirst>>8 {
			c.known = n > 0
			c.theirs.Store(c.known)
			return n, err
		}
		c.head = append(c.head, b[:n]...)
	}
	for {
		name, enough, maybe := firstMessage(c.head)
		switch {
		case !maybe:
			c.known = true
			return 0, nil
		case enough:
			c.handOver(name)
			return 0, io.EOF
		}
		var more [mostFirst + framing]byte
		n, err := c.TCPConn.Read(more[:])
		c.head = append(c.head, more[:n]...)
		if n == 0 && err != nil {
			return 0, err // the same bytes are looked at again, after a deadline
		}
	}
}

// firstMessage looks at the beginning of a connection. It may be a viewer's as
// long as it can be the Binding request of an ICE agent in its frame (RFC 6544,
// section 7.2); name is that of the agent whom it addresses.
func firstMessage(b []byte) (name string, enough, maybe bool) {
	if len(b) >= framing {
		n := int(binary.BigEndian.Uint16(b))
		if n < stunHeader || n > mostFirst || n%4 != 0 {
			return "", false, false
		}
	}
	const kind, length, cookie = framing, framing + 2, framing + 4
	switch {
	case len(b) > 0 && b[0] > mostFirst>>8,
		len(b) >= kind+2 && binary.BigEndian.Uint16(b[kind:]) != stunRequest,
		len(b) >= length+2 && int(binary.BigEndian.Uint16(b[length:]))+stunHeader != int(binary.BigEndian.Uint16(b)),
		len(b) >= cookie+4 && binary.BigEndian.Uint32(b[cookie:]) != stunCookie:
		return "", false, false
	case len(b) < framing || len(b) < framing+int(binary.BigEndian.Uint16(b)):
		return "", false, true
	}
	m := &stun.Message{Raw: append([]byte(nil), b[framing:framing+int(binary.BigEndian.Uint16(b))]...)}
	if m.Decode() != nil {
		return "", false, false
	}
	user, err := m.Get(stun.AttrUsername)
	if err != nil {
		return "", false, false
	}
	name, _, _ = strings.Cut(string(user), ":")
	return name, true, true
}

// handOver takes the connection from the server. Nobody may miss it: a viewer
// that has just gone, or one of another program.
func (c *sharedConn) handOver(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone {
		return
	}
	c.gone = true
	if !c.t.take(c.TCPConn, name, c.head) {
		_ = c.TCPConn.Close()
	}
	c.head = nil
}

func (c *sharedConn) isGone() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.gone
}

// Close implements net.Conn. It does nothing to a viewer's connection.
func (c *sharedConn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone {
		return nil
	}
	c.gone = true
	return c.TCPConn.Close()
}

// unlessGone does something to the connection while it is the server's.
func (c *sharedConn) unlessGone(f func() error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone {
		return net.ErrClosed
	}
	return f()
}

// SetDeadline implements net.Conn.
func (c *sharedConn) SetDeadline(t time.Time) error {
	return c.unlessGone(func() error { return c.TCPConn.SetDeadline(t) })
}

// SetReadDeadline implements net.Conn.
func (c *sharedConn) SetReadDeadline(t time.Time) error {
	return c.unlessGone(func() error { return c.TCPConn.SetReadDeadline(t) })
}

// SetWriteDeadline implements net.Conn.
func (c *sharedConn) SetWriteDeadline(t time.Time) error {
	return c.unlessGone(func() error { return c.TCPConn.SetWriteDeadline(t) })
}

// CloseWrite tells the client that nothing more comes.
func (c *sharedConn) CloseWrite() error { return c.unlessGone(c.TCPConn.CloseWrite) }

// CloseRead ends what the client may send.
func (c *sharedConn) CloseRead() error { return c.unlessGone(c.TCPConn.CloseRead) }

// Write implements net.Conn.
func (c *sharedConn) Write(b []byte) (int, error) {
	if !c.theirs.Load() && c.isGone() {
		return 0, net.ErrClosed
	}
	return c.TCPConn.Write(b)
}

// WriteTo implements io.WriterTo.
func (c *sharedConn) WriteTo(w io.Writer) (int64, error) {
	if c.theirs.Load() {
		return c.TCPConn.WriteTo(w)
	}
	return io.Copy(w, struct{ io.Reader }{c})
}

// Shares says whether a connection was accepted by a listener of Share, so that
// a viewer's would have reached t the same way.
func (t *TCP) Shares(conn net.Conn) bool {
	c, ok := conn.(*sharedConn)
	return ok && c.t == t
}
