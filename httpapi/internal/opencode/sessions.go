package opencode

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/agents/opencode"
	"github.com/deskhand/deskhand/httpapi/internal/agenthost"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

// origin is the origin of sessions that these routes have made.
const origin = "opencode"

// mostSessions is how many sessions a list has unless the client names a limit.
const mostSessions = 100

// sessionRoutes are the routes of sessions.
func (a *area) sessionRoutes() []route {
	const one = "/session/{sessionID}"
	return []route{
		{http.MethodGet, "/session", a.listSessions},
		{http.MethodPost, "/session", a.createSession},
		{http.MethodGet, "/session/status", a.sessionStatus},
		{http.MethodGet, one, func(c *call) (any, error) {
			s, err := a.find(c)
			if err != nil {
				return nil, err
			}
			return a.info(s), nil
		}},
		{http.MethodPatch, one, a.updateSession},
		{http.MethodDelete, one, a.deleteSession},
		{http.MethodGet, one + "/children", a.children},
		{http.MethodPost, one + "/fork", a.fork},
		unsupported(http.MethodPost, one+"/revert", "agents cannot undo what they have done"),
		unsupported(http.MethodPost, one+"/unrevert", "agents cannot undo what they have done"),
		unsupported(http.MethodPost, one+"/share", "deskhand publishes no sessions; the workspace at /ui/ shows them to people with a token"),
		unsupported(http.MethodDelete, one+"/share", "deskhand publishes no sessions"),
		unsupported(http.MethodDelete, one+"/message/{messageID}", "the log keeps all messages"),
		unsupported(http.MethodDelete, one+"/message/{messageID}/part/{partID}", "the log keeps all messages"),
		unsupported(http.MethodPatch, one+"/message/{messageID}/part/{partID}", "the log keeps all messages as they were"),
	}
}

// number returns a query parameter, which must be positive if it is there.
func (c *call) number(name string, missing int) (int, error) {
	text := c.Query(name)
	if text == "" {
		return missing, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, rest.InvalidField(name, name+" must be a positive number")
	}
	return n, nil
}

// found is a session with its record.
type found struct {
	host *agents.Host
	agents.Session
	record record
}

// find returns the session that the path names.
func (a *area) find(c *call) (found, error) { return a.findByID(c.ctx, c.Param("sessionID")) }

func (a *area) findByID(ctx context.Context, id string) (found, error) {
	host, err := a.Host.Get(ctx)
	if err != nil {
		return found{}, err
	}
	r, err := a.records.get(ctx, host.Log(), id)
	if err != nil {
		return found{}, err
	}
	if r.Deleted {
		return found{}, agenthost.NoSession(id)
	}
	s, err := host.Session(ctx, id)
	// A session whose agent did not start is a draft again.
	if r.Draft != nil && (errors.Is(err, agents.ErrSessionNotFound) || err == nil && s.State == eventlog.Failed) {
		return found{host, r.session(), r}, nil
	}
	return found{host, s, r}, err
}

// session returns a session that has no agent yet.
func (r record) session() agents.Session {
	return agents.Session{Mode: r.Draft.Mode, Archived: r.Archived > 0, Session: eventlog.Session{
		ID: r.ID, Cwd: r.Draft.Cwd, Title: r.Draft.Title, CreatedAt: r.Draft.Created, UpdatedAt: r.Draft.Created, State: eventlog.Idle,
	}}
}

// isDraft reports whether the session has no agent yet.
func (f found) isDraft() bool { return f.Agent == "" }

// info describes a session.
func (a *area) info(f found) opencode.Session {
	return a.infoOf(f.Session, f.record, map[string]project{})
}

// infoOf describes a session with its record. projects has the projects of directories that were
// looked up before.
func (a *area) infoOf(s agents.Session, r record, projects map[string]project) opencode.Session {
	p, ok := projects[s.Cwd]
	if !ok {
		p = projectOf(s.Cwd)
		projects[s.Cwd] = p
	}
	info := opencode.SessionOf(s, p.id, a.Version)
	r.addTo(&info)
	if s.Archived {
		info.Time.Archived = cmp.Or(r.Archived, info.Time.Updated) // another API knows no time
	}
	return info
}

// addTo adds what the record has to a description.
func (r record) addTo(s *opencode.Session) {
	s.Parent, s.Metadata, s.Permission = r.Parent, r.Metadata, r.Permission
	if s.Model.Provider == "" {
		s.Model = nil
	}
}

