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

// server is an ACP server: one agent, in one process after the other.
type server struct {
	host      *Host
	id        string
	after     <-chan struct{} // nil, or closed when the deleted server of the same id has ended
	followers followers

	mu       sync.Mutex // guards what follows
	agent    string
	data     processData
	last     eventlog.Process // the record of the newest process; no ID: there was none
	process  *agentProcess    // the newest process, until its end is recorded; nil: none
	starting *starting        // nil: none is under way
	deleted  bool
}

// processData is what eventlog.Process.Data holds.
type processData struct {
	Created      time.Time       `json:"created"`
	Desktop      string          `json:"desktop,omitempty"`
	Authenticate json.RawMessage `json:"authenticate,omitempty"`
}

func (s *server) desktopID() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.data.Desktop
}

// encodeData returns the data for the record of a process. Unless authenticate is nil, it
// becomes a part of the data.
func (s *server) encodeData(authenticate []byte) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if authenticate != nil {
		s.data.Authenticate = authenticate
	}
	return encode(s.data)
}

func (s *server) keepRecord(row eventlog.Process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last.ID == row.ID {
		s.last = row
	}
}

// forgetProcess removes a process that has ended. Its record stays.
func (s *server) forgetProcess(p *agentProcess) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == p {
		s.process = nil
	}
}

// runningProcessLocked returns the process if its child runs, or nil. The caller holds s.mu.
func (s *server) runningProcessLocked() *agentProcess {
	if s.process == nil || isClosed(s.process.child.done) || isClosed(s.process.done) {
		return nil
	}
	return s.process
}

func (s *server) isDeleted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.deleted
}

// ensureProcess returns the process of the server and starts one if that is allowed. A new
// process gets c as its first message if that is an initialize. Otherwise it gets the
// initialize of the process before, or one with the params init, if they are not empty.
func (s *server) ensureProcess(ctx context.Context, o PostOptions, init []byte, c *call) (*agentProcess, error) {
	p, st, err := s.startOrJoin(o, init, c)
	if p != nil || err != nil {
		return p, err
	}
	select {
	case <-st.done:
		return st.process, st.err // the process may have ended
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

type starting struct {
	done    chan struct{}
	process *agentProcess // set before done is closed
	err     error         // set before done is closed
}

// startOrJoin returns the running process, or the start for which the caller has to wait.
func (s *server) startOrJoin(o PostOptions, init []byte, c *call) (*agentProcess, *starting, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch p := s.runningProcessLocked(); {
	case s.deleted:
		return nil, nil, ErrServerNotFound
	case o.Agent != "" && s.agent != "" && o.Agent != s.agent:
		return nil, nil, &ConflictError{s.id, s.agent, o.Agent}
	case s.starting != nil:
		return nil, s.starting, nil
	case p != nil:
		return p, nil, nil
	case o.Agent == "" && s.last.ID == "":
		return nil, nil, ErrAgentNeeded
	case o.Agent == "" && s.last.Reason == endedItself:
		return nil, nil, &ExitedError{Agent: s.last.Agent, Code: s.last.ExitCode, Stderr: string(s.last.Stderr)}
	}
	st := &starting{done: make(chan struct{})}
	agent := cmp.Or(o.Agent, s.agent)
	s.data.Desktop = cmp.Or(o.Desktop, s.data.Desktop, s.host.cfg.Desktop)
	err := s.host.task(func(ctx context.Context) {
		st.process, st.err = s.startProcess(ctx, agent, init, c)
		s.mu.Lock()
		if s.starting = nil; st.err == nil {
			s.agent = agent
		}
		s.mu.Unlock()
		close(st.done)
	})
	if err == nil {
		s.starting = st
	}
	return nil, st, err
}

// startProcess starts a process and initializes it.
func (s *server) startProcess(ctx context.Context, agent string, init []byte, c *call) (*agentProcess, error) {
	// The events of the process before come first.
	if old := s.newestProcess(); old != nil {
		<-old.done
	}
	if s.after != nil {
		select {
		case <-s.after:
		case <-ctx.Done():
			return nil, ErrClosed
		}
	}
	before, newest, err := s.newestRecord(ctx)
	if err != nil {
		return nil, err
	}
	p, err := s.host.spawn(ctx, s, agent, before, newest) // which may install it first
	if errors.Is(err, errOvertaken) {
		return s.startProcess(ctx, agent, init, c)
	}
	if err != nil {
		return nil, err
	}
	if c != nil && c.env.method == methodInitialize {
		p.greeting, c.submitted = c, true
		return p, p.submit(ctx, c)
	}
	if len(before.Init) > 0 {
		init = before.Init
	}
	if len(init) == 0 {
		return p, nil
	}
	if err := p.initializeWith(ctx, init); err != nil {
		p.end(endedServer)
		return nil, err
	}
	return p, nil
}

// newestRecord returns the record of the server's process before the one that starts,
// and the newest record in the log, which may be of a deleted server. Another host
// with the same log may have run the server meanwhile, or run it now.
func (s *server) newestRecord(ctx context.Context) (before, newest eventlog.Process, err error) {
	known := s.record()
	processes, err := s.host.cfg.Log.Processes(ctx, eventlog.ProcessFilter{Server: s.id, Latest: true})
	if err != nil {
		return known, newest, err
	}
	gone := len(processes) == 0 // retention removes the records of deleted servers
	if !gone {
		newest = processes[0]
		gone = newest.Reason == endedDeleted
	}
	switch {
	case gone && known.ID == "":
		return known, newest, nil // a new server
	case gone:
		s.host.drop(s)
		return known, newest, ErrServerNotFound
	case newest.ExitedAt.IsZero() && newest.Instance != s.host.cfg.Log.Instance():
		err := s.host.checkElsewhere(ctx, newest)
		if err == nil {
			err = s.host.recoverProcess(ctx, newest)
		}
		if err != nil {
			return known, newest, err
		}
		return s.newestRecord(ctx)
	case newest.ID == known.ID:
		return known, newest, nil
	}
	return newest, newest, nil
}

// errOvertaken reports that another host with the same log has changed the server
// concurrently.
var errOvertaken = errors.New("another host was quicker")

// ServerInfo describes an ACP server.
type ServerInfo struct {
	ID      string
	Agent   string
	Created time.Time
	Running bool      // its process runs
	Started time.Time // of its newest process
	Desktop string
}

func infoOf(row eventlog.Process) ServerInfo {
	var d processData
	_ = json.Unmarshal(row.Data, &d) // ours
	if d.Created.IsZero() {
		d.Created = row.StartedAt
	}
	return ServerInfo{
		ID: row.Server, Agent: row.Agent, Created: d.Created, Started: row.StartedAt, Running: row.ExitedAt.IsZero(), Desktop: d.Desktop,
	}
}
