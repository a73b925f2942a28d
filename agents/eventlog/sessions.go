package eventlog

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
)

const sessionColumns = "id, agent, server, native, origin, continues, cwd, title, init, modes, config, caps, data, " +
	"state, end_reason, exit_code, error, created_at, updated_at, ended_at"

var sessionUpsert = upsert("session", "id", sessionColumns)

func putSession(s Session) statement {
	return statement{sessionUpsert, []any{
		s.ID, s.Agent, s.Server, s.Native, s.Origin, s.Continues, s.Cwd, s.Title, s.Init, s.Modes, s.Config, s.Caps, s.Data,
		string(s.State), s.EndReason, s.ExitCode, s.Error, micros(s.CreatedAt), micros(s.UpdatedAt), micros(s.EndedAt),
	}}
}

func scanSession(scan func(...any) error) (s Session, err error) {
	var created, updated, ended int64
	err = scan(&s.ID, &s.Agent, &s.Server, &s.Native, &s.Origin, &s.Continues, &s.Cwd, &s.Title,
		&s.Init, &s.Modes, &s.Config, &s.Caps, &s.Data,
		(*string)(&s.State), &s.EndReason, &s.ExitCode, &s.Error, &created, &updated, &ended)
	s.CreatedAt, s.UpdatedAt, s.EndedAt = stamp(created), stamp(updated), stamp(ended)
	return s, err
}

func findSession(ctx context.Context, q querier, id string) (s Session, err error) {
	found := false
	err = q.query(ctx, statement{"select " + sessionColumns + " from session where id = $1", []any{id}},
		func(scan func(...any) error) (bool, error) {
			found = true
			s, err = scanSession(scan)
			return false, err
		})
	if err == nil && !found {
		err = fmt.Errorf("session %s: %w", quote(id), ErrNotFound)
	}
	return s, err
}

// Session returns a session, or [ErrNotFound].
func (l *Log) Session(ctx context.Context, id string) (Session, error) {
	if err := l.open(); err != nil {
		return Session{}, err
	}
	return findSession(ctx, l.db.reader(), id)
}

// SessionFilter says which sessions a list has. Zero fields let all through.
type SessionFilter struct {
	Agent  string
	Server string
	Native string
	Origin string
	States []State
	Newest bool // the newest first, not the oldest
}

// maxPage is how many entries a page of a list may have.
const maxPage = 1000

// Sessions returns the sessions that a filter lets through, by the time at
// which they were made, at most limit of them (0: 100; 1000 at most). The
// cursor is empty at first; next is the one of the following page, and empty at
// the end. What is made or changed meanwhile makes no other entry appear twice
// or not at all.
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
	err = l.db.reader().query(ctx, s, func(scan func(...any) error) (bool, error) {
		one, err := scanSession(scan)
		page = append(page, one)
		return true, err
	})
	if err != nil {
		return nil, "", err
	}
	if len(page) > limit {
		page = page[:limit]
		next = sessionCursor(page[limit-1])
	}
	return page, next, nil
}

func (f SessionFilter) statement(cursor string, limit int) (statement, error) {
	c := new(condition)
	c.equal("agent", f.Agent)
	c.equal("server", f.Server)
	c.equal("native", f.Native)
	c.equal("origin", f.Origin)
	if len(f.States) > 0 {
		states := slices.Compact(slices.Sorted(slices.Values(f.States)))
		args := make([]any, len(states))
		for i, s := range states {
			args[i] = string(s)
		}
		c.add("state in ("+strings.TrimSuffix(strings.Repeat("%s, ", len(args)), ", ")+")", args...)
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
	return c.statement("select "+sessionColumns+" from session", fmt.Sprintf("%s limit %d", order, limit)), nil
}

func sessionCursor(s Session) string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d %s", micros(s.CreatedAt), s.ID))
}

func parseCursor(cursor string) (at int64, id string, err error) {
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	if err == nil {
		var number string
		var found bool
		number, id, found = strings.Cut(string(text), " ")
		_, err = fmt.Sscanf(number, "%d", &at)
		if err == nil && found && checkText("", id, maxName) == nil {
			return at, id, nil
		}
	}
	return 0, "", &InvalidError{"cursor", "is none that a list has given"}
}
