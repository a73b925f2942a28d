package accessibility

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/godbus/dbus/v5"
	"golang.org/x/sys/unix"

	"github.com/deskhand/deskhand/internal/supervise"
)

// maxText is the size of the largest message with a text that a program may send, and
// maxMessage of any other. Larger messages are dropped, and their callers time out.
const (
	maxText    = 2 << 20
	maxMessage = 256 << 10
)

// mostShort is how much of a message with a text is kept, unless the caller wants all of it.
const mostShort = 8 << 10

// transport is a connection to a message bus or a program, which may be hostile. It passes on
// replies and errors of the form that this package expects, to calls or to godbus, and drops
// everything else before it is decoded.
type transport struct {
	net.Conn
	in      *bufio.Reader
	framed  atomic.Bool // authentication is over, so the peer sends messages
	greeted int         // bytes of the authentication that were read
	signals atomic.Bool // signals are wanted
	signal  func()      // called for each wanted signal
	pending []byte      // of a message that Read has not returned
	calls   calls
	queued  *budget       // answers that were read and not decoded
	limit   time.Duration // of a write

	writing sync.Mutex // held during writes
}

// The types of messages (D-Bus specification, "Message Format").
const (
	typeReply  = 2
	typeError  = 3
	typeSignal = 4
)

// Read returns bytes of the messages that pass.
func (t *transport) Read(p []byte) (int, error) {
	if len(t.pending) == 0 {
		if !t.framed.Load() {
			return t.greet(p)
		}
		if err := t.next(); err != nil {
			t.calls.end()
			return 0, err
		}
	}
	n := copy(p, t.pending)
	t.pending = t.pending[n:]
	return n, nil
}

// mostGreeting is how much a peer may send before the first message. godbus reads a line of it
// whole, however long that is.
const mostGreeting = 16 << 10

var errGreeting = fmt.Errorf("the authentication has more than %d bytes", mostGreeting)

// greet reads from the authentication.
func (t *transport) greet(p []byte) (int, error) {
	if t.greeted == mostGreeting {
		return 0, errGreeting
	}
	n, err := t.in.Read(p[:min(len(p), mostGreeting-t.greeted)])
	t.greeted += n
	return n, err
}

// begin ends the authentication (D-Bus specification, "Authentication Protocol"). The bus sends
// messages from then on.
const begin = "BEGIN\r\n"

// writeLimit is how long a bus may take to accept a message, and linkLimit a program. The kernel
// accepts many messages before the program reads one.
const (
	writeLimit = 5 * time.Second
	linkLimit  = 100 * time.Millisecond
)

// Write writes to the peer.
func (t *transport) Write(p []byte) (int, error) {
	if !t.framed.Load() && string(p) == begin {
		t.framed.Store(true)
	}
	t.writing.Lock()
	defer t.writing.Unlock()
	if err := t.SetWriteDeadline(time.Now().Add(t.limit)); err != nil {
		return 0, err
	}
	return t.Conn.Write(p)
}

// next reads the next message that passes.
func (t *transport) next() error {
	for {
		head, err := t.in.Peek(16)
		if err != nil {
			return err
		}
		order := binary.ByteOrder(binary.LittleEndian)
		if head[0] == 'B' {
			order = binary.BigEndian
		}
		fields := (int64(order.Uint32(head[12:])) + 7) &^ 7
		size := 16 + fields + int64(order.Uint32(head[4:]))
		kind := head[1]
		if kind == typeSignal && t.signals.Load() {
			t.signal()
		}
		if size > maxText || kind != typeReply && kind != typeError {
			if _, err := io.CopyN(io.Discard, t.in, size); err != nil {
				return err
			}
			continue
		}
		text, h, ok, err := t.read(size, order)
		switch {
		case err != nil:
			return err
		case !ok:
		case h.serial < firstSerial:
			t.pending = text
			return nil
		default:
			t.answer(h, len(text), order)
		}
	}
}

// read reads a reply or an error. It reports whether that passes.
func (t *transport) read(size int64, order binary.ByteOrder) (text []byte, h header, ok bool, err error) {
	text = make([]byte, min(size, mostShort))
	if _, err := io.ReadFull(t.in, text); err != nil {
		return nil, h, false, err
	}
	h, ok = parseHeader(text, order)
	ok = ok && expected(h, size)
	switch rest := size - int64(len(text)); {
	case rest == 0:
	case ok && (h.form() != "s" || h.serial < firstSerial || t.calls.long(h.serial)):
		text = append(text, make([]byte, rest)...)
		if _, err := io.ReadFull(t.in, text[size-rest:]); err != nil {
			return nil, h, false, err
		}
		h, ok = parseHeader(text, order)
	default:
		if _, err := io.CopyN(io.Discard, t.in, rest); err != nil {
			return nil, h, false, err
		}
		if ok {
			h.shorten(order)
		}
	}
	return text, h, ok, nil
}

// answer passes on a message of a size as the answer to a call. It drops the message if too many
// others have not been decoded.
func (t *transport) answer(h header, size int, order binary.ByteOrder) {
	if !t.queued.take(size, mostQueued) {
		return
	}
	if w, ok := t.calls.take(h.serial); ok {
		w.answers <- answer{index: w.index, size: size, header: h, order: order}
	} else {
		t.queued.give(size)
	}
}

