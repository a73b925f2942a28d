package sessions

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/httpapi/internal/agenthost"
	"github.com/deskhand/deskhand/httpapi/internal/events"
	"github.com/deskhand/deskhand/httpapi/internal/grants"
)

const (
	// gather is how long changes of sessions are collected before the next ones are read.
	gather = 20 * time.Millisecond

	// poll is how often the sessions of other servers with the same log are read.
	poll = 2 * time.Second

	// overlap is how much earlier than its position a stream continues, because commits are
	// not ordered by the times of their changes.
	overlap = 5 * time.Second
)

// sessionsSource has the changes of sessions and of their permission requests.
type sessionsSource struct {
	area        *area
	host        *agents.Host
	grant       *grants.Grant    // of the client
	watch       *agenthost.Watch // began before the stream; run closes it
	begin       time.Time
	resumes     bool // begin is the position of an earlier stream
	sessions    bool // the topic sessions
	permissions bool // the topic permissions

	send    func(events.Message) bool
	sent    map[string][sha256.Size]byte // hashes of sessions as the client has them, by id
	open    map[string]map[string]bool   // ids of open requests, by session
	newest  time.Time                    // the newest change that was sent
	created time.Time                    // sessions that were made later are new to the client
}

const sessionsKey = "sessions"

// sessionEvent is an event of the topic sessions.
type sessionEvent struct {
	Type    string      `json:"type"` // created, updated or ended
	Session SessionInfo `json:"session"`
}

// run is a source. It begins with the open permission requests, and with the sessions that
// changed since the client's position.
func (s *sessionsSource) run(ctx context.Context, send func(events.Message) bool) error {
	defer s.watch.Close()
	s.send, s.sent, s.open = send, map[string][sha256.Size]byte{}, map[string]map[string]bool{}
	s.newest, s.created = s.begin, s.begin
	if s.permissions {
		if s.resumes && !send(events.Reset("permissions", nil)) {
			return nil
		}
		open, err := s.host.Questions(ctx, "")
		if err != nil {
			return events.IgnoreEnd(ctx, err)
		}
		if more, err := s.tellRequests(ctx, open); !more {
			return events.IgnoreEnd(ctx, err)
		}
	}
	if s.sessions && s.resumes {
		if more, err := s.tellSince(ctx, s.begin); !more {
			return events.IgnoreEnd(ctx, err)
		}
	}
	var other <-chan time.Time
	if s.host.Log().Shared() {
		ticker := time.NewTicker(poll)
		defer ticker.Stop()
		other = ticker.C
	}
	polled := time.Now()
	for {
		more, err := true, error(nil)
		select {
		case <-s.watch.Changed():
			for _, id := range s.watch.Take() {
				if more, err = s.tell(ctx, id); !more {
					break
				}
			}
		case now := <-other:
			more, err = s.tellSince(ctx, polled)
			polled = now
		case <-ctx.Done():
			return nil
		}
		if !more {
			return events.IgnoreEnd(ctx, err)
		}
		select {
		case <-time.After(gather):
		case <-ctx.Done():
			return nil
		}
	}
}

// tellSince sends the sessions that have changed since a time.
func (s *sessionsSource) tellSince(ctx context.Context, since time.Time) (more bool, err error) {
	filter := eventlog.SessionFilter{UpdatedSince: since.Add(-overlap)}
	for cursor, more := "", true; more; more = cursor != "" {
		var page []agents.Session
		if page, cursor, err = s.host.Sessions(ctx, filter, cursor, 0); err != nil {
			return false, err
		}
		for _, session := range page {
			if more, err := s.tellSession(ctx, session); !more {
				return false, err
			}
		}
	}
	return true, nil
}

// tell sends what is new of a session.
func (s *sessionsSource) tell(ctx context.Context, id string) (more bool, err error) {
	session, err := s.host.Session(ctx, id)
	if errors.Is(err, agents.ErrSessionNotFound) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return s.tellSession(ctx, session)
}

func (s *sessionsSource) tellSession(ctx context.Context, session agents.Session) (more bool, err error) {
	if s.sessions {
		if more, err := s.sendState(ctx, session); !more {
			return false, err
		}
	}
	if s.permissions {
		return s.tellPermissions(ctx, session)
	}
	return true, nil
}

// sendState sends a session if it differs from what the client knows, other than by the time
// and the number of its events.
func (s *sessionsSource) sendState(ctx context.Context, session agents.Session) (more bool, err error) {
	info, err := s.area.summarize(ctx, s.host, session)
	if err != nil {
		return false, err
	}
	info = info.shownTo(s.grant)
	compared := info
	compared.UpdatedAt, compared.EventCount = 0, 0
	text, err := json.Marshal(compared)
	before, known := s.sent[session.ID]
	now := sha256.Sum256(text)
	if err != nil || known && before == now {
		return err == nil, err
	}
	s.sent[session.ID] = now
	if session.UpdatedAt.After(s.newest) {
		s.newest = session.UpdatedAt
	}
	e := sessionEvent{"updated", info}
	switch {
	case info.Ended:
		e.Type = "ended"
	case !known && session.CreatedAt.After(s.created):
		e.Type = "created"
	}
	return s.send(events.Message{Name: "sessions", Data: e, Key: sessionsKey, At: strconv.FormatInt(s.newest.UnixMicro(), 10)}), nil
}
