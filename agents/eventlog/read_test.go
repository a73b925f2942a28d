package eventlog_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/deskhand/deskhand/agents/eventlog"
)

// TestReadYourCommits checks that a read after a commit returns its event.
func TestReadYourCommits(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"", file(t)} {
		l := open(t, eventlog.Config{DSN: path, Memory: 1})
		for i := range 50 {
			state := []eventlog.State{eventlog.Idle, eventlog.Running}[i%2]
			put(t, l, "s", "x")
			must(t, l.Commit(t.Context(), func(tx *eventlog.Tx) error {
				return tx.PutSession(eventlog.Session{ID: "session", State: state})
			}))
			if s, err := l.Session(t.Context(), "session"); err != nil || s.State != state {
				t.Fatalf("%+v, %v", s, err)
			}
			if events, err := l.Read(t.Context(), "s", 0, 0); err != nil || len(events) != i+1 {
				t.Fatalf("%d events of %d, %v", len(events), i+1, err)
			}
		}
	}
}

// TestCloseWhileRead checks that readers of a log that is being closed get ErrClosed.
func TestCloseWhileRead(t *testing.T) {
	t.Parallel()
	for i := range 50 {
		l := open(t, eventlog.Config{})
		var wg sync.WaitGroup
		for k, read := range []func() error{
			func() error { return errorOf(l.Session(context.Background(), "x")) },
			func() error { return errorOf(l.Requests(context.Background(), eventlog.RequestFilter{})) },
			func() error { return errorOf(l.Read(context.Background(), fmt.Sprint("s", i), 0, 0)) },
		} {
			started := make(chan struct{})
			wg.Go(func() {
				close(started)
				for {
					if err := read(); errors.Is(err, eventlog.ErrClosed) {
						return
					}
				}
			})
			if k%2 == i%2 {
				<-started
			}
		}
		closeLog(t, l)
		wg.Wait()
	}
}

// TestMaxParams: a filter leaves out the parameters of requests that are larger, and says so. A
// request without parameters has none that are left out.
func TestMaxParams(t *testing.T) {
	t.Parallel()
	for name, dsn := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := open(t, eventlog.Config{DSN: dsn(t)})
			must(t, l.Commit(t.Context(), func(tx *eventlog.Tx) error {
				for rpc, params := range map[string][]byte{"1": []byte("[1,2]"), "2": nil, "3": {}} {
					key := eventlog.RequestKey{Process: "p", Dir: eventlog.Agent, RPC: rpc}
					if err := tx.PutRequest(eventlog.Request{RequestKey: key, Params: params}); err != nil {
						return err
					}
				}
				return nil
			}))
			for most, want := range map[int]string{0: "[1,2]", 5: "[1,2]", 4: "", -1: ""} {
				all, err := l.Requests(t.Context(), eventlog.RequestFilter{MaxParams: most})
				must(t, err)
				for _, r := range all {
					has := r.RPC == "1"
					if len(all) != 3 || r.ParamsLeftOut != (has && want == "") || string(r.Params) != want && has || len(r.Params) > 0 && !has {
						t.Errorf("at most %d bytes: %+v of %d", most, r, len(all))
					}
				}
			}
		})
	}
}

// TestReadBack returns the newest events of some senders, kinds and sizes first, and all in several
// pages.
func TestReadBack(t *testing.T) {
	t.Parallel()
	for name, dsn := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := open(t, eventlog.Config{DSN: dsn(t)})
			must(t, l.Commit(t.Context(), func(tx *eventlog.Tx) error {
				for i, kind := range []string{"a", "b", "c", "b", "a", "b"} { // 1 to 6
					if _, err := tx.Append(eventlog.Event{Stream: "s", Dir: eventlog.Client, Kind: kind, Payload: bytes.Repeat([]byte("x"), (i+1)<<20)}); err != nil {
						return err
					}
				}
				_, err := tx.Append(eventlog.Event{Stream: "s", Dir: eventlog.Agent, Kind: "a", Payload: bytes.Repeat([]byte("x"), 7<<20)})
				return err
			}))
			of := func(kind string, most int) eventlog.Selection {
				return eventlog.Selection{Dir: eventlog.Client, Kind: kind, MaxBytes: most}
			}
			for want, selected := range map[string][]eventlog.Selection{
				"[5] [4] [2 1]": {of("a", 5<<20), of("b", 5<<20)}, "[5] [1]": {of("a", 5<<20)}, "[6] [4] [2]": {of("b", 6<<20), of("a", 1)},
				"": {}, "[7]": {{Dir: eventlog.Agent, Kind: "a", MaxBytes: 8 << 20}},
			} {
				got := ""
				for before := int64(math.MaxInt64); ; {
					events, err := l.ReadBack(t.Context(), "s", before, selected...)
					must(t, err)
					if len(events) == 0 {
						break
					}
					var page []int64
					for _, e := range events {
						before, page = e.Seq, append(page, e.Seq)
						if len(e.Payload) != int(e.Seq)<<20 {
							t.Errorf("event %d has %d bytes", e.Seq, len(e.Payload))
						}
					}
					got += fmt.Sprint(page, " ")
				}
				if strings.TrimSpace(got) != want {
					t.Errorf("%v: pages %s, want %s", selected, got, want)
				}
			}
		})
	}
}

// TestPayload returns a payload from memory and from the database, unless it is too large.
func TestPayload(t *testing.T) {
	t.Parallel()
	for _, cfg := range []eventlog.Config{{}, {DSN: file(t), Memory: 1}} {
		l := open(t, cfg)
		put(t, l, "s", "one", "three")
		for _, c := range []struct {
			seq  int64
			most int
			want string
		}{{1, 3, "one"}, {2, 5, "three"}, {2, 4, ""}, {3, 9, ""}} {
			if got, err := l.Payload(t.Context(), "s", c.seq, c.most); err != nil || string(got) != c.want {
				t.Errorf("event %d with at most %d bytes: %q, %v", c.seq, c.most, got, err)
			}
		}
	}
}
