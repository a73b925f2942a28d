package httpapi

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
)

// aheadEvery is how many entries a session gets before its events are made even
// if nobody has asked for them: no history is so long that who asks has to wait.
// Short sessions, which most are, cost nothing until they are read. It is fewer
// than the log has in memory.
const aheadEvery = 2048

// ahead makes the events of sessions that get long, one session's at a time.
type ahead struct {
	of  func(session string) *projection
	log func() *eventlog.Log // nil: it is not open

	mu     sync.Mutex // guards what follows
	wait   []string   // the sessions
	stop   context.CancelFunc
	closed bool
	tasks  sync.WaitGroup // who makes them, as long as there are some
}

// grown is eventlog.Config.Grown.
func (a *ahead) grown(stream string, before, last int64) {
	session, ok := strings.CutPrefix(stream, agents.SessionStream(""))
	if !ok || before/aheadEvery == last/aheadEvery {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed || slices.Contains(a.wait, session) {
		return
	}
	a.wait = append(a.wait, session)
	if a.stop == nil {
		var ctx context.Context
		ctx, a.stop = context.WithCancel(context.Background())
		a.tasks.Go(func() { a.run(ctx) })
	}
}

// run is for the sessions that wait, and ends with the last.
func (a *ahead) run(ctx context.Context) {
	for {
		session, ok := a.next()
		if !ok {
			return
		}
		if log := a.log(); log != nil {
			// Who asks for them meets the same error, if it lasts.
			_ = a.of(session).catchUp(ctx, log)
		}
	}
}

// next is the session that has waited for longest.
func (a *ahead) next() (session string, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.wait) == 0 || a.closed {
		a.stop()
		a.stop = nil
		return "", false
	}
	session = a.wait[0]
	a.wait = a.wait[1:]
	return session, true
}

// close ends it, before the log is closed.
func (a *ahead) close() {
	a.mu.Lock()
	a.closed = true
	if a.stop != nil {
		a.stop()
	}
	a.mu.Unlock()
	a.tasks.Wait()
}
