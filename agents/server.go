package agents

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/deskhand/deskhand/agents/eventlog"
)

// server is what clients reach under an ACP server id: one agent, in one
// process after the other.
type server struct {
	host      *Host
	id        string
	after     <-chan struct{} // nil, or closed when the deleted server of the same id has ended
	followers followers

	mu       sync.Mutex // guards what follows
	agent    string
	data     lifeData
	last     eventlog.Life // the record of the newest life; no ID: there was none
	life     *life         // the one that runs, or is about to be over
	starting *starting     // nil: none is under way
	deleted  bool
}

// lifeData is what eventlog.Life.Data holds.
type lifeData struct {
	Created      time.Time       `json:"created"`
	Desktop      string          `json:"desktop,omitempty"`
	Authenticate json.RawMessage `json:"authenticate,omitempty"`
}

func (s *server) desktopID() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.data.Desktop
}

func (s *server) setAuthentication(params []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.data.Authenticate = params
}

func (s *server) lifeData() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return encode(s.data)
}

// remember keeps the record of the newest life.
func (s *server) remember(row eventlog.Life) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last.ID == row.ID {
		s.last = row
	}
}

// forget lets go of a life that is over: its record says all there is to say.
func (s *server) forget(l *life) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life == l {
		s.life = nil
	}
}

// running is the life whose process runs, or nil.
func (s *server) running() *life {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.runningLocked()
}

func (s *server) runningLocked() *life {
	if s.life == nil {
		return nil
	}
	select {
	case <-s.life.proc.done:
		return nil
	case <-s.life.done:
		return nil
	default:
		return s.life
	}
}

// PostOptions are what comes with a message beside it.
type PostOptions struct {
	// Agent is which agent the server is to run. It is needed with the first
	// message, and to start one again that ended by itself.
	Agent string

	// Desktop is the id of a desktop that the agent gets as tools and in its
	// environment: see Config.Mount. It counts when a process starts. Empty:
	// the one before, or that of Config.Desktop.
	Desktop string
}

func (s *server) isDeleted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.deleted
}

// ensure returns the life of the server, which it starts if it may. A process
// that is started gets the initialize that the one before had, or else init;
// none if that is nil, because a client's own is on its way.
func (s *server) ensure(ctx context.Context, o PostOptions, init []byte) (*life, error) {
	l, wait, mine, err := s.enter(o, init)
	if l != nil || err != nil {
		return l, err
	}
	select {
	case <-wait.done:
		return wait.life, wait.err // which may have ended meanwhile
	case <-ctx.Done():
		if mine && init == nil {
			s.leave(wait)
		}
		return nil, ctx.Err()
	}
}

// leave says that the client whose initialize was to come has gone.
func (s *server) leave(st *starting) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st.left = true
	if s.starting != st && st.life != nil {
		st.life.greeted()
	}
}

// starting is a start that is under way.
type starting struct {
	done chan struct{}
	left bool  // who began it waits no longer; guarded by the server's mu
	life *life // set before done is closed, and so is err
	err  error
}

// enter returns the life that runs, or the start that has to be waited for,
// which it begins if need be: then it is the caller's.
func (s *server) enter(o PostOptions, init []byte) (l *life, st *starting, mine bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch l := s.runningLocked(); {
	case s.deleted:
		return nil, nil, false, ErrServerNotFound
	case o.Agent != "" && s.agent != "" && o.Agent != s.agent:
		return nil, nil, false, &ConflictError{s.id, s.agent, o.Agent}
	case s.starting != nil:
		return nil, s.starting, false, nil
	case l != nil:
		return l, nil, false, nil
	}
	if err := s.mayStart(o); err != nil {
		return nil, nil, false, err
	}
	st = &starting{done: make(chan struct{})}
	agent := cmp.Or(o.Agent, s.agent)
	s.data.Desktop = cmp.Or(o.Desktop, s.data.Desktop, s.host.cfg.Desktop)
	err = s.host.task(func(ctx context.Context) {
		st.life, st.err = s.begin(ctx, agent, init)
		s.mu.Lock()
		if s.starting = nil; st.err == nil {
			s.agent = agent
			if st.left {
				st.life.greeted()
			}
		}
		s.mu.Unlock()
		close(st.done)
	})
	if err != nil {
		return nil, nil, false, err
	}
	s.starting = st
	return nil, st, true, nil
}

// mayStart tells whether a process may be started without being asked for by
// name. The caller has s.mu.
func (s *server) mayStart(o PostOptions) error {
	switch {
	case o.Agent != "":
		return nil
	case s.last.ID == "":
		return ErrAgentNeeded
	case s.last.Reason == endedItself:
		return exitedOf(s.last)
	}
	return nil
}

