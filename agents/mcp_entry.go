package agents

import "encoding/json"

// ServerOf is the tool server that an entry of an MCP configuration means, in
// any of the forms in which mcp.json may have it. enabled is false when the
// entry is switched off.
func ServerOf(name string, entry json.RawMessage) (m MCPServer, enabled bool, err error) {
	return serverOf(name, entry)
}
