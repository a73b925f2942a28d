package opencomputer

import (
	"cmp"
	"encoding/json"
	"maps"
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
	Agent           string                     `json:"agent,omitempty" doc:"Defaults to claude"`
	Model           string                     `json:"model,omitempty"`
	SystemPrompt    string                     `json:"systemPrompt,omitempty"`
	AllowedTools    []string                   `json:"allowedTools,omitempty" nullable:"false"`
	DisallowedTools []string                   `json:"disallowedTools,omitempty" nullable:"false"`
	PermissionMode  string                     `json:"permissionMode,omitempty" doc:"Defaults to bypassPermissions"`
	MaxTurns        int                        `json:"maxTurns,omitempty" minimum:"0" doc:"Defaults to 50"`
	Cwd             string                     `json:"cwd,omitempty" doc:"Absolute path; defaults to the server's working directory"`
	MCPServers      map[string]json.RawMessage `json:"mcpServers,omitempty"`
	Resume          string                     `json:"resume,omitempty" doc:"Agent's id of the session to resume"`
}

// WithDefaults returns the options with defaults in place of zero fields. Only DefaultAgent gets
// DefaultModel. Cwd has no default here.
func (o Options) WithDefaults() Options {
	o.Agent = cmp.Or(o.Agent, DefaultAgent)
	if o.Agent == DefaultAgent {
		o.Model = cmp.Or(o.Model, DefaultModel)
	}
	o.PermissionMode = cmp.Or(o.PermissionMode, DefaultPermissionMode)
	o.MaxTurns = cmp.Or(o.MaxTurns, DefaultMaxTurns)
	return o
}

// claudeOptions are the options in _meta for Claude's adapter.
type claudeOptions struct {
	AllowedTools    []string `json:"allowedTools,omitzero"`
	DisallowedTools []string `json:"disallowedTools,omitzero"`
	MaxTurns        int      `json:"maxTurns"`
	Resume          string   `json:"resume,omitempty"`
	SystemPrompt    string   `json:"systemPrompt,omitempty"`
}

// MetaOf returns the _meta of session/new for Claude's adapter. It has the options that ACP
// does not have, and requests the messages of the SDK. For other agents, and for an empty Agent,
// meta is nil, and unsupported names the options that they do not get: call
// [Options.WithDefaults] first.
func MetaOf(o Options) (meta json.RawMessage, unsupported []string) {
	if o.Agent != DefaultAgent {
		return nil, o.beyondACP()
	}
	options := claudeOptions{o.AllowedTools, o.DisallowedTools, o.MaxTurns, o.Resume, o.SystemPrompt}
	meta, _ = json.Marshal(object{"claudeCode": object{"options": options, "emitRawSDKMessages": true}}) // text and numbers
	return meta, nil
}

// beyondACP returns the names of the options that were set and that ACP does not have.
func (o Options) beyondACP() []string {
	return names(map[string]bool{
		"systemPrompt": o.SystemPrompt != "", "allowedTools": o.AllowedTools != nil, "disallowedTools": o.DisallowedTools != nil,
		"maxTurns": o.MaxTurns != 0 && o.MaxTurns != DefaultMaxTurns, "resume": o.Resume != "",
	})
}

// names returns the names that are set.
func names(set map[string]bool) []string {
	maps.DeleteFunc(set, func(_ string, given bool) bool { return !given })
	return slices.Sorted(maps.Keys(set))
}

// Late returns the names of the options that are set and that cannot be changed after a
// session was made.
func (o Options) Late() []string {
	late := append(o.beyondACP(), names(map[string]bool{"cwd": o.Cwd != "", "mcpServers": o.MCPServers != nil})...)
	slices.Sort(late)
	return late
}
