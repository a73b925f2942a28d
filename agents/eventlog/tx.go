package eventlog

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Tx is what a function that is given to [Log.Commit] works with. What it does
// is all committed, together, or not at all. It is of no use after the
// function.
type Tx struct {
	ctx       context.Context //nolint:containedctx // the writer's, for the time of a call
	group     *group
	now       time.Time
	last      map[string]int64 // of the streams that this one appended to
	events    []Event
	sessions  overlay[string, Session]
	processes overlay[string, Process]
	requests  overlay[RequestKey, Request]
	broken    error // of the database; the transaction is lost
}

// Append adds an event to the end of its stream, and returns it with what was
// filled in: the sequence, and the id and the time if they were empty. The
// payload is kept, not copied: it must not be changed afterwards.
func (t *Tx) Append(e Event) (Event, error) { return t.AppendMany(e, 1) }

// AppendMany is Append of an event that stands for several, and takes as many
// numbers: its sequence is the last of them. Who reads after any before that
// gets it.
func (t *Tx) AppendMany(e Event, numbers int) (Event, error) {
	if numbers < 1 {
		return e, &InvalidError{"event.seq", "must take a number, at least"}
	}
	if err := e.check(t.now); err != nil {
		return e, err
	}
	last, err := t.Last(e.Stream)
	if err != nil {
		return e, err
	}
	e.Seq = last + int64(numbers)
	t.last[e.Stream] = e.Seq
	t.events = append(t.events, e)
	return e, nil
}

// Last is the sequence of a stream's newest event, with those that are being
// committed; 0 if it has none.
func (t *Tx) Last(stream string) (int64, error) {
	if last, ok := t.last[stream]; ok {
		return last, nil
	}
	p, err := t.group.position(t.ctx, stream)
	if err != nil {
		return 0, t.failed(err)
	}
	t.last[stream] = p.last
	return p.last, nil
}

// PutSession writes a session, new or not. CreatedAt and UpdatedAt are filled
// in when they are zero. What it refers to is kept, not copied, as that of the
// other records is: it must not be changed afterwards.
func (t *Tx) PutSession(s Session) error {
	if err := s.check(t.now); err != nil {
		return err
	}
	t.sessions.put(s.ID, s)
	return nil
}

// Session returns a session, or [ErrNotFound].
func (t *Tx) Session(id string) (Session, error) {
	if err := t.group.lock(t.ctx, "session", id); err != nil {
		return Session{}, t.failed(err)
	}
	if s, ok := t.sessions.get(id); ok {
		return s, nil
	}
	s, err := findSession(t.ctx, t.group.tx, id)
	return s, t.failed(err)
}

// StartProcess writes a process that becomes the newest of its server, and returns it
// with its start: StartedAt, or now if that is zero. It is later than the start of every
// earlier process of the server, even if the clock was set back.
func (t *Tx) StartProcess(l Process) (Process, error) {
	if err := l.check(t.now); err != nil {
		return l, err
	}
	if err := t.group.lock(t.ctx, "server", l.Server); err != nil {
		return l, t.failed(err)
	}
	before, err := t.Processes(ProcessFilter{Server: l.Server, Latest: true})
	if err != nil {
		return l, err
	}
	for _, last := range before { // all servers' without a name
		if last.Server == l.Server && last.ID != l.ID && !l.StartedAt.After(last.StartedAt) {
			l.StartedAt = last.StartedAt.Add(time.Microsecond)
		}
	}
	return l, t.PutProcess(l)
}

// PutProcess writes a process, new or not. StartedAt is filled in when it is zero.
// [Tx.StartProcess] is for those that start now.
func (t *Tx) PutProcess(l Process) error {
	if err := l.check(t.now); err != nil {
		return err
	}
	t.processes.put(l.ID, l)
	return nil
}

// Process returns a process, or [ErrNotFound].
func (t *Tx) Process(id string) (Process, error) {
	if err := t.group.lock(t.ctx, "life", id); err != nil {
		return Process{}, t.failed(err)
	}
	if l, ok := t.processes.get(id); ok {
		return l, nil
	}
	l, err := findProcess(t.ctx, t.group.tx, id)
	return l, t.failed(err)
}

// PutRequest writes a request, new or not. An empty State means [Pending], and
// AskedAt is filled in when it is zero.
func (t *Tx) PutRequest(r Request) error {
	if err := r.check(t.now); err != nil {
		return err
	}
	t.requests.put(r.RequestKey, r)
	return nil
}

// Request returns a request, or [ErrNotFound].
func (t *Tx) Request(key RequestKey) (Request, error) {
	if err := t.group.lock(t.ctx, "request", fmt.Sprint(key)); err != nil {
		return Request{}, t.failed(err)
	}
	if r, ok := t.requests.get(key); ok {
		return r, nil
	}
	r, err := findRequest(t.ctx, t.group.tx, key)
	return r, t.failed(err)
}

// Answer ends a request. Only the first call does: others return [ErrAnswered] and the
// request as it is. The state is [Answered] or
// [Cancelled], which needs no answer.
func (t *Tx) Answer(key RequestKey, state RequestState, answer []byte) (Request, error) {
	if state != Answered && state != Cancelled {
		return Request{}, &InvalidError{"request.state", "must be answered or cancelled, not " + quote(string(state))}
	}
	r, err := t.Request(key)
	if err != nil {
		return r, err
	}
	if r.State != Pending {
		return r, ErrAnswered
	}
	r.State, r.Answer, r.AnsweredAt = state, answer, t.now
	return r, t.PutRequest(r)
}

