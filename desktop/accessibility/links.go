package accessibility

import (
	"context"
	"maps"
	"sync"

	"github.com/godbus/dbus/v5"
)

// links are connections to programs without the bus between, by the names of the programs on
// the bus. Programs that use at-spi2-atk offer one, and answer by it in half the time.
type links struct {
	mu      sync.Mutex // guards the fields below
	all     map[string]link
	opening map[string]bool // the names of programs that are being connected to
	closed  bool
}

// mostLinks is how many links there are at most, and how many are opened at the same time. A
// program can appear on the bus under any number of names.
const mostLinks = mostApps

type link struct {
	conn      *dbus.Conn
	transport *transport
}

// to returns the connection to a program, or nil if there is none.
func (l *links) to(name string) *transport {
	l.mu.Lock()
	defer l.mu.Unlock()
	if has, ok := l.all[name]; ok && has.conn.Connected() {
		return has.transport
	}
	return nil
}

// open connects to a program of a user at the address that it claims, unless it is connected.
// Without a connection, requests go by the bus. Above mostLinks it closes another link, whose
// program is then asked by the bus.
func (l *links) open(ctx context.Context, name, address string, uid int, queued *budget) {
	if address == "" || !l.begin(name) {
		return
	}
	conn, t, err := dialPeer(ctx, address, uid, linkLimit, queued, func() {})
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.opening, name)
	switch {
	case err != nil:
		return
	case l.closed:
		_ = conn.Close()
		return
	}
	maps.DeleteFunc(l.all, func(_ string, has link) bool { return !has.conn.Connected() })
	for other, has := range l.all {
		if len(l.all) < mostLinks {
			break
		}
		_ = has.conn.Close()
		delete(l.all, other)
	}
	if l.all == nil {
		l.all = map[string]link{}
	}
	l.all[name] = link{conn, t}
}

// begin reports whether the caller may connect to a program: there is no connection, and no
// other caller is making one.
func (l *links) begin(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if has, ok := l.all[name]; ok && has.conn.Connected() || l.closed || l.opening[name] || len(l.opening) >= mostLinks {
		return false
	}
	if l.opening == nil {
		l.opening = map[string]bool{}
	}
	l.opening[name] = true
	return true
}

func (l *links) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for _, has := range l.all {
		_ = has.conn.Close()
	}
}
