package agents

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/deskhand/deskhand/agents/folders"
	"github.com/deskhand/deskhand/internal/cuttext"
)

// MCPServer is a tool server of a session.
type MCPServer struct {
	Name string

	// URL, Headers and SSE describe a server that is reached over HTTP.
	URL     string
	Headers map[string]string
	SSE     bool // the older transport

	// Command, Args and Env start a server on stdio.
	Command string
	Args    []string
	Env     map[string]string
}

type nameValue struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

func nameValues(m map[string]string) []nameValue {
	list := make([]nameValue, 0, len(m))
	for _, name := range slices.Sorted(maps.Keys(m)) {
		list = append(list, nameValue{name, m[name]})
	}
	return list
}

// MarshalJSON returns an element of session/new's mcpServers.
func (m MCPServer) MarshalJSON() ([]byte, error) {
	if m.URL == "" {
		return json.Marshal(struct {
			Name    string      `json:"name"`
			Command string      `json:"command"`
			Args    []string    `json:"args"`
			Env     []nameValue `json:"env"`
		}{m.Name, m.Command, append([]string{}, m.Args...), nameValues(m.Env)})
	}
	kind := "http"
	if m.SSE {
		kind = "sse"
	}
	return json.Marshal(struct {
		Type    string      `json:"type"`
		Name    string      `json:"name"`
		URL     string      `json:"url"`
		Headers []nameValue `json:"headers"`
	}{kind, m.Name, m.URL, nameValues(m.Headers)})
}

// usable reports whether an agent can use the server. All agents can start programs.
func (m MCPServer) usable(c capabilities) bool {
	switch {
	case m.URL == "":
		return true
	case m.SSE:
		return c.sse
	default:
		return c.http
	}
}

// mcpEntry is an entry of mcp.json, in the form that httpapi writes and in the forms that
// people write. ACP has no member for timeoutMs.
type mcpEntry struct {
	Type        string            `json:"type"`
	Command     json.RawMessage   `json:"command"` // a program, or a list of it and its first arguments
	Args        []string          `json:"args"`
	Env         map[string]string `json:"env"`
	Environment map[string]string `json:"environment"`
	Enabled     *bool             `json:"enabled"`
	Cwd         string            `json:"cwd"`

	URL               string            `json:"url"`
	Headers           map[string]string `json:"headers"`
	BearerTokenEnvVar string            `json:"bearerTokenEnvVar"`
	EnvHeaders        map[string]string `json:"envHeaders"`
	EnvHTTPHeaders    map[string]string `json:"envHttpHeaders"`
	OAuth             json.RawMessage   `json:"oauth"`
	Transport         string            `json:"transport"`
}

// environment is a list of NAME=value.
type environment []string

func (env environment) lookup(name string) (value string, ok bool) {
	for _, kv := range slices.Backward(env) {
		if n, v, found := strings.Cut(kv, "="); found && n == name {
			return v, true
		}
	}
	return "", false
}

// ServerOf returns the tool server that an entry of mcp.json describes, in any of its forms.
// Environment variables come from the host's environment for agents. enabled is false if
// the entry is switched off.
func (h *Host) ServerOf(name string, entry json.RawMessage) (m MCPServer, enabled bool, err error) {
	env, err := h.launcher.environ()
	if err != nil {
		return m, false, err
	}
	return serverOf(name, entry, env)
}

// serverOf returns the MCP server that an entry describes. ok is false when the
// entry is switched off. Variables come from the agent's environment, so that an
// entry cannot read variables that the agent does not have.
func serverOf(name string, raw json.RawMessage, env environment) (m MCPServer, ok bool, err error) {
	var e mcpEntry
	if err := folders.Decode(raw, &e); err != nil {
		return m, false, fmt.Errorf("MCP server %s: %w", name, err)
	}
	if e.Enabled != nil && !*e.Enabled {
		return m, false, nil
	}
	m.Name = name
	switch e.Type {
	case "remote", "http":
		err = m.setRemote(e, env)
	case "local", "stdio":
		err = m.setLocal(e)
	default:
		err = fmt.Errorf("type %q is neither local nor remote", e.Type)
	}
	if err != nil {
		return m, false, fmt.Errorf("MCP server %s: %w", name, err)
	}
	return m, true, nil
}

func (m *MCPServer) setLocal(e mcpEntry) error {
	var argv []string
	var program string
	if json.Unmarshal(e.Command, &program) == nil {
		argv = []string{program}
	} else if json.Unmarshal(e.Command, &argv) != nil {
		return fmt.Errorf("command must be a program, or a list of it and its arguments")
	}
	argv = append(argv, e.Args...)
	if len(argv) == 0 || argv[0] == "" {
		return fmt.Errorf("command must not be empty")
	}
	if e.Cwd != "" {
		// ACP has no member for it.
		argv = append([]string{"env", "-C", e.Cwd}, argv...)
	}
	m.Command, m.Args = argv[0], argv[1:]
	// Not all agents pass TMPDIR on. Without it, programs of node would execute compiled code that
	// another user has put into /tmp/node-compile-cache.
	m.Env = map[string]string{"NODE_DISABLE_COMPILE_CACHE": "1"}
	maps.Copy(m.Env, e.Environment)
	maps.Copy(m.Env, e.Env)
	return nil
}

