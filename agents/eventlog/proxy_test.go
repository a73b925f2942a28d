package eventlog_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/deskhand/deskhand/agents/eventlog"
)

// proxy passes connections on to a cluster, and breaks them when a commit comes
// by.
type proxy struct {
	cluster *cluster
	dir     string
	cut     atomic.Int32 // what to do with the next commit
	refuse  atomic.Bool  // new connections
}

const (
	pass      = iota
	before    // the commit does not arrive
	afterward // its answer does not
)

func newProxy(t *testing.T, c *cluster) *proxy {
	t.Helper()
	dir, err := os.MkdirTemp("", "pg") //nolint:usetesting // short, as the path of a socket must be
	must(t, err)
	p := &proxy{cluster: c, dir: dir}
	l, err := net.Listen("unix", filepath.Join(dir, ".s.PGSQL.5432"))
	must(t, err)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			if p.refuse.Load() {
				client.Close()
				continue
			}
			wg.Go(func() { p.serve(client) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		wg.Wait()
		_ = os.RemoveAll(dir)
	})
	return p
}

func (p *proxy) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("unix", filepath.Join(p.cluster.dir, ".s.PGSQL.5432"))
	if err != nil {
		return
	}
	defer server.Close()
	var silent atomic.Bool // the server's answers are lost
	back := make(chan struct{})
	go func() {
		defer close(back)
		defer client.Close()
		buffer := make([]byte, 64<<10)
		for {
			n, err := server.Read(buffer)
			if err != nil || silent.Load() {
				return
			}
			if _, err := client.Write(buffer[:n]); err != nil {
				return
			}
		}
	}()
	buffer := make([]byte, 64<<10)
	for {
		n, err := client.Read(buffer)
		if err != nil {
			break
		}
		if bytes.Contains(buffer[:n], []byte("commit\x00")) {
			switch p.cut.Swap(pass) {
			case before:
				server.Close()
				<-back
				return
			case afterward:
				silent.Store(true)
			}
		}
		if _, err := server.Write(buffer[:n]); err != nil {
			break
		}
	}
	server.Close()
	<-back
}

func (p *proxy) dsn(t *testing.T) string {
	t.Helper()
	u, err := url.Parse(postgres(t))
	must(t, err)
	q := u.Query()
	q.Set("host", p.dir)
	u.RawQuery = q.Encode()
	return u.String()
}

// TestBrokenCommit: the connection breaks around a commit. Whether that arrived
// or not, the event is there once.
func TestBrokenCommit(t *testing.T) {
	t.Parallel()
	if os.Getenv("DESKHAND_TEST_POSTGRES") != "" {
		t.Skip("needs a cluster of its own")
	}
	postgres(t)
	p := newProxy(t, common.cluster)
	l := open(t, eventlog.Config{DSN: p.dsn(t)})
	append1 := func(ctx context.Context, payload string) error {
		return l.Commit(ctx, func(tx *eventlog.Tx) error {
			_, err := tx.Append(eventlog.Event{Stream: "s", Payload: []byte(payload)})
			return err
		})
	}
	must(t, append1(t.Context(), "first"))
	p.cut.Store(before)
	must(t, append1(t.Context(), "second"))
	p.cut.Store(afterward)
	must(t, append1(t.Context(), "third"))

	// Who does not wait until it can be found out is told that it is open.
	p.refuse.Store(true)
	p.cut.Store(afterward)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := append1(ctx, "fourth"); !errors.Is(err, eventlog.ErrUncertain) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	p.refuse.Store(false)
	must(t, append1(t.Context(), "fifth"))
	var got []string
	for _, e := range readAll(t, l, "s") {
		got = append(got, string(e.Payload))
	}
	if s := strings.Join(got, " "); s != "first second third fourth fifth" {
		t.Errorf("got %s", s)
	}
}
