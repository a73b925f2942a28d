package agents

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
)

const methodInitialize = "initialize"

// handshake is the initialize and authenticate of a process, by a client or by the host. The
// host repeats what a client sent to the process before. Any goroutine may use it.
type handshake struct {
	process *agentProcess
	first   <-chan struct{} // closed at the end of the initialize of the client that started the process; nil: none

	mu          sync.Mutex // guards the fields below
	caps        capabilities
	initialized bool // the agent has answered an initialize
}

// await waits until the agent has answered the initialize of the client that started it. If
// the agent has refused that one, await sends another.
func (h *handshake) await(ctx context.Context) error {
	if h.first == nil {
		return nil
	}
	p := h.process
	late := &TimeoutError{p.agent, methodInitialize, p.host.cfg.StartTimeout}
	wait, cancel := context.WithTimeoutCause(ctx, p.host.cfg.StartTimeout, late)
	defer cancel()
	if _, err := receive(wait, p.inbox, h.first); err != nil {
		if context.Cause(wait) == late { //nolint:errorlint // not wrapped
			err = late
		}
		return err
	}
	h.mu.Lock()
	initialized := h.initialized
	h.mu.Unlock()
	if initialized {
		return nil
	}
	return h.send(ctx, hostInitialize)
}

// send initializes the agent, and repeats the authenticate of a client.
func (h *handshake) send(ctx context.Context, params []byte) error {
	p := h.process
	ctx, cancel := context.WithTimeout(ctx, p.host.cfg.StartTimeout)
	defer cancel()
	if _, err := p.request(ctx, methodInitialize, params); err != nil {
		return err
	}
	auth := p.server.info().Authenticate
	if len(auth) == 0 {
		return nil
	}
	_, err := p.request(ctx, "authenticate", auth)
	if _, refused := errors.AsType[*ResponseError](err); refused {
		p.log.Warn("agent does not authenticate again", "error", err)
		return nil // the agent refuses the next request, whose client gets the error
	}
	return err
}

// hostInitialize has the params of the host's own initialize.
var hostInitialize = []byte(`{"protocolVersion":1,"clientInfo":{"name":"deskhand","version":"1"},` +
	`"clientCapabilities":{"fs":{"readTextFile":false,"writeTextFile":false},"terminal":false,"elicitation":{"form":{}}}}`)

// answered records the result of initialize.
func (h *handshake) answered(result json.RawMessage) {
	c := capabilitiesOf(result)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.caps, h.initialized = c, true
}

func (h *handshake) capabilities() capabilities {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.caps
}

// capabilities are the agent's capabilities that the host uses.
type capabilities struct {
	raw    json.RawMessage // agentCapabilities
	load   bool
	resume bool
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
	// Members of other types count as absent.
	_ = json.Unmarshal(result, &r)
	if len(r.Caps) > maxOffered {
		r.Caps = nil // sessions' rows keep it
	}
	_ = json.Unmarshal(r.Caps, &c)
	resume, ok := c.Session["resume"]
	return capabilities{
		raw: r.Caps, load: c.Load, resume: ok && string(resume) != "null" && string(resume) != "false", http: c.MCP.HTTP, sse: c.MCP.SSE,
	}
}
