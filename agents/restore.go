package agents

import (
	"context"
	"errors"
	"slices"

	"github.com/deskhand/deskhand/agents/eventlog"
)

// restoration is the opening of a session in a new process.
type restoration struct {
	stop context.CancelCauseFunc
	done chan struct{}
	err  error // set before done is closed
}

// prepare makes a message one that the agent can take: the session that it
// names is there, and a session that it makes or opens has what was configured
// for it.
func (l *life) prepare(ctx context.Context, env *envelope) (*call, error) {
	c := &call{env: env, origin: originACP}
	id := env.sessionID()
	switch env.method {
	case "session/new", "session/fork", "session/load", "session/resume":
		if err := l.configure(ctx, c); err != nil {
			return nil, err
		}
	}
	if id == "" {
		return c, nil
	}
	if l.present(id) {
		c.goesOn = goesOn(env)
		return c, nil
	}
	opens := env.method == "session/load" || env.method == "session/resume"
	row, err := l.host.cfg.Log.Session(ctx, id)
	if errors.Is(err, eventlog.ErrNotFound) {
		if opens {
			c.continues, err = l.recordOf(ctx, id)
		} else {
			err = nil
		}
		return c, err // the agent says what it thinks of it
	}
	if err != nil {
		return nil, err
	}
	switch {
	case row.State == eventlog.Starting:
		return nil, ErrSessionStarting
	case opens && row.State != eventlog.Failed && row.Native != "":
		return c, l.open(ctx, c, row.ID)
	case !slices.Contains(alive, row.State):
		c.goesOn = goesOn(env) && row.State == eventlog.Ended
	case row.Server == l.s.id:
		c.goesOn = goesOn(env)
		if err := l.restore(ctx, row); err != nil && !(c.goesOn && errors.Is(err, ErrSessionEnded)) {
			return nil, err
		}
	}
	return c, nil
}

// recordOf finds the session that the agent calls by a name which is no session's
// id; "" for none.
func (l *life) recordOf(ctx context.Context, native string) (session string, err error) {
	if !recordable(native) {
		return "", nil
	}
	page, _, err := l.host.cfg.Log.Sessions(ctx, eventlog.SessionFilter{Agent: l.agent, Native: native, Newest: true}, "", 1)
	if err != nil || len(page) == 0 {
		return "", err
	}
	return page[0].ID, nil
}

// goesOn tells whether a request goes on with a session, as none can with one that
// has ended. What opens or deletes it may come later.
func goesOn(env *envelope) bool {
	switch env.method {
	case "session/prompt", "session/set_mode", "session/set_model", "session/set_config_option":
		return env.isRequest()
	}
	return false
}

// open makes a message one that opens a session. When the host does that, too, it
// comes after that.
func (l *life) open(ctx context.Context, c *call, session string) error {
	if err := l.opened(ctx, session); err != nil || l.present(session) {
		return err
	}
	row, err := l.host.cfg.Log.Session(ctx, session)
	if err != nil {
		return err
	}
	c.row = comingTalk(row)
	return nil
}

