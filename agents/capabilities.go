package agents

import (
	"encoding/json"
)

// capabilities are the agent's capabilities that the host uses.
type capabilities struct {
	raw    json.RawMessage // agentCapabilities
	load   bool
	resume bool
	close  bool
	http   bool
	sse    bool
}

func capabilitiesOf(result json.RawMessage) capabilities {
	var r struct {
		Caps json.RawMessage `json:"agentCapabilities"`
	}
	var c struct {
		Load bool `json:"loadSession"`
		MCP  struct {
			HTTP bool `json:"http"`
			SSE  bool `json:"sse"`
		} `json:"mcpCapabilities"`
		Session map[string]json.RawMessage `json:"sessionCapabilities"`
	}
	// What is of another type counts as absent.
	_ = json.Unmarshal(result, &r)
	if len(r.Caps) > maxOffered {
		r.Caps = nil // sessions' rows keep it
	}
	_ = json.Unmarshal(r.Caps, &c)
	can := func(name string) bool {
		v, ok := c.Session[name]
		return ok && string(v) != "null" && string(v) != "false"
	}
	return capabilities{raw: r.Caps, load: c.Load, resume: can("resume"), close: can("close"), http: c.MCP.HTTP, sse: c.MCP.SSE}
}

func (p *agentProcess) capabilities() capabilities {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.caps
}

func (p *agentProcess) setCapabilities(c capabilities) {
	p.mu.Lock()
	p.caps, p.initialized = c, true
	p.mu.Unlock()
}
