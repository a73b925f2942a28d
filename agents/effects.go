package agents

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/internal/cuttext"
)

// commitBatch has the effects of some commands, which one transaction writes.
type commitBatch struct {
	server  string // in its events
	process string // in its events
	effects []*effects
	changed map[*attachedSession]struct{} // sessions whose rows are written
	opened  map[*attachedSession]struct{} // sessions whose rows were read earlier: see adoptChanges
	exit    bool                          // the agent has ended

	completed bool // another host has completed the record of the process: see committer.write
}

// maxBatch bounds the commands of a batch.
const maxBatch = 512

func newBatch(server, process string) *commitBatch {
	return &commitBatch{
		server: server, process: process, changed: map[*attachedSession]struct{}{}, opened: map[*attachedSession]struct{}{},
	}
}

func (b *commitBatch) add(weight int64) *effects {
	fx := &effects{batch: b, weight: weight}
	b.effects = append(b.effects, fx)
	return fx
}

func (b *commitBatch) hasChanges() bool {
	return b.exit || len(b.changed) > 0 || slices.ContainsFunc(b.effects, func(fx *effects) bool {
		return len(fx.events) > 0 || len(fx.requests) > 0
	})
}

// undo undoes the commands of clients, removes them from the batch, and returns them.
func (b *commitBatch) undo() (undone []*effects) {
	for i, fx := range slices.Backward(b.effects) {
		if fx.refuse == nil {
			continue
		}
		for _, undo := range slices.Backward(fx.undo) {
			undo()
		}
		undone = append(undone, fx)
		b.effects[i] = &effects{batch: b, weight: fx.weight}
	}
	return undone
}

// refusedError reports that the log refuses a transaction because some effects, or
// the row of a session, are invalid.
type refusedError struct {
	error
	drop func() // removes them from the batch
}

func (e *refusedError) Unwrap() error { return e.error }

// write writes a batch. sessions has the rows of the changed sessions. The transaction may
// call write after the process has gone on, so write changes nothing but numbers of events.
func (b *commitBatch) write(tx *eventlog.Tx, all []*effects, sessions map[*attachedSession]eventlog.Session) error {
	for _, fx := range all {
		if err := fx.write(tx); err != nil {
			return refusedIfInvalid(err, func() { fx.events, fx.requests = nil, nil })
		}
	}
	for s, row := range sessions {
		if err := tx.PutSession(row); err != nil {
			return refusedIfInvalid(err, func() { delete(b.changed, s) })
		}
	}
	return nil
}

func refusedIfInvalid(err error, drop func()) error {
	if _, invalid := errors.AsType[*eventlog.InvalidError](err); invalid {
		return &refusedError{err, drop}
	}
	return err
}

// effects has the effects of one command.
type effects struct {
	batch    *commitBatch
	events   []eventlog.Event
	requests []eventlog.Request
	deliver  []func() // called after the commit, in order
	weight   int64    // of the line of the agent, in inbox.lines

	// For a client's command, which can be refused if it cannot be committed:
	undo   []func()    // restore the state of the intake, called in reverse order
	refuse func(error) // reports to the client that the command had no effect
	report func(error) // reports to the client that the effect is not known
}

func (fx *effects) write(tx *eventlog.Tx) error {
	for i := range fx.events {
		e, err := tx.Append(fx.events[i])
		if err != nil {
			return fmt.Errorf("%s: %w", fx.events[i].Kind, err)
		}
		fx.events[i].Seq = e.Seq
	}
	for _, r := range fx.requests {
		if err := tx.PutRequest(r); err != nil {
			return fmt.Errorf("%s: %w", r.Method, err)
		}
	}
	return nil
}

// afterCommit has f called after the commit.
func (fx *effects) afterCommit(f func()) { fx.deliver = append(fx.deliver, f) }

// onRefusal has f called if the command is refused.
func (fx *effects) onRefusal(f func()) { fx.undo = append(fx.undo, f) }

// markChanged has the row of a session written, unless another process still owns the
// session.
func (fx *effects) markChanged(s *attachedSession) {
	if s.pendingOpen {
		return
	}
	s.row.UpdatedAt = time.Now()
	s.refreshState()
	fx.batch.changed[s] = struct{}{}
}

// publish adds an event for the followers of the server.
func (fx *effects) publish(dir eventlog.Direction, s *attachedSession, method string, payload []byte) {
	fx.append(serverStream(fx.batch.server), dir, s, method, payload)
}

// record adds an event to the stream of a session, or to the server's own for a message that
// is about none.
func (fx *effects) record(dir eventlog.Direction, s *attachedSession, method string, payload []byte) {
	stream := clientStream(fx.batch.server)
	if s != nil {
		stream = SessionStream(s.row.ID)
	}
	fx.append(stream, dir, s, method, payload)
}

func (fx *effects) publishHostEvent(n hostEvent) { fx.publish(eventlog.Daemon, nil, n.kind, n.payload) }

// recordHostEvent adds a host event to the stream of a session, unless it is empty.
func (fx *effects) recordHostEvent(s *attachedSession, n hostEvent) {
	if n.kind != "" {
		fx.record(eventlog.Daemon, s, n.kind, n.payload)
	}
}

func (fx *effects) append(stream string, dir eventlog.Direction, s *attachedSession, method string, payload []byte) {
	fx.events = append(fx.events, eventlog.Event{
		Stream: stream, Process: fx.batch.process, Session: s.id(), Dir: dir, Kind: eventKind(method), Payload: payload,
	})
}

// hostEvent is a notification of the host.
type hostEvent struct {
	kind    string
	payload []byte
}

func newHostEvent(kind string, params any) hostEvent {
	return hostEvent{kind, notification(kind, params)}
}

// event returns the event of the log for the stream of a session.
func (n hostEvent) event(session string) eventlog.Event {
	return eventlog.Event{Stream: SessionStream(session), Session: session, Dir: eventlog.Daemon, Kind: n.kind, Payload: n.payload}
}

// serverStream returns the name of the stream that followers of a server read. clientStream returns
// the name of the stream of clients' messages that are about no session.
func serverStream(server string) string { return "acp:" + server }
func clientStream(server string) string { return "cli:" + server }

// SessionStream returns the name of the stream of a session's messages, in both directions.
func SessionStream(session string) string { return "ses:" + session }

const maxKind = 200

// eventKind returns a method as the log accepts it.
func eventKind(method string) string { return sanitized(cuttext.Cut(method, maxKind)) }
