package opencode

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/deskhand/deskhand/agents/folders"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
	"github.com/deskhand/deskhand/internal/cuttext"
)

// mcpStatus is the status of an MCP server of a directory.
type mcpStatus struct {
	Status string `json:"status"`
	Error  string `json:"error,omitempty"`
}

// The values of mcpStatus.Status. deskhand connects to no MCP server itself: agents do when
// their sessions begin. So connected says that sessions get the server.
const (
	mcpConnected = "connected"
	mcpDisabled  = "disabled"
	mcpFailed    = "failed"
)

func (m *machine) mcpRoutes() []route {
	enable := func(enabled bool) func(*call) (any, error) {
		return func(c *call) (any, error) { return true, m.enableMCP(c.ctx, c.directory, c.Param("name"), enabled) }
	}
	return []route{
		get("/mcp", func(c *call) (any, error) { return m.mcpStatus(c.ctx, c.directory) }),
		post("/mcp", m.addMCP),
		post("/mcp/{name}/connect", enable(true)),
		post("/mcp/{name}/disconnect", enable(false)),
	}
}

func (m *machine) addMCP(c *call) (any, error) {
	var b struct {
		Name   string
		Config map[string]json.RawMessage
	}
	if err := c.ReadJSON(&b); err != nil {
		return nil, err
	}
	if strings.TrimSpace(b.Name) == "" || b.Config == nil {
		return nil, rest.InvalidRequest.Problem("invalid request: name and config are needed")
	}
	if err := m.putMCP(c.ctx, c.directory, b.Name, b.Config); err != nil {
		return nil, err
	}
	return m.mcpStatus(c.ctx, c.directory)
}

// mcpStatus returns the MCP servers of a directory.
func (m *machine) mcpStatus(ctx context.Context, dir string) (map[string]mcpStatus, error) {
	host, err := m.Host.Get(ctx)
	if err != nil {
		return nil, err
	}
	entries, err := m.Folders.Entries(ctx, dir, folders.MCP)
	if err != nil {
		return nil, err
	}
	all := map[string]mcpStatus{}
	for name, e := range entries {
		_, enabled, err := host.ServerOf(name, e.Content)
		switch {
		case err != nil:
			all[name] = mcpStatus{mcpFailed, cuttext.Cut(err.Error(), 4<<10)} // it may quote the folder's file
		case !e.Approved:
			all[name] = mcpStatus{mcpFailed, "it was found in the folder and is not approved; read it and approve it with POST /v1/config/mcp/approve"}
		case !enabled:
			all[name] = mcpStatus{mcpDisabled, ""}
		default:
			all[name] = mcpStatus{mcpConnected, ""}
		}
	}
	return all, nil
}

// putMCP sets an MCP server of a directory. Sessions get it from then on.
func (m *machine) putMCP(ctx context.Context, dir, name string, entry map[string]json.RawMessage) error {
	host, err := m.Host.Get(ctx)
	if err != nil {
		return err
	}
	text, err := json.Marshal(entry)
	if err != nil {
		return err
	}
	if _, _, err := host.ServerOf(name, text); err != nil {
		return rest.InvalidField("config", "config: "+err.Error())
	}
	if err := m.Folders.Put(ctx, dir, folders.MCP, name, text); err != nil {
		return err
	}
	m.publish(dir, "mcp.tools.changed", map[string]string{"server": name})
	return nil
}

// enableMCP gives an MCP server to the next sessions, or does not. Enabling approves the server.
func (m *machine) enableMCP(ctx context.Context, dir, name string, enabled bool) error {
	e, err := m.Folders.Entry(ctx, dir, folders.MCP, name)
	switch {
	case errors.Is(err, folders.ErrNotFound):
		return rest.Missing("mcp", name)
	case err != nil:
		return err
	case !e.Approved:
		return rest.ConflictOf("the MCP server " + name + " was found in the folder and is not approved; read it and approve it with POST /v1/config/mcp/approve")
	}
	var entry map[string]json.RawMessage
	// A member that is given twice would be approved with its last value.
	if err := cmp.Or(folders.Decode(e.Content, &struct{}{}), json.Unmarshal(e.Content, &entry)); err != nil {
		return rest.InvalidField("name", "the entry of "+name+" cannot be read: "+err.Error())
	}
	entry["enabled"] = json.RawMessage("false")
	if enabled {
		entry["enabled"] = json.RawMessage("true")
	}
	return m.putMCP(ctx, dir, name, entry)
}
