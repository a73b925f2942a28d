package configuration

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"

	"github.com/deskhand/deskhand/agents/folders"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
	"github.com/deskhand/deskhand/internal/configfile"
	"github.com/deskhand/deskhand/internal/userhome"
)

// The parameters are sandbox-agent's.
type (
	// FolderQuery names a folder.
	FolderQuery struct {
		Directory string `query:"directory" required:"true" doc:"Directory of the configuration. A relative path is below the server's working directory; ~ is its home directory"`
	}
	// MCPQuery names an MCP server of a folder.
	MCPQuery struct {
		FolderQuery
		Name string `query:"mcpName" required:"true" doc:"Name of the entry"`
	}
	// SkillsQuery names a set of skills of a folder.
	SkillsQuery struct {
		FolderQuery
		Name string `query:"skillName" required:"true" doc:"Name of the entry"`
	}
)

// The content of an entry is text, so that members that are not known are kept.
type (
	mcpInput struct {
		MCPQuery
		RawBody []byte
	}
	skillsInput struct {
		SkillsQuery
		RawBody []byte
	}
	mcpApproval struct {
		MCPQuery
		Hash string `query:"hash" required:"true" doc:"Hash of the content to approve, from GET /v1/config or the ETag of the entry"`
	}
	skillsApproval struct {
		SkillsQuery
		Hash string `query:"hash" required:"true" doc:"Hash of the content to approve, from GET /v1/config or the ETag of the entry"`
	}
)

type entryOutput struct {
	ETag     string `header:"ETag" doc:"Quoted hash of the entry's content"`
	Approved bool   `header:"Deskhand-Approved" doc:"Whether sessions use the entry; false until an entry that was found in the folder is approved"`
	Body     json.RawMessage
}

// foundEntry is an entry of a folder and whether it counts.
type foundEntry struct {
	Kind     folders.Kind    `json:"kind" enum:"mcp,skills"`
	Name     string          `json:"name"`
	Approved bool            `json:"approved" doc:"Whether sessions use the entry; false until it is approved"`
	Hash     string          `json:"hash" doc:"Hash of the content, to approve it"`
	Content  json.RawMessage `json:"content" doc:"Content of the entry in the file"`
}

type foundOutput struct {
	Body struct {
		Directory string       `json:"directory"`
		Entries   []foundEntry `json:"entries" nullable:"false"`
	}
}

// entries are the entries of one kind: a file of a folder.
type entries struct {
	store *folders.Store
	kind  folders.Kind // of the file, and what a problem calls the resource
	id    string       // in operation ids: getMcpConfig
	param string       // of the query
	noun  string       // in summaries
	media map[string]*huma.MediaType

	publish func(kind string, fields map[string]any)

	// check returns an entry in its normal form: members have their first names and are
	// left out if they are null, and unknown members are unchanged. Its error is a Problem.
	check func(json.RawMessage) (json.RawMessage, error)
}

