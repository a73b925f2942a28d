package opencomputer

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/agents/opencomputer"
	"github.com/deskhand/deskhand/filesystem"
	"github.com/deskhand/deskhand/httpapi/internal/agenthost"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
	"github.com/deskhand/deskhand/process"
)

// sessionPrefix begins the ids of sessions.
const sessionPrefix = "as_"

// origin is the origin of sessions that these routes have made.
const origin = "oc"

// streamOf returns the name of a stream whose first entry is the request that made a
// session. A further entry has the signal that the session was ended with.
func streamOf(session string) string { return "oc:" + session }

type ocSandbox struct {
	Sandbox string `path:"sandboxId" maxLength:"256" doc:"Any name, which groups sessions"`
}

// Target is a session of a sandbox.
type Target struct {
	Sandbox string `path:"sandboxId" maxLength:"256" doc:"Any name, which groups sessions"`
	ID      string `path:"sessionId"`
}

type ocCreate struct {
	Sandbox string `path:"sandboxId" maxLength:"256" doc:"Any name, which groups sessions"`
	Body    struct {
		opencomputer.Options
		Prompt  string `json:"prompt,omitempty" doc:"First prompt"`
		Desktop string `json:"desktop,omitempty" doc:"Desktop for the agent, as tools and in its environment"`
	}
}

type ocInfo struct {
	ID         string   `json:"sessionID"`
	Sandbox    string   `json:"sandboxID"`
	Running    bool     `json:"running"`
	StartedAt  string   `json:"startedAt" format:"date-time"`
	NotApplied []string `json:"notApplied,omitempty" nullable:"false" doc:"Options that the agent does not support"`
}

type (
	ocCreated struct{ Body ocInfo }

	ocList struct {
		Body []ocInfo `nullable:"false"`
	}

	ocPrompt struct {
		Target
		Body struct {
			Text string `json:"text"`
		}
	}

	ocKill struct {
		Target
		Body struct {
			Signal int `json:"signal,omitempty" minimum:"0" maximum:"64" doc:"Signal number to report: clients get the exit status 128 plus this number. The session ends with any signal. Defaults to 9"`
		} `required:"false"`
	}
)

// made is the first entry of a session's stream.
type made struct {
	Sandbox    string               `json:"sandbox"`
	Options    opencomputer.Options `json:"options"`
	NotApplied []string             `json:"notApplied,omitempty"`
}

const aboutOC = "The header X-Api-Key may hold the token instead of Authorization."

const aboutOCSocket = `Upgrades to a WebSocket of binary messages. The first byte is the type: 1 lines of JSON from the agent, 2 its standard error,
3 the exit status as a 32 bit number, which ends the session, 4 the end of the replayed output. The client sends type 0 with lines of JSON:
configure, prompt, interrupt. The query may hold the token as token or api_key.`

// area is the area of OpenComputer.
type area struct {
	rest.Group
	host      *agenthost.Host
	files     *filesystem.FS
	processes func() (*process.Manager, error)
	sandboxes *sandboxes
}

// Config configures the routes.
type Config struct {
	Host  *agenthost.Host
	Files *filesystem.FS

	// Processes returns the manager of the processes that clients start.
	Processes func() (*process.Manager, error)

	// Problem returns the problem for an error of the packages behind these, or nil.
	Problem func(error) *rest.Problem
}