// expected reports whether a reply or an error has a form that this package expects. Arrays of
// empty structs, for example, would be decoded without end.
func expected(h header, size int64) bool {
	signature := h.form()
	if h.signature == "v" && signature == "" {
		return false
	}
	switch signature {
	case "s":
		return true
	case "", "b", "i", "u", "d", "o", "au", "(so)", "(iiii)", "a(so)", "a(sss)":
		return size <= maxMessage
	}
	return false
}

// dial connects to a message bus of a user. The address lists Unix sockets as in the D-Bus
// specification, "Server Addresses". signal is called for each wanted signal.
func dial(ctx context.Context, address string, uid int, queued *budget, signal func()) (*dbus.Conn, *transport, error) {
	conn, t, err := dialPeer(ctx, address, uid, writeLimit, queued, signal)
	if err != nil {
		return nil, nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	err = conn.Hello()
	if err == nil && !stop() {
		err = ctx.Err()
	}
	if err != nil {
		_ = conn.Close()
		return nil, nil, errors.Join(err, ctx.Err())
	}
	return conn, t, nil
}

// dialPeer connects to a program of a user that speaks D-Bus, and authenticates.
func dialPeer(ctx context.Context, address string, uid int, limit time.Duration, queued *budget, signal func()) (*dbus.Conn, *transport, error) {
	path, err := socketPath(address)
	if err != nil {
		return nil, nil, err
	}
	c, err := dialUnix(ctx, path, uid)
	if err != nil {
		return nil, nil, err
	}
	t := &transport{Conn: c, in: bufio.NewReaderSize(c, 64<<10), signal: signal, limit: limit, queued: queued}
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	conn, err := dbus.NewConn(t)
	if err != nil {
		_ = c.Close()
		return nil, nil, err
	}
	err = conn.Auth([]dbus.Auth{dbus.AuthExternal(strconv.Itoa(uid))})
	if err == nil && !stop() {
		err = ctx.Err()
	}
	if err != nil {
		_ = conn.Close()
		return nil, nil, errors.Join(err, ctx.Err())
	}
	return conn, t, nil
}

// socketPath returns the path of the first Unix socket in an address. Abstract sockets begin
// with "@".
func socketPath(address string) (string, error) {
	for one := range strings.SplitSeq(address, ";") {
		params, ok := strings.CutPrefix(one, "unix:")
		if !ok {
			continue
		}
		for param := range strings.SplitSeq(params, ",") {
			name, value, _ := strings.Cut(param, "=")
			value, err := url.PathUnescape(value)
			switch {
			case err != nil:
				return "", fmt.Errorf("address of the message bus: %w", err)
			case name == "path":
				return value, nil
			case name == "abstract":
				return "@" + value, nil
			}
		}
	}
	return "", fmt.Errorf("address of the message bus: %.100q has no Unix socket", address)
}

// dialUnix connects to a socket as a user, which needs root for another user: a message bus
// admits only its own user. It returns an error if the socket is another user's, because
// programs choose the address of the accessibility bus.
func dialUnix(ctx context.Context, path string, uid int) (net.Conn, error) {
	var c net.Conn
	var err error
	if uid == os.Geteuid() {
		var d net.Dialer
		c, err = d.DialContext(ctx, "unix", path)
	} else {
		c, err = dialAs(ctx, path, uid)
	}
	if err != nil {
		return nil, err
	}
	if owner, err := peer(c); err != nil || owner != uid {
		_ = c.Close()
		return nil, cmp.Or(err, fmt.Errorf("%w: the message bus belongs to the user %d", ErrUnavailable, owner))
	}
	return c, nil
}

// peer returns the user of the program that listens on the socket of a connection.
func peer(c net.Conn) (uid int, err error) {
	raw, err := c.(syscall.Conn).SyscallConn() //nolint:forcetypeassert // it is a *net.UnixConn
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	controlled := raw.Control(func(fd uintptr) {
		cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) //nolint:gosec // descriptors are small
	})
	if err := cmp.Or(controlled, err); err != nil {
		return 0, err
	}
	return int(cred.Uid), nil
}

// dialAs connects as another user. The kernel records the effective user of the thread that
// connects (unix(7), SO_PEERCRED).
func dialAs(ctx context.Context, path string, uid int) (net.Conn, error) {
	type result struct {
		conn net.Conn
		err  error
	}
	done := make(chan result, 1)
	go func() {
		runtime.LockOSThread() // not unlocked on failure: the thread then ends with the goroutine
		if err := setEffective(uid); err != nil {
			done <- result{nil, err}
			return
		}
		var d net.Dialer
		c, err := d.DialContext(ctx, "unix", path)
		if setEffective(0) == nil {
			runtime.UnlockOSThread()
		}
		done <- result{c, err}
	}()
	r := <-done
	return r.conn, r.err
}

// setEffective sets the effective user of the calling thread alone.
func setEffective(uid int) error {
	return supervise.KeepConcealed(func() error {
		const unchanged = ^uintptr(0)
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, unchanged, uintptr(uid), unchanged); errno != 0 {
			return errno
		}
		return nil
	})
}
