package agents

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/deskhand/deskhand/agents/eventlog"
)

// commitBatch has the effects of some commands, which one transaction writes.
type commitBatch struct {
	effects []*effects
	changed map[*attachedSession]struct{} // sessions whose rows are written
	opened  map[*attachedSession]struct{} // sessions whose rows were read earlier: see keepPolicies
	exit    bool                          // the agent has ended
}

// maxBatch bounds the commands of a batch.
const maxBatch = 512

// effects has the effects of one command.
type effects struct {
	events   []eventlog.Event
	requests []eventlog.Request
	deliver  []func() // called after the commit, in order
	weight   int64    // in agentProcess.outputs; commit releases it

	// For a client's command, which can be refused if it cannot be committed:
	undo   []func()    // restore the state of run, called in reverse order
	refuse func(error) // tells the client that the command had no effect
	report func(error) // tells the client that the effect is not known
}

func newBatch() *commitBatch {
	return &commitBatch{changed: map[*attachedSession]struct{}{}, opened: map[*attachedSession]struct{}{}}
}

func (b *commitBatch) add(weight int64) *effects {
	fx := &effects{weight: weight}
	b.effects = append(b.effects, fx)
	return fx
}

// markChanged has the row of a session written, unless another process still owns
// the session.
func (b *commitBatch) markChanged(s *attachedSession) {
	if s.pendingOpen {
		return
	}
	s.row.UpdatedAt = time.Now()
	s.row.State = s.state()
	b.changed[s] = struct{}{}
}

func (b *commitBatch) hasChanges() bool {
	return b.exit || len(b.changed) > 0 || slices.ContainsFunc(b.effects, func(fx *effects) bool {
		return len(fx.events) > 0 || len(fx.requests) > 0
	})
}

const (
	retryFirst = 20 * time.Millisecond
	retryMost  = time.Second
	retryEnd   = 2 * time.Second // how long the end of a closed host waits for the log
)

// commit writes a batch. It is the only function of the host that retries and refuses. If the
// log takes nothing:
//
//   - Commands of clients are undone and removed from the batch. Clients get the error.
//   - The agent's messages stay in the batch. commit tries again until the log takes them,
//     or the host has been closed for retryEnd.
//   - Effects that the log reports as invalid are dropped.
//
// Effects that are not written are not delivered.
func (p *agentProcess) commit(b *commitBatch) {
	wait := retryFirst
	var since time.Time
	for !p.silenced {
		err := p.write(b)
		if err == nil {
			p.setLogError(nil)
			break
		}
		if over, is := errors.AsType[overtakenError](err); is {
			p.loseServer(over.error)
			break
		}
		if since.IsZero() {
			since = time.Now()
			p.log.Error("the event log takes nothing", "error", err)
		}
		if errors.Is(err, eventlog.ErrUncertain) { // of awaitOutcome: the host ends first
			p.setLogError(err)
			p.silenced = true
			break
		}
		p.refuseBatch(b, err)
		if _, invalid := errors.AsType[*eventlog.InvalidError](err); invalid {
			p.dropInvalid(b)
			continue
		}
		if p.host.isClosed() && time.Since(since) > retryEnd {
			p.silenced = true
			break
		}
		if !b.hasChanges() {
			break
		}
		p.refuseWaiting(err)
		time.Sleep(wait)
		wait = min(2*wait, retryMost)
	}
	if why := p.lostError(); why != nil {
		p.refuseBatch(b, why)
		p.setLogError(why)
	}
	for _, fx := range b.effects {
		p.releaseOutput(fx.weight)
	}
	if p.silenced {
		b.effects = nil
	}
}

func (p *agentProcess) write(b *commitBatch) error {
	if !b.hasChanges() && !p.recordDirty {
		return nil
	}
	rows := make([]eventlog.Session, 0, len(b.changed))
	for s := range b.changed {
		s.row.State = s.state()
		rows = append(rows, s.row)
	}
	// The transaction may still run after awaitOutcome has given up.
	record, recordDirty, all, opened := p.record, p.recordDirty, b.effects, b.opened
	var policies map[*attachedSession]Policy
	err := p.host.cfg.Log.TryCommit(context.Background(), func(tx *eventlog.Tx) (err error) {
		if err := p.checkOwner(tx); err != nil {
			return err
		}
		if recordDirty {
			if err := tx.PutProcess(record); err != nil {
				return err
			}
		}
		if len(opened) > 0 {
			if policies, err = keepPolicies(tx, rows, opened); err != nil {
				return err
			}
		}
		return fill(tx, all, rows)
	})
	if doubt, open := errors.AsType[*eventlog.UncertainError](err); open {
		err = p.awaitOutcome(b, doubt)
	}
	if err == nil {
		p.recordDirty = false
		for s, policy := range policies {
			s.data.Permissions = policy
			s.saveData()
		}
	}
	return err
}

func fill(tx *eventlog.Tx, all []*effects, rows []eventlog.Session) error {
	for _, fx := range all {
		for i := range fx.events {
			e, err := tx.Append(fx.events[i])
			if err != nil {
				return err
			}
			fx.events[i].Seq = e.Seq
		}
		for _, r := range fx.requests {
			if err := tx.PutRequest(r); err != nil {
				return err
			}
		}
	}
	for _, row := range rows {
		if err := tx.PutSession(row); err != nil {
			return err
		}
	}
	return nil
}

