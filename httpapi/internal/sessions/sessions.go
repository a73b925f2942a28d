package sessions

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/universal"
	"github.com/deskhand/deskhand/httpapi/internal/agenthost"
	"github.com/deskhand/deskhand/httpapi/internal/grants"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
	"github.com/deskhand/deskhand/internal/plainjson"
)

type sessionPath struct {
	ID string `path:"sessionId" doc:"Id of your choice"`
}

type sessionCreate struct {
	Agent          string                     `json:"agent" example:"claude"`
	AgentMode      *string                    `json:"agentMode,omitempty" doc:"Mode of the agent"`
	AgentVersion   *string                    `json:"agentVersion,omitempty" doc:"Accepted without effect: the installed version is used"`
	Directory      *string                    `json:"directory,omitempty" doc:"Absolute path; defaults to the server's working directory"`
	MCP            map[string]json.RawMessage `json:"mcp,omitempty" doc:"MCP servers by name, in the format of the configuration"`
	Model          *string                    `json:"model,omitempty"`
	PermissionMode *string                    `json:"permissionMode,omitempty" enum:"default,plan,bypass,acceptEdits" doc:"With bypass, the agent does not ask for permissions"`
	Skills         json.RawMessage            `json:"skills,omitempty" doc:"Skills in the format of the configuration; they stay in the directory's configuration until the session is terminated"`
	Title          *string                    `json:"title,omitempty"`
	Variant        *string                    `json:"variant,omitempty" doc:"Thought level of the agent"`
	Desktop        *string                    `json:"desktop,omitempty" doc:"Desktop for the agent, as tools and in its environment"`
}

type sessionCreateInput struct {
	ID   string `path:"sessionId" doc:"Id of your choice"`
	Body sessionCreate
}

type sessionError struct {
	Type    string `json:"type"`
	Message string `json:"message"`
	Agent   string `json:"agent,omitempty"`
	Session string `json:"session_id,omitempty"`
	Details any    `json:"details,omitempty" doc:"For an agent that ended: exitCode or signal, and stderr"`
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
	r := rest.Route{Tag: "Sessions", Scope: grants.ScopeSupervise}
	a.registerList(r)
	const at = "/v1/sessions/{sessionId}"
	r.Errors = []int{http.StatusBadRequest, http.StatusNotFound}
	a.registerCreate(r.Post("createSession", at, "Create a session with an agent"))
	message := r.Post("postMessage", at+"/messages", "Send a message to the agent")
	message.Status = http.StatusNoContent
	agenthost.Add(a.Group, message, func(ctx context.Context, in *sessionMessage) (*struct{}, error) {
		_, _, err := a.prompt(ctx, in)
		return nil, err
	})
	agenthost.Add(a.Group, r.Post("streamTurn", at+"/messages/stream", "Send a message, and stream the events of the turn"), a.streamTurn)
	events := r.Get("getSessionEvents", at+"/events", "Get the events of a session")
	events.UntilGone = true
	agenthost.Add(a.Group, events, a.events)
	follow := r.Get("followSessionEvents", at+"/events/sse", "Stream the events of a session")
	follow.Query = true
	agenthost.Add(a.Group, follow, a.follow)
	a.registerReplies(r)
	a.registerChanges(r)
}

// origin is the origin of sessions that these routes have made.
const origin = "rest"

// streamOf returns the name of a stream whose first entry is the request that made a session.
func streamOf(session string) string { return "rest:" + session }

// options returns the options of package agents for a session. folder returns the folder of one
// that names none.
func (c *sessionCreate) options(host *agents.Host, folder func() (string, error)) (agents.SessionOptions, error) {
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
		if o.Cwd, err = folder(); err != nil {
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
	ID   string `path:"sessionId" doc:"Id of your choice"`
	Raw  bool   `query:"include_raw" doc:"Include the agent's raw messages in the stream"`
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
	return plainjson.Marshal(list)
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
