package browser

import (
	"encoding/json"
	"maps"
	"slices"
)

// own records a session of a client, or ends it if the client has left meanwhile. It ends a client
// that has too many, or gets no id of its own.
func (b *clients) own(id string, s *session) {
	b.mu.Lock()
	err := b.addSession(id, s)
	b.mu.Unlock()
	if err != nil {
		s.client.end(err)
	}
}

// addSession returns the error that ends the client. The caller has mu.
func (b *clients) addSession(id string, s *session) error {
	switch {
	case !b.connected[s.client]:
		b.post(b.broker, "Target.detachFromTarget", map[string]any{"sessionId": id})
		return nil
	case s.client.attached >= maxSessions:
		return errFlood
	case id == "" || b.sessions[id] != nil:
		return errSessionID
	}
	if s.client.root == "" {
		s.client.root = id
	}
	s.id = id
	b.sessions[id] = s
	if p := s.parent; p != nil {
		if p.below == nil {
			p.below = map[*session]bool{}
		}
		p.below[s] = true
	}
	s.client.attached++
	b.runHeld(s)
	return nil
}

// removeSession forgets a session that has ended, with the sessions that it got: the browser ends
// them too, and reports that under the id of the ended session, or does not. It returns the ids of
// all. The result is nil if the client did not have the session.
func (b *clients) removeSession(id string, c *client) (ended []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.sessions[id]
	if s == nil || s.client != c {
		return nil
	}
	if s.parent != nil {
		delete(s.parent.below, s)
	}
	all := []*session{s}
	for i := 0; i < len(all); i++ { // all grows
		all = slices.AppendSeq(all, maps.Keys(all[i].below))
		delete(b.sessions, all[i].id)
		c.attached--
		ended = append(ended, all[i].id)
	}
	return ended
}

// runHeld lets a page, frame or worker run that waits for a client without control. The caller has mu.
func (b *clients) runHeld(s *session) {
	if s.client.held() != nil {
		b.post(s.id, "Runtime.runIfWaitingForDebugger", struct{}{})
	}
}

// sessionOf returns a session if it belongs to the client, or nil.
func (b *clients) sessionOf(id string, c *client) *session {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := b.sessions[id]; s != nil && s.client == c {
		return s
	}
	return nil
}

func (b *clients) setPage(s *session, on bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s.page = on
}

func (b *clients) setEmulatesFocus(s *session) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s.emulatesFocus = true
}

// emulatesFocus reports whether a page may say that it has the focus, and is visible, because a
// client wants that. The caller has mu.
func (b *tabs) emulatesFocus(target string) bool {
	for _, s := range b.sessions {
		if s.emulatesFocus && s.target == target {
			return true
		}
	}
	return false
}

// madeBy reports whether a client that f accepts has made a browser context.
func (b *clients) madeBy(contextID string, f func(*client) bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for c := range b.connected {
		if c.contexts[contextID] && f(c) {
			return true
		}
	}
	return false
}

// answersDialogs reports whether a client answers the dialogs of a page. The caller has mu.
func (b *tabs) answersDialogs(target string) bool {
	for _, s := range b.sessions {
		if s.page && s.target == target {
			return true
		}
	}
	return false
}

// attachment is the part of Target.attachedToTarget that matters here.
type attachment struct {
	SessionID  string     `json:"sessionId"`
	TargetInfo targetInfo `json:"targetInfo"`
}

// targetInfo describes a target, as in the protocol.
type targetInfo struct {
	TargetID string `json:"targetId"`
	Type     string `json:"type"`
	Title    string `json:"title"`
	URL      string `json:"url"`

	shownURL string // for events; see withoutSecrets
}

// limited returns i with at most maxText characters of its texts.
func (i targetInfo) limited() targetInfo {
	i.Type = limited(i.Type)
	i.shownURL = limited(withoutSecrets(i.URL))
	i.URL, i.Title = limited(i.URL), limited(i.Title)
	return i
}

// routeToClient passes an event to the client that has the session. It reports whether one
// has it.
func (b *clients) routeToClient(m message, sessionID string) bool {
	b.mu.Lock()
	s := b.sessions[sessionID]
	b.mu.Unlock()
	if s == nil {
		return false
	}
	c := s.client
	var a attachment
	switch plain(m.method) {
	case "Target.attachedToTarget":
		if json.Unmarshal(m.params, &a) == nil && len(a.SessionID) <= maxID && len(a.TargetInfo.TargetID) <= maxID {
			b.own(a.SessionID, &session{client: c, parent: s, target: a.TargetInfo.TargetID})
		}
	case "Target.detachedFromTarget":
		c.event(m, sessionID) // before the answers to what the session was still asked
		if json.Unmarshal(m.params, &a) == nil {
			for _, id := range b.removeSession(a.SessionID, c) {
				b.conn.sessionEnded(id)
			}
		}
		return true
	}
	c.event(m, sessionID)
	return true
}

// routeToBroker handles an event of the session from which clients get theirs: it ends a client whose
// first session has ended, as Chromium does.
func (b *clients) routeToBroker(m message) {
	var a attachment
	if plain(m.method) != "Target.detachedFromTarget" || json.Unmarshal(m.params, &a) != nil {
		return
	}
	b.mu.Lock()
	s := b.sessions[a.SessionID]
	ends := s != nil && s.client.root == a.SessionID
	b.mu.Unlock()
	if ends {
		s.client.end(errClosed)
	}
}

// lateAnswer ends a session whose client has left before the browser's answer.
func (b *clients) lateAnswer(m message, session string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var a attachment
	if session == "" || session != b.broker || m.decode(&a, maxAnswer) != nil || len(a.SessionID) > maxID {
		return
	}
	if a.SessionID != "" && b.sessions[a.SessionID] == nil {
		b.post(b.broker, "Target.detachFromTarget", map[string]any{"sessionId": a.SessionID})
	}
}

// addClient counts a client.
func (b *clients) addClient(c *client) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	guests, own := 0, 0
	for other := range b.connected {
		if other.guest != nil {
			guests++
		}
		if other.guest == c.guest {
			own++
		}
	}
	switch {
	case b.closing:
		return ErrEnded
	case len(b.connected) >= maxClients, c.guest != nil && (guests >= maxGuests || own >= maxOfGuest):
		return ErrTooManyClients
	}
	b.connected[c] = true
	b.serving.Add(1)
	return nil
}

// removeClient ends the sessions of a client, with the browser contexts that it wanted to end
// with it.
func (b *clients) removeClient(c *client) {
	defer b.serving.Done()
	b.mu.Lock()
	delete(b.connected, c)
	for id, s := range b.sessions {
		if s.client == c {
			delete(b.sessions, id)
		}
	}
	if c.root != "" {
		b.post(b.broker, "Target.detachFromTarget", map[string]any{"sessionId": c.root})
	}
	b.mu.Unlock()
	b.conn.forgetCalls(func(p *pendingCall) bool { return p.from == c })
	c.mu.Lock()
	if c.err == nil {
		c.err = errLeft // an event that was read before is not queued
	}
	b.queued.Add(-int64(c.queued))
	c.mu.Unlock()
	b.clientGone()
}
