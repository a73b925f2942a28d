package registry

import (
	"encoding/json"
	"slices"
)

// Information is what an agent's answers say of it.
type Information struct {
	// Version is its own. Empty: it did not say.
	Version string

	// Options are what can be chosen. Nil: it did not say.
	Options []Option
}

// observed is what an agent has said so far.
type observed struct {
	Information
	initialized *agentCapabilities
}

// agentCapabilities is the part of an initialize answer that lists need.
type agentCapabilities struct {
	LoadSession bool            `json:"loadSession"`
	Session     sessionAbility  `json:"sessionCapabilities"`
	Prompt      promptAbilities `json:"promptCapabilities"`
	MCP         mcpAbilities    `json:"mcpCapabilities"`
}

type sessionAbility struct {
	Resume json.RawMessage `json:"resume"`
}

type promptAbilities struct {
	Image           bool `json:"image"`
	EmbeddedContext bool `json:"embeddedContext"`
}

type mcpAbilities struct {
	HTTP bool `json:"http"`
	SSE  bool `json:"sse"`
}

// Bounds of what is kept of an agent's answer.
const (
	maxObserved = 1 << 20 // bytes; an answer with more is ignored
	maxOptions  = 64
)

// Observe takes note of what an agent answered: method is that of the request,
// result the result. Only initialize and the session/... methods that begin a
// session tell something; others, and what is not understood, are ignored.
func (r *Registry) Observe(id, method string, result json.RawMessage) {
	if _, err := r.find(id); err != nil || len(result) > maxObserved {
		return
	}
	switch method {
	case "initialize":
		var answer struct {
			Info struct {
				Version string `json:"version"`
			} `json:"agentInfo"`
			Capabilities *agentCapabilities `json:"agentCapabilities"`
		}
		if json.Unmarshal(result, &answer) != nil || answer.Capabilities == nil {
			return
		}
		r.note(id, func(o *observed) { o.Version, o.initialized = answer.Info.Version, answer.Capabilities })
	case "session/new", "session/load", "session/resume":
		if options := sessionOptions(result); options != nil {
			r.note(id, func(o *observed) { o.Options = options })
		}
	}
}

func (r *Registry) note(id string, change func(*observed)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	o := r.said[id]
	change(&o)
	r.said[id] = o
}

// Heard is what an agent has said since this registry was made. Both members
// may be empty.
func (r *Registry) Heard(id string) Information {
	r.mu.Lock()
	defer r.mu.Unlock()
	o := r.said[id].Information
	o.Options = slices.Clone(o.Options)
	return o
}

// heard is an agent with what it has said in place of what the table says.
func (r *Registry) heard(a Agent) Agent {
	r.mu.Lock()
	o := r.said[a.ID]
	r.mu.Unlock()
	a.Options = slices.Clone(a.Options)
	for _, said := range o.Options {
		same := func(of Option) bool { return of.ID == said.ID || of.Category != "" && of.Category == said.Category }
		if i := slices.IndexFunc(a.Options, same); i >= 0 {
			a.Options[i] = said
		} else {
			a.Options = append(a.Options, said)
		}
	}
	if c := o.initialized; c != nil {
		can := &a.Capabilities
		can.Images = can.Images || c.Prompt.Image
		can.FileAttachments = can.FileAttachments || c.Prompt.EmbeddedContext
		can.SessionLifecycle = can.SessionLifecycle || c.LoadSession || has(c.Session.Resume)
		can.MCPTools = can.MCPTools || c.MCP.HTTP || c.MCP.SSE
	}
	if a.note == noteIfAbsent {
		if _, err := r.locate(&a); err == nil {
			a.Note = ""
		}
	}
	return a
}

func has(member json.RawMessage) bool { return len(member) > 0 && string(member) != "null" }

// sessionOptions are what the answer to session/new says can be chosen: the
// configuration options of ACP, and the modes and models of its older versions.
// Nil: it says nothing.
func sessionOptions(result json.RawMessage) []Option {
	var answer struct {
		Options []wireOption `json:"configOptions"`
		Modes   *struct {
			Current string `json:"currentModeId"`
			Modes   []struct {
				ID, Name, Description string
			} `json:"availableModes"`
		} `json:"modes"`
		Models *struct {
			Current string `json:"currentModelId"`
			Models  []struct {
				ID                string `json:"modelId"`
				Name, Description string
			} `json:"availableModels"`
		} `json:"models"`
	}
	if json.Unmarshal(result, &answer) != nil {
		return nil
	}
	var options []Option
	for _, w := range answer.Options {
		if o, ok := w.option(); ok && len(options) < maxOptions {
			options = append(options, o)
		}
	}
	add := func(category, name, current string, choices []Choice) {
		known := slices.ContainsFunc(options, func(o Option) bool { return o.Category == category })
		if !known && len(choices) > 0 {
			options = append(options, Option{category, name, category, "select", current, choices})
		}
	}
	if m := answer.Models; m != nil {
		var choices []Choice
		for _, c := range m.Models {
			choices = append(choices, Choice{c.ID, c.Name, c.Description})
		}
		add(CategoryModel, "Model", m.Current, choices)
	}
	if m := answer.Modes; m != nil {
		var choices []Choice
		for _, c := range m.Modes {
			choices = append(choices, Choice{c.ID, c.Name, c.Description})
		}
		add(CategoryMode, "Mode", m.Current, choices)
	}
	return options
}

// wireOption is a configuration option as agents send it.
type wireOption struct {
	ID       string          `json:"id"`
	Name     string          `json:"name"`
	Category string          `json:"category"`
	Type     string          `json:"type"`
	Current  json.RawMessage `json:"currentValue"`
	Choices  []struct {
		Choice
		Group   string   `json:"group"` // of several choices
		Grouped []Choice `json:"options"`
	} `json:"options"`
}

// option leaves out what is no choice between texts.
func (w wireOption) option() (Option, bool) {
	o := Option{ID: w.ID, Name: w.Name, Category: w.Category, Type: "select"}
	if w.Type != "" && w.Type != "select" || json.Unmarshal(w.Current, &o.Current) != nil {
		return o, false
	}
	for _, c := range w.Choices {
		if c.Group != "" {
			o.Choices = append(o.Choices, c.Grouped...)
		} else {
			o.Choices = append(o.Choices, c.Choice)
		}
	}
	return o, o.ID != "" && len(o.Choices) > 0
}
