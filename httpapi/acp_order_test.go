package httpapi

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"sync"
	"testing"
	"time"
)

// ledger notes in which order a server writes the answers of turns to its
// connections: as events, and as answers of POST.
type ledger struct {
	mu        sync.Mutex // guards the fields below
	events    map[string]bool
	answers   int
	overtaken []string // answers of POST that were written before their event was
}

var turnAnswer = regexp.MustCompile(`"id":([0-9]+),"result":"turn"`)

// ledgerListener gives connections that write into a ledger.
type ledgerListener struct {
	net.Listener
	ledger *ledger
}

func (l ledgerListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	return &ledgerConn{Conn: conn, ledger: l.ledger}, err
}

type ledgerConn struct {
	net.Conn
	ledger *ledger
	events bool   // it is an event stream
	rest   []byte // of what was written, where an event may begin
}

func (c *ledgerConn) Write(b []byte) (int, error) {
	c.events = c.events || bytes.Contains(b, []byte("text/event-stream"))
	if !c.events {
		c.ledger.answer(b)
		return c.Conn.Write(b)
	}
	n, err := c.Conn.Write(b)
	c.rest = append(c.rest, b[:n]...)
	if end := bytes.LastIndexByte(c.rest, '\n') + 1; end > 0 {
		c.ledger.event(c.rest[:end])
		c.rest = c.rest[end:]
	}
	return n, err
}

func (l *ledger) event(text []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range turnAnswer.FindAllSubmatch(text, -1) {
		l.events[string(m[1])] = true
	}
}

func (l *ledger) answer(text []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range turnAnswer.FindAllSubmatch(text, -1) {
		l.answers++
		if id := string(m[1]); !l.events[id] {
			l.overtaken = append(l.overtaken, id)
		}
	}
}

// burn keeps a processor busy until the test ends.
func burn(ctx context.Context, wg *sync.WaitGroup) {
	wg.Go(func() {
		sum := sha256.Sum256(nil)
		for ctx.Err() == nil {
			sum = sha256.Sum256(sum[:])
		}
	})
}

// Who has an answer finds the events of its turn on the way to the client,
// written before: clients look at them then. It is not parallel, since it keeps
// all processors busy.
func TestACPAnswerAfterEvents(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	book := &ledger{events: map[string]bool{}}
	cfg := Config{}
	cfg.AgentHost.Launch = acpLaunch
	s := serveOn(t, ledgerListener{ln, book}, cfg)
	s.send(t, "/v1/acp/a?agent=mock", acpEcho).want(t, 200)
	events := s.acpEvents(t, "/v1/acp/a?replay=none", nil)
	var burning, calling sync.WaitGroup
	defer burning.Wait()
	busy, cancel := context.WithCancel(t.Context())
	defer cancel()
	burn(busy, &burning)
	burn(busy, &burning)
	const callers, turns = 4, 50
	for n := range callers {
		calling.Go(func() {
			for i := range turns {
				body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"turn"}`, n*turns+i)
				a := s.try(t.Context(), call{method: http.MethodPost, path: "/v1/acp/a", body: body})
				if a.err != nil || a.StatusCode != http.StatusOK {
					t.Errorf("turn %d: %v", i, a.err)
					return
				}
			}
		})
	}
	for range callers * turns * 6 {
		events.next()
	}
	calling.Wait()
	book.mu.Lock()
	defer book.mu.Unlock()
	// A machine may be so busy that a wait of 100 ms is over. Without any, a fifth
	// of the answers and more come before their events.
	if book.answers != callers*turns || len(book.overtaken) > callers*turns*8/100 {
		t.Errorf("of %d answers %d came before their events: %v", book.answers, len(book.overtaken), book.overtaken)
	}
}

// turns does some, one after the other, and tells how long they took.
func (s *testServer) turns(t *testing.T, n int) time.Duration {
	t.Helper()
	begin := time.Now()
	for i := range n {
		s.send(t, "/v1/acp/a", fmt.Sprintf(`{"id":%d,"method":"turn"}`, i)).want(t, 200)
	}
	return time.Since(begin)
}

// A follower that does not read delays no other client, however often the others ask.
func TestACPStalledFollower(t *testing.T) {
	t.Parallel()
	s := serveACP(t, Config{})
	s.send(t, "/v1/acp/a?agent=mock", acpEcho).want(t, 200)
	const n = 60
	alone := s.turns(t, n)
	stalled := s.acpEvents(t, "/v1/acp/a?replay=none", nil)
	for i := range 16 { // more than what sockets hold
		s.send(t, "/v1/acp/a", fmt.Sprintf(`{"id":%d,"method":"large"}`, i)).want(t, 200)
	}
	if took := s.turns(t, n); took > 2*alone+n*sentWait/3 {
		t.Errorf("%d turns took %v beside a follower that reads nothing, and %v without", n, took, alone)
	}
	for range 16*2 + n*6 {
		stalled.next()
	}
}

// sentWait is that of package agents.
const sentWait = 100 * time.Millisecond
