package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"

	"github.com/deskhand/deskhand/internal/configfile"
)

// The queries that name an entry, as sandbox-agent has them.
type (
	mcpQuery struct {
		Directory string `query:"directory" required:"true" doc:"Whose configuration it is. Relative ones are below the server's working directory, ~ is its home directory"`
		Name      string `query:"mcpName" required:"true" doc:"Name of the entry"`
	}
	skillsQuery struct {
		Directory string `query:"directory" required:"true" doc:"Whose configuration it is. Relative ones are below the server's working directory, ~ is its home directory"`
		Name      string `query:"skillName" required:"true" doc:"Name of the entry"`
	}
)

func (q *mcpQuery) entry() (directory, name string)    { return q.Directory, q.Name }
func (q *skillsQuery) entry() (directory, name string) { return q.Directory, q.Name }

// entryBody is the content of an entry, as text: what is not known of it is kept.
type entryBody struct {
	RawBody     []byte
	contentType string
}

// Resolve keeps the body's type.
func (b *entryBody) Resolve(ctx huma.Context) []error {
	b.contentType = ctx.Header(fiber.HeaderContentType)
	return nil
}

func (b *entryBody) content() (json.RawMessage, error) { return b.RawBody, mustBeJSON(b.contentType) }

// What is embedded: huma sees embedded fields only under an exported name.
type (
	// MCPQuery is mcpQuery.
	MCPQuery = mcpQuery
	// SkillsQuery is skillsQuery.
	SkillsQuery = skillsQuery
	// EntryBody is entryBody.
	EntryBody = entryBody
)

type mcpInput struct {
	MCPQuery
	EntryBody
}

type skillsInput struct {
	SkillsQuery
	EntryBody
}

// entryQuery names an entry, entryInput has its content as well.
type (
	entryQuery interface {
		entry() (directory, name string)
	}
	entryInput interface {
		entryQuery
		content() (json.RawMessage, error)
	}
)

type entryOutput struct {
	Body json.RawMessage
}

// configured is one kind of configuration: a file with named entries.
type configured struct {
	kind   string // of the file, and what a problem calls the resource
	id     string // in operation ids: getMcpConfig
	param  string // of the query
	noun   string // in summaries
	schema *huma.Schema

	// check returns an entry in its normal form: no aliases, nothing that is
	// null, all else as it came. Its error is a Problem.
	check func(json.RawMessage) (json.RawMessage, error)
	store *configfile.Store
}

func (s *Server) registerConfiguration() {
	store := new(configfile.Store)
	schemas := s.api.OpenAPI().Components.Schemas
	mcp := newMCPSchemas(schemas)
	registerEntries[mcpQuery, mcpInput](s, configured{
		kind: "mcp", id: "McpConfig", param: "mcpName", noun: "MCP server", schema: mcp.any, check: mcp.check, store: store,
	})
	skills := newSkillsSchema(schemas)
	registerEntries[skillsQuery, skillsInput](s, configured{
		kind: "skills", id: "SkillsConfig", param: "skillName", noun: "set of skills", schema: skills.schema, check: skills.check, store: store,
	})
}

// registerEntries adds the routes of one kind: Q names an entry, I has its
// content as well.
func registerEntries[Q, I any, PQ interface {
	*Q
	entryQuery
}, PI interface {
	*I
	entryInput
}](s *Server, c configured,
) {
	const about = "The file is DIRECTORY/.sandbox-agent/config/%s.json, which people may edit as well. " +
		"Members of an entry that this server does not know are kept."
	media := map[string]*huma.MediaType{fiber.MIMEApplicationJSON: {Schema: c.schema}}
	r := route{path: "/v1/config/" + c.kind, tag: "Configuration", about: fmt.Sprintf(about, c.kind)}

	r.id, r.method, r.summary = "get"+c.id, http.MethodGet, "Read the configuration of one "+c.noun
	r.errors, r.content = []int{http.StatusBadRequest, http.StatusForbidden, http.StatusNotFound}, media
	add(s, r, func(_ context.Context, q *Q) (*entryOutput, error) { return c.get(PQ(q)) })

	r.id, r.method, r.summary = "set"+c.id, http.MethodPut, "Set the configuration of one "+c.noun
	r.status, r.errors, r.content = http.StatusNoContent, []int{http.StatusForbidden, http.StatusGatewayTimeout}, nil
	r.body = &huma.RequestBody{Required: true, Content: media}
	add(s, r, func(ctx context.Context, in *I) (*struct{}, error) { return nil, c.put(ctx, PI(in)) })

	r.id, r.method, r.summary = "delete"+c.id, http.MethodDelete, "Remove the configuration of one "+c.noun
	r.about += " An entry that does not exist is no error."
	r.errors, r.body = []int{http.StatusBadRequest, http.StatusForbidden, http.StatusGatewayTimeout}, nil
	add(s, r, func(ctx context.Context, q *Q) (*struct{}, error) { return nil, c.delete(ctx, PQ(q)) })
}

