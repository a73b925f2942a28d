package configuration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/deskhand/deskhand/httpapi/internal/rest"
	"github.com/deskhand/deskhand/internal/plainjson"
)

// commandLine is a program, or a program with its first arguments.
type commandLine struct{}

// Schema describes it.
func (commandLine) Schema(huma.Registry) *huma.Schema {
	text := &huma.Schema{Type: huma.TypeString}
	return &huma.Schema{
		Description: "Program, or a list of the program and its first arguments",
		OneOf:       []*huma.Schema{text, {Type: huma.TypeArray, Items: text}},
	}
}

// oauth is how to sign in, or false.
type oauth struct{}

// Schema describes it.
func (oauth) Schema(huma.Registry) *huma.Schema {
	text := &huma.Schema{Type: huma.TypeString}
	return &huma.Schema{
		Description: "OAuth options; false disables OAuth",
		OneOf: []*huma.Schema{
			{Type: huma.TypeObject, Properties: map[string]*huma.Schema{"clientId": text, "clientSecret": text, "scope": text}},
			{Type: huma.TypeBoolean, Enum: []any{false}},
		},
	}
}

// These types only describe entries, which are kept as text so that nothing of
// them is lost.
type (
	mcpLocal struct {
		Type        string            `json:"type" enum:"local,stdio" doc:"local, or its alias stdio"`
		Command     commandLine       `json:"command"`
		Args        []string          `json:"args,omitempty"`
		Env         map[string]string `json:"env,omitempty"`
		Environment map[string]string `json:"environment,omitempty" deprecated:"true" doc:"Alias of env"`
		Enabled     bool              `json:"enabled,omitempty"`
		TimeoutMS   int64             `json:"timeoutMs,omitempty" minimum:"0" doc:"Stored without effect: ACP has no such option, so agents use their own limits"`
		Timeout     int64             `json:"timeout,omitempty" minimum:"0" deprecated:"true" doc:"Alias of timeoutMs"`
		Cwd         string            `json:"cwd,omitempty"`
	}
	mcpRemote struct {
		Type              string            `json:"type" enum:"remote,http" doc:"remote, or its alias http"`
		URL               string            `json:"url"`
		Headers           map[string]string `json:"headers,omitempty"`
		BearerTokenEnvVar string            `json:"bearerTokenEnvVar,omitempty" doc:"Environment variable with the bearer token"`
		EnvHeaders        map[string]string `json:"envHeaders,omitempty" doc:"Headers with the names of the environment variables that hold their values"`
		EnvHTTPHeaders    map[string]string `json:"envHttpHeaders,omitempty" deprecated:"true" doc:"Alias of envHeaders"`
		OAuth             oauth             `json:"oauth,omitzero"`
		Enabled           bool              `json:"enabled,omitempty"`
		TimeoutMS         int64             `json:"timeoutMs,omitempty" minimum:"0" doc:"Stored without effect: ACP has no such option, so agents use their own limits"`
		Timeout           int64             `json:"timeout,omitempty" minimum:"0" deprecated:"true" doc:"Alias of timeoutMs"`
		Transport         string            `json:"transport,omitempty" enum:"http,sse"`
	}
	skillSource struct {
		Type    string   `json:"type" doc:"github, local, git, or another type that the agent supports"`
		Source  string   `json:"source" doc:"Location: owner/repository, a path, or a URL"`
		Skills  []string `json:"skills,omitempty" doc:"Names of the skills to use; defaults to all"`
		Ref     string   `json:"ref,omitempty"`
		Subpath string   `json:"subpath,omitempty"`
	}
	skillsConfig struct {
		Sources []skillSource `json:"sources" nullable:"false"`
	}
)

// What members of entries are called, by their names in lower case, as JSON is
// decoded everywhere else in this server.
var (
	mcpNames = map[string]string{
		"type": "type", "command": "command", "args": "args", "env": "env", "environment": "env", "enabled": "enabled",
		"timeoutms": "timeoutMs", "timeout": "timeoutMs", "cwd": "cwd", "url": "url", "headers": "headers",
		"bearertokenenvvar": "bearerTokenEnvVar", "envheaders": "envHeaders", "envhttpheaders": "envHeaders",
		"oauth": "oauth", "transport": "transport",
	}
	skillsNames = map[string]string{"sources": "sources"}
	sourceNames = map[string]string{"type": "type", "source": "source", "skills": "skills", "ref": "ref", "subpath": "subpath"}
)

// mcpSchemas describe the entries of mcp.json.
type mcpSchemas struct {
	registry                  huma.Registry
	any, typed, local, remote *huma.Schema
}

