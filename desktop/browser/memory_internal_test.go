package browser

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// stuck is a client that accepts no message.
type stuck struct{ closed chan struct{} }

func (s *stuck) Receive() ([]byte, error) { <-s.closed; return nil, io.EOF }

func (s *stuck) Send([]byte) error { <-s.closed; return io.EOF }

func (s *stuck) Close() { close(s.closed) }

// TestQueues checks that what waits for all clients together is bounded, and that those who read
// stay.
func TestQueues(t *testing.T) {
	b := newBrowser()
	add := func() *client {
		c := &client{b: &b.clients, socket: &stuck{make(chan struct{})}, wake: make(chan struct{}, 1)}
		b.connected[c] = true
		return c
	}
	reader := add()
	reader.put(make([]byte, 100))
	text := make([]byte, maxQueue)
	for range 8 {
		add().put(text)
	}
	var waiting int
	for c := range b.connected {
		if err := c.reason(); err == nil {
			waiting += c.queued
		} else if !errors.Is(err, errFlood) {
			t.Error(err)
		}
	}
	if waiting > maxQueues {
		t.Errorf("%d bytes wait for clients", waiting)
	}
	if err := reader.reason(); err != nil {
		t.Errorf("the client that reads was ended: %v", err)
	}
}

// TestLastMessages checks that a client which has closed the browser and does not read is ended.
func TestLastMessages(t *testing.T) {
	t.Parallel()
	b := newBrowser()
	c := &client{b: &b.clients, socket: &stuck{make(chan struct{})}, wake: make(chan struct{}, 1)}
	c.put([]byte("last"))
	c.end(errLeft)
	c.end(ErrEnded)
	sent := make(chan struct{})
	go func() { c.sendAll(); close(sent) }()
	select {
	case <-sent:
	case <-time.After(4 * lastLimit):
		t.Fatal("the client is not ended")
	}
}

// heap returns the bytes that are in use.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc) //nolint:gosec // no machine has so much
}

// TestUnreadAnswers: a browser that does not read is ended before the answers to its events fill the
// memory, and no long id is sent back.
func TestUnreadAnswers(t *testing.T) {
	b, event := fakeBrowser()
	event("", "Target.attachedToTarget", attached, "S", "T", "page")
	b.all[0].empty = true
	before := heap()
	for range 20 {
		event("S", "Fetch.requestPaused", `{"requestId":"%s"}`, strings.Repeat("x", 1<<20))
	}
	if n := heap() - before; n > 1<<20 {
		t.Errorf("%d bytes wait for the browser", n)
	}
	var most int64
	for i := 0; b.conn.err == nil && i < 500_000; i++ {
		event("S", "Fetch.requestPaused", `{"requestId":"%0100d"}`, i)
		if i%50_000 == 0 {
			most = max(most, heap()-before)
		}
	}
	if !errors.Is(b.conn.err, errNotRead) || most > maxOutbox*3/2 || len(b.outbox) > 0 {
		t.Errorf("%v; up to %d bytes waited, %d commands are left", b.conn.err, most, len(b.outbox))
	}
}

// TestRecordsOfManyTabs checks that the records of all tabs together are bounded, and that the newest stay.
func TestRecordsOfManyTabs(t *testing.T) {
	b, event := fakeBrowser()
	long := strings.Repeat("\U00010000", maxText)
	for i := range 60 {
		event("", "Target.attachedToTarget", attached, fmt.Sprint("S", i), fmt.Sprint("T", i), "page")
	}
	before := heap()
	for n := range 150 {
		for i := range 60 {
			session := fmt.Sprint("S", i)
			event(session, "Network.requestWillBeSent", `{"requestId":"%d","request":{"method":"%s","url":"%s"}}`, n, long, long)
			event(session, "Network.responseReceived", `{"requestId":"%d","response":{"mimeType":"%s"}}`, n, long)
			if n%2 == 0 {
				event(session, "Network.loadingFailed", `{"requestId":"%d","errorText":"%s"}`, n, long)
			}
		}
	}
	if n := heap() - before; n > maxRecorded*5/4 || n < maxRecorded/2 {
		t.Errorf("the records have %d bytes", n)
	}
	for _, tab := range b.all {
		kept := uint64(len(tab.network.values) + len(tab.requests))
		if tab.requests["149"] == nil || tab.network.values[len(tab.network.values)-1].id != "148" || kept+tab.network.dropped != 150 {
			t.Errorf("tab %s has %d requests, and %d were dropped", tab.id, kept, tab.network.dropped)
		}
	}
}

