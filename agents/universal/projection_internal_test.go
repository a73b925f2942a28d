package universal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/internal/testpostgres"
)

// testHistory is a session's log, with the expected events and state.
type testHistory struct {
	t       *testing.T
	random  *rand.Rand
	log     *eventlog.Log
	id      string
	entries int64
	want    []string // the events
	state   *State   // after all entries
	turn    int64    // the prompt that is not answered; 0: none
}

func newHistory(t *testing.T, log *eventlog.Log, seed uint64) *testHistory {
	t.Helper()
	id := fmt.Sprint("s", seed)
	return &testHistory{t: t, random: rand.New(rand.NewPCG(seed, 1)), log: log, id: id, state: NewState(id)}
}

// openLog opens a log that is closed with the test.
func openLog(t *testing.T, cfg eventlog.Config) *eventlog.Log {
	t.Helper()
	log, err := eventlog.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := log.Close(); err != nil {
			t.Error(err)
		}
	})
	return log
}

// entry returns the next entry: turns with random updates and questions, and with
// different ends.
func (h *testHistory) entry() eventlog.Event {
	e := eventlog.Event{Stream: agents.SessionStream(h.id), Session: h.id, Process: "life", Dir: eventlog.Agent, Kind: "session/update"}
	n := h.entries + 1
	set := func(dir eventlog.Direction, kind, payload string, args ...any) {
		e.Dir, e.Kind, e.Payload = dir, kind, fmt.Appendf(nil, payload, args...)
	}
	update := func(format string, args ...any) {
		set(eventlog.Agent, "session/update", `{"params":{"update":%s}}`, fmt.Sprintf(format, args...))
	}
	call := h.random.IntN(4)
	switch pick := h.random.IntN(100); {
	case h.turn == 0 || pick == 0:
		h.turn = n
		set(eventlog.Client, "session/prompt", `{"id":%d,"params":{"prompt":[{"type":"text","text":"do %d"}]}}`, n, n)
	case pick == 1:
		set(eventlog.Agent, "response:session/prompt", `{"id":%d,"result":{"stopReason":"end_turn"}}`, h.turn)
		h.turn = 0
	case pick == 2:
		set(eventlog.Daemon, "_adapter/agent_exited", `{"params":{"code":1,"stderr":"bad %d"}}`, n)
		h.turn = 0
	case pick == 3:
		set(eventlog.Agent, "strange", `{"what":%d}`, n)
	case pick < 10:
		update(`{"sessionUpdate":"tool_call","toolCallId":"c%d","title":"t%d","kind":"read","locations":[{"path":"/f%d"}]}`, call, n, n)
	case pick < 20:
		status := []string{"in_progress", "completed", "failed"}[h.random.IntN(3)]
		update(`{"sessionUpdate":"tool_call_update","toolCallId":"c%d","status":%q,"rawOutput":"o%d"}`, call, status, n)
	case pick < 23:
		set(eventlog.Agent, "session/request_permission", `{"id":%d,"params":{"toolCall":{"toolCallId":"c%d"},"options":[{"optionId":"y","name":"Yes","kind":"allow_once"}]}}`, call, call)
	case pick < 26:
		set(eventlog.Client, "response:session/request_permission", `{"id":%d,"result":{"outcome":{"outcome":"selected","optionId":"y"}}}`, call)
	case pick < 30:
		update(`{"sessionUpdate":"agent_thought_chunk","content":{"type":"text","text":"hm %d"}}`, n)
	case pick < 32:
		update(`{"sessionUpdate":"agent_message_chunk","content":{"type":"image","data":"AA==","mimeType":"image/png"}}`)
	case pick < 34:
		set(eventlog.Client, "session/set_mode", `{"id":%d}`, n) // makes no event
	default:
		update(`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":%q}}`, strings.Repeat("word ", h.random.IntN(20)))
	}
	return e
}

// grow appends n entries.
func (h *testHistory) grow(n int) {
	h.t.Helper()
	err := h.log.Commit(h.t.Context(), func(tx *eventlog.Tx) error {
		for range n {
			e, err := tx.Append(h.entry())
			if err != nil {
				return err
			}
			h.entries = e.Seq
			for _, u := range h.state.Apply(e) {
				h.want = append(h.want, h.text(u))
			}
		}
		return nil
	})
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *testHistory) text(e Event) string {
	h.t.Helper()
	text, err := e.JSON(nil)
	if err != nil {
		h.t.Fatal(err)
	}
	return string(text)
}