func newMCPSchemas(r huma.Registry) mcpSchemas {
	m := mcpSchemas{
		registry: r,
		typed: &huma.Schema{Type: huma.TypeObject, Required: []string{"type"}, Properties: map[string]*huma.Schema{
			"type": {Type: huma.TypeString, Enum: []any{"local", "stdio", "remote", "http"}},
		}},
		local:  r.Schema(reflect.TypeFor[mcpLocal](), true, "McpLocal"),
		remote: r.Schema(reflect.TypeFor[mcpRemote](), true, "McpRemote"),
	}
	m.typed.PrecomputeMessages()
	m.typed.Properties["type"].PrecomputeMessages()
	m.any = &huma.Schema{Ref: "#/components/schemas/McpServerConfig"}
	r.Map()["McpServerConfig"] = &huma.Schema{
		OneOf: []*huma.Schema{m.local, m.remote},
		Discriminator: &huma.Discriminator{PropertyName: "type", Mapping: map[string]string{
			"local": m.local.Ref, "stdio": m.local.Ref, "remote": m.remote.Ref, "http": m.remote.Ref,
		}},
	}
	return m
}

// check is entries.check.
func (m mcpSchemas) check(text json.RawMessage) (json.RawMessage, error) {
	var t struct{ Type string }
	if err := rest.DecodeInto(m.registry, m.typed, text, &t); err != nil {
		return nil, err
	}
	schema, typ := m.local, "local"
	if t.Type == "remote" || t.Type == "http" {
		schema, typ = m.remote, "remote"
	}
	var raw json.RawMessage
	if err := rest.DecodeInto(m.registry, schema, text, &raw); err != nil {
		return nil, err
	}
	members, err := normalMembers(raw, "", mcpNames)
	if err != nil {
		return nil, err
	}
	members.set("type", fmt.Appendf(nil, "%q", typ))
	if typ == "local" && members.get("args") == nil {
		members.set("args", json.RawMessage("[]"))
	}
	return members.text(), nil
}

func newSkillsSchema(r huma.Registry) skillsSchema {
	return skillsSchema{r, r.Schema(reflect.TypeFor[skillsConfig](), true, "SkillsConfig")}
}

// skillsSchema describes the entries of skills.json.
type skillsSchema struct {
	registry huma.Registry
	schema   *huma.Schema
}

// check is entries.check.
func (s skillsSchema) check(text json.RawMessage) (json.RawMessage, error) {
	var raw json.RawMessage
	if err := rest.DecodeInto(s.registry, s.schema, text, &raw); err != nil {
		return nil, err
	}
	members, err := normalMembers(raw, "", skillsNames)
	if err != nil {
		return nil, err
	}
	var sources []json.RawMessage
	if err := json.Unmarshal(members.get("sources"), &sources); err != nil {
		return nil, err // cannot be: it was validated
	}
	for i, source := range sources {
		m, err := normalMembers(source, fmt.Sprintf("sources[%d].", i), sourceNames)
		if err != nil {
			return nil, err
		}
		sources[i] = m.text()
	}
	list, err := plainjson.Marshal(sources)
	if err != nil {
		return nil, err
	}
	members.set("sources", list)
	return members.text(), nil
}

// members are the members of a JSON object, in their order, with the text of their values.
type members []member

type member struct {
	name  string
	value json.RawMessage
}

// normalMembers takes an object apart that was validated. Members that names
// lists, by their lower-case names, get the name that it has for them and are
// left out when they are null; all others stay. within begins the names of
// members in problems.
func normalMembers(object json.RawMessage, within string, names map[string]string) (members, error) {
	d := json.NewDecoder(bytes.NewReader(object))
	if _, err := d.Token(); err != nil { // the {
		return nil, err
	}
	var all members
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return nil, err
		}
		m := member{name: fmt.Sprint(token)}
		if err := d.Decode(&m.value); err != nil {
			return nil, err
		}
		if name := names[strings.ToLower(m.name)]; name != "" {
			if string(m.value) == "null" {
				continue
			}
			m.name = name
		}
		if all.get(m.name) != nil {
			k := rest.InvalidRequest
			k.Status = http.StatusUnprocessableEntity
			return nil, rest.Rejected(k, []*huma.ErrorDetail{{Location: "body." + within + m.name, Message: "must be given once, under one of its names"}})
		}
		all = append(all, m)
	}
	return all, nil
}

func (all members) get(name string) json.RawMessage {
	for _, m := range all {
		if m.name == name {
			return m.value
		}
	}
	return nil
}

// set replaces a member, or adds one.
func (all *members) set(name string, value json.RawMessage) {
	for i, m := range *all {
		if m.name == name {
			(*all)[i].value = value
			return
		}
	}
	*all = append(*all, member{name, value})
}

// text is the object again.
func (all members) text() json.RawMessage {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range all {
		if i > 0 {
			b.WriteByte(',')
		}
		name, _ := plainjson.Marshal(m.name) // a string always has a text
		b.Write(name)
		b.WriteByte(':')
		b.Write(m.value)
	}
	b.WriteByte('}')
	return b.Bytes()
}
