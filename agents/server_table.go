package agents

import (
	"sync"
	"time"
)

// serverTable holds the servers that a host knows. A server is in byID until it is deleted,
// then in ending until its process has ended.
type serverTable struct {
	mu          sync.Mutex // guards the fields below
	byID        map[string]*server
	ending      map[string]*endingServer
	terminating map[string]int // callers of Terminate by session, which no process opens meanwhile
}

// endingServer is a deleted server whose process has not ended.
type endingServer struct {
	server *server
	over   chan struct{}
}

func newServerTable() *serverTable {
	return &serverTable{byID: map[string]*server{}, ending: map[string]*endingServer{}, terminating: map[string]int{}}
}

// get returns the server of that id, or a deleted one whose process has not ended.
func (t *serverTable) get(id string) (present, deleted *server) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.ending[id]; e != nil {
		deleted = e.server
	}
	return t.byID[id], deleted
}

// isEnding reports whether a deleted server still has a process.
func (t *serverTable) isEnding(id string) bool {
	_, deleted := t.get(id)
	return deleted != nil
}

// add adds a server, or returns the one that has its id already.
func (t *serverTable) add(s *server) *server {
	t.mu.Lock()
	defer t.mu.Unlock()
	if other := t.byID[s.id]; other != nil {
		return other
	}
	t.byID[s.id] = s
	return s
}

// create adds a server that has had no process, or returns the one that has its id already.
func (t *serverTable) create(h *Host, id string) *server {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.byID[id]; s != nil {
		return s
	}
	s := &server{host: h, id: id, data: processData{Created: time.Now()}}
	if e := t.ending[id]; e != nil {
		s.after = e.over
	}
	t.byID[id] = s
	return s
}

// drop removes a server. The log may still have it.
func (t *serverTable) drop(s *server) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byID[s.id] == s {
		delete(t.byID, s.id)
	}
}

// beginEnding moves a deleted server to ending. The returned function removes it from there.
func (t *serverTable) beginEnding(s *server) (over func()) {
	e := &endingServer{s, make(chan struct{})}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byID[s.id] == s {
		delete(t.byID, s.id)
	}
	t.ending[s.id] = e
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.ending[s.id] == e {
			delete(t.ending, s.id)
		}
		close(e.over)
	}
}

// processes returns the processes of all servers, also of deleted ones.
func (t *serverTable) processes() (all []*agentProcess) {
	t.mu.Lock()
	var servers []*server
	for _, s := range t.byID {
		servers = append(servers, s)
	}
	for _, e := range t.ending {
		servers = append(servers, e.server)
	}
	t.mu.Unlock()
	for _, s := range servers {
		if p := s.newestProcess(); p != nil {
			all = append(all, p)
		}
	}
	return all
}

// terminate prevents that a session is opened until the returned function is called.
func (t *serverTable) terminate(session string) func() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.terminating[session]++
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.terminating[session]--; t.terminating[session] == 0 {
			delete(t.terminating, session)
		}
	}
}

func (t *serverTable) isTerminating(session string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.terminating[session] > 0
}