// Register adds the routes of OpenComputer.
func Register(api *rest.API, cfg Config) {
	a := &area{Group: rest.Group{API: api, Problem: cfg.Problem}, host: cfg.Host, files: cfg.Files, processes: cfg.Processes}
	a.sandboxes = &sandboxes{area: a, all: map[string]sandbox{}, executions: map[string]*execution{}}
	// The SDK wants the sessions of agents with /api, too.
	api.Router().Use(prefix+"/sandboxes/:sandbox", func(c *fiber.Ctx) error {
		parts := strings.Split(strings.TrimPrefix(c.Path(), prefix+"/sandboxes/"), "/")
		if len(parts) < 2 || parts[1] != "agent" && !(parts[1] == "exec" && len(parts) > 2 && strings.HasPrefix(parts[2], sessionPrefix)) {
			return c.Next()
		}
		c.Path("/opencomputer" + strings.TrimPrefix(c.Path(), prefix))
		return c.RestartRouting()
	})
	a.sandboxes.register()
	const sandbox = "/opencomputer/sandboxes/{sandboxId}"
	const at = sandbox + "/agent"
	r := rest.Route{Tag: "OpenComputer", APIKey: true, Errors: []int{http.StatusBadRequest, http.StatusNotFound}, About: aboutOC}
	create := r.Post("ocCreateAgent", at, "Create an agent session")
	create.Status = http.StatusCreated
	agenthost.Add(a.Group, create, a.create)
	agenthost.Add(a.Group, r.Get("ocListAgents", at, "List the agent sessions of a sandbox"), a.list)
	for id, path := range map[string]string{"ocAttach": at, "ocAttachExec": sandbox + "/exec"} {
		attach := r.Get(id, path+"/{sessionId}", "Attach to an agent session").WithAbout(aboutOCSocket)
		attach.Query = true
		attach.More = map[string]*huma.Response{"101": {Description: "The connection is a WebSocket from now on"}}
		agenthost.Add(a.Group, attach, a.attach)
	}
	r.Status = http.StatusNoContent
	agenthost.Add(a.Group, r.Post("ocPrompt", at+"/{sessionId}/prompt", "Send a prompt to the agent"), func(ctx context.Context, in *ocPrompt) (*struct{}, error) {
		s, err := a.find(ctx, in.Target)
		if err != nil {
			return nil, err
		}
		return nil, s.prompt(ctx, in.Body.Text)
	})
	agenthost.Add(a.Group, r.Post("ocInterrupt", at+"/{sessionId}/interrupt", "Interrupt the turn"), func(ctx context.Context, in *Target) (*struct{}, error) {
		s, err := a.find(ctx, *in)
		if err != nil {
			return nil, err
		}
		return nil, s.host.Cancel(ctx, in.ID)
	})
	agenthost.Add(a.Group, r.Post("ocKill", at+"/{sessionId}/kill", "Kill the session"), func(ctx context.Context, in *ocKill) (*struct{}, error) {
		s, err := a.find(ctx, in.Target)
		if err != nil {
			return nil, err
		}
		return nil, s.kill(ctx, cmp.Or(in.Body.Signal, int(syscall.SIGKILL)))
	})
}