// describe describes a session, and reports whether it was deleted. projects is as in infoOf.
func (a *area) describe(ctx context.Context, s agents.Session, projects map[string]project) (info opencode.Session, deleted bool, err error) {
	host, err := a.Host.Get(ctx)
	if err != nil {
		return info, false, err
	}
	r, err := a.records.get(ctx, host.Log(), s.ID)
	if err != nil || r.Deleted {
		return info, r.Deleted, err
	}
	return a.infoOf(s, r, projects), false, nil
}

// list returns the sessions that keep selects, the newest first.
func (a *area) list(c *call, limit int, keep func(agents.Session, record) bool) (any, error) {
	host, err := a.Host.Get(c.ctx)
	if err != nil {
		return nil, err
	}
	records, err := a.records.list(c.ctx, host.Log())
	if err != nil {
		return nil, err
	}
	byID := make(map[string]record, len(records))
	drafts := map[string]record{}
	for _, r := range records {
		byID[r.ID] = r
		if r.Draft != nil && !r.Deleted {
			drafts[r.ID] = r
		}
	}
	all, projects := []opencode.Session{}, map[string]project{}
	add := func(s agents.Session, r record) {
		if r.Deleted || !keep(s, r) {
			return
		}
		all = append(all, a.infoOf(s, r, projects))
	}
	cursor := ""
	for more := true; more && len(all) < limit; more = cursor != "" {
		var page []agents.Session
		if page, cursor, err = host.Sessions(c.ctx, eventlog.SessionFilter{Newest: true}, cursor, entriesPage); err != nil {
			return nil, err
		}
		for _, s := range page {
			delete(drafts, s.ID)
			add(s, byID[s.ID])
		}
	}
	for id, r := range drafts {
		if cursor != "" { // the pages that were not read may have it
			if _, err := host.Session(c.ctx, id); !errors.Is(err, agents.ErrSessionNotFound) {
				continue
			}
		}
		add(r.session(), r)
	}
	slices.SortStableFunc(all, func(a, b opencode.Session) int { return cmp.Compare(b.Time.Created, a.Time.Created) })
	return all[:min(len(all), limit)], nil
}

// eachSession calls f with the sessions that a filter selects, at most limit. Only a page of them
// is in memory.
func eachSession(ctx context.Context, host *agents.Host, filter eventlog.SessionFilter, limit int, f func(agents.Session)) error {
	for cursor, more := "", true; more && limit > 0; more = cursor != "" {
		page, next, err := host.Sessions(ctx, filter, cursor, min(limit, entriesPage))
		if err != nil {
			return err
		}
		for _, s := range page {
			f(s)
		}
		cursor, limit = next, limit-len(page)
	}
	return nil
}

// listSessions lists sessions.
func (a *area) listSessions(c *call) (any, error) {
	limit, err := c.number("limit", mostSessions)
	if err != nil {
		return nil, err
	}
	start, err := c.number("start", 0)
	if err != nil {
		return nil, err
	}
	search, roots, worktree := strings.ToLower(c.Query("search")), c.Query("roots") == "true", ""
	if c.Query("scope") == "project" {
		worktree = projectOf(c.directory).worktree
	}
	return a.list(c, limit, func(s agents.Session, r record) bool {
		here := !c.named || s.Cwd == c.directory || worktree != "" && projectOf(s.Cwd).worktree == worktree
		return here && !(roots && r.Parent != "") && s.UpdatedAt.UnixMilli() >= int64(start) &&
			(search == "" || strings.Contains(strings.ToLower(cmp.Or(s.Title, s.Prompt)), search))
	})
}

// children lists the sessions that name a session as their parent.
func (a *area) children(c *call) (any, error) {
	s, err := a.find(c)
	if err != nil {
		return nil, err
	}
	return a.list(c, 1<<20, func(_ agents.Session, r record) bool { return r.Parent == s.ID })
}

// sessionStatus returns the status of the sessions that are busy.
func (a *area) sessionStatus(c *call) (any, error) {
	host, err := a.Host.Get(c.ctx)
	if err != nil {
		return nil, err
	}
	all := map[string]opencode.Status{}
	busy := eventlog.SessionFilter{States: []eventlog.State{eventlog.Starting, eventlog.Running, eventlog.Waiting}}
	err = eachSession(c.ctx, host, busy, math.MaxInt, func(s agents.Session) {
		if !c.named || s.Cwd == c.directory {
			all[s.ID] = opencode.StatusOf(s)
		}
	})
	return all, err
}

