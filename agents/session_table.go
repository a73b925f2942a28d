package agents

import "sync"

// sessionTable holds the sessions that a process has open.
type sessionTable struct {
	// What agentProcess.run owns.
	byID     map[string]*attachedSession
	byNative map[string]*attachedSession // by the agent's ids

	mu        sync.Mutex              // guards what follows
	attached  map[string]bool         // by id; false: the session is being made
	restoring map[string]*restoration // by id
}

func newSessionTable() sessionTable {
	return sessionTable{
		byID: map[string]*attachedSession{}, byNative: map[string]*attachedSession{},
		attached: map[string]bool{}, restoring: map[string]*restoration{},
	}
}

// attach adds a session under the agent's id for it.
func (t *sessionTable) attach(s *attachedSession) { t.attachAs(s, s.row.Native) }

// attachAs adds a session under another id of the agent's.
func (t *sessionTable) attachAs(s *attachedSession, native string) {
	t.byID[s.row.ID] = s
	t.byNative[native] = s
	t.open(s)
}

// open lets clients use a session unless it is being made or restored.
func (t *sessionTable) open(s *attachedSession) {
	if s.opening {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.attached[s.row.ID] = !s.making
}

func (t *sessionTable) detach(s *attachedSession) {
	delete(t.byID, s.row.ID)
	delete(t.byNative, s.native())
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.attached, s.row.ID)
}

// isOpen reports whether clients can use a session. Any goroutine may call it.
func (t *sessionTable) isOpen(id string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.attached[id]
}

// isKnown is like isOpen but also true for a session that is being made.
func (t *sessionTable) isKnown(id string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, ok := t.attached[id]
	return ok
}

// restoration returns the restoration of a session that is under way, or nil.
func (t *sessionTable) restoration(id string) *restoration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.restoring[id]
}

// endRestoration removes a restoration and, if it succeeded, lets clients use the
// session.
func (t *sessionTable) endRestoration(id string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if delete(t.restoring, id); err == nil {
		t.attached[id] = true
	}
}