// Register adds the routes of configuration.
//
// These routes call publish for each change: updated, approved or deleted.
func Register(api *rest.API, store *folders.Store, publish func(kind string, fields map[string]any)) {
	g := rest.Group{API: api, Problem: Problem}
	schemas := api.Huma.OpenAPI().Components.Schemas

	s := newMCPSchemas(schemas)
	mcp := entries{store: store, publish: publish, kind: folders.MCP, id: "McpConfig", param: "mcpName", noun: "MCP server", media: jsonOf(s.any), check: s.check}
	rest.Add(g, mcp.getRoute(), func(ctx context.Context, q *MCPQuery) (*entryOutput, error) {
		return mcp.get(ctx, q.Directory, q.Name)
	})
	rest.Add(g, mcp.putRoute(), func(ctx context.Context, in *mcpInput) (*struct{}, error) {
		return nil, mcp.put(ctx, in.Directory, in.Name, in.RawBody)
	})
	rest.Add(g, mcp.deleteRoute(), func(ctx context.Context, q *MCPQuery) (*struct{}, error) {
		return nil, mcp.delete(ctx, q.Directory, q.Name)
	})
	rest.Add(g, mcp.approveRoute(), func(ctx context.Context, q *mcpApproval) (*struct{}, error) {
		return nil, mcp.approve(ctx, q.Directory, q.Name, q.Hash)
	})

	t := newSkillsSchema(schemas)
	skills := entries{
		store: store, publish: publish, kind: folders.Skills, id: "SkillsConfig", param: "skillName", noun: "set of skills", media: jsonOf(t.schema), check: t.check,
	}
	rest.Add(g, skills.getRoute(), func(ctx context.Context, q *SkillsQuery) (*entryOutput, error) {
		return skills.get(ctx, q.Directory, q.Name)
	})
	rest.Add(g, skills.putRoute(), func(ctx context.Context, in *skillsInput) (*struct{}, error) {
		return nil, skills.put(ctx, in.Directory, in.Name, in.RawBody)
	})
	rest.Add(g, skills.deleteRoute(), func(ctx context.Context, q *SkillsQuery) (*struct{}, error) {
		return nil, skills.delete(ctx, q.Directory, q.Name)
	})
	rest.Add(g, skills.approveRoute(), func(ctx context.Context, q *skillsApproval) (*struct{}, error) {
		return nil, skills.approve(ctx, q.Directory, q.Name, q.Hash)
	})

	rest.Add(g, rest.Route{
		ID: "listConfig", Method: http.MethodGet, Path: "/v1/config", Tag: "Configuration", Summary: "List the configuration of a folder",
		About:  "Lists the MCP servers and skills of the folder, and whether sessions use them. Sessions use entries that were found in the folder only after their approval.",
		Errors: []int{http.StatusBadRequest, http.StatusForbidden},
	}, func(ctx context.Context, q *FolderQuery) (*foundOutput, error) { return list(ctx, store, q.Directory) })
}

// Remedy returns the end of a session's message about an entry that does not count.
func Remedy(dir string, kind folders.Kind, name, hash string) string {
	param := map[folders.Kind]string{folders.MCP: "mcpName", folders.Skills: "skillName"}[kind]
	directory := url.Values{"directory": {dir}}.Encode()
	query := url.Values{param: {name}, "hash": {hash}}.Encode()
	return fmt.Sprintf("read it with GET /v1/config?%s and approve it with POST /v1/config/%s/approve?%s&%s, "+
		"or start the server with --trust-folders %s", directory, kind, directory, query, dir)
}

func list(ctx context.Context, store *folders.Store, directory string) (*foundOutput, error) {
	dir, err := folderOf(directory)
	if err != nil {
		return nil, err
	}
	out := &foundOutput{}
	out.Body.Directory, out.Body.Entries = dir, []foundEntry{}
	for _, kind := range []folders.Kind{folders.MCP, folders.Skills} {
		entries, err := store.Entries(ctx, dir, kind)
		if err != nil {
			return nil, err
		}
		for name, e := range entries {
			out.Body.Entries = append(out.Body.Entries, foundEntry{kind, name, e.Approved, e.Hash, e.Content})
		}
	}
	slices.SortFunc(out.Body.Entries, func(a, b foundEntry) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name)) })
	return out, nil
}

func (e *entries) route(method, prefix, verb string, errors ...int) rest.Route {
	return rest.Route{
		ID: prefix + e.id, Method: method, Path: "/v1/config/" + string(e.kind), Tag: "Configuration",
		Summary: verb + " the configuration of one " + e.noun, Errors: errors,
		About: fmt.Sprintf("The file is DIRECTORY/.sandbox-agent/config/%s.json, which users may edit. "+
			"Unknown members of an entry are kept.", e.kind),
	}
}

func jsonOf(schema *huma.Schema) map[string]*huma.MediaType {
	return map[string]*huma.MediaType{fiber.MIMEApplicationJSON: {Schema: schema}}
}

func (e *entries) getRoute() rest.Route {
	r := e.route(http.MethodGet, "get", "Read", http.StatusBadRequest, http.StatusForbidden, http.StatusNotFound)
	r.Content = e.media
	return r
}

func (e *entries) get(ctx context.Context, directory, name string) (*entryOutput, error) {
	dir, err := e.locate(directory, name)
	if err != nil {
		return nil, err
	}
	entry, err := e.store.Entry(ctx, dir, e.kind, name)
	if err != nil {
		return nil, e.about(name, err)
	}
	normal, err := e.check(entry.Content)
	if p, ok := errors.AsType[*rest.Problem](err); ok { // of the file, not of the request
		reason := strings.TrimPrefix(p.Detail, "invalid request: ")
		err = &configfile.InvalidFileError{Path: configfile.Path(dir, string(e.kind)), Reason: fmt.Errorf("entry %q: %s", name, reason)}
	}
	return &entryOutput{strconv.Quote(entry.Hash), entry.Approved, normal}, err
}

