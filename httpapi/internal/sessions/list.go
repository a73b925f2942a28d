package sessions

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/httpapi/internal/agenthost"
	"github.com/deskhand/deskhand/httpapi/internal/grants"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
	"github.com/deskhand/deskhand/internal/plainjson"
)

// SessionInfo describes a session.
type SessionInfo struct {
	ID             string  `json:"sessionId"`
	Agent          string  `json:"agent"`
	AgentMode      string  `json:"agentMode"`
	PermissionMode string  `json:"permissionMode"`
	Model          *string `json:"model,omitempty"`
	Variant        *string `json:"variant,omitempty"`
	agentID
	Ended        bool            `json:"ended"`
	EventCount   int64           `json:"eventCount" doc:"Number of stored events. Events are created when they are read, or when many messages wait, so that newer ones may follow"`
	CreatedAt    int64           `json:"createdAt" doc:"Unix time in milliseconds"`
	UpdatedAt    int64           `json:"updatedAt"`
	Directory    *string         `json:"directory,omitempty"`
	Title        *string         `json:"title,omitempty" doc:"Its title, or the first line of the first prompt"`
	MCP          json.RawMessage `json:"mcp,omitempty" doc:"MCP servers; only for the server's token and admin tokens"`
	Skills       json.RawMessage `json:"skills,omitempty"`
	Continues    *string         `json:"continues,omitempty" doc:"Session whose history this session continues"`
	State        string          `json:"state" enum:"starting,idle,running,waiting,interrupted,ended,failed"`
	WaitingSince int64           `json:"waitingSince,omitempty" doc:"With the state waiting: when the turn began to wait, Unix time in milliseconds"`
	Desktop      string          `json:"desktop,omitempty" doc:"Desktop of the agent"`
	Turns        int             `json:"turns" doc:"Number of prompts"`
	Archived     bool            `json:"archived,omitempty" doc:"Whether lists show it as archived"`
	Server       string          `json:"server,omitempty" doc:"Id of its ACP server at /v1/acp"`
	Problems     []string        `json:"problems,omitempty" nullable:"false" doc:"Parts of its configuration that failed"`
	Error        *sessionFailure `json:"error,omitempty" doc:"Why the session could not be created"`
}

// shownTo leaves out what only tokens for everything show: MCP servers, whose headers and
// variables may be secret.
func (i SessionInfo) shownTo(g *grants.Grant) SessionInfo {
	if g != nil && g.Scope != grants.ScopeAdmin {
		i.MCP = nil
	}
	return i
}

// agentID is the agent's own id of a session, under each name that clients of
// sandbox-agent 0.1 read.
type agentID struct {
	Native      *string `json:"nativeSessionId,omitempty" doc:"The agent's own id of the session"`
	NativeSnake *string `json:"native_session_id,omitempty" doc:"nativeSessionId, for older clients"`
	NativeAgent *string `json:"agentSessionId,omitempty" doc:"nativeSessionId, for older clients"`
}

func newAgentID(id string) agentID {
	if id == "" {
		return agentID{}
	}
	return agentID{&id, &id, &id}
}

type sessionFailure struct {
	Message string  `json:"message"`
	Agent   *string `json:"agent,omitempty" doc:"Agent that ended; exitCode, signal and stderr are about its process"`
	Code    *int    `json:"exitCode,omitempty"`
	Signal  *string `json:"signal,omitempty"`
	Stderr  *string `json:"stderr,omitempty" doc:"End of its standard error"`
}

type sessionsOutput struct {
	Body struct {
		Sessions []SessionInfo `json:"sessions" nullable:"false"`
		Next     string        `json:"next,omitempty" doc:"Cursor of the next page; omitted on the last page"`
	}
}

type listInput struct {
	State  string `query:"state" pattern:"^[a-z]+(,[a-z]+)*$" doc:"States of the sessions, separated by commas; defaults to all"`
	Agent  string `query:"agent" doc:"Agent of the sessions; defaults to all"`
	Order  string `query:"order" enum:"oldest,newest,waiting" doc:"oldest or newest: by creation. waiting: first the sessions that wait for an answer, the longest first, then the newest. Defaults to oldest"`
	Limit  int    `query:"limit" minimum:"0" maximum:"1000" doc:"Maximum number of sessions in a page; defaults to all. With the order waiting, sessions that wait are on the first page in addition"`
	Cursor string `query:"cursor" doc:"next of the page before, with the same order and filters"`
}

