package universal

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
)

// Projector stores the events of sessions in the log that has the sessions. Each
// session has a separate stream for its events, so that their numbers stay valid when a
// later version makes other events from the same entries.
//
// Events are made when a caller reads them. Those of long sessions are made
// earlier: see OnAppend.
type Projector struct {
	log   *eventlog.Log
	ctx   context.Context //nolint:containedctx // of the background work, until Close
	stop  context.CancelFunc
	tasks sync.WaitGroup // the background work
	turn  sync.Mutex     // held by one of tasks at a time

	mu          sync.Mutex // guards the fields below, and tasks.Go against Close
	projections map[string]*Projection
	recent      []*Projection // that have a state, the least recently used first
}

const (
	// appendsBetween is how many entries a session gets before OnAppend makes its
	// events. The log has more entries in memory. Short sessions, which are the most
	// frequent, cost nothing until a caller reads them.
	appendsBetween = 2048

	// maxStates and maxStateBytes bound the sessions' states in memory. The state of
	// another session is read from the log again.
	maxStates     = 256
	maxStateBytes = 64 << 20
)

// NewProjector returns a projector of the sessions in a log. Close it before the
// log.
func NewProjector(log *eventlog.Log) *Projector {
	p := &Projector{log: log, projections: map[string]*Projection{}}
	p.ctx, p.stop = context.WithCancel(context.Background())
	return p
}

// Session returns the projection of a session. It does not read the log. A session that does
// not exist has no events.
func (p *Projector) Session(id string) *Projection {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.projections[id]
	if s == nil {
		s = &Projection{id: id, log: p.log, projector: p}
		p.projections[id] = s
	}
	return s
}

// keep records that a projection, whose mutex the caller holds, was used. It drops the states that
// were used longest ago, if all of them are too many or too large.
func (p *Projector) keep(s *Projection) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.recent = slices.DeleteFunc(p.recent, func(o *Projection) bool { return o == s })
	if s.state == nil {
		return
	}
	s.bytes = s.state.size()
	p.recent = append(p.recent, s)
	count, total := len(p.recent), 0
	for _, o := range p.recent {
		total += o.bytes
	}
	p.recent = slices.DeleteFunc(p.recent, func(o *Projection) bool {
		if o == s || count <= maxStates && total <= maxStateBytes || !o.dropState() {
			return false
		}
		count, total = count-1, total-o.bytes
		return true
	})
}

// OnAppend makes the events of a session in the background each time that its stream has
// grown by 2048 entries, so that the first reader of a long history does not wait for all of
// it. OnAppend does not block. Call it from [eventlog.Config].OnAppend.
func (p *Projector) OnAppend(stream string, before, last int64) {
	session, ok := strings.CutPrefix(stream, agents.SessionStream(""))
	if !ok || before/appendsBetween == last/appendsBetween {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() != nil {
		return
	}
	p.tasks.Go(func() {
		p.turn.Lock()
		defer p.turn.Unlock()
		if p.ctx.Err() == nil {
			_ = p.Session(session).CatchUp(p.ctx) // a reader of the session gets an error that lasts
		}
	})
}

// Close stops the background work that OnAppend began, and waits for its end. Projections
// can still be used.
func (p *Projector) Close() {
	p.mu.Lock()
	p.stop()
	p.mu.Unlock()
	p.tasks.Wait()
}
