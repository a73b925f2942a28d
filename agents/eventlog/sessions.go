package eventlog

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// State is the state of a session.
type State string

// The states of a session.
const (
	Starting    State = "starting"    // it is being made, and the options of the request are set
	Idle        State = "idle"        // it waits for a prompt
	Running     State = "running"     // a turn is under way
	Waiting     State = "waiting"     // a turn waits for an answer, for example to a permission request
	Interrupted State = "interrupted" // the server ended during a turn; the next prompt continues
	Ended       State = "ended"
	Failed      State = "failed"
)

// Session is a conversation with an agent. It survives the agent's processes
// and the server.
type Session struct {
	ID        string
	Agent     string
	Server    string // the id of its ACP server; empty: none
	Native    string // its id in its current or last process
	Origin    string // the API that made it: "acp", "rest", "oc"
	Continues string // the session whose history it continues; empty: none
	Cwd       string
	Title     string
	Init      []byte // JSON: the parameters that it was made with
	Modes     []byte // JSON
	Config    []byte // JSON
	Caps      []byte // JSON: its agent's capabilities
	Data      []byte // JSON: more data of the caller
	State     State
	EndReason string
	ExitCode  *int
	Error     []byte // JSON
	CreatedAt time.Time
	UpdatedAt time.Time
	EndedAt   time.Time // zero: it has not ended
}

func (s *Session) check(now time.Time) error {
	if s.ID == "" {
		return &InvalidError{"session.id", "must not be empty"}
	}
	switch s.State {
	case Starting, Idle, Running, Waiting, Interrupted, Ended, Failed:
	default:
		return &InvalidError{"session.state", fmt.Sprintf("must be one of the states, not %.100q", s.State)}
	}
	s.CreatedAt, s.UpdatedAt, s.EndedAt = asStored(s.CreatedAt, now), asStored(s.UpdatedAt, now), asStored(s.EndedAt, time.Time{})
	return cmp.Or(
		checkTexts("session", maxName, "id", s.ID, "agent", s.Agent, "server", s.Server, "native", s.Native, "origin", s.Origin, "continues", s.Continues),
		checkTexts("session", maxText, "cwd", s.Cwd, "title", s.Title, "endReason", s.EndReason))
}

var sessionTable = table[string, Session]{
	noun: "session", name: "session", key: "id",
	columns: "id, agent, server, native, origin, continues, cwd, title, init, modes, config, caps, data, " +
		"state, end_reason, exit_code, error, created_at, updated_at, ended_at",
	keyOf:   func(s *Session) string { return s.ID },
	keyArgs: func(id string) []any { return []any{id} },
	fields: func(s *Session) []any {
		return []any{
			&s.ID, &s.Agent, &s.Server, &s.Native, &s.Origin, &s.Continues, &s.Cwd, &s.Title, &s.Init, &s.Modes, &s.Config, &s.Caps, &s.Data,
			(*string)(&s.State), &s.EndReason, &s.ExitCode, &s.Error,
			(*timeColumn)(&s.CreatedAt), (*timeColumn)(&s.UpdatedAt), (*timeColumn)(&s.EndedAt),
		}
	},
}

// Session returns a session, or [ErrNotFound].
func (l *Log) Session(ctx context.Context, id string) (Session, error) {
	return lookup(ctx, l, &sessionTable, id)
}

// SessionFilter selects sessions. Fields that are zero select all.
type SessionFilter struct {
	Agent  string
	Server string
	Native string
	Origin string
	States []State
	Newest bool // the newest session comes first, not the oldest

	UpdatedSince time.Time // selects sessions that changed at that time or later
}

// maxPage is the largest number of entries in a page of a list.
const maxPage = 1000

// Sessions returns a page of the selected sessions, by the time at which they were
// made, at most limit (0: 100; at most 1000), and fewer if they are large. The cursor is
// empty for the first page. next is the cursor of the following page, or empty after the last page. Sessions
// that are made or changed meanwhile neither repeat nor hide other sessions. Sessions returns
// an [*InvalidError] for a cursor that did not come from Sessions.
func (l *Log) Sessions(ctx context.Context, f SessionFilter, cursor string, limit int) (page []Session, next string, err error) {
	if err := l.open(); err != nil {
		return nil, "", err
	}
	if limit <= 0 {
		limit = 100
	}
	limit = min(limit, maxPage)
	s, err := f.statement(cursor, limit+1)
	if err != nil {
		return nil, "", err
	}
	bytes := 0
	err = l.db.reader().query(ctx, s, func(scan func(...any) error) (bool, error) {
		if len(page) == limit || bytes >= pageBytes {
			next = sessionCursor(page[len(page)-1])
			return false, nil
		}
		var one Session
		err := scan(sessionTable.fields(&one)...)
		page = append(page, one)
		bytes += one.size()
		return true, err
	})
	if err != nil {
		return nil, "", err
	}
	return page, next, nil
}

// size returns about how many bytes a session has.
func (s *Session) size() int {
	return len(s.Cwd) + len(s.Title) + len(s.Init) + len(s.Modes) + len(s.Config) + len(s.Caps) + len(s.Data) + len(s.Error)
}

func (f SessionFilter) statement(cursor string, limit int) (statement, error) {
	c := new(condition)
	c.equal("agent", f.Agent)
	c.equal("server", f.Server)
	c.equal("native", f.Native)
	c.equal("origin", f.Origin)
	if len(f.States) > 0 {
		var states []any
		for _, s := range slices.Compact(slices.Sorted(slices.Values(f.States))) {
			states = append(states, string(s))
		}
		c.add("state in ("+strings.TrimSuffix(strings.Repeat("%s, ", len(states)), ", ")+")", states...)
	}
	if !f.UpdatedSince.IsZero() {
		c.add("updated_at >= %s", micros(f.UpdatedSince))
	}
	compare, order := ">", " order by created_at, id"
	if f.Newest {
		compare, order = "<", " order by created_at desc, id desc"
	}
	if cursor != "" {
		at, id, err := parseCursor(cursor)
		if err != nil {
			return statement{}, err
		}
		c.add("(created_at, id) "+compare+" (%s, %s)", at, id)
	}
	return c.statement(sessionTable.selectAll(), fmt.Sprintf("%s limit %d", order, limit)), nil
}

func sessionCursor(s Session) string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d %s", micros(s.CreatedAt), s.ID))
}

func parseCursor(cursor string) (at int64, id string, err error) {
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	number, id, found := strings.Cut(string(text), " ")
	if at, bad := strconv.ParseInt(number, 10, 64); err == nil && bad == nil && found && checkTexts("session", maxName, "id", id) == nil {
		return at, id, nil
	}
	return 0, "", &InvalidError{"cursor", "must be one that Sessions has returned"}
}
