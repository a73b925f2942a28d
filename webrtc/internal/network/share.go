package network

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

// Share returns a listener for an HTTP server. It accepts the connections of ln. If the first
// bytes of a connection are a message of ICE, t gets the connection, and the server reads
// io.EOF. All other connections pass unchanged, with TLS or without. Only *net.TCPConn are
// examined.
//
// A connection is examined when the server reads from it, so the server's deadlines apply,
// and a connection that sends nothing does not block others.
func (t *TCP) Share(ln net.Listener) net.Listener { return &sharedListener{ln, t} }

type sharedListener struct {
	net.Listener
	t *TCP
}

func (l *sharedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if tcp, ok := conn.(*net.TCPConn); ok {
		return &sharedConn{TCPConn: tcp, t: l.t}, nil
	}
	return conn, err
}

// mostFirst is the largest first message of a viewer: a STUN request fits the smallest MTU
// (RFC 8489, section 6.1).
const mostFirst = 0x1ff

// sharedConn is a connection that may be a viewer's. When it is known to be the server's, reads
// are only forwarded.
type sharedConn struct {
	*net.TCPConn
	t *TCP

	forwards atomic.Bool // it is the server's, and head is empty

	reading sync.Mutex // guards known and head
	known   bool       // it is the server's
	head    []byte     // data that was read before known was set

	mu   sync.Mutex // guards gone
	gone bool       // it is a viewer's, or closed
}

func (c *sharedConn) Read(b []byte) (int, error) {
	if c.forwards.Load() {
		return c.TCPConn.Read(b)
	}
	c.reading.Lock()
	defer c.reading.Unlock()
	if c.isGone() {
		return 0, io.EOF
	}
	if !c.known && len(b) > 0 {
		if n, err := c.examine(b); n > 0 || err != nil {
			return n, err
		}
	}
	n := copy(b, c.head)
	if c.head = c.head[n:]; len(c.head) == 0 && c.known {
		c.head = nil
		c.forwards.Store(true)
	}
	return n, nil
}

// examine reads until it is known whether the connection is the server's. If the first byte
// shows that, which is the usual case, examine returns what it has read into b.
func (c *sharedConn) examine(b []byte) (int, error) {
	if len(c.head) == 0 {
		n, err := c.TCPConn.Read(b)
		if n == 0 || b[0] > mostFirst>>8 {
			c.known = n > 0
			c.forwards.Store(c.known)
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
			return 0, err // after a deadline, the server may read again
		}
	}
}

// firstMessage examines the beginning of a connection. maybe is true while it can be the
// framed Binding request of an ICE agent (RFC 6544, section 7.2). enough is true if it is
// complete, and name is the agent that it addresses.
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

// handOver takes the connection from the server. It closes the connection if there is no
// such viewer.
func (c *sharedConn) handOver(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone {
		return
	}
	c.gone = true
	if !c.t.assign(c.TCPConn, name, c.head) {
		_ = c.TCPConn.Close()
	}
	c.head = nil
}

func (c *sharedConn) isGone() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.gone
}

// Close implements net.Conn. It leaves a viewer's connection open.
func (c *sharedConn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone {
		return nil
	}
	c.gone = true
	return c.TCPConn.Close()
}

// unlessGone calls f if the connection may be the server's.
func (c *sharedConn) unlessGone(f func() error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone {
		return net.ErrClosed
	}
	return f()
}

func (c *sharedConn) SetDeadline(t time.Time) error {
	return c.unlessGone(func() error { return c.TCPConn.SetDeadline(t) })
}

func (c *sharedConn) SetReadDeadline(t time.Time) error {
	return c.unlessGone(func() error { return c.TCPConn.SetReadDeadline(t) })
}

func (c *sharedConn) SetWriteDeadline(t time.Time) error {
	return c.unlessGone(func() error { return c.TCPConn.SetWriteDeadline(t) })
}

// CloseWrite shuts down the sending side, unless the connection is a viewer's.
func (c *sharedConn) CloseWrite() error { return c.unlessGone(c.TCPConn.CloseWrite) }

func (c *sharedConn) Write(b []byte) (int, error) {
	if !c.forwards.Load() && c.isGone() {
		return 0, net.ErrClosed
	}
	return c.TCPConn.Write(b)
}

func (c *sharedConn) WriteTo(w io.Writer) (int64, error) {
	if c.forwards.Load() {
		return c.TCPConn.WriteTo(w)
	}
	return io.Copy(w, struct{ io.Reader }{c})
}

// Shares reports whether a listener of [TCP.Share] accepted the connection.
func (t *TCP) Shares(conn net.Conn) bool {
	c, ok := conn.(*sharedConn)
	return ok && c.t == t
}
