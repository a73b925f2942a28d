package agents

import "sync"

// sessionTable holds the sessions that a process has open. byID has the sessions that the
// agent works on, byNative also sessions of which the agent may send updates although it has
// not answered session/load yet. Clients can use the sessions that isOpen reports.
type sessionTable struct {
	// What agentProcess.run owns.
	byID     map[string]*attachedSession
	byNative map[string]*attachedSession // by the agent's ids

	mu       sync.Mutex      // guards the fields below
	attached map[string]bool // by id; false: the session is being made
}

func newSessionTable() *sessionTable {
	return &sessionTable{byID: map[string]*attachedSession{}, byNative: map[string]*attachedSession{}, attached: map[string]bool{}}
}

// attach adds a session under the agent's present id for it.
func (t *sessionTable) attach(s *attachedSession) {
	t.byID[s.row.ID] = s
	t.byNative[s.native()] = s
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

// beginOpening records that a request loads or resumes a session.
func (t *sessionTable) beginOpening(fx *effects, s *attachedSession, loads bool) {
	native := s.native()
	was := t.byNative[native]
	t.byNative[native] = s
	s.countOpening(1, loads)
	fx.onRefusal(func() {
		s.countOpening(-1, loads)
		if was == nil {
			delete(t.byNative, native)
		} else {
			t.byNative[native] = was
		}
	})
}

// failOpening forgets a session that no request opens any more and none has opened.
func (t *sessionTable) failOpening(s *attachedSession) {
	if s.pendingOpen && s.opens == 0 && t.byNative[s.native()] == s {
		delete(t.byNative, s.native())
	}
}

// beingOpened returns the session that other requests open already, or s.
func (t *sessionTable) beingOpened(s *attachedSession) *attachedSession {
	if open := t.byID[s.row.ID]; open != nil {
		return open
	}
	if other := t.byNative[s.row.Native]; other != nil && other.row.ID == s.row.ID {
		return other
	}
	return s
}

// translate returns the session that a message of the agent is about, and the message with the
// session's id in place of the agent's.
func (t *sessionTable) translate(e *envelope) (*attachedSession, []byte) {
	s := t.byNative[e.sessionID()]
	if s == nil || s.row.ID == e.sessionID() {
		return s, e.raw
	}
	return s, e.rewritten(nil, jsonString(s.row.ID))
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