// Requests returns the requests that a filter lets through, oldest first.
func (t *Tx) Requests(f RequestFilter) ([]Request, error) {
	all, err := requests(t.ctx, t.group.tx, f, &t.requests)
	return all, t.failed(err)
}

// Processes returns the processes that a filter lets through, oldest first.
func (t *Tx) Processes(f ProcessFilter) ([]Process, error) {
	all, err := processes(t.ctx, t.group.tx, f, &t.processes)
	return all, t.failed(err)
}

// NewestProcess returns the newest process of a server, or [ErrNotFound]. Until the end of the
// transaction no other server appends to the stream.
func (t *Tx) NewestProcess(stream, server string) (Process, error) {
	newest, found, err := t.group.owned(t.ctx, stream, server)
	if err != nil {
		return Process{}, t.failed(err)
	}
	changed := false
	t.processes.each(func(_ string, l Process) { changed = changed || l.Server == server })
	if !found || changed {
		if _, err := t.Last(stream); err != nil {
			return Process{}, err
		}
		if newest, err = t.Processes(ProcessFilter{Server: server, Latest: true}); err != nil {
			return Process{}, err
		}
	}
	if len(newest) == 0 {
		return Process{}, fmt.Errorf("process of server %s: %w", quote(server), ErrNotFound)
	}
	return newest[0], nil
}

// failed notes that the database failed, as opposed to what was asked of it.
func (t *Tx) failed(err error) error {
	invalid := new(InvalidError)
	if err != nil && !errors.Is(err, ErrNotFound) && !errors.As(err, &invalid) {
		t.broken = err
	}
	return err
}

// group is what several callers commit together.
type group struct {
	log       *Log
	tx        transaction
	positions map[string]extent // of the streams that were asked for
	events    []Event
	bytes     int
	sessions  overlay[string, Session]
	processes overlay[string, Process]
	requests  overlay[RequestKey, Request]
	crowd     bool // it has something of somebody already
}

func newGroup(l *Log, tx transaction) *group {
	return &group{log: l, tx: tx, positions: map[string]extent{}}
}

// extent is where a stream goes on after what the group has so far, and where it
// ended before.
type extent struct {
	position
	before int64
}

// position is where a stream goes on after what the group has so far.
func (g *group) position(ctx context.Context, stream string) (position, error) {
	if p, ok := g.positions[stream]; ok {
		return p.position, nil
	}
	p, ok := position{}, false
	if !g.log.db.shared() {
		p, ok = g.log.streams.position(stream)
	}
	if !ok {
		var err error
		if p, err = g.tx.position(ctx, stream, !g.crowd); err != nil {
			return p, err
		}
	}
	g.positions[stream] = extent{p, p.last}
	return p, nil
}

// owned reads the newest process of a server and the position of a stream, unless they are
// known already or no other server can have the stream.
func (g *group) owned(ctx context.Context, stream, server string) (newest []Process, found bool, err error) {
	tx, far := g.tx.(*postgresTx)
	if _, known := g.positions[stream]; known || !far {
		return nil, false, nil
	}
	p, newest, err := tx.owned(ctx, stream, server, !g.crowd)
	if err == nil {
		g.positions[stream] = extent{p, p.last}
	}
	return newest, true, err
}

// lock keeps other servers away from a record.
func (g *group) lock(ctx context.Context, kind, id string) error {
	return g.tx.lock(ctx, kind, id, !g.crowd)
}

// add lets a caller's function work. If it fails, nothing of it stays; if that
// is the database's fault, broken is true. The first one waits for what other
// servers are about to write, those after it get errTaken.
func (g *group) add(ctx context.Context, f func(*Tx) error) (broken bool, err error) {
	defer func() { g.crowd = true }()
	t := &Tx{ctx: ctx, group: g, now: time.Now(), last: map[string]int64{}}
	t.sessions.below, t.processes.below, t.requests.below = &g.sessions, &g.processes, &g.requests
	err = guarded(func() error { return f(t) })
	if t.broken != nil {
		return true, t.broken
	}
	if err != nil {
		return false, err
	}
	for stream, last := range t.last {
		p := g.positions[stream]
		p.last = last
		g.positions[stream] = p
	}
	g.events = append(g.events, t.events...)
	for i := range t.events {
		g.bytes += len(t.events[i].Payload)
	}
	t.sessions.sink()
	t.processes.sink()
	t.requests.sink()
	return false, nil
}

// statements are what writes the group.
func (g *group) statements() []statement {
	all := make([]statement, 0, len(g.events)+len(g.sessions.keys)+len(g.processes.keys)+len(g.requests.keys))
	for i := range g.events {
		e := &g.events[i]
		all = append(all, insertEvent(g.positions[e.Stream].id, e, g.log.codec.encode(e.Payload))...)
	}
	for _, id := range g.sessions.keys {
		all = append(all, putSession(g.sessions.all[id]))
	}
	for _, id := range g.processes.keys {
		all = append(all, putProcess(g.processes.all[id]))
	}
	for _, key := range g.requests.keys {
		all = append(all, putRequest(g.requests.all[key]))
	}
	return all
}

// streams are those that the group appends to.
func (g *group) streams() (names []string) {
	seen := map[string]bool{}
	for i := range g.events {
		if name := g.events[i].Stream; !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	return names
}

// publish shows the group's events to the followers.
func (g *group) publish() {
	byStream := map[string][]Event{}
	for _, e := range g.events {
		byStream[e.Stream] = append(byStream[e.Stream], e)
	}
	for name, events := range byStream {
		p := g.positions[name]
		g.log.streams.publish(name, p.id, p.before, events)
		g.log.keeper.note(name)
		if f := g.log.cfg.Grown; f != nil {
			f(name, p.before, p.last)
		}
	}
}
