package httpapi

import (
	"testing"

	"github.com/deskhand/deskhand/agents/eventlog"
)

// TestLongSessionsAreMadeAhead of those who read them; short ones are not, and
// the server can be closed in the middle.
func TestLongSessionsAreMadeAhead(t *testing.T) {
	t.Parallel()
	told := make(chan int64, 100)
	s := serve(t, Config{EventLog: eventlog.Config{Grown: func(_ string, before, last int64) {
		select {
		case told <- last - before:
		default: // nobody reads it
		}
	}}})
	if err := s.OpenAgents(t.Context()); err != nil {
		t.Fatal(err)
	}
	log := s.agents.opened()
	made := func(h *aHistory) int64 {
		t.Helper()
		last, err := log.Last(t.Context(), universalStream(h.id))
		if err != nil {
			t.Fatal(err)
		}
		return last
	}
	short, long := newHistory(t, log, 1), newHistory(t, log, 2)
	short.grow(aheadEvery - 1)
	if n := <-told; n != aheadEvery-1 {
		t.Errorf("the embedder was told of %d", n)
	}
	for range 3 {
		long.grow(aheadEvery)
		all := int64(len(long.want))
		eventually(t, "the events of the long session", func() bool { return made(long) == all })
	}
	if n := made(short); n != 0 {
		t.Errorf("%d events of the short session were made", n)
	}
	long.read(s.projections.of(long.id), log, 0, len(long.want))
	eventually(t, "the end of who made them", func() bool {
		s.ahead.mu.Lock()
		defer s.ahead.mu.Unlock()
		return s.ahead.stop == nil
	})
	long.grow(4 * aheadEvery)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
