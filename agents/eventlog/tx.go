package eventlog

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Tx is the transaction of a function that is given to [Log.Commit]. All its changes are
// committed, or none. It must not be used after the function has returned.
type Tx struct {
	ctx     context.Context //nolint:containedctx // the writer's, during the function
	group   *group
	now     time.Time
	last    map[string]int64 // of the streams that this one asked for
	events  []Event
	records records
	broken  error // of the database; the transaction is lost
}

// records are the records that were put and are not written yet.
type records struct {
	sessions  overlay[string, Session]
	processes overlay[string, Process]
	requests  overlay[RequestKey, Request]
}

// Append adds an event to the end of its stream, and returns it with its sequence, and
// with an id and a time if they were empty. It keeps the payload, which must not be changed
// afterwards. It returns an [*InvalidError] for an event that cannot be stored. An id that
// is in use already is found only at the end: [Log.Commit] returns [ErrExists].
func (t *Tx) Append(e Event) (Event, error) { return t.AppendMany(e, 1) }

// AppendMany is like Append for an event that stands for several events and takes that
// many numbers. Its sequence is the last of them. A read after any earlier number returns it.
func (t *Tx) AppendMany(e Event, numbers int) (Event, error) {
	if numbers < 1 {
		return e, &InvalidError{"event.seq", "must take at least one number"}
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

// Last returns the sequence of a stream's newest event, also of one that is being
// committed, or 0.
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

// PutSession writes a session, new or not. It sets CreatedAt and UpdatedAt if they are
// zero. It keeps the byte slices of the session, which must not be changed afterwards. The
// same holds for the other records.
func (t *Tx) PutSession(s Session) error {
	if err := s.check(t.now); err != nil {
		return err
	}
	t.records.sessions.put(s.ID, s)
	return nil
}

// Session returns a session, or [ErrNotFound].
func (t *Tx) Session(id string) (Session, error) {
	return record(t, &sessionTable, &t.records.sessions, id)
}

// StartProcess writes a process that becomes the newest of its server, and returns it with
// its StartedAt, which is now if it was zero. StartProcess moves StartedAt, if necessary, to
// after the start of every earlier process of the server, even if the clock was set back.
func (t *Tx) StartProcess(p Process) (Process, error) {
	if err := p.check(t.now); err != nil {
		return p, err
	}
	if err := t.group.lock(t.ctx, "server", p.Server); err != nil {
		return p, t.failed(err)
	}
	before, err := t.Processes(ProcessFilter{Server: p.Server, Latest: true})
	if err != nil {
		return p, err
	}
	for _, last := range before { // if p.Server is empty, the newest process of every server
		if last.Server == p.Server && last.ID != p.ID && !p.StartedAt.After(last.StartedAt) {
			p.StartedAt = last.StartedAt.Add(time.Microsecond)
		}
	}
	return p, t.PutProcess(p)
}

// PutProcess writes a process, new or not. It sets StartedAt if it is zero. Use
// [Tx.StartProcess] for a process that starts now.
func (t *Tx) PutProcess(p Process) error {
	if err := p.check(t.now); err != nil {
		return err
	}
	t.records.processes.put(p.ID, p)
	return nil
}

// Process returns a process, or [ErrNotFound].
func (t *Tx) Process(id string) (Process, error) {
	return record(t, &processTable, &t.records.processes, id)
}

// PutRequest writes a request, new or not. It sets State to [Pending] if it is empty, and
// AskedAt if it is zero.
func (t *Tx) PutRequest(r Request) error {
	if err := r.check(t.now); err != nil {
		return err
	}
	t.records.requests.put(r.RequestKey, r)
	return nil
}

// Request returns a request, or [ErrNotFound].
func (t *Tx) Request(key RequestKey) (Request, error) {
	return record(t, &requestTable, &t.records.requests, key)
}

// Answer ends a request. The state is [Answered], or [Cancelled], which needs no answer.
// If the request has ended before, Answer returns it unchanged and [ErrAnswered]. If there
// is no such request, it returns [ErrNotFound].
func (t *Tx) Answer(key RequestKey, state RequestState, answer []byte) (Request, error) {
	if state != Answered && state != Cancelled {
		return Request{}, &InvalidError{"request.state", fmt.Sprintf("must be answered or cancelled, not %.100q", state)}
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

// Requests returns the selected requests, the oldest first.
func (t *Tx) Requests(f RequestFilter) ([]Request, error) {
	all, err := f.list(t.ctx, t.group.tx, &t.records.requests)
	return all, t.failed(err)
}

// Processes returns the selected processes, the oldest first.
func (t *Tx) Processes(f ProcessFilter) ([]Process, error) {
	all, err := f.list(t.ctx, t.group.tx, &t.records.processes)
	return all, t.failed(err)
}

// NewestProcess returns the newest process of a server, or [ErrNotFound]. Until the end of the
// transaction no other server appends to the stream.
func (t *Tx) NewestProcess(stream, server string) (Process, error) {
	newest, found, err := t.group.newestProcess(t.ctx, stream, server)
	if err != nil {
		return Process{}, t.failed(err)
	}
	changed := false
	t.records.processes.each(func(p Process) { changed = changed || p.Server == server })
	if !found || changed {
		if _, err := t.Last(stream); err != nil {
			return Process{}, err
		}
		if newest, err = t.Processes(ProcessFilter{Server: server, Latest: true}); err != nil {
			return Process{}, err
		}
	}
	if len(newest) == 0 {
		return Process{}, fmt.Errorf("process of server %.100q: %w", server, ErrNotFound)
	}
	return newest[0], nil
}

// record returns a record for a transaction, and locks it.
func record[K comparable, V any](t *Tx, from *table[K, V], above *overlay[K, V], key K) (v V, err error) {
	if err := t.group.lock(t.ctx, from.name, fmt.Sprint(key)); err != nil {
		return v, t.failed(err)
	}
	if v, ok := above.get(key); ok {
		return v, nil
	}
	v, err = from.find(t.ctx, t.group.tx, key)
	return v, t.failed(err)
}

// failed remembers an error of the database, and returns every error unchanged.
func (t *Tx) failed(err error) error {
	if err != nil && !errors.Is(err, ErrNotFound) && !errors.As(err, new(*InvalidError)) {
		t.broken = err
	}
	return err
}

// group is the content of a database transaction, in which several callers commit.
type group struct {
	log       *Log
	tx        transaction
	positions map[string]extent // of the streams that were asked for
	events    []Event
	bytes     int
	records   records
	begun     bool // a caller's function was called
}

func newGroup(l *Log, tx transaction) *group {
	return &group{log: l, tx: tx, positions: map[string]extent{}}
}

// extent is the position of a stream with the group's events, and its last sequence
// before them.
type extent struct {
	position
	before int64
}

// position returns the position of a stream with the group's events.
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
		if p, err = g.tx.position(ctx, stream, !g.begun); err != nil {
			return p, err
		}
	}
	g.positions[stream] = extent{p, p.last}
	return p, nil
}

// newestProcess reads the newest process of a server and the position of a stream in one
// round trip. found is false if it has read nothing, because the position is known or no
// other server can append.
func (g *group) newestProcess(ctx context.Context, stream, server string) (newest []Process, found bool, err error) {
	tx, shared := g.tx.(*postgresTx)
	if _, known := g.positions[stream]; known || !shared || server == "" {
		return nil, false, nil
	}
	p, newest, err := tx.newestProcess(ctx, stream, server, !g.begun)
	if err == nil {
		g.positions[stream] = extent{p, p.last}
	}
	return newest, true, err
}

// lock keeps other servers from changing a record.
func (g *group) lock(ctx context.Context, kind, id string) error {
	return g.tx.lock(ctx, kind, id, !g.begun)
}

// add calls a caller's function, and adds its changes unless it fails. broken reports that
// the database failed. Only the first function of a group waits for locks of other servers.
// Later ones get errTaken.
func (g *group) add(ctx context.Context, f func(*Tx) error) (broken bool, err error) {
	defer func() { g.begun = true }()
	t := &Tx{ctx: ctx, group: g, now: time.Now(), last: map[string]int64{}}
	r := &t.records
	r.sessions.below, r.processes.below, r.requests.below = &g.records.sessions, &g.records.processes, &g.records.requests
	err = callIsolated(func() error { return f(t) })
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
	r.sessions.mergeDown()
	r.processes.mergeDown()
	r.requests.mergeDown()
	return false, nil
}

// statements returns the statements that write the group.
func (g *group) statements() []statement {
	var all []statement
	p := packer{codec: g.log.codec, inserted: map[hash]bool{}}
	for i := range g.events {
		e := &g.events[i]
		all = append(all, p.insertEvent(g.positions[e.Stream].id, e)...)
	}
	all = append(all, g.records.sessions.statements(&sessionTable)...)
	all = append(all, g.records.processes.statements(&processTable)...)
	return append(all, g.records.requests.statements(&requestTable)...)
}

// streams returns the streams that the group appends to.
func (g *group) streams() (names []string) {
	for name, p := range g.positions {
		if p.last > p.before {
			names = append(names, name)
		}
	}
	return names
}

// publish passes the group's events to the followers.
func (g *group) publish() {
	byStream := map[string][]Event{}
	for _, e := range g.events {
		byStream[e.Stream] = append(byStream[e.Stream], e)
	}
	for name, events := range byStream {
		p := g.positions[name]
		g.log.streams.publish(name, p.id, p.before, events)
		g.log.retainer.onAppend(name)
		if f := g.log.cfg.OnAppend; f != nil {
			f(name, p.before, p.last)
		}
	}
	if f := g.log.cfg.OnSession; f != nil {
		g.records.sessions.each(func(s Session) { f(s.ID) })
	}
}
