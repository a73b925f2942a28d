package httpapi

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/agents/opencomputer"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

// The agent sessions of OpenComputer's API, over the sessions that all APIs
// share. A sandbox is a name that keeps sessions apart, and nothing else.

const (
	ocPath   = "/opencomputer"
	ocOrigin = "oc"
)

// ocStream has, as its first entry, what a session was made with here. A further
// one has the signal that a session was ended with.
func ocStream(session string) string { return "oc:" + session }

type ocSandbox struct {
	Sandbox string `path:"sandboxId" maxLength:"256" doc:"Any name; sessions are listed by it"`
}

// OCSandbox is exported because huma sees embedded fields only then.
type OCSandbox = ocSandbox

type ocSession struct {
	OCSandbox
	ID string `path:"sessionId"`
}

// OCSession is exported because huma sees embedded fields only then.
type OCSession = ocSession

// OCOptions is exported because huma sees embedded fields only then.
type OCOptions = opencomputer.Options

type ocCreate struct {
	OCSandbox
	Body struct {
		OCOptions
		Prompt  string `json:"prompt,omitempty" doc:"What to begin with"`
		Desktop string `json:"desktop,omitempty" doc:"A desktop that the agent gets, as tools and in its environment"`
	}
}

type ocInfo struct {
	ID         string   `json:"sessionID"`
	Sandbox    string   `json:"sandboxID"`
	Running    bool     `json:"running"`
	StartedAt  string   `json:"startedAt" format:"date-time"`
	NotApplied []string `json:"notApplied,omitempty" nullable:"false" doc:"What the agent could not be told"`
}

type (
	ocCreated struct{ Body ocInfo }

	ocList struct {
		Body []ocInfo `nullable:"false"`
	}

	ocPrompt struct {
		OCSession
		Body struct {
			Text string `json:"text"`
		}
	}

	ocKill struct {
		OCSession
		Body struct {
			Signal int `json:"signal,omitempty" minimum:"0" maximum:"64" doc:"The session ends in any case; clients get 128 and this as its exit status. 9, unless given"`
		} `required:"false"`
	}
)

// ocMade is the first entry of a session's stream here.
type ocMade struct {
	Sandbox    string               `json:"sandbox"`
	Options    opencomputer.Options `json:"options"`
	NotApplied []string             `json:"notApplied,omitempty"`
}

const aboutOC = "The token may be in the header X-Api-Key."

const aboutOCSocket = `Upgrades to a WebSocket of binary messages, whose first byte says what they are: 1 the agent's lines of JSON,
2 its errors, 3 the end with the exit status as 32 bit number, 4 the end of what was before. The client sends 0 and lines of
JSON: configure, prompt, interrupt. The token may be in the query as token or api_key.`

