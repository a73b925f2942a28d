package agents

import (
	"encoding/json"

	"github.com/deskhand/deskhand/agents/folders"
)

// ServerOf is the tool server that an entry of an MCP configuration means, in
// any of the forms in which mcp.json may have it. Environment variables that it
// names are those that the host gives to every agent. enabled is false when the
// entry is switched off.
func (h *Host) ServerOf(name string, entry json.RawMessage) (m MCPServer, enabled bool, err error) {
	return serverOf(name, entry, environ(h.user, h.cfg.environ()))
}

// Folders keeps the configuration of sessions' folders: Config.Folders, or the
// host's own.
func (h *Host) Folders() *folders.Store { return h.folders }
