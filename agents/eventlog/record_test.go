package eventlog_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/deskhand/deskhand/agents/eventlog"
)

var when = time.Date(2030, 1, 2, 3, 4, 5, 6000, time.UTC)

func aSession(id string) eventlog.Session {
	return eventlog.Session{
		ID: id, Agent: "mock", Server: "srv", Native: "n1", Origin: "acp", Continues: "older", Cwd: "/tmp/ä", Title: "A title",
		Init: []byte(`{"a":1}`), Modes: []byte(`{ }`), Config: []byte("[1, 2]"), Caps: []byte(`{"load":true}`), Data: []byte{0xff, 0},
		State: eventlog.Running, EndReason: "none", ExitCode: new(0), Error: []byte(`"e"`),
		CreatedAt: when, UpdatedAt: when.Add(time.Second), EndedAt: when.Add(time.Minute),
	}
}

func aProcess(id string) eventlog.Process {
	return eventlog.Process{
		ID: id, Server: "srv", Agent: "mock", Version: "1.2", Instance: "i", PID: 12, PIDStarted: 1 << 40, BootID: "b", Init: []byte("{}"),
		Data: []byte("null"), Base: 17, StartedAt: when, ExitedAt: when.Add(time.Hour), Reason: "killed", ExitCode: new(-1), Stderr: []byte("\xfe oh"),
	}
}

func aRequest(process, rpc string) eventlog.Request {
	return eventlog.Request{
		RequestKey: eventlog.RequestKey{Process: process, Dir: eventlog.Agent, RPC: rpc}, Session: "s", PublicID: "p" + process + rpc,
		Method: "session/request_permission", State: eventlog.Answered, Answer: []byte("{}"),
		AskedAt: when, AnsweredAt: when.Add(time.Second),
	}
}

func TestRecords(t *testing.T) {
	t.Parallel()
	for name, dsn := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := eventlog.Config{DSN: dsn(t)}
			l := open(t, cfg)
			session, process, request := aSession("s"), aProcess("l"), aRequest("l", `"1"`)
			bare := eventlog.Session{ID: "bare", State: eventlog.Starting}
			must(t, l.Commit(t.Context(), func(tx *eventlog.Tx) error {
				return errors.Join(tx.PutSession(session), tx.PutProcess(process), tx.PutRequest(request), tx.PutSession(bare),
					tx.PutProcess(eventlog.Process{ID: "runs", Server: "srv"}),
					tx.PutRequest(eventlog.Request{RequestKey: eventlog.RequestKey{Process: "runs", RPC: "1"}}))
			}))
			gotSession, err := l.Session(t.Context(), "s")
			must(t, err)
			gotProcess, err := l.Process(t.Context(), "l")
			must(t, err)
			gotRequest, err := l.Request(t.Context(), request.RequestKey)
			must(t, err)
			if diff := cmp.Diff(session, gotSession) + cmp.Diff(process, gotProcess) + cmp.Diff(request, gotRequest); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			gotBare, err := l.Session(t.Context(), "bare")
			must(t, err)
			if gotBare.CreatedAt.IsZero() || gotBare.UpdatedAt.IsZero() || !gotBare.EndedAt.IsZero() || gotBare.ExitCode != nil || gotBare.Init != nil {
				t.Errorf("bare: %+v", gotBare)
			}
			// Changes of the same record in one group and in the next.
			for _, title := range []string{"first", "second"} {
				must(t, l.Commit(t.Context(), func(tx *eventlog.Tx) error {
					s, err := tx.Session("s")
					if err != nil {
						return err
					}
					s.Title += " " + title
					return tx.PutSession(s)
				}))
			}
			if s, err := l.Session(t.Context(), "s"); err != nil || s.Title != "A title first second" {
				t.Errorf("%q, %v", s.Title, err)
			}
			processes := func(f eventlog.ProcessFilter) (ids []string) {
				all, err := l.Processes(t.Context(), f)
				must(t, err)
				for _, one := range all {
					ids = append(ids, one.ID)
				}
				return ids
			}
			for _, c := range []struct {
				filter eventlog.ProcessFilter
				want   []string
			}{
				{eventlog.ProcessFilter{}, []string{"runs", "l"}},
				{eventlog.ProcessFilter{Open: true}, []string{"runs"}},
				{eventlog.ProcessFilter{Latest: true}, []string{"l"}},
				{eventlog.ProcessFilter{Server: "srv", Instance: "i"}, []string{"l"}},
				{eventlog.ProcessFilter{Server: "other"}, nil},
			} {
				if got := processes(c.filter); !slices.Equal(got, c.want) {
					t.Errorf("%+v: %v, want %v", c.filter, got, c.want)
				}
			}
			for _, err := range []error{
				errorOf(l.Session(t.Context(), "none")), errorOf(l.Process(t.Context(), "none")), errorOf(l.Request(t.Context(), eventlog.RequestKey{})),
			} {
				if !errors.Is(err, eventlog.ErrNotFound) {
					t.Errorf("got %v", err)
				}
			}
		})
	}
}