func (c configured) get(q entryQuery) (*entryOutput, error) {
	file, name, err := c.locate(q)
	if err != nil {
		return nil, err
	}
	entry, err := c.store.Get(file, name)
	if errors.Is(err, configfile.ErrNotFound) {
		return nil, missing(c.kind, name)
	}
	if err != nil {
		return nil, configProblem(err)
	}
	normal, err := c.check(entry)
	if p, ok := errors.AsType[*Problem](err); ok {
		// Somebody else has written it, so it is the file that is wrong.
		reason := strings.TrimPrefix(p.Detail, "invalid request: ")
		err = configProblem(&configfile.InvalidFileError{Path: file, Reason: fmt.Errorf("entry %q: %s", name, reason)})
	}
	if err != nil {
		return nil, err
	}
	return &entryOutput{normal}, nil
}

func (c configured) put(ctx context.Context, in entryInput) error {
	file, name, err := c.locate(in)
	if err != nil {
		return err
	}
	entry, err := in.content()
	if err != nil {
		return err
	}
	if entry, err = c.check(entry); err != nil {
		return err
	}
	return configProblem(c.store.Put(ctx, file, name, entry))
}

func (c configured) delete(ctx context.Context, q entryQuery) error {
	file, name, err := c.locate(q)
	if err != nil {
		return err
	}
	return configProblem(c.store.Delete(ctx, file, name))
}

// mustBeJSON is what huma does for operations whose body is always JSON.
func mustBeJSON(contentType string) error {
	media, _, err := mime.ParseMediaType(contentType)
	if err != nil || media != fiber.MIMEApplicationJSON && !strings.HasSuffix(media, "+json") {
		return notJSON()
	}
	return nil
}

// locate is the file and the name of an entry.
func (c configured) locate(q entryQuery) (file, name string, err error) {
	directory, name := q.entry()
	refuse := func(format string, args ...any) (string, string, error) {
		return "", "", invalidRequest.problem("invalid request: " + fmt.Sprintf(format, args...))
	}
	for _, p := range []struct{ name, value string }{{"directory", directory}, {c.param, name}} {
		if strings.TrimSpace(p.value) == "" {
			return refuse("missing required '%s' query parameter", p.name)
		}
	}
	switch {
	case !utf8.ValidString(name):
		return refuse("%s must be UTF-8", c.param)
	case strings.ContainsRune(directory, 0):
		return refuse("directory must not have a NUL byte")
	}
	directory = expandHome(directory)
	if directory == "~" || strings.HasPrefix(directory, "~/") {
		return refuse("directory: this server's user has no home directory; use an absolute path")
	}
	if directory, err = filepath.Abs(directory); err != nil {
		return "", "", fmt.Errorf("config of %s: %w", directory, err)
	}
	return configfile.Path(directory, c.kind), name, nil
}

// configProblem decides what a client is told about an error of package
// configfile.
func configProblem(err error) error {
	var invalid *configfile.InvalidFileError
	var path *fs.PathError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &invalid):
		return invalidRequest.problem("invalid request: " + invalid.Error() + "; repair or remove that file")
	case errors.Is(err, configfile.ErrTooLarge):
		return payloadTooLarge.problem("invalid request: " + err.Error())
	case errors.Is(err, configfile.ErrLocked):
		return timedOut.problem("timeout: "+err.Error()).with("details", map[string]any{"message": err.Error()})
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return permissionDenied.problem("permission denied: " + err.Error())
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return noSpace.problem("stream error: " + err.Error())
	case errors.As(err, &path) && (errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ENAMETOOLONG) || errors.Is(err, syscall.ELOOP)):
		return invalidRequest.problem("invalid request: " + err.Error())
	}
	return err
}