// exitedOf is the error of who talks to an agent that has ended.
func exitedOf(row eventlog.Life) error {
	return &ExitedError{Agent: row.Agent, Code: row.ExitCode, Stderr: string(row.Stderr)}
}

// begin starts a process and initializes it.
func (s *server) begin(ctx context.Context, agent string, init []byte) (*life, error) {
	s.mu.Lock()
	old := s.life
	s.mu.Unlock()
	// What a predecessor wrote comes before what its successor writes.
	if old != nil {
		<-old.done
	}
	if s.after != nil {
		select {
		case <-s.after:
		case <-ctx.Done():
			return nil, ErrClosed
		}
	}
	before, newest, err := s.newestLife(ctx)
	if err != nil {
		return nil, err
	}
	l, err := s.host.spawn(ctx, s, agent, before, newest) // which may install it first
	if errors.Is(err, errOvertaken) {
		return s.begin(ctx, agent, init)
	}
	if err != nil {
		return nil, err
	}
	if init == nil {
		l.expect(before.Init)
		return l, nil
	}
	if len(before.Init) > 0 {
		init = before.Init
	}
	if len(init) == 0 {
		return l, nil
	}
	if err := l.introduce(ctx, init); err != nil {
		l.end(endedServer)
		return nil, err
	}
	return l, nil
}

// newestLife is the record of the life before the one that starts, and the
// newest one in the log, which may be of a server that is no more. Another host
// with the same log may have run the server meanwhile, or run it now.
func (s *server) newestLife(ctx context.Context) (before, newest eventlog.Life, err error) {
	known := s.record()
	lives, err := s.host.cfg.Log.Lives(ctx, eventlog.LifeFilter{Server: s.id, Latest: true})
	if err != nil {
		return known, newest, err
	}
	gone := len(lives) == 0 // retention drops what is left of a server that is no more
	if !gone {
		newest = lives[0]
		gone = newest.Reason == endedDeleted
	}
	switch {
	case gone && known.ID == "":
		return known, newest, nil // a server of the same id, if there was one, which is no more
	case gone:
		s.host.drop(s)
		return known, newest, ErrServerNotFound
	case newest.ExitedAt.IsZero() && newest.Instance != s.host.cfg.Log.Instance():
		running, err := s.host.elsewhere(ctx, newest)
		if running {
			err = &ElsewhereError{s.id}
		}
		if err == nil {
			err = s.host.recoverLife(ctx, newest)
		}
		if err != nil {
			return known, newest, err
		}
		return s.newestLife(ctx)
	case newest.ID == known.ID:
		return known, newest, nil
	}
	return newest, newest, nil
}

// errOvertaken says that another host with the same log did something with a
// server at the same time.
var errOvertaken = errors.New("another host was quicker")

// claim writes down that a life is the one of its server, unless the newest one
// is not what it was. Of several hosts that do so at once one succeeds.
func (l *life) claim(ctx context.Context, newest eventlog.Life) error {
	row := l.row
	err := l.host.commit(ctx, func(tx *eventlog.Tx) (err error) {
		// Until the end of the transaction the others wait here.
		now, err := tx.Newest(published(row.Server), row.Server)
		if err != nil && !errors.Is(err, eventlog.ErrNotFound) {
			return err
		}
		if row.Base, err = tx.Last(published(row.Server)); err != nil {
			return err
		}
		if now.ID != newest.ID || now.Reason != newest.Reason {
			return errOvertaken
		}
		row, err = tx.StartLife(row)
		return err
	})
	if err == nil {
		l.row = row
	}
	return err
}

// initialize repeats what a client has told the process before.
func (l *life) initialize(ctx context.Context, params []byte) error {
	result, err := l.request(ctx, methodInitialize, params)
	if err != nil {
		return err
	}
	l.host.cfg.Observe(l.agent, methodInitialize, result)
	l.s.mu.Lock()
	auth := l.s.data.Authenticate
	l.s.mu.Unlock()
	if len(auth) == 0 {
		return nil
	}
	_, err = l.request(ctx, "authenticate", auth)
	if _, refused := errors.AsType[*ResponseError](err); refused {
		l.log.Warn("agent does not authenticate again", "error", err)
		return nil // the next request tells its client
	}
	return err
}

// ServerInfo describes an ACP server.
type ServerInfo struct {
	ID      string
	Agent   string
	Created time.Time
	Running bool      // its process runs
	Started time.Time // of its newest process
	Desktop string
}

func infoOf(row eventlog.Life) ServerInfo {
	var d lifeData
	_ = json.Unmarshal(row.Data, &d) // ours
	if d.Created.IsZero() {
		d.Created = row.StartedAt
	}
	return ServerInfo{
		ID: row.Server, Agent: row.Agent, Created: d.Created, Started: row.StartedAt, Running: row.ExitedAt.IsZero(), Desktop: d.Desktop,
	}
}
