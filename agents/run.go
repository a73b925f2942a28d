package agents

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/deskhand/deskhand/agents/eventlog"
)

// batch is what is committed at once.
type batch struct {
	steps  []*step
	talks  map[*talk]struct{} // whose rows have changed
	opened map[*talk]struct{} // those of them whose rows were read before
	exit   bool
}

// step is what one item does.
type step struct {
	events   []eventlog.Event
	requests []eventlog.Request
	after    []func() // once it is committed

	// What can be refused when it cannot be committed, as messages of clients
	// can, has these: undo takes back what was changed in run's state.
	undo   []func()
	refuse func(error)
	tell   func(error) // the same without an end to it: what becomes of it is open
	weight int64       // of outputs
}

// change has the row of a session written, unless that is another process's still.
func (b *batch) change(t *talk) {
	if t.coming {
		return
	}
	t.row.UpdatedAt = time.Now()
	t.row.State = t.state()
	b.talks[t] = struct{}{}
}

// run does all items, as many at once as there are. It returns when the agent's
// end is in the log.
func (l *life) run() {
	defer l.release()
	for {
		b := l.collect()
		l.commit(b)
		for _, s := range b.steps {
			for _, f := range s.after {
				f()
			}
		}
		if b.exit {
			return
		}
	}
}

// collect takes what waits, and waits for it if there is nothing.
func (l *life) collect() *batch {
	b := &batch{talks: map[*talk]struct{}{}, opened: map[*talk]struct{}{}}
	for !b.exit && len(b.steps) < maxBatch {
		if len(l.backlog) > 0 {
			l.take(b, l.backlog[0])
			l.backlog = l.backlog[1:]
			continue
		}
		if len(b.steps) == 0 {
			l.take(b, <-l.items)
			continue
		}
		select {
		case it := <-l.items:
			l.take(b, it)
		default:
			return b
		}
	}
	return b
}

// refuseWaiting gives an error to clients who wait. What the agent wrote stays.
func (l *life) refuseWaiting(err error) {
	for {
		select {
		case it := <-l.items:
			if it.call == nil && it.decide == nil && it.edit == nil {
				l.backlog = append(l.backlog, it)
				continue
			}
			l.refuseItem(it, err)
		default:
			return
		}
	}
}

// refuseItem tells who sent it that nothing becomes of it.
func (l *life) refuseItem(it item, err error) {
	switch {
	case it.call != nil:
		l.inputs.Release(it.call.weight)
		it.call.finish(reply{err: err})
	case it.decide != nil:
		it.decide.fail(l, err)
	case it.edit != nil:
		it.edit.finish(err)
	}
}

func (l *life) take(b *batch, it item) {
	s := &step{weight: it.weight}
	b.steps = append(b.steps, s)
	switch {
	case it.line != nil:
		l.takeLine(b, s, it.line)
	case it.long != nil:
		l.takeLong(s, it.long)
	case it.call != nil:
		l.takeCall(b, s, it.call)
	case it.decide != nil:
		l.takeDecision(b, s, it.decide)
	case it.edit != nil:
		l.takeEdit(b, s, it.edit)
	case it.lost != nil:
		l.lose(it.lost)
	case it.exit:
		b.exit = true
		l.takeExit(b, s)
	}
}

const (
	retryFirst = 20 * time.Millisecond
	retryMost  = time.Second
	retryEnd   = 2 * time.Second // how long the end of a closed host waits for the log
)