func (e *entries) putRoute() rest.Route {
	r := e.route(http.MethodPut, "set", "Set", http.StatusForbidden, http.StatusGatewayTimeout)
	r.Status, r.Body = http.StatusNoContent, &huma.RequestBody{Required: true, Content: e.media}
	return r
}

func (e *entries) put(ctx context.Context, directory, name string, content json.RawMessage) error {
	dir, err := e.locate(directory, name)
	if err != nil {
		return err
	}
	// huma does this for operations whose body is always JSON.
	media, _, err := mime.ParseMediaType(rest.RequestIn(ctx).Header(fiber.HeaderContentType))
	if err != nil || media != fiber.MIMEApplicationJSON && !strings.HasSuffix(media, "+json") {
		return rest.NotJSON()
	}
	normal, err := e.check(content)
	if err != nil {
		return err
	}
	return e.published("updated", dir, name, e.store.Put(ctx, dir, e.kind, name, normal))
}

// published publishes a change unless err is set, and returns err.
func (e *entries) published(kind, dir, name string, err error) error {
	if err == nil {
		e.publish(kind, map[string]any{"directory": dir, "kind": e.kind, "name": name})
	}
	return err
}

func (e *entries) deleteRoute() rest.Route {
	r := e.route(http.MethodDelete, "delete", "Remove", http.StatusBadRequest, http.StatusForbidden, http.StatusGatewayTimeout)
	r.Status = http.StatusNoContent
	r.About += " Deleting an entry that does not exist succeeds."
	return r
}

func (e *entries) delete(ctx context.Context, directory, name string) error {
	dir, err := e.locate(directory, name)
	if err != nil {
		return err
	}
	return e.published("deleted", dir, name, e.store.Delete(ctx, dir, e.kind, name))
}

func (e *entries) approveRoute() rest.Route {
	r := e.route(http.MethodPost, "approve", "Approve", http.StatusBadRequest, http.StatusForbidden, http.StatusNotFound, http.StatusConflict)
	r.Path += "/approve"
	r.About = "New sessions of the folder use the entry until its content changes. The hash names the approved content; " +
		"if the entry has changed since, it is not approved. Entries that were written with PUT need no approval."
	r.Status = http.StatusNoContent
	return r
}

func (e *entries) approve(ctx context.Context, directory, name, hash string) error {
	dir, err := e.locate(directory, name)
	if err != nil {
		return err
	}
	return e.published("approved", dir, name, e.about(name, e.store.Approve(ctx, dir, e.kind, name, hash)))
}

// about returns the error of a call about an entry.
func (e *entries) about(name string, err error) error {
	if errors.Is(err, folders.ErrNotFound) {
		return rest.Missing(string(e.kind), name)
	}
	return err
}

// locate returns the folder that a query names, and checks the name of the entry.
func (e *entries) locate(directory, name string) (string, error) {
	switch {
	case strings.TrimSpace(name) == "" && strings.TrimSpace(directory) != "":
		return "", missingQuery(e.param)
	case !utf8.ValidString(name):
		return "", rest.InvalidRequest.Problem(fmt.Sprintf("invalid request: %s must be UTF-8", e.param))
	}
	return folderOf(directory)
}

func missingQuery(name string) error {
	return rest.InvalidRequest.Problem(fmt.Sprintf("invalid request: missing required '%s' query parameter", name))
}

// folderOf returns the folder that a query names.
func folderOf(directory string) (string, error) {
	switch {
	case strings.TrimSpace(directory) == "":
		return "", missingQuery("directory")
	case strings.ContainsRune(directory, 0):
		return "", rest.InvalidRequest.Problem("invalid request: directory must not have a NUL byte")
	}
	directory = userhome.Expand(directory)
	if directory == "~" || strings.HasPrefix(directory, "~/") {
		return "", rest.InvalidRequest.Problem("invalid request: directory: this server's user has no home directory; use an absolute path")
	}
	dir, err := filepath.Abs(directory)
	if err != nil {
		return "", fmt.Errorf("config of %s: %w", directory, err)
	}
	return dir, nil
}
