package sessions

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/agents/universal"
	"github.com/deskhand/deskhand/httpapi/internal/agenthost"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

type sessionPath struct {
	ID string `path:"sessionId" doc:"Chosen by the client"`
}

type sessionCreate struct {
	Agent          string                     `json:"agent" example:"claude"`
	AgentMode      *string                    `json:"agentMode,omitempty" doc:"One of the agent's modes"`
	AgentVersion   *string                    `json:"agentVersion,omitempty" doc:"Accepted; the installed version is used"`
	Directory      *string                    `json:"directory,omitempty" doc:"Absolute; the server's when left out"`
	MCP            map[string]json.RawMessage `json:"mcp,omitempty" doc:"MCP servers by name, as the configuration has them"`
	Model          *string                    `json:"model,omitempty"`
	PermissionMode *string                    `json:"permissionMode,omitempty" enum:"default,plan,bypass,acceptEdits" doc:"bypass: the agent asks for no permission"`
	Skills         json.RawMessage            `json:"skills,omitempty" doc:"Skills, as the configuration has them; they are in the directory's configuration until the session is terminated"`
	Title          *string                    `json:"title,omitempty"`
	Variant        *string                    `json:"variant,omitempty" doc:"How much the agent thinks"`
	Desktop        *string                    `json:"desktop,omitempty" doc:"A desktop that the agent gets, as tools and in its environment"`
}

type sessionCreateInput struct {
	ID   string `path:"sessionId" doc:"Chosen by the client"`
	Body sessionCreate
}

type sessionError struct {
	Type    string `json:"type"`
	Message string `json:"message"`
	Agent   string `json:"agent,omitempty"`
	Session string `json:"session_id,omitempty"`
	Details any    `json:"details,omitempty" doc:"Of an agent that ended: exitCode or signal, and stderr"`
}

type sessionInfo struct {
	ID             string          `json:"sessionId"`
	Agent          string          `json:"agent"`
	AgentMode      string          `json:"agentMode"`
	PermissionMode string          `json:"permissionMode"`
	Model          *string         `json:"model,omitempty"`
	Variant        *string         `json:"variant,omitempty"`
	Native         *string         `json:"nativeSessionId,omitempty"`
	Ended          bool            `json:"ended"`
	EventCount     int64           `json:"eventCount" doc:"Of the events that exist, which are made when they are read, or when there are many"`
	CreatedAt      int64           `json:"createdAt" doc:"Milliseconds since 1970"`
	UpdatedAt      int64           `json:"updatedAt"`
	Directory      *string         `json:"directory,omitempty"`
	Title          *string         `json:"title,omitempty"`
	MCP            json.RawMessage `json:"mcp,omitempty"`
	Skills         json.RawMessage `json:"skills,omitempty"`
	Continues      *string         `json:"continues,omitempty" doc:"The session whose history this one goes on with"`
	State          string          `json:"state" enum:"starting,idle,running,waiting,interrupted,ended,failed"`
	Problems       []string        `json:"problems,omitempty" nullable:"false" doc:"What of its configuration did not work"`
	Error          *sessionFailure `json:"error,omitempty" doc:"Why it could not be made"`
}

type sessionFailure struct {
	Message string  `json:"message"`
	Agent   *string `json:"agent,omitempty" doc:"That ended; what follows is about it, too"`
	Code    *int    `json:"exitCode,omitempty"`
	Signal  *string `json:"signal,omitempty"`
	Stderr  *string `json:"stderr,omitempty" doc:"The end of what it wrote there"`
}

type sessionsOutput struct {
	Body struct {
		Sessions []sessionInfo `json:"sessions" nullable:"false"`
	}
}

// Config configures the routes of sessions.
type Config struct {
	Host *agenthost.Host

	// FolderProblem returns the problem for an error of the configuration of a folder, or
	// nil.
	FolderProblem func(error) *rest.Problem

	Logger *slog.Logger
}

// area is the area of sessions.
type area struct {
	rest.Group
	Config
}

