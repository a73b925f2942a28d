package opencomputer

import (
	"encoding/json"
	"slices"
)

// The defaults of Options.
const (
	DefaultAgent          = "claude"
	DefaultModel          = "claude-sonnet-4-20250514"
	DefaultPermissionMode = "bypassPermissions"
	DefaultMaxTurns       = 50
)

// Options configure a session.
type Options struct {
	Agent           string                     `json:"agent,omitempty" doc:"claude when left out"`
	Model           string                     `json:"model,omitempty"`
	SystemPrompt    string                     `json:"systemPrompt,omitempty"`
	AllowedTools    []string                   `json:"allowedTools,omitempty" nullable:"false"`
	DisallowedTools []string                   `json:"disallowedTools,omitempty" nullable:"false"`
	PermissionMode  string                     `json:"permissionMode,omitempty" doc:"bypassPermissions when left out"`
	MaxTurns        int                        `json:"maxTurns,omitempty" minimum:"0" doc:"50 when left out"`
	Cwd             string                     `json:"cwd,omitempty" doc:"Absolute; the server's when left out"`
	MCPServers      map[string]json.RawMessage `json:"mcpServers,omitempty"`
	Resume          string                     `json:"resume,omitempty" doc:"What the agent called a session that is to go on"`
}

// WithDefaults returns the options with defaults in place of zero fields.
func (o Options) WithDefaults() Options {
	if o.Agent == "" {
		o.Agent = DefaultAgent
	}
	if o.Model == "" && o.Agent == DefaultAgent {
		o.Model = DefaultModel
	}
	if o.PermissionMode == "" {
		o.PermissionMode = DefaultPermissionMode
	}
	if o.MaxTurns == 0 {
		o.MaxTurns = DefaultMaxTurns
	}
	return o
}

// MetaOf returns the _meta of session/new for Claude's adapter. It has the options that ACP
// does not have, and requests the messages of the SDK. For other agents meta is nil, and
// missed names the options that they do not get.
func MetaOf(o Options) (meta json.RawMessage, missed []string) {
	if o.Agent != DefaultAgent {
		return nil, o.beyondACP()
	}
	options := map[string]any{"maxTurns": o.MaxTurns}
	for name, value := range map[string]any{
		"systemPrompt": o.SystemPrompt, "allowedTools": o.AllowedTools, "disallowedTools": o.DisallowedTools, "resume": o.Resume,
	} {
		switch v := value.(type) {
		case string:
			if v != "" {
				options[name] = v
			}
		case []string:
			if v != nil {
				options[name] = v
			}
		}
	}
	meta, err := json.Marshal(map[string]any{"claudeCode": map[string]any{"options": options, "emitRawSDKMessages": true}})
	if err != nil {
		return nil, o.beyondACP() // text and numbers always can be
	}
	return meta, nil
}

// beyondACP returns the names of the options that were set and that ACP does not have.
func (o Options) beyondACP() []string {
	var names []string
	for name, given := range map[string]bool{
		"systemPrompt": o.SystemPrompt != "", "allowedTools": o.AllowedTools != nil, "disallowedTools": o.DisallowedTools != nil,
		"maxTurns": o.MaxTurns != 0 && o.MaxTurns != DefaultMaxTurns, "resume": o.Resume != "",
	} {
		if given {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Late returns the names of the options that are set and that cannot be changed after a
// session was made.
func (o Options) Late() []string {
	names := o.beyondACP()
	if o.Cwd != "" {
		names = append(names, "cwd")
	}
	if o.MCPServers != nil {
		names = append(names, "mcpServers")
	}
	slices.Sort(names)
	return names
}
