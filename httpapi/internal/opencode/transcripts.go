package opencode

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/opencode"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
	"github.com/deskhand/deskhand/internal/plainjson"
)

// mostTranscripts is how many bytes of transcripts are kept in memory.
const mostTranscripts = 64 << 20

// transcripts keeps the transcripts that were read last. Its zero value is ready to use.
type transcripts struct {
	mu  sync.Mutex // guards all, and used and bytes of its elements
	all map[string]*transcript
}

// transcript is the transcript of a session.
type transcript struct {
	used  time.Time
	bytes int

	mu      sync.Mutex // guards the fields below
	of      *opencode.Transcript
	applied int64 // the last entry that it has
}

// newTranscript returns the empty transcript of a session. It keeps the newest messages, of that
// many bytes; 0 is the default.
func (a *area) newTranscript(s agents.Session, bytes int) *opencode.Transcript {
	worktree := projectOf(s.Cwd).worktree
	return opencode.NewTranscript(opencode.Config{Session: s.ID, Agent: s.Agent, Cwd: s.Cwd, Worktree: worktree, MaxBytes: bytes})
}

// withTranscript calls f with the transcript of a session, which has all entries of the log.
// f must not keep it.
func (a *area) withTranscript(ctx context.Context, host *agents.Host, s agents.Session, f func(*opencode.Transcript)) error {
	if s.Agent == "" { // a draft, whose agent is not known
		f(a.newTranscript(s, 0))
		return nil
	}
	a.transcripts.mu.Lock()
	one := a.transcripts.all[s.ID]
	if one == nil {
		one = &transcript{of: a.newTranscript(s, 0)}
		if a.transcripts.all == nil {
			a.transcripts.all = map[string]*transcript{}
		}
		a.transcripts.all[s.ID] = one
	}
	one.used = time.Now()
	a.transcripts.mu.Unlock()

	one.mu.Lock()
	defer one.mu.Unlock()
	for {
		entries, err := host.Log().Read(ctx, agents.SessionStream(s.ID), one.applied, entriesPage)
		if err != nil {
			return err
		}
		if len(entries) == 0 {
			break
		}
		for _, e := range entries {
			one.of.Apply(e)
			one.applied = e.Seq
		}
	}
	f(one.of)
	a.transcripts.bound(one)
	return nil
}

// bound forgets the transcripts that were used longest ago, if all of them are too large. one
// has changed.
func (t *transcripts) bound(one *transcript) {
	t.mu.Lock()
	defer t.mu.Unlock()
	one.bytes = one.of.Bytes()
	for {
		total, oldest := 0, ""
		for id, other := range t.all {
			total += other.bytes
			if other != one && (oldest == "" || other.used.Before(t.all[oldest].used)) {
				oldest = id
			}
		}
		if total <= mostTranscripts || oldest == "" {
			return
		}
		delete(t.all, oldest)
	}
}

// answerFrom answers with what f returns of a session's transcript. f returns nil for what is
// not there.
func (a *area) answerFrom(c *call, f func(*opencode.Transcript) any) (any, error) {
	s, err := a.find(c)
	if err != nil {
		return nil, err
	}
	var text []byte
	var bad error
	err = a.withTranscript(c.ctx, s.host, s.Session, func(t *opencode.Transcript) {
		if v := f(t); v != nil {
			text, bad = plainjson.Marshal(v)
		}
	})
	switch {
	case err != nil:
		return nil, err
	case bad != nil:
		return nil, bad
	case text == nil:
		return nil, rest.Missing("message", c.Param("messageID"))
	}
	return json.RawMessage(text), nil
}

// transcriptRoutes are the routes that read what was said in a session.
func (a *area) transcriptRoutes() []route {
	return []route{
		{http.MethodGet, "/session/{sessionID}/message", a.messages},
		{http.MethodGet, "/session/{sessionID}/message/{messageID}", func(c *call) (any, error) {
			return a.answerFrom(c, func(t *opencode.Transcript) any {
				if m := t.Message(c.Param("messageID")); m != nil {
					return m
				}
				return nil
			})
		}},
		{http.MethodGet, "/session/{sessionID}/todo", func(c *call) (any, error) {
			return a.answerFrom(c, func(t *opencode.Transcript) any { return t.Todos() })
		}},
		{http.MethodGet, "/session/{sessionID}/diff", func(c *call) (any, error) {
			id := c.Query("messageID")
			return a.answerFrom(c, func(t *opencode.Transcript) any { return t.DiffsOf(id) })
		}},
	}
}

// messages lists the newest messages of a session, or those before a message.
func (a *area) messages(c *call) (any, error) {
	limit, err := c.number("limit", 0)
	if err != nil {
		return nil, err
	}
	before := c.Query("before")
	return a.answerFrom(c, func(t *opencode.Transcript) any {
		all := t.Messages()
		for i, m := range all {
			if before != "" && m.Info.ID == before {
				all = all[:i]
				break
			}
		}
		if limit > 0 && len(all) > limit {
			all = all[len(all)-limit:]
		}
		return append([]*opencode.Message{}, all...)
	})
}
