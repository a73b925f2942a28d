package opencode

import (
	"cmp"
	"slices"

	"github.com/deskhand/deskhand/agents/opencode"
	"github.com/deskhand/deskhand/agents/registry"
)

// provider is an agent as OpenCode's clients see it: a vendor of models.
type provider struct {
	ID      string           `json:"id"`
	Name    string           `json:"name"`
	Source  string           `json:"source"`
	Env     []string         `json:"env"`
	Options map[string]any   `json:"options"`
	Models  map[string]model `json:"models"`
}

// model is a model of an agent. Members whose value deskhand does not know are zero.
type model struct {
	ID           string                    `json:"id"`
	ProviderID   string                    `json:"providerID"`
	API          modelAPI                  `json:"api"`
	Name         string                    `json:"name"`
	Capabilities modelCapabilities         `json:"capabilities"`
	Cost         modelCost                 `json:"cost"`
	Limit        modelLimit                `json:"limit"`
	Status       string                    `json:"status"`
	Options      map[string]any            `json:"options"`
	Headers      map[string]string         `json:"headers"`
	ReleaseDate  string                    `json:"release_date"`
	Variants     map[string]map[string]any `json:"variants"`

	// The members of version 1.
	Attachment  bool `json:"attachment"`
	Reasoning   bool `json:"reasoning"`
	Temperature bool `json:"temperature"`
	ToolCall    bool `json:"tool_call"`
}

type modelAPI struct {
	ID  string `json:"id"`
	URL string `json:"url"`
	NPM string `json:"npm"`
}

type modelCapabilities struct {
	Temperature bool       `json:"temperature"`
	Reasoning   bool       `json:"reasoning"`
	Attachment  bool       `json:"attachment"`
	ToolCall    bool       `json:"toolcall"`
	Input       modalities `json:"input"`
	Output      modalities `json:"output"`
	Interleaved bool       `json:"interleaved"`
}

type modalities struct {
	Text  bool `json:"text"`
	Audio bool `json:"audio"`
	Image bool `json:"image"`
	Video bool `json:"video"`
	PDF   bool `json:"pdf"`
}

type modelCost struct {
	Input  float64 `json:"input"`
	Output float64 `json:"output"`
	Cache  struct {
		Read  float64 `json:"read"`
		Write float64 `json:"write"`
	} `json:"cache"`
}

type modelLimit struct {
	Context int `json:"context"`
	Output  int `json:"output"`
}

// mode is a mode of agents as OpenCode's clients see it: an "agent".
type mode struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Mode        string          `json:"mode"`
	Native      bool            `json:"native"`
	BuiltIn     bool            `json:"builtIn"`
	Permission  []any           `json:"permission"`
	Tools       map[string]bool `json:"tools"`
	Options     map[string]any  `json:"options"`
	Model       *modelRef       `json:"model,omitempty"`
}

type modelRef struct {
	ModelID    string `json:"modelID"`
	ProviderID string `json:"providerID"`
}

type (
	providerList struct {
		All       []provider        `json:"all"`
		Default   map[string]string `json:"default"`
		Connected []string          `json:"connected"`
	}
	configProviders struct {
		Providers []provider        `json:"providers"`
		Default   map[string]string `json:"default"`
	}
)

func (m *machine) providerRoutes() []route {
	return []route{
		get("/provider", func(*call) (any, error) {
			ready, others := m.knownAgents()
			list := providerList{providersOf(slices.Concat(ready, others)), defaultsOf(ready), []string{}}
			for _, a := range ready {
				list.Connected = append(list.Connected, a.ID)
			}
			return list, nil
		}),
		get("/config/providers", func(*call) (any, error) {
			ready, _ := m.knownAgents()
			return configProviders{providersOf(ready), defaultsOf(ready)}, nil
		}),
		// Agents find their credentials themselves, so there is no way to sign in here.
		constant("/provider/auth", map[string][]any{}),
		get("/agent", func(*call) (any, error) {
			ready, _ := m.knownAgents()
			return modesOf(ready), nil
		}),
	}
}