// newSession is the body of a request that makes a session.
type newSession struct {
	Parent     string          `json:"parentID"`
	Title      string          `json:"title"`
	Agent      string          `json:"agent"`
	Model      *opencode.Model `json:"model"`
	Metadata   json.RawMessage `json:"metadata"`
	Permission json.RawMessage `json:"permission"`
}

// newID returns the id of a session. As with OpenCode, newer sessions have smaller ids.
func newID() string {
	return fmt.Sprintf("ses_%012x%s", ^uint64(time.Now().UnixMilli()<<12)&(1<<48-1), rand.Text()[:14]) //nolint:gosec // times are after 1970
}

// createSession makes a session. Without a model, its agent is chosen with the first prompt.
func (a *area) createSession(c *call) (any, error) {
	var body newSession
	if err := c.ReadJSON(&body); err != nil {
		return nil, err
	}
	if _, err := policyOf(body.Permission); err != nil {
		return nil, err
	}
	if info, err := os.Stat(c.directory); errors.Is(err, os.ErrNotExist) || err == nil && !info.IsDir() {
		return nil, rest.InvalidField("directory", fmt.Sprintf("directory %.200q is not there or is no directory; make it, or name another one", c.directory))
	}
	host, err := a.Host.Get(c.ctx)
	if err != nil {
		return nil, err
	}
	if body.Parent != "" {
		if _, err := a.findByID(c.ctx, body.Parent); err != nil {
			return nil, err
		}
	}
	id := newID()
	d := &draft{Cwd: c.directory, Title: body.Title, Mode: body.Agent, Created: time.Now()}
	r, err := a.records.change(c.ctx, host.Log(), id, func(r *record) {
		r.Parent, r.Metadata, r.Permission, r.Draft = body.Parent, body.Metadata, body.Permission, d
	})
	if err != nil {
		return nil, err
	}
	if body.Model != nil && body.Model.Provider != "" {
		f, err := a.start(c.ctx, host, r, body.Model.Provider, body.Model.ID, body.Model.Variant)
		if err != nil {
			_, _ = a.records.change(c.ctx, host.Log(), id, func(r *record) { r.Deleted = true })
			return nil, agenthost.Names{Session: id, Agent: body.Model.Provider}.Explain(err)
		}
		return a.info(f), nil
	}
	info := a.info(found{host, r.session(), r})
	a.publish(c.directory, "session.created", map[string]any{"sessionID": id, "info": info})
	return info, nil
}

// start makes the session of a draft, with its agent.
func (a *area) start(ctx context.Context, host *agents.Host, r record, agent, model, variant string) (found, error) {
	o := agents.SessionOptions{
		Agent: agent, Cwd: r.Draft.Cwd, Title: r.Draft.Title, ThoughtLevel: variant, Origin: origin, Lenient: true,
	}
	if model != opencode.DefaultModel {
		o.Model = model
	}
	if r.Draft.Mode != opencode.DefaultAgent {
		o.Mode = r.Draft.Mode
	}
	policy, err := policyOf(r.Permission)
	if err != nil {
		return found{}, err
	}
	if allow, err := a.settings.allow(r.Draft.Cwd); err != nil {
		return found{}, err
	} else if allow && policy == nil {
		policy = &agents.Policy{Mode: agents.Allow}
	}
	o.Permissions = policy
	if policy != nil && policy.Mode == agents.Allow && o.Mode == "" {
		o.Mode = agenthost.BypassModes[agent]
	}
	s, err := host.CreateSession(ctx, r.ID, o)
	if err != nil {
		return found{}, err
	}
	r, err = a.records.change(ctx, host.Log(), r.ID, func(r *record) { r.Draft = nil })
	return found{host, s, r}, err
}

// defaultAgent returns the agent of sessions for which the client names none: the first one
// that is installed and has credentials, or else the mock agent.
func (a *area) defaultAgent() string {
	credentials := a.Registry.AgentsWithCredentials()
	for _, one := range a.Registry.Agents() {
		if _, err := a.Registry.Command(one.ID); err == nil && !one.BuiltIn && (credentials[one.ID] || one.Custom) {
			return one.ID
		}
	}
	return "mock"
}

