package testpostgres

import (
	"bytes"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// Proxy forwards connections to a cluster, and can break them.
type Proxy struct {
	cluster *Cluster
	dir     string
	cut     atomic.Int32
	refuse  atomic.Bool

	mu    sync.Mutex
	conns map[net.Conn]struct{} // of clients
}

// Cut is where a connection breaks around a commit.
type Cut int32

// Before loses the commit. After loses its answer.
const (
	Nowhere Cut = iota
	Before
	After
)

// Proxy starts a proxy that ends with the test.
func (c *Cluster) Proxy(tb testing.TB) *Proxy {
	tb.Helper()
	dir, err := os.MkdirTemp("", "pg") //nolint:usetesting // short, as the path of a socket must be
	if err != nil {
		tb.Fatal(err)
	}
	p := &Proxy{cluster: c, dir: dir, conns: map[net.Conn]struct{}{}}
	l, err := net.Listen("unix", filepath.Join(dir, socket)) //nolint:noctx // it does not block
	if err != nil {
		tb.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { p.serve(client) })
		}
	})
	tb.Cleanup(func() {
		l.Close()
		p.Refuse()
		wg.Wait()
		_ = os.RemoveAll(dir)
	})
	return p
}

// socket is the name of Postgres's socket.
const socket = ".s.PGSQL.5432"

// Through returns a DSN of the cluster that leads through the proxy.
func (p *Proxy) Through(dsn string) string {
	return strings.Replace(dsn, url.QueryEscape(p.cluster.dir), url.QueryEscape(p.dir), 1)
}

// CutNext breaks the connection at the next commit.
func (p *Proxy) CutNext(at Cut) { p.cut.Store(int32(at)) }

// HasCut reports whether the connection was broken since CutNext.
func (p *Proxy) HasCut() bool { return p.cut.Load() == int32(Nowhere) }

// RefuseNew refuses new connections and keeps the existing ones.
func (p *Proxy) RefuseNew() { p.refuse.Store(true) }

// Refuse breaks all connections, and refuses new ones.
func (p *Proxy) Refuse() {
	p.refuse.Store(true)
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
	}
}

// Accept undoes Refuse and RefuseNew.
func (p *Proxy) Accept() { p.refuse.Store(false) }

func (p *Proxy) serve(client net.Conn) {
	defer client.Close()
	p.mu.Lock()
	p.conns[client] = struct{}{}
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.conns, client)
	}()
	if p.refuse.Load() {
		return
	}
	server, err := net.Dial("unix", filepath.Join(p.cluster.dir, socket)) //nolint:noctx // it does not block
	if err != nil {
		return
	}
	defer server.Close()
	var silent atomic.Bool // the server's answers are lost
	back := make(chan struct{})
	go func() {
		defer close(back)
		defer client.Close()
		forward(client, server, func([]byte) bool { return !silent.Load() })
	}()
	forward(server, client, func(part []byte) bool {
		if !bytes.Contains(part, []byte("commit\x00")) {
			return true
		}
		switch Cut(p.cut.Swap(int32(Nowhere))) {
		case Before:
			return false
		case After:
			silent.Store(true)
		case Nowhere:
		}
		return true
	})
	server.Close()
	<-back
}

// forward copies until either side ends, or allow returns false.
func forward(to, from net.Conn, allow func([]byte) bool) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil || !allow(buffer[:n]) {
			return
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}
