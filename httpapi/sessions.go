package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

// The REST API of sandbox-agent 0.1, over the sessions that all APIs share.

type sessionPath struct {
	ID string `path:"sessionId" doc:"Chosen by the client"`
}

// SessionPath is exported because huma sees embedded fields only then.
type SessionPath = sessionPath

type sessionCreate struct {
	Agent          string                     `json:"agent" example:"claude"`
	AgentMode      *string                    `json:"agentMode,omitempty" doc:"One of the agent's modes"`
	AgentVersion   *string                    `json:"agentVersion,omitempty" doc:"Accepted; the installed version is used"`
	Directory      *string                    `json:"directory,omitempty" doc:"Absolute; the server's when left out"`
	MCP            map[string]json.RawMessage `json:"mcp,omitempty" doc:"MCP servers by name, as the configuration has them"`
	Model          *string                    `json:"model,omitempty"`
	PermissionMode *string                    `json:"permissionMode,omitempty" enum:"default,plan,bypass,acceptEdits" doc:"bypass: nobody is asked"`
	Skills         json.RawMessage            `json:"skills,omitempty" doc:"Skills, as the configuration has them; they are in the directory's configuration until the session is terminated"`
	Title          *string                    `json:"title,omitempty"`
	Variant        *string                    `json:"variant,omitempty" doc:"How much the agent thinks"`
	Desktop        *string                    `json:"desktop,omitempty" doc:"A desktop that the agent gets, as tools and in its environment"`
}

type sessionCreateInput struct {
	SessionPath
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
	EventCount     int64           `json:"eventCount" doc:"Of the events that were made so far, which is when they are read, or when there are many"`
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

func (s *Server) registerSessions() {
	const at = "/v1/sessions"
	r := rest.Route{Tag: "Sessions", Errors: []int{http.StatusBadRequest, http.StatusNotFound}}
	on := func(id, method, path, summary string) rest.Route {
		o := r
		o.ID, o.Method, o.Path, o.Summary = id, method, at+path, summary
		return o
	}
	list := on("listSessions", http.MethodGet, "", "List sessions, the oldest first")
	list.Errors = nil
	rest.Add(s.routes, list, s.listSessions)
	create := on("createSession", http.MethodPost, "/{sessionId}", "Begin a session with an agent")
	s.registerCreateSession(create)
	message := on("postMessage", http.MethodPost, "/{sessionId}/messages", "Say something to the agent")
	message.Status = http.StatusNoContent
	rest.Add(s.routes, message, func(ctx context.Context, in *sessionMessage) (*struct{}, error) {
		_, _, err := s.prompt(ctx, in)
		return nil, err
	})
	rest.Add(s.routes, on("streamTurn", http.MethodPost, "/{sessionId}/messages/stream", "Say something, and follow the turn to its end"), s.streamTurn)
	rest.Add(s.routes, on("getSessionEvents", http.MethodGet, "/{sessionId}/events", "Read a session's events"), s.sessionEvents)
	follow := on("followSessionEvents", http.MethodGet, "/{sessionId}/events/sse", "Follow a session's events")
	follow.Query = true
	rest.Add(s.routes, follow, s.followSession)
	s.registerReplies(on)
}

func (s *Server) listSessions(ctx context.Context, _ *struct{}) (*sessionsOutput, error) {
	host, err := s.agents.get(ctx)
	if err != nil {
		return nil, acpError(err, "", "")
	}
	out := &sessionsOutput{}
	out.Body.Sessions = []sessionInfo{}
	for cursor := ""; ; {
		page, next, err := host.Sessions(ctx, eventlog.SessionFilter{}, cursor, eventPage)
		if err != nil {
			return nil, acpError(err, "", "")
		}
		for _, session := range page {
			info, err := s.sessionInfo(ctx, host.Log(), session)
			if err != nil {
				return nil, acpError(err, session.ID, "")
			}
			out.Body.Sessions = append(out.Body.Sessions, info)
		}
		if cursor = next; next == "" {
			return out, nil
		}
	}
}

// restOrigin is the origin of sessions that were made here.
const restOrigin = "rest"

// restStream has, as its first entry, what a session was made with here.
func restStream(session string) string { return "rest:" + session }

func (s *Server) sessionInfo(ctx context.Context, log *eventlog.Log, session agents.Session) (sessionInfo, error) {
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
		_ = json.Unmarshal(session.Error, info.Error) // ours
	}
	projection := s.agents.projector.Load().Session(session.ID)
	if session.Origin == restOrigin {
		if err := projection.Refresh(ctx); err != nil { // the list has the other sessions, and this one's stored events
			s.cfg.Logger.Warn("read what a session's agent said", "session", session.ID, "error", err)
		}
		made, err := log.Read(ctx, restStream(session.ID), 0, 1)
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

// bypassModes are the modes in which agents do not ask.
var bypassModes = map[string]string{"claude": "bypassPermissions", "codex": "full-access", "amp": "bypass"}

// options are what package agents makes of a session's description.
func (c *sessionCreate) options(host *agents.Host) (agents.SessionOptions, error) {
	o := agents.SessionOptions{
		Agent: c.Agent, Cwd: textOf(c.Directory), Title: textOf(c.Title), Mode: textOf(c.AgentMode), Model: textOf(c.Model),
		ThoughtLevel: textOf(c.Variant), Desktop: textOf(c.Desktop), Origin: restOrigin, Lenient: true,
	}
	switch textOf(c.PermissionMode) {
	case "plan":
		o.Mode = "plan"
	case "acceptEdits":
		o.Mode = "acceptEdits"
	case "bypass":
		o.Permissions = &agents.Policy{Mode: agents.Allow}
		if mode, ok := bypassModes[c.Agent]; ok {
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
	SessionPath
	Raw  bool `query:"include_raw" doc:"With the agent's own messages; for the stream"`
	Body struct {
		Message     string `json:"message"`
		Attachments []struct {
			Path     string  `json:"path"`
			Mime     *string `json:"mime,omitempty"`
			Filename *string `json:"filename,omitempty"`
		} `json:"attachments,omitempty" nullable:"false"`
	}
}

// blocks is the message as ACP has it.
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
		name := textOf(a.Filename)
		if name == "" {
			name = path.Base(a.Path)
		}
		at := url.URL{Scheme: "file", Path: a.Path}
		list = append(list, block{Type: "resource_link", URI: at.String(), Name: name, Mime: textOf(a.Mime)})
	}
	return json.Marshal(list)
}

// prompt passes a message on.
func (s *Server) prompt(ctx context.Context, in *sessionMessage) (*view, *agents.Turn, error) {
	blocks, err := in.blocks()
	if err != nil {
		return nil, nil, err
	}
	v, err := s.view(ctx, in.ID)
	if err != nil {
		return nil, nil, err
	}
	turn, err := v.host.Prompt(ctx, in.ID, blocks)
	if err != nil {
		return nil, nil, acpError(err, in.ID, v.session.Agent)
	}
	return v, turn, nil
}

func (s *Server) streamTurn(ctx context.Context, in *sessionMessage) (*rest.EventsOutput, error) {
	v, turn, err := s.prompt(ctx, in)
	if err != nil {
		return nil, err
	}
	f, err := v.projection.FollowTurn(ctx, turn.Seq)
	if err != nil {
		return nil, acpError(err, in.ID, "")
	}
	return s.eventStream(v, f, in.Raw), nil
}