func errorOf[T any](_ T, err error) error { return err }

// TestOneAnswer: a request gets one of the answers. The log drops its params.
func TestOneAnswer(t *testing.T) {
	t.Parallel()
	for name, dsn := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := eventlog.Config{DSN: dsn(t)}
			l := open(t, cfg)
			key := eventlog.RequestKey{Process: "l", RPC: "7"}
			must(t, l.Commit(t.Context(), func(tx *eventlog.Tx) error {
				return tx.PutRequest(eventlog.Request{RequestKey: key, Session: "s", PublicID: "perm1", Params: []byte(`{"x":[]}`)})
			}))
			if r, err := l.Request(t.Context(), key); err != nil || string(r.Params) != `{"x":[]}` {
				t.Errorf("an open request %+v, %v", r, err)
			}
			var wg sync.WaitGroup
			var won atomic.Int32
			for i := range 20 {
				wg.Go(func() {
					err := l.Commit(t.Context(), func(tx *eventlog.Tx) error {
						if open, err := tx.Requests(eventlog.RequestFilter{Process: "l", Pending: true}); err != nil || len(open) > 1 {
							t.Errorf("%d open, %v", len(open), err)
						}
						_, err := tx.Answer(key, eventlog.Answered, fmt.Append(nil, i))
						return err
					})
					if err == nil {
						won.Add(1)
					} else if !errors.Is(err, eventlog.ErrAnswered) {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			if won.Load() != 1 {
				t.Errorf("%d answers won", won.Load())
			}
			all, err := l.Requests(t.Context(), eventlog.RequestFilter{PublicID: "perm1"})
			if err != nil || len(all) != 1 || all[0].State != eventlog.Answered || all[0].AnsweredAt.IsZero() || all[0].Params != nil {
				t.Errorf("%+v, %v", all, err)
			}
			if all, err := l.Requests(t.Context(), eventlog.RequestFilter{Session: "s", Pending: true}); err != nil || len(all) != 0 {
				t.Errorf("%+v, %v", all, err)
			}
		})
	}
}

// TestLargeAnswer: the record of a request has no large answer.
func TestLargeAnswer(t *testing.T) {
	t.Parallel()
	l := open(t, eventlog.Config{})
	for size, want := range map[int]int{64 << 10: 64 << 10, 64<<10 + 1: 0} {
		key := eventlog.RequestKey{Process: "l", RPC: fmt.Sprint(size)}
		must(t, l.Commit(t.Context(), func(tx *eventlog.Tx) error {
			return tx.PutRequest(eventlog.Request{RequestKey: key, State: eventlog.Answered, Answer: make([]byte, size)})
		}))
		if r, err := l.Request(t.Context(), key); err != nil || len(r.Answer) != want || r.State != eventlog.Answered {
			t.Errorf("an answer of %d bytes is %d bytes, %v, want %d", size, len(r.Answer), err, want)
		}
	}
}

// TestUnwritableRecord: a job with records that cannot be written does not affect the other jobs
// of its batch.
func TestUnwritableRecord(t *testing.T) {
	t.Parallel()
	for name, dsn := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := eventlog.Config{DSN: dsn(t)}
			l := open(t, cfg)
			put := func(public string, rpc int) error {
				return l.Commit(t.Context(), func(tx *eventlog.Tx) error {
					if _, err := tx.Append(eventlog.Event{Stream: "s"}); err != nil {
						return err
					}
					return tx.PutRequest(eventlog.Request{RequestKey: eventlog.RequestKey{Process: "l", RPC: fmt.Sprint(rpc)}, PublicID: public})
				})
			}
			must(t, put("taken", 0))
			var wg sync.WaitGroup
			for i := 1; i <= 40; i++ {
				wg.Go(func() {
					if i%10 == 0 {
						if err := put("taken", i); !errors.Is(err, eventlog.ErrExists) {
							t.Errorf("%d: %v", i, err)
						}
					} else if err := put(fmt.Sprint(i), i); err != nil {
						t.Errorf("%d: %v", i, err)
					}
				})
			}
			wg.Wait()
			if n := len(readAll(t, l, "s")); n != 37 {
				t.Errorf("%d events", n)
			}
		})
	}
}

