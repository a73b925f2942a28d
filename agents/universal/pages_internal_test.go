//go:build !race

package universal

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
)

// TestPagesOfLargeEvents: a page of entries ends when their events are large. No event is lost.
func TestPagesOfLargeEvents(t *testing.T) {
	t.Parallel()
	log := agentSays(t, "s1", slices.Repeat([]string{
		`{"sessionUpdate":"plan","entries":"` + strings.Repeat("<", 256<<10) + `"}`,
	}, 12)...)
	projector := NewProjector(log)
	t.Cleanup(projector.Close)
	p := projector.Session("s1")
	if err := p.applyPage(t.Context()); err != nil {
		t.Fatal(err)
	}
	last, err := log.Last(t.Context(), agents.SessionStream("s1"))
	if err != nil || p.applied == 0 || p.applied == last {
		t.Fatalf("the first page has the entries up to %d of %d, %v", p.applied, last, err)
	}
	if err := p.CatchUp(t.Context()); err != nil || p.applied != last || p.stored != 3*12 {
		t.Errorf("%d entries of %d, %d events, %v", p.applied, last, p.stored, err)
	}
}

// TestBytesOfStates: the states of all sessions together are bounded. A session whose state is
// dropped continues.
func TestBytesOfStates(t *testing.T) {
	t.Parallel()
	const sessions = 6
	log := openLog(t, eventlog.Config{})
	projector := NewProjector(log)
	t.Cleanup(projector.Close)
	say := func(id, update string) {
		t.Helper()
		e := updated(update)
		e.Stream, e.Session = agents.SessionStream(id), id
		err := log.Commit(t.Context(), func(tx *eventlog.Tx) error { _, err := tx.Append(e); return err })
		if err != nil {
			t.Fatal(err)
		}
		if err := projector.Session(id).CatchUp(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	kept := func() (states, bytes int) {
		for i := range sessions {
			if s := projector.Session(fmt.Sprint("s", i)).state; s != nil {
				states, bytes = states+1, bytes+s.size()
			}
		}
		return states, bytes
	}
	large := strings.Repeat("x", 5<<20)
	for i := range sessions {
		for call := range 3 {
			say(fmt.Sprint("s", i), fmt.Sprintf(`{"sessionUpdate":"tool_call","toolCallId":"%d","rawInput":"%s"}`, call, large))
		}
	}
	if states, bytes := kept(); states == 0 || states == sessions || bytes > maxStateBytes {
		t.Errorf("%d states with %d bytes", states, bytes)
	}
	before, err := projector.Session("s0").Count(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	say("s0", `{"sessionUpdate":"tool_call_update","toolCallId":"0","status":"completed"}`)
	if after, err := projector.Session("s0").Count(t.Context()); err != nil || after != before+4 {
		t.Errorf("the end of a call makes %d events, %v", after-before, err)
	}
	if _, bytes := kept(); bytes > maxStateBytes {
		t.Errorf("%d bytes after that", bytes)
	}
}

// TestBytesOfPages: a page of many rows with few events each has few megabytes.
func TestBytesOfPages(t *testing.T) {
	t.Parallel()
	const rows = 4000
	log := openLog(t, eventlog.Config{})
	data, err := json.Marshal(strings.Repeat("x", 3000))
	if err != nil {
		t.Fatal(err)
	}
	err = log.Commit(t.Context(), func(tx *eventlog.Tx) error {
		for i := range int64(rows) {
			row, err := (&eventBatch{Events: []storedEvent{{i + 1, Event{Type: ItemDelta, Session: "s1", Data: data}}}}).row("s1", i+1)
			if err != nil {
				return err
			}
			if _, err := tx.Append(row); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	after := int64(0)
	for after < rows {
		events, err := readEvents(t.Context(), log, "s1", after, 2*rows)
		if err != nil || len(events) == 0 || events[0].Sequence != after+1 || len(events)*len(data) > 2*readBytes {
			t.Fatalf("after %d of %d: %d events, %v", after, rows, len(events), err)
		}
		after = events[len(events)-1].Sequence
	}
}