// knownAgents returns the agents that are installed, those with credentials first and the
// mock agent last, and all other agents.
func (m *machine) knownAgents() (ready, others []registry.Agent) {
	credentials := m.Registry.AgentsWithCredentials()
	for _, a := range m.Registry.Agents() {
		if _, err := m.Registry.Command(a.ID); err != nil {
			others = append(others, a)
			continue
		}
		ready = append(ready, a)
	}
	rank := func(a registry.Agent) int {
		switch {
		case a.BuiltIn:
			return 1
		case credentials[a.ID] || a.Custom:
			return 0
		}
		return 2
	}
	slices.SortStableFunc(ready, func(a, b registry.Agent) int { return cmp.Compare(rank(a), rank(b)) })
	return ready, others
}

func providersOf(all []registry.Agent) []provider {
	out := make([]provider, len(all))
	for i, a := range all {
		out[i] = provider{ID: a.ID, Name: a.Name, Source: "custom", Env: []string{}, Options: map[string]any{}, Models: modelsOf(a)}
	}
	return out
}

// defaultsOf returns the default model of each agent: the model that the agent itself chooses.
func defaultsOf(all []registry.Agent) map[string]string {
	out := map[string]string{}
	for _, a := range all {
		out[a.ID] = opencode.DefaultModel
	}
	return out
}

// optionOf returns the option of a category, or the zero Option.
func optionOf(a registry.Agent, category string) registry.Option {
	for _, o := range a.Options {
		if o.Category == category {
			return o
		}
	}
	return registry.Option{}
}

func modelsOf(a registry.Agent) map[string]model {
	choices := optionOf(a, registry.CategoryModel).Choices
	if !slices.ContainsFunc(choices, func(c registry.Choice) bool { return c.Value == opencode.DefaultModel }) {
		choices = append([]registry.Choice{{Value: opencode.DefaultModel, Name: "Default"}}, choices...)
	}
	c := a.Capabilities
	out := make(map[string]model, len(choices))
	for _, one := range choices {
		out[one.Value] = model{
			ID: one.Value, ProviderID: a.ID, API: modelAPI{ID: one.Value}, Name: cmp.Or(one.Name, one.Value),
			Capabilities: modelCapabilities{
				Reasoning: c.Reasoning, Attachment: c.FileAttachments || c.Images, ToolCall: c.ToolCalls,
				Input: modalities{Text: true, Image: c.Images}, Output: modalities{Text: true},
			},
			Status: "active", Options: map[string]any{}, Headers: map[string]string{}, Variants: map[string]map[string]any{},
			Attachment: c.FileAttachments || c.Images, Reasoning: c.Reasoning, ToolCall: c.ToolCalls,
		}
	}
	return out
}

// modesOf returns the modes of all agents. A mode that one agent alone has names the agent, so
// that a client that chooses the mode chooses the agent.
func modesOf(all []registry.Agent) []mode {
	out := []mode{newMode(opencode.DefaultAgent, "The mode in which the agent begins")}
	owners := map[string][]registry.Agent{}
	for _, a := range all {
		for _, c := range optionOf(a, registry.CategoryMode).Choices {
			if owners[c.Value] == nil && c.Value != opencode.DefaultAgent {
				out = append(out, newMode(c.Value, cmp.Or(c.Description, c.Name)))
			}
			owners[c.Value] = append(owners[c.Value], a)
		}
	}
	defaults := defaultsOf(all)
	for i := range out {
		if of := owners[out[i].Name]; len(of) == 1 && i > 0 {
			out[i].Model = &modelRef{defaults[of[0].ID], of[0].ID}
		}
	}
	return out
}

func newMode(name, about string) mode {
	return mode{Name: name, Description: about, Mode: "primary", Native: true, BuiltIn: true, Permission: []any{}, Tools: map[string]bool{}, Options: map[string]any{}}
}