// Register adds the routes of sessions.
func Register(api *rest.API, cfg Config) {
	a := &area{rest.Group{API: api}, cfg}
	r := rest.Route{Tag: "Sessions"}
	list := r.Get("listSessions", "/v1/sessions", "List sessions, the oldest first")
	list.UntilGone = true
	agenthost.Add(a.Group, list, a.list)
	const at = "/v1/sessions/{sessionId}"
	r.Errors = []int{http.StatusBadRequest, http.StatusNotFound}
	a.registerCreate(r.Post("createSession", at, "Begin a session with an agent"))
	message := r.Post("postMessage", at+"/messages", "Say something to the agent")
	message.Status = http.StatusNoContent
	agenthost.Add(a.Group, message, func(ctx context.Context, in *sessionMessage) (*struct{}, error) {
		_, _, err := a.prompt(ctx, in)
		return nil, err
	})
	agenthost.Add(a.Group, r.Post("streamTurn", at+"/messages/stream", "Say something, and follow the turn to its end"), a.streamTurn)
	events := r.Get("getSessionEvents", at+"/events", "Read a session's events")
	events.UntilGone = true
	agenthost.Add(a.Group, events, a.events)
	follow := r.Get("followSessionEvents", at+"/events/sse", "Follow a session's events")
	follow.Query = true
	agenthost.Add(a.Group, follow, a.follow)
	a.registerReplies(r)
}

// refreshTime bounds how long a list of sessions makes events of their agents' new messages.
const refreshTime = 2 * time.Second

// list lists all sessions.
func (a *area) list(ctx context.Context, _ *struct{}) (*sessionsOutput, error) {
	host, err := a.Host.Get(ctx)
	if err != nil {
		return nil, err
	}
	out := &sessionsOutput{}
	out.Body.Sessions = []sessionInfo{}
	refresh, cancel := context.WithTimeout(ctx, refreshTime)
	defer cancel()
	for cursor := ""; ; {
		page, next, err := host.Sessions(ctx, eventlog.SessionFilter{}, cursor, eventPage)
		if err != nil {
			return nil, err
		}
		for _, s := range page {
			info, err := a.describe(ctx, refresh, host.Log(), s)
			if err != nil {
				return nil, agenthost.Names{Session: s.ID}.Explain(err)
			}
			out.Body.Sessions = append(out.Body.Sessions, info)
		}
		if cursor = next; next == "" {
			return out, nil
		}
	}
}

// origin is the origin of sessions that these routes have made.
const origin = "rest"

// streamOf returns the name of a stream whose first entry is the request that made a session.
func streamOf(session string) string { return "rest:" + session }

// describe describes a session. It makes events of new messages until refresh ends.
func (a *area) describe(ctx, refresh context.Context, log *eventlog.Log, session agents.Session) (sessionInfo, error) {
	info := sessionInfo{
		ID: session.ID, Agent: session.Agent, AgentMode: session.Mode, PermissionMode: "default", State: string(session.State),
		Ended:     session.State == eventlog.Ended || session.State == eventlog.Failed,
		CreatedAt: session.CreatedAt.UnixMilli(), UpdatedAt: session.UpdatedAt.UnixMilli(), Problems: session.Problems,
	}
	for _, m := range []struct {
		to   **string
		from string
	}{
		{&info.Model, session.Model},
		{&info.Native, session.Native},
		{&info.Directory, session.Cwd},
		{&info.Title, session.Title},
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
				info.MCP, _ = json.Marshal(c.MCP) // it was JSON
			}
		}
	}
	var err error
	info.EventCount, err = projection.Count(ctx)
	return info, err
}

