package x11

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"

	"github.com/jezek/xgb/xproto"
	"golang.org/x/sys/unix"

	"github.com/deskhand/deskhand/internal/x11/request"
)

// wire is the socket below xgb. It connects with a given cookie instead of that in
// $XAUTHORITY, sends several requests in one write, refuses replies that are too long, and
// drops forged events.
type wire struct {
	net.Conn
	cookie []byte // nil: connect without one

	// The state of Read.
	answered bool                             // the answer to the connection setup was read
	head     []byte                           // of a message, to be returned
	rest     int64                            // bytes of the message after head
	most     atomic.Int64                     // bytes of the longest reply of expect
	own      atomic.Pointer[xproto.SetupInfo] // has the range of this client's resources

	mu      sync.Mutex
	greeted bool // the connection setup was sent
	corked  int
	held    []byte
	late    []byte // the request of delay
}

// peer returns the process, user and group of the X server.
func (w *wire) peer() (*unix.Ucred, bool) {
	sock, ok := w.Conn.(*net.UnixConn)
	if !ok {
		return nil, false
	}
	raw, err := sock.SyscallConn()
	if err != nil {
		return nil, false
	}
	var cred *unix.Ucred
	control := raw.Control(func(fd uintptr) {
		cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) //nolint:gosec // descriptors are small
	})
	return cred, control == nil && err == nil
}

// maxHeld bounds the requests that a cork holds back, in bytes.
const maxHeld = 64 << 10

// getInputFocus is the request by which xgb waits for the server, also after some 1000
// requests without a reply. A cork must not hold it back: all requests would wait for it.
const getInputFocus = 43

// Write sends b, or keeps it while corked. It replaces the first write, xgb's connection
// setup (X11 protocol, section 8).
func (w *wire) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.greeted {
		w.greeted = true
		_, err := w.Conn.Write(setupRequest(w.cookie))
		return len(b), err
	}
	if len(w.held)+len(b) > maxHeld {
		if err := w.flushLocked(); err != nil {
			return 0, err
		}
		return w.Conn.Write(b)
	}
	w.held = append(w.held, b...)
	if w.corked > 0 && b[0] != getInputFocus || bytes.Equal(b, w.late) {
		return len(b), nil
	}
	if err := w.flushLocked(); err != nil {
		return 0, err
	}
	return len(b), nil
}

// maxReply is the largest length of a reply after its head, unless expect announced more.
// Other clients choose the size of some replies: the pointer's picture may have gigabytes.
const maxReply = 4 << 20

const (
	setupHead   = 8  // bytes of the head of the answer to the setup, which has the length of the rest
	messageHead = 32 // the same of replies; errors and events have only this
	kindError   = 0
	kindReply   = 1
	fromProgram = 1 << 7 // set in the kind of events that a program sent with SendEvent
)

// forged reports whether a message is an event that a program has sent although only the X
// server has reason to. Programs may send ClientMessage, SelectionNotify as owners, and
// ConfigureNotify as window managers (ICCCM 2.2 and 4.1.5). It cannot know all events of extensions:
// XSendExtensionEvent of the X Input Extension marks only the first of many.
func forged(kind byte) bool {
	if kind&fromProgram == 0 {
		return false
	}
	switch kind &^ fromProgram {
	case xproto.ClientMessage, xproto.SelectionNotify, xproto.ConfigureNotify:
		return false
	}
	return true
}

// errDestroyed ends the connection if another client has destroyed a resource of this one: a
// window, a segment, a region or a damage object. Without it some requests fail for good, and some
// events never come.
var errDestroyed = errors.New("another client has destroyed a resource of this connection")

// destroyed reports whether a message is an error for a resource of this client that does not
// exist. The errors of extensions begin with 128.
func (w *wire) destroyed(head []byte) bool {
	if head[0] != kindError || !w.owns(binary.LittleEndian.Uint32(head[4:])) {
		return false
	}
	switch code := head[1]; code {
	case xproto.BadWindow, xproto.BadPixmap, xproto.BadCursor, xproto.BadDrawable, xproto.BadGContext:
		return true
	default:
		return code >= 128
	}
}

// owns reports whether a resource, such as a window, belongs to this client.
func (w *wire) owns(id uint32) bool {
	own := w.own.Load()
	return own != nil && request.Owns(own, id)
}

// expect makes Read accept replies of n bytes.
func (w *wire) expect(n int) {
	for {
		most := w.most.Load()
		if int64(n) <= most || w.most.CompareAndSwap(most, int64(n)) {
			return
		}
	}
}

// Read reads messages of the server. It replaces a reply that is too long by the error for
// a lack of memory in the server.
func (w *wire) Read(b []byte) (int, error) {
	if len(w.head) == 0 && w.rest == 0 {
		if err := w.nextMessage(); err != nil {
			return 0, err
		}
	}
	if len(w.head) > 0 {
		n := copy(b, w.head)
		w.head = w.head[n:]
		return n, nil
	}
	n, err := w.Conn.Read(b[:min(int64(len(b)), w.rest)])
	w.rest -= int64(n)
	if errors.Is(err, io.EOF) && w.rest > 0 {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// nextMessage reads the head of the next message that is not forged, or returns io.EOF.
func (w *wire) nextMessage() error {
	size := messageHead
	if !w.answered {
		size = setupHead
	}
	head := make([]byte, size)
	for {
		if _, err := io.ReadFull(w.Conn, head); err != nil {
			return err
		}
		if !w.answered || !forged(head[0]) {
			break
		}
	}
	w.head = head
	if !w.answered {
		w.answered = true
		w.rest = 4 * int64(binary.LittleEndian.Uint16(head[6:]))
		return nil
	}
	if head[0] != kindReply {
		if w.destroyed(head) {
			w.head = nil
			return errDestroyed
		}
		return nil
	}
	w.rest = 4 * int64(binary.LittleEndian.Uint32(head[4:]))
	if w.rest <= max(maxReply, w.most.Load()) {
		return nil
	}
	_, err := io.CopyN(io.Discard, w.Conn, w.rest)
	w.rest = 0
	clear(head[4:])
	head[0], head[1] = kindError, xproto.BadAlloc
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// cork holds requests back until the matching uncork. The caller must not wait for a reply
// before that.
func (w *wire) cork() {
	w.mu.Lock()
	w.corked++
	w.mu.Unlock()
}

// uncork sends the requests. If that fails it closes the connection, as xgb does, so that
// callers that wait for a reply get an error.
func (w *wire) uncork() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.corked--; w.corked > 0 {
		return nil
	}
	err := w.flushLocked()
	if err != nil {
		_ = w.Conn.Close()
	}
	return err
}

// delay makes Write send a request only together with the next one. It has no reply.
func (w *wire) delay(request []byte) {
	w.mu.Lock()
	w.late = request
	w.mu.Unlock()
}

func (w *wire) flushLocked() error {
	if len(w.held) == 0 {
		return nil
	}
	_, err := w.Conn.Write(w.held)
	w.held = w.held[:0]
	return err
}

// setupRequest returns the connection setup of X11 protocol version 11.0, little endian.
func setupRequest(cookie []byte) []byte {
	name := ""
	if cookie != nil {
		name = cookieProtocol
	}
	b := []byte{'l', 0, 11, 0, 0, 0}
	b = binary.LittleEndian.AppendUint16(b, uint16(len(name)))
	b = binary.LittleEndian.AppendUint16(b, uint16(len(cookie)))
	b = append(b, 0, 0)
	for _, s := range [][]byte{[]byte(name), cookie} {
		b = append(b, s...)
		for len(b)%4 != 0 {
			b = append(b, 0)
		}
	}
	return b
}