// commit makes a batch durable. When the log cannot, clients get the error;
// what the agent wrote waits, and the agent with it, until the log can.
func (l *life) commit(b *batch) {
	wait := retryFirst
	var since time.Time
	for !l.cutOff {
		err := l.try(b)
		if err == nil {
			l.setTrouble(nil)
			break
		}
		if over, is := errors.AsType[overtakenError](err); is {
			l.lose(over.error)
			break
		}
		if since.IsZero() {
			since = time.Now()
			l.log.Error("the event log takes nothing", "error", err)
		}
		if errors.Is(err, eventlog.ErrUncertain) {
			l.setTrouble(err)
			l.cutOff = true // the host ends before it is known
			break
		}
		l.refuse(b, err)
		if _, invalid := errors.AsType[*eventlog.InvalidError](err); invalid {
			l.sortOut(b)
			continue
		}
		if l.host.isClosed() && time.Since(since) > retryEnd {
			l.cutOff = true
			break
		}
		if !b.needed() {
			break
		}
		l.refuseWaiting(err)
		l.pause(wait)
		wait = min(2*wait, retryMost)
	}
	if why := l.lostTo(); why != nil {
		l.refuse(b, why)
		l.setTrouble(why)
	}
	var weight int64
	for _, s := range b.steps {
		weight += s.weight
	}
	l.outputs.Release(weight)
	if l.cutOff {
		b.steps = nil // what is not in the log is not passed on
	}
}

// findOut waits until it is known how a commit ended that is open because
// Postgres went away, or until the host has waited long enough for its end.
func (l *life) findOut(b *batch, doubt *eventlog.UncertainError) error {
	away := fmt.Errorf("%w: it is being found out how a commit ended", eventlog.ErrUnavailable)
	l.setTrouble(away)
	begun := time.Now()
	for {
		ctx, cancel := context.WithTimeout(context.Background(), retryFirst)
		err := doubt.Wait(ctx)
		cancel()
		if !errors.Is(err, eventlog.ErrUncertain) {
			return err
		}
		l.refuseWaiting(away)
		if time.Since(begun) < retryEnd {
			continue
		}
		if l.host.isClosed() {
			return err
		}
		for _, s := range b.steps {
			if s.tell != nil {
				s.tell(err)
			}
		}
	}
}

// pause waits, but not past the end of the host.
func (l *life) pause(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	<-t.C
}

func (l *life) setTrouble(err error) {
	l.mu.Lock()
	l.trouble = err
	l.active = time.Now()
	n := len(l.pending) + len(l.questions)
	l.busy = n
	l.mu.Unlock()
}

// needed tells whether there is anything to commit.
func (b *batch) needed() bool {
	return b.exit || len(b.talks) > 0 || slices.ContainsFunc(b.steps, func(s *step) bool {
		return len(s.events) > 0 || len(s.requests) > 0
	})
}

// refuse takes the steps out that clients wait for, and tells them.
func (l *life) refuse(b *batch, err error) {
	var refused []*step
	for i, s := range slices.Backward(b.steps) {
		if s.refuse == nil {
			continue
		}
		for _, undo := range slices.Backward(s.undo) {
			undo()
		}
		refused = append(refused, s)
		b.steps[i] = &step{weight: s.weight}
	}
	// Before they hear of it: if nothing is left that waits for the log, who comes
	// next finds out for himself.
	if b.needed() {
		l.setTrouble(err)
	} else {
		l.setTrouble(nil)
	}
	for _, s := range refused {
		s.refuse(err)
	}
}

// sortOut drops from a batch what the log will never take, so that nothing else
// waits for it.
func (l *life) sortOut(b *batch) {
	for _, s := range b.steps {
		if l.never([]*step{s}, nil) {
			s.events, s.requests = nil, nil
		}
	}
	for t := range b.talks {
		if l.never(nil, []eventlog.Session{t.row}) {
			delete(b.talks, t)
		}
	}
}

// errTrial keeps a commit from happening that only tries something.
var errTrial = errors.New("tried")

// never tells whether the log refuses something for what it is.
func (l *life) never(steps []*step, rows []eventlog.Session) bool {
	err := l.host.cfg.Log.TryCommit(context.Background(), func(tx *eventlog.Tx) error {
		if err := fill(tx, steps, rows); err != nil {
			return err
		}
		return errTrial
	})
	_, invalid := errors.AsType[*eventlog.InvalidError](err)
	if invalid {
		l.log.Error("the event log does not take something, which is dropped", "error", err)
	}
	return invalid
}

