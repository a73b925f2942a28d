package rest

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"time"
)

// DefaultMaxConnections bounds the default of Config.MaxConnections.
const DefaultMaxConnections = 4096

const (
	// refusalTime is how long a refused connection waits for its request, and then for
	// its client to read the answer. At most mostRefusals refused connections stay open; a
	// further one closes the oldest.
	refusalTime  = time.Second
	mostRefusals = 64
	// acceptDelay is the wait after the first failed accept. It doubles up to
	// maxAcceptDelay.
	acceptDelay    = 5 * time.Millisecond
	maxAcceptDelay = time.Second
	// warnInterval is the shortest time between two log lines about refusals.
	warnInterval = time.Minute
)

// connLimits counts the open connections of a server and decides which new ones
// are accepted.
type connLimits struct {
	total, perAddress int
	log               *slog.Logger

	mu        sync.Mutex // guards the fields below
	open      map[net.Conn]netip.Prefix
	byAddress map[netip.Prefix]int
	refused   []net.Conn // that are still open, the oldest first
	warned    time.Time  // the time of the last log line about refusals
}

func newConnLimits(cfg Config) *connLimits {
	return &connLimits{
		total: cfg.MaxConnections, perAddress: cfg.MaxConnectionsPerAddress, log: cfg.Logger,
		open: map[net.Conn]netip.Prefix{}, byAddress: map[netip.Prefix]int{},
	}
}

// descriptorLimit returns how many files this process may have open. The Go runtime
// has already raised the limit to its maximum.
func descriptorLimit() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 2 * DefaultMaxConnections
	}
	return int(min(limit.Cur, 1<<30))
}

// setConnectionLimits sets the default limits and checks the configured ones.
func (c *Config) setConnectionLimits() error {
	files := descriptorLimit()
	if c.MaxConnections == 0 {
		c.MaxConnections = max(1, min(DefaultMaxConnections, files/2))
	}
	if c.MaxConnectionsPerAddress == 0 {
		c.MaxConnectionsPerAddress = max(1, c.MaxConnections*3/4)
		if c.TrustProxy {
			c.MaxConnectionsPerAddress = c.MaxConnections
		}
	}
	switch {
	case c.MaxConnections < 0 || c.MaxConnectionsPerAddress < 0:
		return errors.New("config: MaxConnections and MaxConnectionsPerAddress must not be negative")
	case c.MaxConnections >= files:
		return fmt.Errorf("config: MaxConnections %d must be below the limit of %d open files; raise that (ulimit -n)", c.MaxConnections, files)
	}
	return nil
}

// thisMachine is the identity of all clients on the machine of the server. They can choose
// among the addresses 127.0.0.0/8.
var thisMachine = netip.MustParsePrefix("127.0.0.0/8")

// addressOf returns the identity of a client: thisMachine, an IPv4 address, or an IPv6
// network of 64 bits, which usually belongs to one client.
func addressOf(conn net.Conn) netip.Prefix {
	remote, ok := ipOf(conn.RemoteAddr())
	if !ok {
		return netip.Prefix{}
	}
	if local, ok := ipOf(conn.LocalAddr()); remote.IsLoopback() || ok && (local.IsLoopback() || local == remote) {
		return thisMachine
	}
	bits := remote.BitLen()
	if remote.Is6() {
		bits = 64
	}
	p, err := remote.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return p
}

func ipOf(a net.Addr) (ip netip.Addr, ok bool) {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return ip, false
	}
	return tcp.AddrPort().Addr().Unmap().WithZone(""), true
}

// admit counts a connection and returns "", or returns the reason for refusing it.
func (l *connLimits) admit(conn net.Conn) (refusal string) {
	from := addressOf(conn)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case len(l.open) >= l.total:
		return fmt.Sprintf("too many connections: %d are open; try again later", l.total)
	case from.IsValid() && l.byAddress[from] >= l.perAddress:
		name := from.String()
		switch {
		case from == thisMachine:
			name = "this machine"
		case from.IsSingleIP():
			name = from.Addr().String()
		}
		return fmt.Sprintf("too many connections from %s: %d are open; close some", name, l.perAddress)
	}
	l.open[conn] = from
	l.byAddress[from]++
	return ""
}

