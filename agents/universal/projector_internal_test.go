package universal

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/deskhand/deskhand/agents/eventlog"
)

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); <-ticker.C {
		if ok() {
			return
		}
	}
	t.Fatalf("%s: not within a minute", what)
}

// TestLongSessionsAreMadeAhead: the events of long sessions, and of no short ones, are made
// before they are read. The projector can be closed while it makes events.
func TestLongSessionsAreMadeAhead(t *testing.T) {
	t.Parallel()
	var p atomic.Pointer[Projector]
	log := openLog(t, eventlog.Config{OnAppend: func(stream string, before, last int64) {
		if p := p.Load(); p != nil {
			p.OnAppend(stream, before, last)
		}
	}})
	p.Store(NewProjector(log))
	made := func(h *testHistory) int64 {
		t.Helper()
		n, err := p.Load().Session(h.id).Count(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	short, long := newHistory(t, log, 1), newHistory(t, log, 2)
	short.grow(appendsBetween - 1)
	for range 3 {
		long.grow(appendsBetween)
		all := int64(len(long.want))
		eventually(t, "the events of the long session", func() bool { return made(long) == all })
	}
	if n := made(short); n != 0 {
		t.Errorf("%d events of the short session were made", n)
	}
	long.read(p.Load().Session(long.id), 0, len(long.want))
	p.Load().tasks.Wait()
	long.grow(4 * appendsBetween)
	p.Load().Close()
}