// restore opens a session that the process does not know. Several who need it
// at once wait for the same, until it is set to what it was.
func (l *life) restore(ctx context.Context, row eventlog.Session) error {
	r, err := l.beginRestore(row.ID)
	if r == nil {
		return err
	}
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// beginRestore returns the restoration that is under way, which it begins if
// need be; nil for a session that is there, or must not be opened.
func (l *life) beginRestore(session string) (*restoration, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.here[session] {
		return nil, nil //nolint:nilnil // there is nothing to wait for
	}
	if l.host.isTerminating(session) {
		return nil, ErrSessionEnded
	}
	if r := l.restoring[session]; r != nil {
		return r, nil
	}
	r := &restoration{done: make(chan struct{})}
	var ctx context.Context
	ctx, r.stop = context.WithCancelCause(l.host.ctx)
	err := l.host.task(func(always context.Context) {
		if r.err = l.reopen(ctx, session); r.err != nil {
			l.abandon(always, session)
		}
		if cause := context.Cause(ctx); r.err != nil && errors.Is(cause, ErrSessionEnded) {
			r.err = cause
		}
		r.stop(nil)
		l.mu.Lock()
		if delete(l.restoring, session); r.err == nil {
			l.here[session] = true
		}
		l.mu.Unlock()
		close(r.done)
	})
	if err != nil {
		r.stop(nil)
		return nil, err
	}
	l.restoring[session] = r
	return r, nil
}

// stopRestoring ends the restoration of a session that is being terminated, and
// waits for that.
func (l *life) stopRestoring(ctx context.Context, session string) {
	l.mu.Lock()
	r := l.restoring[session]
	l.mu.Unlock()
	if r == nil {
		return
	}
	r.stop(ErrSessionEnded)
	select {
	case <-r.done:
	case <-ctx.Done():
	}
}

// opened waits for the end of a restoration, if one is under way.
func (l *life) opened(ctx context.Context, session string) error {
	l.mu.Lock()
	r := l.restoring[session]
	l.mu.Unlock()
	if r == nil {
		return nil
	}
	select {
	case <-r.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// errAbandoned keeps what abandon does from being a change.
var errAbandoned = errors.New("the session is not opened")

// abandon lets go of a session that was not restored to its end: what is known of
// it is what the log has, and the next who needs it begins again.
func (l *life) abandon(ctx context.Context, session string) {
	err := l.edit(ctx, session, note{}, func(t *talk) error {
		if !l.present(session) {
			l.remove(t)
		}
		return errAbandoned
	})
	if !errors.Is(err, errAbandoned) && !errors.Is(err, ErrSessionNotFound) {
		l.log.Debug("the process of a session that was not restored is over", "session", session, "error", err)
	}
}

// reopen opens a session in the best way that the agent has: one in which it
// knows all that was said, or else a new one to which it is told. A way that
// takes too long is no reason to try a worse one, which would lose what the
// agent knows.
func (l *life) reopen(ctx context.Context, session string) error {
	ctx, cancel := context.WithTimeout(ctx, l.host.cfg.RestoreTimeout)
	defer cancel()
	row, err := l.host.cfg.Log.Session(ctx, session)
	switch {
	case err != nil:
		return restored(session, err)
	case !slices.Contains(alive, row.State):
		return ErrSessionEnded
	}
	if err := l.acquaint(ctx); err != nil {
		return restored(session, err)
	}
	caps := l.capabilities()
	params := row.Init
	if len(params) == 0 || params[0] != '{' {
		params = []byte(`{"mcpServers":[]}`)
	}
	if row.Cwd != "" {
		params = setMember(params, "cwd", quote(row.Cwd))
	}
	for _, method := range []string{"session/resume", "session/load"} {
		if method == "session/resume" && !caps.resume || method == "session/load" && !caps.load {
			continue
		}
		err := l.reopenBy(ctx, method, setMember(params, "sessionId", quote(row.Native)), row, "")
		if _, refused := errors.AsType[*ResponseError](err); !refused {
			return restored(session, err)
		}
		l.log.Warn("agent does not open a session again", "session", session, "error", err)
	}
	history, err := l.host.history(ctx, session)
	if err != nil {
		return restored(session, err)
	}
	return restored(session, l.reopenBy(ctx, "session/new", params, row, history))
}

func restored(session string, err error) error {
	if err == nil {
		return nil
	}
	return &RestoreError{session, err}
}

func (l *life) reopenBy(ctx context.Context, method string, params []byte, row eventlog.Session, preface string) error {
	env, err := parse(requestOf(0, method, params))
	if err != nil {
		return err
	}
	t := comingTalk(row) // run's, as soon as it is sent
	t.opening, t.preface = true, preface
	c := &call{env: env, internal: true, row: t}
	if err := l.configure(ctx, c); err != nil {
		return err
	}
	raw, err := l.send(ctx, c)
	if errors.Is(err, context.DeadlineExceeded) {
		err = &TimeoutError{l.agent, method, l.host.cfg.RestoreTimeout}
	}
	if err != nil {
		c.givenUp.Store(true)
		return err
	}
	read := resultOf
	if isCreation(method) {
		read = createdBy
	}
	result, err := read(method, raw)
	if err != nil {
		return err
	}
	set, err := l.chooseAgain(ctx, row, result)
	if err != nil {
		return err
	}
	for _, problem := range append(c.problems, set.problems...) {
		if err := l.edit(ctx, row.ID, problemEvent(problem), func(*talk) error { return nil }); err != nil {
			return err
		}
	}
	return l.edit(ctx, row.ID, restoredEvent(method, c.replayed), func(t *talk) error {
		t.opening = false
		t.data.Mode, t.data.Model, t.data.Options = set.kept.Mode, set.kept.Model, set.kept.Options
		t.saveData()
		if set.says {
			t.told(t.row.Config, set.now) // what has changed since
		}
		return nil
	})
}

// problemEvent tells in a session's stream what of its configuration does not
// work.
func problemEvent(problem string) note {
	return note{"session/problem", notification("session/problem", struct {
		Message string `json:"message"`
	}{problem})}
}

// restoredEvent tells in a session's stream how it goes on.
func restoredEvent(method string, replayed int) note {
	return note{"session/restored", notification("session/restored", struct {
		Method   string `json:"method"`
		Replayed int    `json:"replayed"` // updates of before that the agent repeated
	}{method, replayed})}
}

// note is an event for a session's stream.
type note struct {
	kind    string
	payload []byte
}

// edit changes what is known of a session that is present, and adds a note to
// its stream unless that is empty.
func (l *life) edit(ctx context.Context, session string, n note, f func(*talk) error) error {
	e := &sessionEdit{session: session, note: n, edit: f, done: make(chan error, 1)}
	if err := l.submit(ctx, item{edit: e}); err != nil {
		return err
	}
	select {
	case err := <-e.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-l.done:
		select {
		case err := <-e.done: // it came before the end
			return err
		default:
			return l.exited()
		}
	}
}