func (s *Server) registerOpenComputer() {
	const at = ocPath + "/sandboxes/{sandboxId}/agent"
	r := rest.Route{Tag: "OpenComputer", APIKey: true, Errors: []int{http.StatusBadRequest, http.StatusNotFound}, About: aboutOC}
	of := func(id, method, path, summary string, status int) rest.Route {
		o := r
		o.ID, o.Method, o.Path, o.Summary, o.Status = id, method, path, summary, status
		return o
	}
	rest.Add(s.routes, of("ocCreateAgent", http.MethodPost, at, "Begin an agent session", http.StatusCreated), s.ocCreate)
	rest.Add(s.routes, of("ocListAgents", http.MethodGet, at, "List a sandbox's agent sessions", 0), s.ocList)
	rest.Add(s.routes, of("ocPrompt", http.MethodPost, at+"/{sessionId}/prompt", "Prompt the agent", http.StatusNoContent),
		func(ctx context.Context, in *ocPrompt) (*struct{}, error) {
			v, err := s.ocView(ctx, in.OCSession)
			if err != nil {
				return nil, err
			}
			return nil, ocSay(ctx, v, in.Body.Text)
		})
	rest.Add(s.routes, of("ocInterrupt", http.MethodPost, at+"/{sessionId}/interrupt", "Interrupt the turn, at once", http.StatusNoContent),
		func(ctx context.Context, in *ocSession) (*struct{}, error) {
			v, err := s.ocView(ctx, *in)
			if err != nil {
				return nil, err
			}
			return nil, nilOr(v.host.Cancel(ctx, in.ID), in.ID)
		})
	rest.Add(s.routes, of("ocKill", http.MethodPost, at+"/{sessionId}/kill", "End the session", http.StatusNoContent),
		func(ctx context.Context, in *ocKill) (*struct{}, error) {
			v, err := s.ocView(ctx, in.OCSession)
			if err != nil {
				return nil, err
			}
			return nil, nilOr(ocEnd(ctx, v, cmp.Or(in.Body.Signal, int(syscall.SIGKILL))), in.ID)
		})
	for id, path := range map[string]string{"ocAttach": at, "ocAttachExec": ocPath + "/sandboxes/{sandboxId}/exec"} {
		o := of(id, http.MethodGet, path+"/{sessionId}", "Attach to an agent session", 0)
		o.About, o.Query = aboutOCSocket, true
		o.More = map[string]*huma.Response{"101": {Description: "The connection is a WebSocket from now on"}}
		rest.Add(s.routes, o, s.ocAttach)
	}
}

