package eventlog_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/deskhand/deskhand/agents/eventlog"
)

// processCases are the processes of some servers. stays is true if the
// process must be kept.
var processCases = []struct {
	id, server, reason string // no reason: it runs
	stays              bool
}{
	{"gone-1", "gone", "server", false},
	{"gone-2", "gone", "deleted", false},
	{"past-1", "past", "server", true},  // a session has an event of it
	{"past-2", "past", "deleted", true}, // records that the server of past-1 was deleted
	{"anew-1", "anew", "deleted", false},
	{"anew-2", "anew", "", true},
	{"rest-1", "rest", "server", false},
	{"rest-2", "rest", "exit", true}, // can be restored
	{"long-1", "long", "server", false},
	{"long-2", "long", "deleted", true}, // retention has dropped its events except the newest
}

func fillProcesses(t *testing.T, l *eventlog.Log) {
	t.Helper()
	must(t, l.Commit(t.Context(), func(tx *eventlog.Tx) error {
		at := when
		for _, c := range processCases {
			at = at.Add(time.Second)
			process := eventlog.Process{ID: c.id, Server: c.server, Agent: "mock", StartedAt: at, Reason: c.reason}
			if c.reason != "" {
				process.ExitedAt = at.Add(time.Second)
			}
			if err := tx.PutProcess(process); err != nil {
				return err
			}
			r := eventlog.Request{RequestKey: eventlog.RequestKey{Process: c.id, RPC: "1"}, Session: "x", State: eventlog.Cancelled}
			if err := tx.PutRequest(r); err != nil {
				return err
			}
			if _, err := tx.Append(eventlog.Event{Stream: "acp:" + c.server, Process: c.id, Payload: []byte("{}")}); err != nil {
				return err
			}
		}
		if err := tx.PutSession(eventlog.Session{ID: "x", State: eventlog.Idle}); err != nil {
			return err
		}
		for i := range 20 {
			e := eventlog.Event{Stream: "ses:x", Session: "x", Process: fmt.Sprintf("long-%d", 1+i/10), Payload: []byte("{}")}
			if _, err := tx.Append(e); err != nil {
				return err
			}
		}
		_, err := tx.Append(eventlog.Event{Stream: "ses:y", Session: "y", Process: "past-1", Payload: []byte("{}")})
		return err
	}))
}

// processesOf returns the ids of the processes in a log, and of the processes with requests.
func processesOf(t *testing.T, l *eventlog.Log) (ids, asked []string) {
	t.Helper()
	processes, err := l.Processes(t.Context(), eventlog.ProcessFilter{})
	must(t, err)
	for _, process := range processes {
		ids = append(ids, process.ID)
	}
	requests, err := l.Requests(t.Context(), eventlog.RequestFilter{Session: "x"})
	must(t, err)
	for _, r := range requests {
		asked = append(asked, r.Process)
	}
	slices.Sort(ids)
	slices.Sort(asked)
	return ids, asked
}

// TestRetentionOfProcesses: the records of processes that nothing needs are removed.
func TestRetentionOfProcesses(t *testing.T) {
	t.Parallel()
	var all, stay []string
	for _, c := range processCases {
		all = append(all, c.id)
		if c.stays {
			stay = append(stay, c.id)
		}
	}
	slices.Sort(all)
	slices.Sort(stay)
	for _, name := range []string{"sqlite", "postgres"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := eventlog.Config{DSN: databases[name](t)}
			l := open(t, cfg)
			fillProcesses(t, l)
			closeLog(t, l)
			l = open(t, cfg) // which bounds nothing
			if ids, asked := processesOf(t, l); !slices.Equal(ids, all) || !slices.Equal(asked, all) {
				t.Errorf("without a bound %q are left, and requests of %q", ids, asked)
			}
			closeLog(t, l)
			cfg.Retention = eventlog.Retention{Events: 5}
			l = open(t, cfg)
			poll(t, func() error {
				if ids, asked := processesOf(t, l); !slices.Equal(ids, stay) || !slices.Equal(asked, stay) {
					return fmt.Errorf("%q are left, and requests of %q; want %q", ids, asked, stay)
				}
				return nil
			})
			if events, err := l.Read(t.Context(), "ses:x", 0, 0); err != nil || len(events) != 5 || events[4].Process != "long-2" {
				t.Errorf("session x has %d events: %v", len(events), err)
			}
			if e := put(t, l, "acp:gone", "next"); e[0].Seq != 3 {
				t.Errorf("the stream of a removed process continues with %d", e[0].Seq)
			}
		})
	}
}
