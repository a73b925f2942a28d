package agents

import (
	"context"
	"encoding/json"
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

	mu       sync.Mutex // guards the fields below
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
	Address      string          `json:"address,omitempty"` // of the host that started the process
	Authenticate json.RawMessage `json:"authenticate,omitempty"`
}

// dataOf returns the data in the record of a process.
func dataOf(row eventlog.Process) (d processData) {
	_ = json.Unmarshal(row.Data, &d) // encodeData has written it
	return d
}

func (s *server) info() processData {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.data
}

// encodeData returns the data for the record of a process. Unless authenticate is nil, it
// becomes a part of the data.
func (s *server) encodeData(authenticate []byte) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if authenticate != nil {
		s.data.Authenticate = authenticate
	}
	s.data.Address = s.host.cfg.Address
	return encode(s.data)
}

func (s *server) keepRecord(row eventlog.Process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last.ID == row.ID {
		s.last = row
	}
}

func (s *server) newestProcess() *agentProcess {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process
}

func (s *server) record() eventlog.Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// forget removes a server that never had a process from the host.
func (s *server) forget() {
	s.mu.Lock()
	never := s.last.ID == "" && s.starting == nil
	s.mu.Unlock()
	if never {
		s.host.servers.drop(s)
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
	if s.process == nil || isClosed(s.process.child.done) || isClosed(s.process.inbox.done) {
		return nil
	}
	return s.process
}

func (s *server) isDeleted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.deleted
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
		s.host.servers.drop(s)
		return known, newest, ErrServerNotFound
	case newest.ExitedAt.IsZero() && newest.Instance != s.host.cfg.Log.Instance():
		err := s.host.recovery.checkElsewhere(ctx, newest)
		if err == nil {
			err = s.host.recovery.process(ctx, newest)
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
	d := dataOf(row)
	if d.Created.IsZero() {
		d.Created = row.StartedAt
	}
	return ServerInfo{
		ID: row.Server, Agent: row.Agent, Created: d.Created, Started: row.StartedAt, Running: row.ExitedAt.IsZero(), Desktop: d.Desktop,
	}
}

// checkHere returns an error if the server runs in another host, or was deleted there.
func (s *server) checkHere(ctx context.Context) error {
	s.mu.Lock()
	p, starts, known := s.process, s.starting != nil, s.last.ID
	s.mu.Unlock()
	switch {
	case starts || known == "" || !s.host.cfg.Log.Shared():
		return nil
	case p != nil && !isClosed(p.child.done):
		return p.lifecycle.lostError()
	}
	processes, err := s.host.cfg.Log.Processes(ctx, eventlog.ProcessFilter{Server: s.id, Latest: true})
	switch {
	case err != nil || len(processes) == 0:
		return err
	case processes[0].Reason == endedDeleted:
		return ErrServerNotFound
	case processes[0].ID == known || !processes[0].ExitedAt.IsZero():
		return nil
	}
	return s.host.recovery.checkElsewhere(ctx, processes[0])
}