// TestReferences checks that references to elements are bounded in number and in size, and that the newest
// stay.
func TestReferences(t *testing.T) {
	for _, c := range []struct{ text, kept int }{{10, maxRefs}, {4000, maxRefText / 8192}} {
		b := newBrowser()
		before := heap()
		var ref Ref
		for i := range maxRefs + 10 {
			text := fmt.Sprintf("%0*d", c.text, i)
			ref = b.refOf(reference{tab: "T", nonce: "nonce", number: i, role: "button", name: text, frame: frame{id: "F", url: text + "!"}})
		}
		if n := heap() - before; n > 2*maxRefText {
			t.Errorf("references have %d bytes", n)
		}
		if n := len(b.references); n > maxRefs || n < c.kept || len(b.refsByKey) != n || b.references[ref].number != maxRefs+9 {
			t.Errorf("%d references to elements with names of %d bytes are kept", n, c.text)
		}
	}
}

// TestCutMessages checks that a message that ends anywhere is refused.
func TestCutMessages(t *testing.T) {
	const whole = `{"id":1,"method":"X","params":{"a":[1,"\\\""],"b":{}}}`
	if _, err := parseMessage([]byte(whole)); err != nil {
		t.Error(err)
	}
	for n := range len(whole) {
		if _, err := parseMessage(slices.Clip([]byte(whole[:n]))); err == nil {
			t.Errorf("%s is a message", whole[:n])
		}
	}
}

// TestLargeMessages checks that neither an event nor an answer of any size is kept in memory.
func TestLargeMessages(t *testing.T) {
	for name, c := range map[string]struct {
		begin string
		most  int
	}{"event": {`{"method":"Runtime.consoleAPICalled","params":"`, maxEvent}, "answer": {`{"id":7,"result":"`, maxMessage}} {
		var s splitter
		var answers, largest int
		write := func(text []byte) {
			for len(text) > 0 {
				n := copy(s.space(), text)
				text = text[n:]
				s.filled(n, func(got []byte, whole bool) {
					answers++
					if whole != (len(got) < 100) {
						t.Errorf("%s: a message of %d bytes is whole: %t", name, len(got), whole)
					}
				})
				largest = max(largest, len(s.buf))
			}
		}
		write([]byte(c.begin))
		for range 300 {
			write(bytes.Repeat([]byte("x"), 1<<20))
		}
		write([]byte("\"}\x00{\"id\":8,\"result\":{}}\x00"))
		if answers != 2 {
			t.Errorf("%s: %d messages", name, answers)
		}
		if largest > 2*c.most+4*readSize {
			t.Errorf("%s: %d bytes were kept", name, largest)
		}
	}
}

// TestAfterLargeMessage reads the end of a large message together with the beginning of the next.
func TestAfterLargeMessage(t *testing.T) {
	t.Parallel()
	var s splitter
	var got []string
	write := func(text string) {
		for len(text) > 0 {
			n := copy(s.space(), text)
			text = text[n:]
			s.filled(n, func(m []byte, _ bool) { got = append(got, fmt.Sprintf("%d %.9s", len(m), m)) })
		}
	}
	large := `{"method":"` + strings.Repeat("x", 5<<20)
	write(large)
	write("\x00{\"method\":")
	write("\"short\"}\x00")
	if want := []string{fmt.Sprintf(`%d {"method"`, len(large)), `18 {"method"`}; !slices.Equal(got, want) {
		t.Errorf("messages: %q, want %q", got, want)
	}
}

// TestManyParameters checks that a command with any number of parameters is not decoded, but refused.
func TestManyParameters(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ params, want string }{
		{``, `{"flatten":true}`},
		{`null`, `{"flatten":true}`},
		{`{"flatten":false,"filter":[{"a":1},2],"b":"\",,"}`, `{"b":"\",,","filter":[{"a":1},2],"flatten":true}`},
		{` { "a" : [` + strings.Repeat("1,", 1000) + `1] }`, `{"a":[` + strings.Repeat("1,", 1000) + `1],"flatten":true}`},
		{`{` + strings.Repeat(`"a":1,`, 1000) + `"autoAttach":true}`, ``},
	} {
		got, err := with([]byte(c.params), "flatten", true)
		if _, refused := errors.AsType[*Fault](err); string(got) != c.want || refused != (c.want == "") {
			t.Errorf("with(%.100s) = %.100s, %v", c.params, got, err)
		}
	}
}