// optionsOf returns the options of package agents for a session, and what cannot be set
// with them.
func optionsOf(host *agents.Host, folder func() (string, error), o opencomputer.Options, desktopID string) (out agents.SessionOptions, missed []string, err error) {
	out = agents.SessionOptions{
		Agent: o.Agent, Cwd: o.Cwd, Model: o.Model, Mode: o.PermissionMode, Desktop: desktopID, Origin: origin, Lenient: true,
	}
	out.Meta, missed = opencomputer.MetaOf(o)
	if o.PermissionMode == opencomputer.DefaultPermissionMode {
		out.Permissions = &agents.Policy{Mode: agents.Allow}
		if o.Agent != opencomputer.DefaultAgent {
			out.Mode = agenthost.BypassModes[o.Agent]
		}
	}
	if out.Cwd == "" {
		if out.Cwd, err = folder(); err != nil {
			return out, nil, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(o.MCPServers)) {
		m, err := serverOf(host, name, o.MCPServers[name])
		if err != nil {
			return out, nil, err
		}
		out.MCPServers = append(out.MCPServers, m)
	}
	return out, missed, nil
}

// serverOf returns an MCP server in the form of the Claude Agent SDK, where a server with a
// command needs no type.
func serverOf(host *agents.Host, name string, raw json.RawMessage) (agents.MCPServer, error) {
	var e map[string]json.RawMessage
	if err := json.Unmarshal(raw, &e); err != nil {
		return agents.MCPServer{}, rest.InvalidField("mcpServers", "mcpServers."+name+" must be an object")
	}
	switch string(e["type"]) {
	case "":
		e["type"] = json.RawMessage(`"local"`)
	case `"sse"`:
		e["type"], e["transport"] = json.RawMessage(`"remote"`), json.RawMessage(`"sse"`)
	}
	entry, err := json.Marshal(e)
	if err != nil {
		return agents.MCPServer{}, err
	}
	m, _, err := host.ServerOf(name, entry)
	if err != nil {
		return m, rest.InvalidField("mcpServers", "mcpServers: "+err.Error())
	}
	return m, nil
}

func (a *area) create(ctx context.Context, in *ocCreate) (*ocCreated, error) {
	host, err := a.host.Get(ctx)
	if err != nil {
		return nil, err
	}
	m := made{Sandbox: in.Sandbox, Options: in.Body.Options.WithDefaults()}
	box, ok, err := a.sandboxes.find(ctx, in.Sandbox)
	switch {
	case err != nil:
		return nil, err
	case box.Killed:
		return nil, rest.Missing("sandbox", in.Sandbox)
	case ok && m.Options.Cwd == "":
		m.Options.Cwd = box.Dir
	}
	o, missed, err := optionsOf(host, a.host.Folder, m.Options, in.Body.Desktop)
	if err != nil {
		return nil, err
	}
	id := sessionPrefix + strings.ToLower(rand.Text()[:20])
	about := agenthost.Names{Session: id, Agent: o.Agent}
	of, err := host.CreateSession(ctx, id, o)
	if err != nil {
		return nil, about.Explain(err)
	}
	m.NotApplied = append(missed, of.Problems...)
	s := session{host, of}
	if err := s.record(ctx, streamOf(id), eventlog.Client, "create", m); err != nil {
		return nil, about.Explain(err)
	}
	if box, _, err = a.sandboxes.find(ctx, in.Sandbox); err != nil {
		return nil, about.Explain(err)
	}
	if box.Killed { // before the record, so kill may not have found the session
		if err := host.Terminate(ctx, id); err != nil {
			return nil, about.Explain(err)
		}
		return nil, rest.Missing("sandbox", in.Sandbox)
	}
	if in.Body.Prompt != "" {
		if err := s.prompt(ctx, in.Body.Prompt); err != nil {
			return nil, about.Explain(err)
		}
	}
	return &ocCreated{infoOf(of, m)}, nil
}

func infoOf(s agents.Session, m made) ocInfo {
	return ocInfo{
		ID: s.ID, Sandbox: m.Sandbox, StartedAt: s.CreatedAt.UTC().Format(time.RFC3339Nano), NotApplied: m.NotApplied,
		Running: s.State != eventlog.Ended && s.State != eventlog.Failed,
	}
}

// madeOf returns the first entry of a session's stream.
func madeOf(ctx context.Context, log *eventlog.Log, id string) (m made, ok bool, err error) {
	rows, err := log.Read(ctx, streamOf(id), 0, 1)
	if err != nil || len(rows) == 0 {
		return m, false, err
	}
	return m, json.Unmarshal(rows[0].Payload, &m) == nil, nil
}

// sessionsPage is how many sessions are read from the log at a time.
const sessionsPage = 1000

func (a *area) list(ctx context.Context, in *ocSandbox) (*ocList, error) {
	host, err := a.host.Get(ctx)
	if err != nil {
		return nil, err
	}
	out := &ocList{Body: []ocInfo{}}
	for cursor := ""; ; {
		page, next, err := host.Sessions(ctx, eventlog.SessionFilter{Origin: origin}, cursor, sessionsPage)
		if err != nil {
			return nil, err
		}
		for _, s := range page {
			m, ok, err := madeOf(ctx, host.Log(), s.ID)
			if err != nil {
				return nil, err
			}
			if ok && m.Sandbox == in.Sandbox {
				out.Body = append(out.Body, infoOf(s, m))
			}
		}
		if cursor = next; next == "" {
			return out, nil
		}
	}
}

// find returns a session of a sandbox.
func (a *area) find(ctx context.Context, t Target) (*session, error) {
	host, err := a.host.Get(ctx)
	if err != nil {
		return nil, err
	}
	s, err := host.Session(ctx, t.ID)
	if err != nil {
		return nil, err
	}
	m, ok, err := madeOf(ctx, host.Log(), t.ID)
	switch {
	case err != nil:
		return nil, err
	case !ok || m.Sandbox != t.Sandbox:
		return nil, agenthost.NoSession(t.ID)
	}
	return &session{host, s}, nil
}