// ocOptions are what package agents makes of a session's description, and what
// of it the agent cannot be told.
func ocOptions(host *agents.Host, o opencomputer.Options, desktopID string) (out agents.SessionOptions, missed []string, err error) {
	out = agents.SessionOptions{
		Agent: o.Agent, Cwd: o.Cwd, Model: o.Model, Mode: o.PermissionMode, Desktop: desktopID, Origin: ocOrigin, Lenient: true,
	}
	out.Meta, missed = opencomputer.MetaOf(o)
	if o.PermissionMode == opencomputer.DefaultPermissionMode {
		out.Permissions = &agents.Policy{Mode: agents.Allow}
		if o.Agent != opencomputer.DefaultAgent {
			out.Mode = bypassModes[o.Agent]
		}
	}
	if out.Cwd == "" {
		if out.Cwd, err = os.Getwd(); err != nil {
			return out, nil, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(o.MCPServers)) {
		m, err := ocServer(host, name, o.MCPServers[name])
		if err != nil {
			return out, nil, err
		}
		out.MCPServers = append(out.MCPServers, m)
	}
	return out, missed, nil
}

// ocServer is a tool server in the form of the Claude Agent SDK, where a server
// with a command needs no type.
func ocServer(host *agents.Host, name string, raw json.RawMessage) (agents.MCPServer, error) {
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

func (s *Server) ocCreate(ctx context.Context, in *ocCreate) (*ocCreated, error) {
	host, err := s.agents.get(ctx)
	if err != nil {
		return nil, acpError(err, "", in.Body.Agent)
	}
	made := ocMade{Sandbox: in.Sandbox, Options: in.Body.OCOptions.WithDefaults()}
	o, missed, err := ocOptions(host, made.Options, in.Body.Desktop)
	if err != nil {
		return nil, err
	}
	made.NotApplied = missed
	id := "as_" + strings.ToLower(rand.Text()[:20])
	session, err := host.CreateSession(ctx, id, o)
	if err != nil {
		return nil, acpError(err, id, o.Agent)
	}
	made.NotApplied = append(made.NotApplied, session.Problems...)
	payload, err := json.Marshal(made)
	if err != nil {
		return nil, err
	}
	err = host.Log().Commit(ctx, func(tx *eventlog.Tx) error {
		_, err := tx.Append(eventlog.Event{Stream: ocStream(id), Session: id, Dir: eventlog.Client, Kind: "create", Payload: payload})
		return err
	})
	if err != nil {
		return nil, acpError(err, id, o.Agent)
	}
	if in.Body.Prompt != "" {
		if err := ocSay(ctx, &view{host: host, log: host.Log(), session: session}, in.Body.Prompt); err != nil {
			return nil, err
		}
	}
	return &ocCreated{ocInfoOf(session, made)}, nil
}

func ocInfoOf(session agents.Session, made ocMade) ocInfo {
	return ocInfo{
		ID: session.ID, Sandbox: made.Sandbox, StartedAt: session.CreatedAt.UTC().Format(time.RFC3339Nano), NotApplied: made.NotApplied,
		Running: session.State != eventlog.Ended && session.State != eventlog.Failed,
	}
}

// ocMadeOf is what a session was made with.
func ocMadeOf(ctx context.Context, log *eventlog.Log, id string) (made ocMade, ok bool, err error) {
	rows, err := log.Read(ctx, ocStream(id), 0, 1)
	if err != nil || len(rows) == 0 {
		return made, false, err
	}
	return made, json.Unmarshal(rows[0].Payload, &made) == nil, nil
}

func (s *Server) ocList(ctx context.Context, in *ocSandbox) (*ocList, error) {
	host, err := s.agents.get(ctx)
	if err != nil {
		return nil, acpError(err, "", "")
	}
	out := &ocList{Body: []ocInfo{}}
	for cursor := ""; ; {
		page, next, err := host.Sessions(ctx, eventlog.SessionFilter{Origin: ocOrigin}, cursor, eventPage)
		if err != nil {
			return nil, acpError(err, "", "")
		}
		for _, session := range page {
			made, ok, err := ocMadeOf(ctx, host.Log(), session.ID)
			if err != nil {
				return nil, acpError(err, session.ID, "")
			}
			if ok && made.Sandbox == in.Sandbox {
				out.Body = append(out.Body, ocInfoOf(session, made))
			}
		}
		if cursor = next; next == "" {
			return out, nil
		}
	}
}

// ocView is a session of a sandbox.
func (s *Server) ocView(ctx context.Context, in ocSession) (*view, error) {
	v, err := s.view(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	made, ok, err := ocMadeOf(ctx, v.log, in.ID)
	if err != nil {
		return nil, acpError(err, in.ID, "")
	}
	if !ok || made.Sandbox != in.Sandbox {
		return nil, noSession(in.ID)
	}
	return v, nil
}

// ocSay prompts the agent.
func ocSay(ctx context.Context, v *view, text string) error {
	if strings.TrimSpace(text) == "" {
		return rest.InvalidField("text", "text must not be empty")
	}
	blocks, err := json.Marshal([]map[string]string{{"type": "text", "text": text}})
	if err != nil {
		return err
	}
	_, err = v.host.Prompt(ctx, v.session.ID, blocks)
	return nilOr(err, v.session.ID)
}

// ocConfigure changes what can be changed of a session that was made, and tells
// in its log what cannot.
func ocConfigure(ctx context.Context, v *view, o opencomputer.Options) error {
	missed := o.Late()
	try := func(name, value string, err error) {
		if err != nil {
			missed = append(missed, fmt.Sprintf("%s: %q: %v", name, value, err))
		}
	}
	if o.Model != "" {
		try("model", o.Model, v.host.SetModel(ctx, v.session.ID, o.Model))
	}
	if o.PermissionMode != "" {
		policy := agents.Policy{}
		if o.PermissionMode == opencomputer.DefaultPermissionMode {
			policy.Mode = agents.Allow
		} else {
			try("permissionMode", o.PermissionMode, v.host.SetMode(ctx, v.session.ID, o.PermissionMode))
		}
		try("permissionMode", o.PermissionMode, v.host.SetPermissions(ctx, v.session.ID, policy))
	}
	payload, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "method": opencomputer.KindConfigured, "params": append([]string{}, missed...)})
	if err != nil {
		return err
	}
	return v.log.Commit(ctx, func(tx *eventlog.Tx) error {
		_, err := tx.Append(eventlog.Event{
			Stream: agents.SessionStream(v.session.ID), Session: v.session.ID, Dir: eventlog.Daemon, Kind: opencomputer.KindConfigured, Payload: payload,
		})
		return err
	})
}