// sessionDetails is a session with what its agent offers.
type sessionDetails struct {
	SessionInfo
	Modes   json.RawMessage `json:"modes,omitempty" doc:"Modes that the agent offers, as SessionModeState of ACP"`
	Models  json.RawMessage `json:"models,omitempty" doc:"Models that the agent offers, as SessionModelState of ACP"`
	Options json.RawMessage `json:"configOptions,omitempty" doc:"Options of the agent, among them mode, model and thought level, as SessionConfigOption of ACP"`
}

type sessionOutput struct{ Body sessionDetails }

// registerList adds the routes that describe sessions.
func (a *area) registerList(r rest.Route) {
	r.UntilGone = true
	r.Errors = []int{http.StatusBadRequest}
	agenthost.Add(a.Group, r.Get("listSessions", "/v1/sessions", "List sessions"), a.list)
	r.Errors = []int{http.StatusNotFound}
	agenthost.Add(a.Group, r.Get("getSession", "/v1/sessions/{sessionId}", "Get a session, and the modes, models and options that its agent offers"), a.get)
}

// refreshTime bounds how long a list of sessions makes events of their agents' new messages.
const refreshTime = 2 * time.Second

// list lists sessions.
func (a *area) list(ctx context.Context, in *listInput) (*sessionsOutput, error) {
	host, err := a.Host.Get(ctx)
	if err != nil {
		return nil, err
	}
	l := lister{area: a, host: host, filter: eventlog.SessionFilter{Agent: in.Agent, Newest: in.Order == "newest" || in.Order == "waiting"}, limit: in.Limit}
	if in.State != "" {
		for state := range strings.SplitSeq(in.State, ",") {
			if !slices.Contains(allStates, eventlog.State(state)) {
				return nil, rest.InvalidField("state", fmt.Sprintf("state must name states, such as waiting,running; %q is none", state))
			}
			l.filter.States = append(l.filter.States, eventlog.State(state))
		}
	}
	out := &sessionsOutput{}
	out.Body.Sessions = []SessionInfo{}
	var cancel context.CancelFunc
	l.refresh, cancel = context.WithTimeout(ctx, refreshTime)
	defer cancel()
	if in.Order == "waiting" {
		if in.Cursor == "" {
			out.Body.Sessions, err = l.waiting(ctx)
		}
		if l.filter.States = without(l.filter.States, eventlog.Waiting); err != nil || len(l.filter.States) == 0 {
			return out, err
		}
	}
	rest, next, err := l.page(ctx, in.Cursor)
	out.Body.Sessions, out.Body.Next = append(out.Body.Sessions, rest...), next
	return out, err
}

var allStates = []eventlog.State{
	eventlog.Starting, eventlog.Idle, eventlog.Running, eventlog.Waiting, eventlog.Interrupted, eventlog.Ended, eventlog.Failed,
}

// without returns states, or all states for none, without one.
func without(states []eventlog.State, one eventlog.State) []eventlog.State {
	if len(states) == 0 {
		states = allStates
	}
	return slices.DeleteFunc(slices.Clone(states), func(s eventlog.State) bool { return s == one })
}

// lister lists the sessions that a filter selects.
type lister struct {
	*area
	host    *agents.Host
	filter  eventlog.SessionFilter
	limit   int             // of a page; zero: listBytes bounds it alone
	refresh context.Context //nolint:containedctx // bounds how long the list makes events
}

// Bounds of a list.
const (
	listStep  = 16      // sessions that are read at a time
	listBytes = 8 << 20 // of the sessions in a page; the last step may exceed it
)

// waiting lists the selected sessions that wait for an answer, the longest first. Agents that
// run bound their number.
func (l lister) waiting(ctx context.Context) ([]SessionInfo, error) {
	if len(l.filter.States) > 0 && !slices.Contains(l.filter.States, eventlog.Waiting) {
		return []SessionInfo{}, nil
	}
	l.filter.States, l.limit = []eventlog.State{eventlog.Waiting}, 0
	all := []SessionInfo{}
	for cursor, more := "", true; more; more = cursor != "" {
		page, next, err := l.page(ctx, cursor)
		if err != nil {
			return nil, err
		}
		all, cursor = append(all, page...), next
	}
	slices.SortStableFunc(all, func(a, b SessionInfo) int { return cmp.Compare(a.WaitingSince, b.WaitingSince) })
	return all, nil
}