// release stops counting a connection. It may be called more than once.
func (l *connLimits) release(conn net.Conn) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	from, ok := l.open[conn]
	if !ok {
		return
	}
	delete(l.open, conn)
	if l.byAddress[from]--; l.byAddress[from] == 0 {
		delete(l.byAddress, from)
	}
}

// refuse adds a connection to the refused connections that are still open. It logs
// refusals, at most once per warnInterval.
func (l *connLimits) refuse(conn net.Conn, reason string) {
	l.mu.Lock()
	if len(l.refused) == mostRefusals {
		_ = l.refused[0].Close()
		l.refused = slices.Delete(l.refused, 0, 1)
	}
	l.refused = append(l.refused, conn)
	due := time.Since(l.warned) >= warnInterval
	if due {
		l.warned = time.Now()
	}
	l.mu.Unlock()
	if due {
		l.log.Warn("connections are refused", "client", conn.RemoteAddr().String(), "reason", reason)
	}
}

// forget closes a refused connection.
func (l *connLimits) forget(conn net.Conn) {
	_ = conn.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.refused, conn); i >= 0 {
		l.refused = slices.Delete(l.refused, i, i+1)
	}
}

// closeRefused closes the refused connections that are still open.
func (l *connLimits) closeRefused() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, conn := range l.refused {
		_ = conn.Close()
	}
}

// limitedListener is a listener that refuses connections beyond the limits. It
// continues when accept fails for lack of descriptors or memory.
type limitedListener struct {
	net.Listener
	limits *connLimits
	ending <-chan struct{}
	work   *sync.WaitGroup // refusals that have not ended
}

// retried are the errors after which accept is called again.
var retried = []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED}

// Accept implements net.Listener.
func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.accept()
		if err != nil {
			return nil, err
		}
		refusal := l.limits.admit(conn)
		if refusal == "" {
			return conn, nil
		}
		l.limits.refuse(conn, refusal)
		l.work.Go(func() {
			defer l.limits.forget(conn)
			answerRefused(conn, refusal)
		})
	}
}

// accept returns the next connection. It retries after the errors in retried.
func (l *limitedListener) accept() (net.Conn, error) {
	for delay := acceptDelay; ; delay = min(2*delay, maxAcceptDelay) {
		conn, err := l.Listener.Accept()
		if err == nil || !slices.ContainsFunc(retried, func(r error) bool { return errors.Is(err, r) }) {
			return conn, err
		}
		if delay == acceptDelay {
			l.limits.log.Warn("no connection can be accepted; trying again", "error", err)
		}
		select {
		case <-time.After(delay):
		case <-l.ending:
			return nil, net.ErrClosed
		}
	}
}

// liveRequest is the beginning of a request that asks whether the process runs.
const liveRequest = "GET /livez "

// answerRefused answers the first request of a connection, or sends the answer after
// refusalTime without one. Clients treat an answer before their request as an error.
// Supervisors restart a server that does not answer liveRequest.
func answerRefused(conn net.Conn, reason string) {
	_ = conn.SetDeadline(time.Now().Add(refusalTime))
	head, kind, body := "503 Service Unavailable\r\nRetry-After: 1", "text/plain; charset=utf-8", reason+"\n"
	request := make([]byte, len(liveRequest))
	if _, err := io.ReadFull(conn, request); err == nil && string(request) == liveRequest {
		head, kind, body = "200 OK\r\nCache-Control: no-store", "application/json", `{"status":"ok"}`
	}
	_ = conn.SetDeadline(time.Now().Add(refusalTime))
	_, err := fmt.Fprintf(conn, "HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
		head, kind, len(body), body)
	half, ok := conn.(interface{ CloseWrite() error })
	if err != nil || !ok || half.CloseWrite() != nil {
		return
	}
	// A connection that is closed with a request unread is reset, and the client
	// loses the answer.
	_, _ = io.Copy(io.Discard, conn)
}
