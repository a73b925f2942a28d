package x11

import (
	"encoding/binary"
	"net"
	"sync"

	"golang.org/x/sys/unix"
)

// wire is the socket below xgb. It does two things that xgb does not offer:
// connect with a given cookie (xgb knows only $XAUTHORITY), and hold requests
// back so that several reach the server in one write.
type wire struct {
	net.Conn
	cookie []byte // nil: connect without one

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