// page lists a page of sessions. next is the cursor of the next page, or empty.
func (l lister) page(ctx context.Context, cursor string) (all []SessionInfo, next string, err error) {
	all = []SessionInfo{}
	most := cmp.Or(l.limit, math.MaxInt)
	for bytes := 0; len(all) < most && bytes < listBytes; {
		page, next, err := l.host.Sessions(ctx, l.filter, cursor, min(most-len(all), listStep))
		if bad, ok := errors.AsType[*eventlog.InvalidError](err); ok {
			return nil, "", rest.InvalidField(bad.Field, bad.Error())
		}
		if err != nil {
			return nil, "", err
		}
		for _, s := range page {
			info, err := l.describe(ctx, l.refresh, l.host.Log(), s)
			if err != nil {
				return nil, "", agenthost.Names{Session: s.ID}.Explain(err)
			}
			info = info.shownTo(rest.GrantOf(ctx))
			text, err := plainjson.Marshal(info)
			if err != nil {
				return nil, "", err
			}
			all, bytes = append(all, info), bytes+len(text)
		}
		if cursor = next; next == "" {
			break
		}
	}
	return all, cursor, nil
}

// get describes one session.
func (a *area) get(ctx context.Context, in *sessionPath) (*sessionOutput, error) {
	host, session, err := a.find(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	refresh, cancel := context.WithTimeout(ctx, refreshTime)
	defer cancel()
	info, err := a.describe(ctx, refresh, host.Log(), session)
	return &sessionOutput{sessionDetails{info.shownTo(rest.GrantOf(ctx)), session.Modes, session.Models, session.Config}}, err
}

// describe describes a session. It makes events of new messages until refresh ends.
func (a *area) describe(ctx, refresh context.Context, log *eventlog.Log, session agents.Session) (SessionInfo, error) {
	info := SessionInfo{
		ID: session.ID, agentID: newAgentID(session.Native), Agent: session.Agent, AgentMode: session.Mode, PermissionMode: "default", State: string(session.State),
		Ended:     session.State == eventlog.Ended || session.State == eventlog.Failed,
		CreatedAt: session.CreatedAt.UnixMilli(), UpdatedAt: session.UpdatedAt.UnixMilli(), Problems: session.Problems,
		Desktop: session.Desktop, Turns: session.Turns, Server: session.Server, Archived: session.Archived,
	}
	if !session.WaitingSince.IsZero() {
		info.WaitingSince = session.WaitingSince.UnixMilli()
	}
	title := cmp.Or(session.Title, session.Prompt)
	for _, m := range []struct {
		to   **string
		from string
	}{
		{&info.Model, session.Model},
		{&info.Directory, session.Cwd},
		{&info.Title, title},
		{&info.Continues, session.Continues},
	} {
		if m.from != "" {
			*m.to = &m.from
		}
	}
	if session.State == eventlog.Failed {
		info.Error = &sessionFailure{Message: session.EndReason}
		_ = json.Unmarshal(session.Error, info.Error) // it is this server's own
	}
	projection := a.Host.Events(session.ID)
	if session.Origin == origin {
		if err := projection.Refresh(refresh); err != nil && refresh.Err() == nil { // the list has the other sessions, and this one's stored events
			a.Logger.Warn("read what a session's agent said", "session", session.ID, "error", err)
		}
		made, err := log.Read(ctx, streamOf(session.ID), 0, 1)
		if err != nil {
			return info, err
		}
		var c sessionCreate
		if len(made) == 1 && json.Unmarshal(made[0].Payload, &c) == nil {
			info.Variant, info.Skills = c.Variant, c.Skills
			if info.Model == nil {
				info.Model = c.Model
			}
			if c.PermissionMode != nil {
				info.PermissionMode = *c.PermissionMode
			}
			if c.AgentMode != nil && info.AgentMode == "" {
				info.AgentMode = *c.AgentMode
			}
			if c.MCP != nil {
				info.MCP, _ = plainjson.Marshal(c.MCP) // it was JSON
			}
		}
	}
	var err error
	info.EventCount, err = projection.Count(ctx)
	return info, err
}

// summarize describes a session as GET /v1/sessions does. It makes no events of its agent's new
// messages.
func (a *area) summarize(ctx context.Context, host *agents.Host, session agents.Session) (SessionInfo, error) {
	ended, cancel := context.WithCancel(ctx)
	cancel()
	return a.describe(ctx, ended, host.Log(), session)
}