func TestSessionPages(t *testing.T) {
	t.Parallel()
	for name, dsn := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := eventlog.Config{DSN: dsn(t)}
			l := open(t, cfg)
			var want []string
			must(t, l.Commit(t.Context(), func(tx *eventlog.Tx) error {
				want = nil
				for i := range 25 {
					s := eventlog.Session{ID: fmt.Sprintf("s%02d", i), State: eventlog.Idle, Agent: "a", CreatedAt: when.Add(time.Duration(i/10) * time.Second)}
					if i%5 == 0 {
						s.State, s.Agent = eventlog.Ended, "b"
					} else {
						want = append(want, s.ID)
					}
					if err := tx.PutSession(s); err != nil {
						return err
					}
				}
				return nil
			}))
			for _, newest := range []bool{false, true} {
				f := eventlog.SessionFilter{Agent: "a", States: []eventlog.State{eventlog.Idle, eventlog.Running, eventlog.Idle}, Newest: newest}
				var got []string
				for cursor, pages := "", 0; ; pages++ {
					page, next, err := l.Sessions(t.Context(), f, cursor, 7)
					must(t, err)
					for _, s := range page {
						got = append(got, s.ID)
					}
					if cursor = next; cursor == "" {
						if pages != 2 {
							t.Errorf("%d pages", pages+1)
						}
						break
					}
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("newest %v (-want +got):\n%s", newest, diff)
				}
				slices.Reverse(want)
			}
			for _, bad := range []string{"x", "bm8", "MTIz", "\x00"} {
				_, _, err := l.Sessions(t.Context(), eventlog.SessionFilter{}, bad, 0)
				if invalid := new(eventlog.InvalidError); !errors.As(err, &invalid) || invalid.Field != "cursor" {
					t.Errorf("cursor %q: %v", bad, err)
				}
			}
		})
	}
}

// TestLargeSessionPages: a page of sessions ends at 4 MiB, and the next one begins after it.
func TestLargeSessionPages(t *testing.T) {
	t.Parallel()
	for name, dsn := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := open(t, eventlog.Config{DSN: dsn(t)})
			offered := []byte(`"` + strings.Repeat("x", 700<<10) + `"`)
			must(t, l.Commit(t.Context(), func(tx *eventlog.Tx) error {
				for i := range 6 {
					s := eventlog.Session{ID: fmt.Sprint(i), State: eventlog.Idle, CreatedAt: when, Modes: offered, Caps: offered}
					if err := tx.PutSession(s); err != nil {
						return err
					}
				}
				return nil
			}))
			var got []string
			for cursor, more := "", true; more; more = cursor != "" {
				page, next, err := l.Sessions(t.Context(), eventlog.SessionFilter{}, cursor, 0)
				must(t, err)
				ids := ""
				for _, s := range page {
					ids += s.ID
				}
				got, cursor = append(got, ids), next
			}
			if want := []string{"012", "345"}; !slices.Equal(got, want) {
				t.Errorf("pages %q, want %q", got, want)
			}
		})
	}
}
