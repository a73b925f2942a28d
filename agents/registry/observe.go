package registry

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/deskhand/deskhand/internal/cuttext"
)

// observed has the parts of an agent's answers that lists need.
type observed struct {
	version     string
	options     []Option // nil: unknown
	initialized *agentCapabilities
}

// agentCapabilities is the part of an answer to initialize that lists need.
type agentCapabilities struct {
	LoadSession bool `json:"loadSession"`
	Session     struct {
		Resume json.RawMessage `json:"resume"`
	} `json:"sessionCapabilities"`
	Prompt struct {
		Image           bool `json:"image"`
		EmbeddedContext bool `json:"embeddedContext"`
	} `json:"promptCapabilities"`
	MCP struct {
		HTTP bool `json:"http"`
		SSE  bool `json:"sse"`
	} `json:"mcpCapabilities"`
}

// Limits of an agent's answer.
const (
	maxObserved = 1 << 20 // bytes; an answer with more is ignored
	maxOptions  = 64
	maxChoices  = 1000 // of an option
	maxText     = 1 << 10
)

// Observe records an agent's answer to a request. It does not block. It ignores unknown agents,
// methods other than initialize, session/new, session/load and session/resume, results of more
// than 1 MiB, and results that it cannot decode.
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
		r.record(id, func(o *observed) {
			o.version, o.initialized = cuttext.Cut(answer.Info.Version, maxText), answer.Capabilities
		})
	case "session/new", "session/load", "session/resume":
		if options := sessionOptions(result); options != nil {
			r.record(id, func(o *observed) { o.options = options })
		}
	}
}

func (r *Registry) record(id string, change func(*observed)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	o := r.observed[id]
	change(&o)
	r.observed[id] = o
}

// ObservedVersion returns the version in the last answer to initialize that [Registry.Observe]
// or [Registry.Ask] has recorded, or "" if there is none.
func (r *Registry) ObservedVersion(id string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.observed[id].version
}

// withObserved returns an agent, with its own answers in place of the table's values.
func (r *Registry) withObserved(a Agent) Agent {
	r.mu.Lock()
	o := r.observed[a.ID]
	r.mu.Unlock()
	a.Options = slices.Clone(a.Options)
	for _, own := range o.options {
		same := func(of Option) bool { return of.ID == own.ID || of.Category != "" && of.Category == own.Category }
		if i := slices.IndexFunc(a.Options, same); i >= 0 {
			a.Options[i] = own
		} else {
			a.Options = append(a.Options, own)
		}
	}
	if c := o.initialized; c != nil {
		can := &a.Capabilities
		can.Images = can.Images || c.Prompt.Image
		can.FileAttachments = can.FileAttachments || c.Prompt.EmbeddedContext
		can.SessionLifecycle = can.SessionLifecycle || c.LoadSession || isSet(c.Session.Resume)
		can.MCPTools = can.MCPTools || c.MCP.HTTP || c.MCP.SSE
	}
	if a.noteIfAbsent {
		if _, err := r.locate(&a); err == nil {
			a.Note = ""
		}
	}
	return a
}

func isSet(member json.RawMessage) bool { return len(member) > 0 && string(member) != "null" }

// wireList has the modes or the models of older versions of ACP.
type wireList struct {
	Mode   string       `json:"currentModeId"`
	Model  string       `json:"currentModelId"`
	Modes  []wireChoice `json:"availableModes"`
	Models []wireChoice `json:"availableModels"`
}

type wireChoice struct {
	Mode              string `json:"id"`
	Model             string `json:"modelId"`
	Name, Description string
}

// sessionOptions returns the options in an answer to session/new: the configuration options
// of ACP, and the modes and models of its older versions. It returns nil if there are none.
func sessionOptions(result json.RawMessage) []Option {
	var answer struct {
		Options []wireOption `json:"configOptions"`
		Modes   wireList     `json:"modes"`
		Models  wireList     `json:"models"`
	}
	if json.Unmarshal(result, &answer) != nil {
		return nil
	}
	var options []Option
	keep := func(o Option) {
		if len(o.Choices) > 0 && len(options) < maxOptions && max(len(o.ID), len(o.Category), len(o.Current)) <= maxText {
			o.Name = cuttext.Cut(o.Name, maxText)
			options = append(options, o)
		}
	}
	for _, w := range answer.Options {
		if o, ok := w.option(); ok {
			keep(o)
		}
	}
	add := func(category, name, current string, choices []wireChoice) {
		o := Option{ID: category, Name: name, Category: category, Type: "select", Current: current}
		for _, c := range choices {
			o.add(Choice{cmp.Or(c.Model, c.Mode), c.Name, c.Description})
		}
		if !slices.ContainsFunc(options, func(o Option) bool { return o.Category == category }) {
			keep(o)
		}
	}
	add(CategoryModel, "Model", answer.Models.Model, answer.Models.Models)
	add(CategoryMode, "Mode", answer.Modes.Mode, answer.Modes.Modes)
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

// option returns false for options that are not a choice between texts.
func (w wireOption) option() (Option, bool) {
	o := Option{ID: w.ID, Name: w.Name, Category: w.Category, Type: "select"}
	if w.Type != "" && w.Type != "select" || json.Unmarshal(w.Current, &o.Current) != nil {
		return o, false
	}
	for _, c := range w.Choices {
		if c.Group != "" {
			for _, grouped := range c.Grouped {
				o.add(grouped)
			}
		} else {
			o.add(c.Choice)
		}
	}
	return o, o.ID != ""
}

// add adds a choice unless there are too many or its value is too long.
func (o *Option) add(c Choice) {
	if len(o.Choices) < maxChoices && len(c.Value) <= maxText {
		o.Choices = append(o.Choices, Choice{c.Value, cuttext.Cut(c.Name, maxText), cuttext.Cut(c.Description, maxText)})
	}
}