// read compares a page with the wanted events.
func (h *testHistory) read(p *Projection, after int64, limit int) {
	h.t.Helper()
	if err := p.catchUpTo(h.t.Context(), after+int64(limit)); err != nil {
		h.t.Fatal(err)
	}
	events, err := readEvents(h.t.Context(), p.log, h.id, after, limit)
	if err != nil {
		h.t.Fatal(err)
	}
	var got []string
	for _, e := range events {
		got = append(got, h.text(e))
	}
	if want := h.want[min(int(after), len(h.want)):min(int(after)+limit, len(h.want))]; !cmp.Equal(got, append([]string(nil), want...)) {
		h.t.Fatalf("%d events after %d differ (-want +got):\n%s", limit, after, cmp.Diff(want, got))
	}
}

// olderVersion stores the events of all entries like another version: one in a row,
// or with a state that this version cannot read.
func (h *testHistory) olderVersion() {
	h.t.Helper()
	ctx, single := h.t.Context(), h.random.IntN(2) == 0
	state := NewState(h.id)
	stored, err := h.log.Last(ctx, storedStream(h.id))
	var rows []eventlog.Event
	var counts []int
	for at := int64(0); err == nil && at < h.entries; {
		var entries []eventlog.Event
		if entries, err = h.log.Read(ctx, agents.SessionStream(h.id), at, 100); err != nil {
			break
		}
		var events []Event
		for i := range entries {
			at = entries[i].Seq
			for _, e := range state.Apply(entries[i]) {
				if e.Sequence > stored {
					events = append(events, e)
				}
			}
		}
		for _, b := range batches(events) {
			if b.Applied = b.Events[len(b.Events)-1].Entry; !single {
				b.State = json.RawMessage(`{"version":0,"state":{"session":"` + h.id + `","items":1000000}}`)
				if b.Events[len(b.Events)-1].Event.Sequence == events[len(events)-1].Sequence {
					b.Applied = at
				}
			}
			row, err := b.row(h.id, b.Events[len(b.Events)-1].Event.Sequence)
			if err != nil {
				h.t.Fatal(err)
			}
			if !single {
				rows, counts = append(rows, row), append(counts, len(b.Events))
				continue
			}
			for _, e := range b.Events {
				row.Kind = e.Event.Type
				row.Payload, _ = json.Marshal(e)
				rows, counts = append(rows, row), append(counts, 1)
			}
		}
	}
	if err == nil {
		err = h.log.Commit(ctx, func(tx *eventlog.Tx) error {
			for i := range rows {
				if _, err := tx.AppendMany(rows[i], counts[i]); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err != nil {
		h.t.Fatal(err)
	}
}

// TestProjectionsOfAnyHistory: events that are made in any steps, with interruptions and
// restarts, are the same as the events that all entries make in one step.
func TestProjectionsOfAnyHistory(t *testing.T) {
	t.Parallel()
	for _, database := range []string{"sqlite", "postgres"} {
		t.Run(database, func(t *testing.T) {
			t.Parallel()
			cfg := eventlog.Config{DSN: filepath.Join(t.TempDir(), "log.db"), Synchronous: eventlog.Normal}
			if database == "postgres" {
				cfg.DSN = testpostgres.Start(t).DSN()
			}
			logs := []*eventlog.Log{openLog(t, cfg)}
			logs = append(logs, logs[0])
			if database == "postgres" {
				logs[1] = openLog(t, cfg)
			}
			for seed := range uint64(3) {
				h := newHistory(t, logs[0], seed)
				h.live(logs)
			}
		})
	}
}

// live applies random operations to a session that two servers share.
func (h *testHistory) live(logs []*eventlog.Log) {
	h.t.Helper()
	servers := make([]*Projector, len(logs))
	restart := func(i int) { servers[i] = NewProjector(logs[i]) }
	for i := range servers {
		restart(i)
	}
	for range 30 {
		i := h.random.IntN(len(logs))
		p := servers[i].Session(h.id)
		switch h.random.IntN(8) {
		case 0, 1:
			h.grow(1 + h.random.IntN(400))
		case 2:
			h.grow(1 + h.random.IntN(10))
		case 3:
			restart(i)
		case 4:
			h.olderVersion()
		case 5:
			ctx, cancel := context.WithTimeout(h.t.Context(), time.Duration(h.random.IntN(10_000_000)))
			if err := p.CatchUp(ctx); err != nil && ctx.Err() == nil {
				h.t.Fatal(err)
			}
			cancel()
		case 6:
			if err := p.Refresh(h.t.Context()); err != nil {
				h.t.Fatal(err)
			}
		default:
			h.read(p, h.random.Int64N(int64(len(h.want))+1), 1+h.random.IntN(2000))
		}
	}
	for _, s := range servers {
		h.read(s.Session(h.id), 0, len(h.want)+1)
	}
}

// TestProjectionsContinueFromAState: a projection continues from a stored state near the end,
// also within a turn, and restores no state if there are no new entries.
func TestProjectionsContinueFromAState(t *testing.T) {
	t.Parallel()
	log := openLog(t, eventlog.Config{})
	for seed := range uint64(2) {
		h := newHistory(t, log, seed)
		h.grow(3000)
		for h.turn == 0 {
			h.grow(1)
		}
		if err := NewProjector(log).Session(h.id).CatchUp(t.Context()); err != nil {
			t.Fatal(err)
		}
		m, err := findCheckpoint(t.Context(), log, h.id)
		if err != nil || m.until != h.entries || m.stored != int64(len(h.want)) || m.until-m.applied > saveEvery+entryPage {
			t.Errorf("%+v, %v after %d entries and %d events", m, err, h.entries, len(h.want))
		}
		p := NewProjector(log).Session(h.id)
		if err := p.CatchUp(t.Context()); err != nil || p.state != nil {
			t.Errorf("a state was restored without new entries, %v", err)
		}
	}
}

// TestReadingNeedsNoState: reading, counting and listing stored events restores no state.
func TestReadingNeedsNoState(t *testing.T) {
	t.Parallel()
	log := openLog(t, eventlog.Config{})
	h := newHistory(t, log, 1)
	h.grow(300)
	if err := NewProjector(log).Session(h.id).CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	p := NewProjector(log).Session(h.id)
	events, more, err := p.Events(t.Context(), 0, 1)
	if err != nil || len(events) != 1 || !more || p.state != nil {
		t.Errorf("%d events, more %v, %v; a state was made: %v", len(events), more, err, p.state != nil)
	}
	for range 2 {
		if err := p.Refresh(t.Context()); err != nil || p.state != nil {
			t.Errorf("%v; a state was made: %v", err, p.state != nil)
		}
	}
	if n, err := p.Count(t.Context()); err != nil || n != int64(len(h.want)) {
		t.Errorf("%d events of %d, %v", n, len(h.want), err)
	}
	h.grow(5)
	if err := p.Refresh(t.Context()); err != nil || p.state == nil {
		t.Errorf("%v; a state was made: %v", err, p.state != nil)
	}
	p.dropState()
	if err := p.Refresh(t.Context()); err != nil || p.state != nil {
		t.Errorf("a dropped state was made again, %v", err)
	}
}

// TestProjectionsOfAVersion: a state of another version is replaced once.
func TestProjectionsOfAVersion(t *testing.T) {
	t.Parallel()
	log := openLog(t, eventlog.Config{})
	h := newHistory(t, log, 1)
	h.grow(2000)
	h.olderVersion()
	if m, err := findCheckpoint(t.Context(), log, h.id); err != nil || m.applied != 0 || m.base != 0 || m.stored != int64(len(h.want)) {
		t.Errorf("%+v, %v", m, err)
	}
	h.grow(3)
	h.read(NewProjector(log).Session(h.id), 0, len(h.want))
	if m, err := findCheckpoint(t.Context(), log, h.id); err != nil || m.applied != h.entries {
		t.Errorf("the state is that after %d of %d entries, %v", m.applied, h.entries, err)
	}
}

// TestProjectionsAfterRetention: events are made although retention has removed entries.
func TestProjectionsAfterRetention(t *testing.T) {
	t.Parallel()
	log := openLog(t, eventlog.Config{Memory: 1, Retention: eventlog.Retention{Events: 1000, Interval: 10 * time.Millisecond}})
	h := newHistory(t, log, 1)
	for h.entries < 3000 {
		h.grow(100)
		p := NewProjector(log).Session(h.id) // like another server
		if err := p.CatchUp(t.Context()); err != nil {
			t.Fatal(err)
		}
		// Retention keeps the newest ones.
		h.read(p, int64(max(0, len(h.want)-300)), 300)
	}
	deadline := time.Now().Add(time.Minute)
	for first := int64(0); first < 2000; {
		page, err := log.Read(t.Context(), agents.SessionStream(h.id), 0, 1)
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("retention kept entry %d, %v", first, err)
		}
		first = page[0].Seq
	}
}

// TestProjectionsKeepWhatIsLarge: the stored states of a long message are not much larger
// than its entries.
func TestProjectionsKeepWhatIsLarge(t *testing.T) {
	t.Parallel()
	log := openLog(t, eventlog.Config{})
	p := NewProjector(log).Session("s")
	text := strings.Repeat("x", 100)
	say := func(n int) {
		t.Helper()
		err := log.Commit(t.Context(), func(tx *eventlog.Tx) error {
			for range n {
				_, err := tx.Append(eventlog.Event{
					Stream: agents.SessionStream("s"), Session: "s", Kind: "session/update",
					Payload: []byte(`{"params":{"update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"` + text + `"}}}}`),
				})
				if err != nil {
					return err
				}
			}
			return nil
		})
		if err = errors.Join(err, p.CatchUp(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	states, entries := 0, 12_000
	for range entries / 500 {
		say(500)
		b, err := readBatch(t.Context(), log, "s", p.stored)
		if err != nil {
			t.Fatal(err)
		}
		states += len(b.State)
	}
	if all := entries * 200; states == 0 || states > all*3/2 {
		t.Errorf("the states of a message have %d bytes, its entries %d", states, all)
	}
}

// agentSays appends updates of the agent, and returns their log.
func agentSays(t *testing.T, session string, updates ...string) *eventlog.Log {
	t.Helper()
	log := openLog(t, eventlog.Config{DSN: filepath.Join(t.TempDir(), "log.db"), Synchronous: eventlog.Normal})
	for _, u := range updates {
		err := log.Commit(t.Context(), func(tx *eventlog.Tx) error {
			_, err := tx.Append(eventlog.Event{
				Stream: agents.SessionStream(session), Session: session, Process: "life", Dir: eventlog.Agent, Kind: "session/update",
				Payload: fmt.Appendf(nil, `{"params":{"update":%s}}`, u),
			})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return log
}

// TestMuchText projects a message of 4 MiB, which continues in several items.
func TestMuchText(t *testing.T) {
	t.Parallel()
	const pieces, size = 8, 1 << 19
	text := strings.Repeat("x", size)
	log := agentSays(t, "s1", slices.Repeat([]string{`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"` + text + `"}}`}, pieces)...)
	p := NewProjector(log).Session("s1")
	var deltas, largest int
	for after, more := int64(0), true; more; {
		var events []Event
		var err error
		if events, more, err = p.Events(t.Context(), after, 1000); err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			largest, after = max(largest, len(e.Data)), e.Sequence
			if e.Type == ItemDelta {
				deltas += len(e.Data)
			}
		}
	}
	if deltas < pieces*size || largest > maxText+size+1<<10 {
		t.Errorf("deltas have %d bytes, the largest event %d", deltas, largest)
	}
}

// TestRefreshIsBounded: Refresh applies some pages of large entries, not all.
func TestRefreshIsBounded(t *testing.T) {
	t.Parallel()
	log := agentSays(t, "s1", slices.Repeat([]string{`"` + strings.Repeat("x", maxEntry) + `"`}, refreshPages+2)...)
	p := NewProjector(log).Session("s1")
	if err := p.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n, err := p.Count(t.Context()); err != nil || n != refreshPages {
		t.Errorf("%d events, %v, want %d", n, err, refreshPages)
	}
}

// TestLargeEntries: an entry that is too large makes one event, and the turn continues.
func TestLargeEntries(t *testing.T) {
	t.Parallel()
	s := NewState("s1")
	apply := func(dir eventlog.Direction, kind, payload string) (types []string) {
		t.Helper()
		for _, e := range s.Apply(eventlog.Event{Seq: 1, Process: "life", Dir: dir, Kind: kind, Payload: []byte(payload)}) {
			types = append(types, e.Type)
			if len(e.Data) > maxEntry {
				t.Errorf("%s: an event of %d bytes", kind, len(e.Data))
			}
		}
		return types
	}
	large := strings.Repeat("x", maxEntry)
	apply(eventlog.Client, "session/prompt", `{"id":1,"params":{"prompt":[{"type":"text","text":"go"}]}}`)
	for _, u := range []string{
		`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"` + large + `"}}`,
		`{"sessionUpdate":"tool_call","toolCallId":"t","rawInput":"` + large + `"}`,
	} {
		if got := apply(eventlog.Agent, "session/update", `{"params":{"update":`+u+`}}`); !slices.Equal(got, []string{Unparsed}) {
			t.Errorf("%.40s: %q", u, got)
		}
	}
	for _, answer := range []string{`"result":{"stopReason":"end_turn","x":"` + large + `"}`, `"error":{"code":5,"message":"` + large + `"}`} {
		apply(eventlog.Client, "session/prompt", `{"id":1,"params":{"prompt":[]}}`)
		if apply(eventlog.Agent, "response:session/prompt", `{"id":1,`+answer+`}`); len(s.Turns) != 1 {
			t.Errorf("%.40s: %d turns are open", answer, len(s.Turns))
		}
	}
}
