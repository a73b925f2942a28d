package agents

import (
	"context"
	"time"

	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/internal/cuttext"
)

// ForkOptions describes a session that begins as a copy of another one.
type ForkOptions struct {
	ID     string // of the new session
	Title  string
	Origin string // the API that makes the session. Empty: "go"

	// Before is the number of an entry in the stream of the session, the first one that the
	// copy does not have. 0: the copy has all turns that have ended.
	Before int64
}

// Fork makes a session that begins with the turns of another one. A turn that has not ended
// and everything after it are left out. The new session has the agent, the directory and the
// choices of the other one, and its log has a copy of the entries. The agent starts with the
// first prompt, and gets the newest part of the turns as text before that.
//
// It returns an [InvalidError] for options that are not valid, [ErrSessionExists], and
// [ErrSessionNotFound] if there is no session to copy.
func (h *Host) Fork(ctx context.Context, session string, o ForkOptions) (Session, error) {
	if !recordable(o.ID) {
		return Session{}, &InvalidError{"sessionId", "must be text of 1 to 512 bytes"}
	}
	row, err := rowOf(ctx, h.cfg.Log, session)
	if err != nil {
		return Session{}, err
	}
	if h.hasSession(o.ID) {
		return Session{}, ErrSessionExists
	}
	to, err := endOfTurns(ctx, h.cfg.Log, SessionStream(session), o.Before)
	if err != nil {
		return Session{}, err
	}
	turns, err := copyEntries(ctx, h.cfg.Log, session, o.ID, to)
	if err != nil {
		return Session{}, err
	}
	s := attachedSessionOf(row)
	s.data.Turns, s.data.WaitingSince = turns, time.Time{}
	s.data.Problems, s.data.Skills, s.data.Maker, s.data.Archived = nil, "", "", false
	if turns == 0 {
		s.data.Prompt = ""
	}
	s.saveData()
	now := time.Now()
	s.row = eventlog.Session{
		ID: o.ID, Agent: row.Agent, Origin: originOr(o.Origin), Continues: session, Cwd: row.Cwd, Title: cuttext.Cut(sanitized(o.Title), maxTitle),
		Init: row.Init, Modes: row.Modes, Config: row.Config, Caps: row.Caps, Data: s.row.Data,
		State: eventlog.Idle, CreatedAt: now, UpdatedAt: now,
	}
	err = commitNow(ctx, h.cfg.Log, func(tx *eventlog.Tx) error { return tx.PutSession(s.row) })
	return sessionOf(s.row), err
}

func originOr(origin string) string {
	if origin == "" {
		return originGo
	}
	return origin
}

// endOfTurns returns the number of the first entry of a stream that belongs to a turn that has
// not ended, or else the number after the last entry. before bounds it, unless it is 0.
func endOfTurns(ctx context.Context, log *eventlog.Log, stream string, before int64) (int64, error) {
	open := map[string]int64{} // the first entries of turns, by process and id of the request
	last := int64(0)
	err := eachEntry(ctx, log, stream, before, func(page []eventlog.Event) error {
		for _, e := range page {
			last = e.Seq
			switch {
			case isPrompt(e), e.Kind == "response:session/prompt":
				env, err := parse(e.Payload)
				if err != nil {
					continue // it is not a message
				}
				key := e.Process + " " + idKey(env.bytes(env.id))
				if delete(open, key); isPrompt(e) {
					open[key] = e.Seq
				}
			case isEnd(e), e.Kind == "_adapter/agent_exited":
				clear(open)
			}
		}
		return nil
	})
	end := last + 1
	for _, seq := range open {
		end = min(end, seq)
	}
	return end, err
}

// isPrompt reports whether an entry is a prompt of a client, and isEnd whether it is the host's
// about the end of the session. An agent may write lines with these methods too.
func isPrompt(e eventlog.Event) bool { return e.Kind == "session/prompt" && e.Dir == eventlog.Client }
func isEnd(e eventlog.Event) bool    { return e.Kind == "session/ended" && e.Dir == eventlog.Daemon }

// eachEntry calls f with the entries of a stream before a number, unless that is 0, page by
// page.
func eachEntry(ctx context.Context, log *eventlog.Log, stream string, before int64, f func([]eventlog.Event) error) error {
	for last := int64(0); ; {
		page, err := log.Read(ctx, stream, last, 0)
		if err != nil || len(page) == 0 {
			return err
		}
		last = page[len(page)-1].Seq
		for i, e := range page {
			if before > 0 && e.Seq >= before {
				return f(page[:i])
			}
		}
		if err := f(page); err != nil {
			return err
		}
	}
}

// copyEntries copies the entries before a number to another session, and returns how many
// prompts they have.
func copyEntries(ctx context.Context, log *eventlog.Log, from, to string, before int64) (turns int, err error) {
	err = eachEntry(ctx, log, SessionStream(from), before, func(page []eventlog.Event) error {
		prompts := 0
		err := commitNow(ctx, log, func(tx *eventlog.Tx) error {
			prompts = 0
			for _, e := range page {
				if isEnd(e) {
					continue
				}
				if isPrompt(e) {
					prompts++
				}
				e.Stream, e.Session, e.ID, e.Payload = SessionStream(to), to, "", ofSession(e.Payload, to)
				if _, err := tx.Append(e); err != nil {
					return err
				}
			}
			return nil
		})
		turns += prompts
		return err
	})
	return turns, err
}

// ofSession returns a message with another session.
func ofSession(message []byte, session string) []byte {
	env, err := parse(message)
	if err != nil || !env.object {
		return message
	}
	return env.with(edit{env.session, jsonString(session)}, edit{env.find(env.result, "sessionId"), jsonString(session)})
}