func (m *MCPServer) setRemote(e mcpEntry, env environment) error {
	if e.URL == "" {
		return fmt.Errorf("url must not be empty")
	}
	if len(e.OAuth) > 0 && string(e.OAuth) != "null" && string(e.OAuth) != "false" {
		return fmt.Errorf("oauth cannot be passed on to agents; use bearerTokenEnvVar or headers")
	}
	m.URL, m.SSE = e.URL, e.Transport == "sse"
	m.Headers = map[string]string{}
	maps.Copy(m.Headers, e.Headers)
	for _, from := range []map[string]string{e.EnvHTTPHeaders, e.EnvHeaders} {
		for header, variable := range from {
			value, ok := env.lookup(variable)
			if !ok {
				return fmt.Errorf("the environment variable %s of header %s is not set for the agent", variable, header)
			}
			m.Headers[header] = value
		}
	}
	if e.BearerTokenEnvVar != "" {
		token, ok := env.lookup(e.BearerTokenEnvVar)
		if !ok {
			return fmt.Errorf("the environment variable %s of bearerTokenEnvVar is not set for the agent", e.BearerTokenEnvVar)
		}
		m.Headers["Authorization"] = "Bearer " + token
	}
	return nil
}

// configure adds the configuration of the folder and the desktop to a request that makes or
// opens a session. c.problems lists entries that do not work. They do not prevent the
// session.
func (p *agentProcess) configure(ctx context.Context, c *call) error {
	defer p.lifecycle.keepRunning()() // fetching skills and starting a desktop may take minutes
	env := c.env
	at := env.params
	if !at.exists() || env.raw[at.from] != '{' {
		return nil
	}
	var params struct {
		Cwd string `json:"cwd"`
	}
	_ = json.Unmarshal(env.bytes(at), &params)
	var have []json.RawMessage
	if raw := env.bytes(env.find(at, "mcpServers")); len(raw) > 0 && json.Unmarshal(raw, &have) != nil {
		return nil // the agent answers with an error
	}
	add, problems, err := p.configured(ctx, params.Cwd)
	if err != nil {
		return err
	}
	if params.Cwd != "" {
		placing, cancel := context.WithCancel(ctx)
		stop := context.AfterFunc(p.host.tasks.ctx, cancel) // Close waits for the skills
		problems = append(problems, p.host.skills.Place(placing, params.Cwd, p.agent)...)
		stop()
		cancel()
	}
	for _, problem := range problems { // they may quote the folder's files, and stay with the session
		c.problems = append(c.problems, cuttext.Cut(problem, maxErrorText))
	}
	names := map[string]bool{}
	for _, raw := range have {
		var m struct{ Name string }
		_ = json.Unmarshal(raw, &m)
		names[m.Name] = true
	}
	caps := p.handshake.capabilities()
	list := slices.Clone(have)
	for _, m := range add {
		if names[m.Name] {
			continue
		}
		if !m.usable(caps) {
			if !slices.ContainsFunc(add, func(o MCPServer) bool { return o.Name == m.Name && o.usable(caps) }) {
				c.problems = append(c.problems, fmt.Sprintf("MCP server %s: %s cannot use servers of that transport", m.Name, p.agent))
			}
			continue
		}
		names[m.Name] = true
		list = append(list, encode(m))
	}
	if len(list) == len(have) {
		return nil
	}
	c.replacement = env.with(edit{at, setMember(env.bytes(at), "mcpServers", encode(list))})
	return nil
}

// configured returns the tool servers for a session in a folder.
func (p *agentProcess) configured(ctx context.Context, cwd string) (add []MCPServer, problems []string, err error) {
	if filepath.IsAbs(cwd) {
		entries, err := p.host.folders.Entries(ctx, cwd, folders.MCP)
		if err != nil {
			problems = append(problems, err.Error())
		}
		for _, name := range slices.Sorted(maps.Keys(entries)) {
			e := entries[name]
			if !e.Approved {
				problems = append(problems, fmt.Sprintf("MCP server %s: %s", name, p.host.folders.Refusal(cwd, folders.MCP, name, e)))
				continue
			}
			m, ok, err := serverOf(name, e.Content, p.env)
			if err != nil {
				problems = append(problems, err.Error())
			} else if ok {
				add = append(add, m)
			}
		}
	}
	mounted, err := p.host.launcher.mount(ctx, p.alive, p.server.info().Desktop, p.agent)
	if add = append(add, mounted.Servers...); err == nil && len(add) > 0 {
		err = p.handshake.await(ctx) // the answer has the usable transports
	}
	return add, problems, err
}