func fill(tx *eventlog.Tx, steps []*step, rows []eventlog.Session) error {
	for _, s := range steps {
		for i := range s.events {
			e, err := tx.Append(s.events[i])
			if err != nil {
				return err
			}
			s.events[i].Seq = e.Seq
		}
		for _, r := range s.requests {
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

func (l *life) try(b *batch) error {
	if !b.needed() && !l.rowDirty {
		return nil
	}
	rows := make([]eventlog.Session, 0, len(b.talks))
	for t := range b.talks {
		t.row.State = t.state()
		rows = append(rows, t.row)
	}
	row, rowDirty, steps, opened := l.row, l.rowDirty, b.steps, b.opened
	var now map[*talk]Policy
	err := l.host.cfg.Log.TryCommit(context.Background(), func(tx *eventlog.Tx) (err error) {
		if err := l.own(tx); err != nil {
			return err
		}
		if rowDirty {
			if err := tx.PutLife(row); err != nil {
				return err
			}
		}
		if now, err = takeOver(tx, rows, opened); err != nil {
			return err
		}
		return fill(tx, steps, rows)
	})
	if doubt, open := errors.AsType[*eventlog.UncertainError](err); open {
		err = l.findOut(b, doubt)
	}
	if err == nil {
		l.rowDirty = false
		for t, p := range now {
			t.data.Permissions = p
			t.saveData()
		}
	}
	return err
}

// release ends what waits for a life that is over.
func (l *life) release() {
	over := l.overError()
	l.mu.Lock()
	l.over = over
	l.mu.Unlock()
	l.tellEnd(over) // before anybody else hears of it
	close(l.done)
	for _, c := range l.pending {
		err := l.exited()
		if errors.Is(err, errResting) {
			err = over // it may have been done: nobody sends it again
		}
		c.finish(reply{err: err})
	}
	for _, q := range l.questions {
		q.stop()
	}
	for {
		select {
		case it := <-l.items:
			l.outputs.Release(it.weight)
			switch {
			case it.call != nil:
				it.call.finish(reply{err: l.exited()})
			case it.decide != nil:
				it.decide.finish(ErrRequestNotFound)
			case it.edit != nil:
				it.edit.finish(l.exited())
			}
		default:
			return
		}
	}
}

// tellEnd logs the end of an agent that nobody wanted.
func (l *life) tellEnd(over *ExitedError) {
	l.mu.Lock()
	reason := l.reason
	l.mu.Unlock()
	if reason != endedItself {
		return
	}
	level := slog.LevelWarn
	if over.Code != nil && *over.Code == 0 {
		level = slog.LevelInfo
	}
	l.log.Log(context.Background(), level, "agent ended by itself", "agent", over.Agent, "error", over)
}

func (l *life) overError() *ExitedError {
	e := l.proc.exit()
	return &ExitedError{Agent: l.agent, Code: e.code, Signal: e.signal, Stderr: l.proc.stderr()}
}

func (c *call) finish(r reply) {
	select {
	case c.reply <- r:
	default: // it has one
	}
}

// The streams of a server and of a session.
func published(server string) string { return "acp:" + server }
func received(server string) string  { return "cli:" + server }

// SessionStream is the name of a session's stream in the log: everything of it
// in both directions.
func SessionStream(session string) string { return "ses:" + session }

const maxKind = 200

// kind is a method as the log takes it.
func kind(method string) string {
	if len(method) > maxKind {
		method = method[:maxKind]
	}
	return cleaned(method)
}

// publish adds to what followers of the server get.
func (l *life) publish(s *step, dir eventlog.Direction, t *talk, k string, payload []byte) {
	s.events = append(s.events, eventlog.Event{
		Stream: published(l.s.id), Life: l.id, Session: t.id(), Dir: dir, Kind: kind(k), Payload: payload,
	})
}

// record adds to a session's stream, or to the server's where there is none.
func (l *life) record(s *step, dir eventlog.Direction, t *talk, k string, payload []byte) {
	stream := received(l.s.id)
	if t != nil {
		stream = SessionStream(t.row.ID)
	}
	s.events = append(s.events, eventlog.Event{
		Stream: stream, Life: l.id, Session: t.id(), Dir: dir, Kind: kind(k), Payload: payload,
	})
}