// sessionUpdate is the body of a request that changes a session.
type sessionUpdate struct {
	Title      *string         `json:"title"`
	Metadata   json.RawMessage `json:"metadata"`
	Permission json.RawMessage `json:"permission"`
	Time       struct {
		Archived *int64 `json:"archived"`
	} `json:"time"`
}

// updateSession changes a session.
func (a *area) updateSession(c *call) (any, error) {
	var body sessionUpdate
	if err := c.ReadJSON(&body); err != nil {
		return nil, err
	}
	policy, err := policyOf(body.Permission)
	if err != nil {
		return nil, err
	}
	f, err := a.find(c)
	if err != nil {
		return nil, err
	}
	if body.Title != nil && !f.isDraft() {
		if err := f.host.SetTitle(c.ctx, f.ID, *body.Title); err != nil {
			return nil, err
		}
	}
	if policy != nil && !f.isDraft() {
		if err := f.host.SetPermissions(c.ctx, f.ID, *policy); err != nil {
			return nil, err
		}
	}
	if body.Time.Archived != nil && !f.isDraft() {
		if err := f.host.SetArchived(c.ctx, f.ID, *body.Time.Archived > 0); err != nil {
			return nil, err
		}
	}
	if f.isDraft() || body.Metadata != nil || body.Permission != nil || body.Time.Archived != nil {
		if _, err := a.records.change(c.ctx, f.host.Log(), f.ID, func(r *record) {
			if body.Metadata != nil {
				r.Metadata = body.Metadata
			}
			if body.Permission != nil {
				r.Permission = body.Permission
			}
			if body.Time.Archived != nil {
				r.Archived = *body.Time.Archived
			}
			if body.Title != nil && r.Draft != nil {
				changed := *r.Draft
				changed.Title, r.Draft = *body.Title, &changed
			}
		}); err != nil {
			return nil, err
		}
	}
	if f, err = a.find(c); err != nil {
		return nil, err
	}
	info := a.info(f)
	a.publish(f.Cwd, "session.updated", map[string]any{"sessionID": f.ID, "info": info})
	return info, nil
}

// fork makes a session with the turns before the one of a message, or with all turns that have
// ended.
func (a *area) fork(c *call) (any, error) {
	var body struct {
		Message string `json:"messageID"`
	}
	if err := c.ReadJSON(&body); err != nil {
		return nil, err
	}
	f, err := a.find(c)
	if err != nil {
		return nil, err
	}
	var before int64
	if err := a.withTranscript(c.ctx, f.host, f.Session, func(t *opencode.Transcript) { before = t.TurnOf(body.Message) }); err != nil {
		return nil, err
	}
	if body.Message != "" && before == 0 {
		return nil, rest.Missing("message", body.Message)
	}
	made := record{ID: newID(), Metadata: f.record.Metadata, Permission: f.record.Permission}
	if f.isDraft() {
		d := *f.record.Draft
		d.Created, made.Draft = time.Now(), &d
	} else if _, err := f.host.Fork(c.ctx, f.ID, agents.ForkOptions{
		ID: made.ID, Title: a.info(f).Title + " (fork)", Origin: origin, Before: before,
	}); err != nil {
		return nil, err
	}
	if _, err := a.records.change(c.ctx, f.host.Log(), made.ID, func(r *record) { *r = made }); err != nil {
		return nil, err
	}
	if f, err = a.findByID(c.ctx, made.ID); err != nil {
		return nil, err
	}
	info := a.info(f)
	a.publish(f.Cwd, "session.created", map[string]any{"sessionID": f.ID, "info": info})
	return info, nil
}

// deleteSession ends a session and hides it. The log keeps it.
func (a *area) deleteSession(c *call) (any, error) {
	f, err := a.find(c)
	if err != nil {
		return nil, err
	}
	if !f.isDraft() {
		if err := f.host.Terminate(c.ctx, f.ID); err != nil {
			return nil, err
		}
	}
	if _, err := a.records.change(c.ctx, f.host.Log(), f.ID, func(r *record) { r.Deleted = true }); err != nil {
		return nil, err
	}
	a.publish(f.Cwd, "session.deleted", map[string]any{"sessionID": f.ID, "info": a.info(f)})
	return true, nil
}