// keepPolicies copies the log's policies into rows and returns them. With this commit the
// process becomes the owner of the sessions. A policy may have changed since the row was
// read.
func keepPolicies(tx *eventlog.Tx, rows []eventlog.Session, opened map[*attachedSession]struct{}) (map[*attachedSession]Policy, error) {
	policies := map[*attachedSession]Policy{}
	for s := range opened {
		i := slices.IndexFunc(rows, func(row eventlog.Session) bool { return row.ID == s.row.ID })
		stored, err := tx.Session(s.row.ID)
		if i < 0 || errors.Is(err, eventlog.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		now := attachedSessionOf(rows[i])
		now.data.Permissions = attachedSessionOf(stored).data.Permissions
		now.saveData()
		rows[i], policies[s] = now.row, now.data.Permissions
	}
	return policies, nil
}

// awaitOutcome waits for the outcome of a commit during which the connection to Postgres
// broke. After retryEnd callers get ErrUncertain, and a closed host gives up.
func (p *agentProcess) awaitOutcome(b *commitBatch, doubt *eventlog.UncertainError) error {
	away := fmt.Errorf("%w: the outcome of a commit is not known yet", eventlog.ErrUnavailable)
	p.setLogError(away)
	begun := time.Now()
	for {
		ctx, cancel := context.WithTimeout(context.Background(), retryFirst)
		err := doubt.Wait(ctx)
		cancel()
		if !errors.Is(err, eventlog.ErrUncertain) {
			return err
		}
		p.refuseWaiting(away)
		if time.Since(begun) < retryEnd {
			continue
		}
		if p.host.isClosed() {
			return err
		}
		for _, fx := range b.effects {
			if fx.report != nil {
				fx.report(err)
			}
		}
	}
}

// setLogError sets the error for new messages while the log takes nothing. Nil: the log takes
// messages.
func (p *agentProcess) setLogError(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.logError, p.active = err, time.Now()
	p.inFlight = len(p.pending.byID) + len(p.questions)
}

// refuseBatch undoes the commands of clients, removes them from the batch, and tells the
// clients.
func (p *agentProcess) refuseBatch(b *commitBatch, err error) {
	var refused []*effects
	for i, fx := range slices.Backward(b.effects) {
		if fx.refuse == nil {
			continue
		}
		for _, undo := range slices.Backward(fx.undo) {
			undo()
		}
		refused = append(refused, fx)
		b.effects[i] = &effects{weight: fx.weight}
	}
	// If nothing waits for the log, the next message tries it again.
	if b.hasChanges() {
		p.setLogError(err)
	} else {
		p.setLogError(nil)
	}
	for _, fx := range refused {
		fx.refuse(err)
	}
}

// refuseWaiting refuses the commands of clients that are not in a batch yet. It
// keeps the others.
func (p *agentProcess) refuseWaiting(err error) {
	for {
		select {
		case c := <-p.commands:
			if c.refuse != nil {
				c.refuse(err)
			} else {
				p.backlog = append(p.backlog, c)
			}
		default:
			return
		}
	}
}

// dropInvalid drops the effects of a batch that the log reports as invalid.
func (p *agentProcess) dropInvalid(b *commitBatch) {
	for _, fx := range b.effects {
		if p.isInvalid([]*effects{fx}, nil) {
			fx.events, fx.requests = nil, nil
		}
	}
	for s := range b.changed {
		if p.isInvalid(nil, []eventlog.Session{s.row}) {
			delete(b.changed, s)
		}
	}
}

// errTrial rolls back the transaction of isInvalid.
var errTrial = errors.New("tried")

// isInvalid reports whether the log refuses effects or rows as invalid.
func (p *agentProcess) isInvalid(all []*effects, rows []eventlog.Session) bool {
	err := p.host.cfg.Log.TryCommit(context.Background(), func(tx *eventlog.Tx) error {
		if err := fill(tx, all, rows); err != nil {
			return err
		}
		return errTrial
	})
	_, invalid := errors.AsType[*eventlog.InvalidError](err)
	if invalid {
		p.log.Error("an event or row is invalid for the event log and dropped", "error", err)
	}
	return invalid
}

// commit commits for a caller. It returns an error immediately if Postgres is away, and waits
// for an outcome that is not known.
func (h *Host) commit(ctx context.Context, f func(*eventlog.Tx) error) error {
	err := h.cfg.Log.TryCommit(ctx, f)
	if doubt, open := errors.AsType[*eventlog.UncertainError](err); open {
		return doubt.Wait(ctx)
	}
	return err
}

// published returns the name of the stream that followers of a server read. received returns
// the name of the stream of clients' messages that are about no session.
func published(server string) string { return "acp:" + server }
func received(server string) string  { return "cli:" + server }

// SessionStream returns the name of the stream of a session's messages, in both directions.
func SessionStream(session string) string { return "ses:" + session }

const maxKind = 200

// kind returns a method as the log takes it.
func kind(method string) string {
	if len(method) > maxKind {
		method = method[:maxKind]
	}
	return cleaned(method)
}

// publish adds an event for the followers of the server.
func (p *agentProcess) publish(fx *effects, dir eventlog.Direction, s *attachedSession, k string, payload []byte) {
	fx.events = append(fx.events, eventlog.Event{
		Stream: published(p.server.id), Process: p.id, Session: s.id(), Dir: dir, Kind: kind(k), Payload: payload,
	})
}

// recordMessage adds an event to the stream of a session, or to the server's own for
// a message that is about none.
func (p *agentProcess) recordMessage(fx *effects, dir eventlog.Direction, s *attachedSession, k string, payload []byte) {
	stream := received(p.server.id)
	if s != nil {
		stream = SessionStream(s.row.ID)
	}
	fx.events = append(fx.events, eventlog.Event{
		Stream: stream, Process: p.id, Session: s.id(), Dir: dir, Kind: kind(k), Payload: payload,
	})
}
