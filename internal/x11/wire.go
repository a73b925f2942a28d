package x11

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"

	"github.com/jezek/xgb/xproto"
	"golang.org/x/sys/unix"
)

// wire is the socket below xgb. It does four things that xgb does not offer:
// connect with a given cookie (xgb knows only $XAUTHORITY), hold requests
// back so that several reach the server in one write, refuse replies that
// are too long, and drop forged events.
type wire struct {
	net.Conn
	cookie []byte // nil: connect without one

	// The state of Read.
	answered bool         // the server's answer to the connection setup was read
	head     []byte       // of a message, not returned yet
	rest     int64        // bytes of the message that follow head
	most     atomic.Int64 // bytes of the longest reply that expect announced

	mu      sync.Mutex
	greeted bool // the connection setup was sent
	corked  int
	held    []byte
}

// peer tells which user the X server runs as.
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

// maxHeld bounds what is held back, so that a cork that outlives its purpose
// cannot collect memory.
const maxHeld = 64 << 10

// getInputFocus is the request by which xgb waits for the server, of its own
// accord too when some 1000 requests have had no reply. Held back, it would
// hold up every request, and so the uncork.
const getInputFocus = 43

// Write sends b, or keeps it while corked. The first write is xgb's connection
// setup, in place of which ours is sent (X11 protocol, section 8).
func (w *wire) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.greeted {
		w.greeted = true
		_, err := w.Conn.Write(setupRequest(w.cookie))
		return len(b), err
	}
	if w.corked > 0 && len(w.held)+len(b) <= maxHeld && b[0] != getInputFocus {
		w.held = append(w.held, b...)
		return len(b), nil
	}
	if err := w.flushLocked(); err != nil {
		return 0, err
	}
	return w.Conn.Write(b)
}

// maxReply is the most bytes after its head that a reply may have, unless expect
// announced more. Other clients choose the size of some things that are read
// whole, such as the pointer's picture, which may have gigabytes.
const maxReply = 4 << 20

const (
	setupHead   = 8  // bytes before the part of the setup's answer whose length they tell
	messageHead = 32 // the same of replies; errors and events have no more
	kindError   = 0
	kindReply   = 1
	fromProgram = 1 << 7 // set in the kind of events that a program sent with SendEvent
)

// forged reports whether a message is an event that a program sent although only the X
// server has reason to send it. The other three are sent by programs: ClientMessage is for
// that, owners answer with SelectionNotify, and window managers send ConfigureNotify
// (ICCCM 2.2 and 4.1.5).
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

// expect has replies of n bytes accepted from now on.
func (w *wire) expect(n int) {
	for {
		most := w.most.Load()
		if int64(n) <= most || w.most.CompareAndSwap(most, int64(n)) {
			return
		}
	}
}

// Read reads what the server sends. In place of a reply that is too long it
// gives the error that the server gives when its own memory does not suffice.
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

// nextMessage reads the head of the next message that is not forged. It returns io.EOF if
// none follows.
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

// cork holds requests back until the matching uncork. A caller must not wait
// for a reply in between: the request would never be sent.
func (w *wire) cork() {
	w.mu.Lock()
	w.corked++
	w.mu.Unlock()
}

// uncork sends what was held back. If that fails the connection is closed, as
// xgb would, so that whoever waits for a reply learns of it.
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

func (w *wire) flushLocked() error {
	if len(w.held) == 0 {
		return nil
	}
	_, err := w.Conn.Write(w.held)
	w.held = w.held[:0]
	return err
}

// setupRequest is the connection setup of X11 protocol version 11.0, little
// endian.
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