// options returns the options of package agents for a session.
func (c *sessionCreate) options(host *agents.Host) (agents.SessionOptions, error) {
	o := agents.SessionOptions{
		Agent: c.Agent, Cwd: rest.Value(c.Directory), Title: rest.Value(c.Title), Mode: rest.Value(c.AgentMode), Model: rest.Value(c.Model),
		ThoughtLevel: rest.Value(c.Variant), Desktop: rest.Value(c.Desktop), Origin: origin, Lenient: true,
	}
	switch rest.Value(c.PermissionMode) {
	case "plan":
		o.Mode = "plan"
	case "acceptEdits":
		o.Mode = "acceptEdits"
	case "bypass":
		o.Permissions = &agents.Policy{Mode: agents.Allow}
		if mode, ok := agenthost.BypassModes[c.Agent]; ok {
			o.Mode = mode
		}
	}
	if o.Cwd == "" {
		var err error
		if o.Cwd, err = os.Getwd(); err != nil {
			return o, err
		}
	}
	if !filepath.IsAbs(o.Cwd) {
		return o, rest.InvalidField("directory", "directory must be an absolute path")
	}
	for _, name := range slices.Sorted(maps.Keys(c.MCP)) {
		m, enabled, err := host.ServerOf(name, c.MCP[name])
		if err != nil {
			return o, rest.InvalidRequest.Problem("invalid request: mcp: "+err.Error()).With("field", "mcp")
		}
		if enabled {
			o.MCPServers = append(o.MCPServers, m)
		}
	}
	return o, nil
}

type sessionMessage struct {
	ID   string `path:"sessionId" doc:"Chosen by the client"`
	Raw  bool   `query:"include_raw" doc:"With the agent's own messages; for the stream"`
	Body struct {
		Message     string `json:"message"`
		Attachments []struct {
			Path     string  `json:"path"`
			Mime     *string `json:"mime,omitempty"`
			Filename *string `json:"filename,omitempty"`
		} `json:"attachments,omitempty" nullable:"false"`
	}
}

// blocks returns the content blocks of ACP for the message.
func (in *sessionMessage) blocks() (json.RawMessage, error) {
	type block struct {
		Type string `json:"type"`
		Text string `json:"text,omitempty"`
		URI  string `json:"uri,omitempty"`
		Name string `json:"name,omitempty"`
		Mime string `json:"mimeType,omitempty"`
	}
	list := []block{{Type: "text", Text: in.Body.Message}}
	if strings.TrimSpace(in.Body.Message) == "" {
		return nil, rest.InvalidField("message", "message must not be empty")
	}
	for i, a := range in.Body.Attachments {
		if a.Path == "" {
			return nil, rest.InvalidField("attachments", fmt.Sprintf("attachments[%d].path must not be empty", i))
		}
		name := rest.Value(a.Filename)
		if name == "" {
			name = path.Base(a.Path)
		}
		at := url.URL{Scheme: "file", Path: a.Path}
		list = append(list, block{Type: "resource_link", URI: at.String(), Name: name, Mime: rest.Value(a.Mime)})
	}
	return json.Marshal(list)
}

// prompt passes a message on.
func (a *area) prompt(ctx context.Context, in *sessionMessage) (*universal.Projection, *agents.Turn, error) {
	blocks, err := in.blocks()
	if err != nil {
		return nil, nil, err
	}
	host, session, err := a.find(ctx, in.ID)
	if err != nil {
		return nil, nil, err
	}
	turn, err := host.Prompt(ctx, in.ID, blocks)
	if err != nil {
		return nil, nil, agenthost.Names{Session: in.ID, Agent: session.Agent}.Explain(err)
	}
	return a.Host.Events(in.ID), turn, nil
}

// find returns the host and the session with an id.
func (a *area) find(ctx context.Context, id string) (*agents.Host, agents.Session, error) {
	host, err := a.Host.Get(ctx)
	if err != nil {
		return nil, agents.Session{}, err
	}
	session, err := host.Session(ctx, id)
	return host, session, err
}

func (a *area) streamTurn(ctx context.Context, in *sessionMessage) (*rest.EventsOutput, error) {
	events, turn, err := a.prompt(ctx, in)
	if err != nil {
		return nil, err
	}
	f, err := events.FollowTurn(ctx, turn.Seq)
	if err != nil {
		return nil, err
	}
	return a.stream(events, f, in.Raw), nil
}
