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
	"strconv"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"

	"github.com/deskhand/deskhand/agents/folders"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
	"github.com/deskhand/deskhand/internal/configfile"
	"github.com/deskhand/deskhand/internal/userhome"
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
	ETag     string `header:"ETag" doc:"The hash of the entry's content, in quotation marks"`
	Approved bool   `header:"Deskhand-Approved" doc:"false: the entry was found in the folder, and sessions leave it out until it is approved"`
	Body     json.RawMessage
}

// configured is one kind of configuration: a file with named entries.
type configured struct {
	kind   folders.Kind // of the file, and what a problem calls the resource
	id     string       // in operation ids: getMcpConfig
	param  string       // of the query
	noun   string       // in summaries
	schema *huma.Schema

	// check returns an entry in its normal form: no aliases, nothing that is
	// null, all else as it came. Its error is a Problem.
	check func(json.RawMessage) (json.RawMessage, error)
	store *folders.Store
}

func (s *Server) registerConfiguration() {
	schemas := s.rest.Huma.OpenAPI().Components.Schemas
	mcp := newMCPSchemas(schemas)
	servers := configured{
		kind: folders.MCP, id: "McpConfig", param: "mcpName", noun: "MCP server", schema: mcp.any, check: mcp.check, store: s.folders,
	}
	registerEntries[mcpQuery, mcpInput](s, servers)
	registerApproval[mcpApproval](s, servers)
	skills := newSkillsSchema(schemas)
	sets := configured{
		kind: folders.Skills, id: "SkillsConfig", param: "skillName", noun: "set of skills", schema: skills.schema, check: skills.check, store: s.folders,
	}
	registerEntries[skillsQuery, skillsInput](s, sets)
	registerApproval[skillsApproval](s, sets)
	s.registerFolders()
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
	r := rest.Route{Path: "/v1/config/" + string(c.kind), Tag: "Configuration", About: fmt.Sprintf(about, c.kind)}

	r.ID, r.Method, r.Summary = "get"+c.id, http.MethodGet, "Read the configuration of one "+c.noun
	r.Errors, r.Content = []int{http.StatusBadRequest, http.StatusForbidden, http.StatusNotFound}, media
	rest.Add(s.routes, r, func(ctx context.Context, q *Q) (*entryOutput, error) { return c.get(ctx, PQ(q)) })

	r.ID, r.Method, r.Summary = "set"+c.id, http.MethodPut, "Set the configuration of one "+c.noun
	r.Status, r.Errors, r.Content = http.StatusNoContent, []int{http.StatusForbidden, http.StatusGatewayTimeout}, nil
	r.Body = &huma.RequestBody{Required: true, Content: media}
	rest.Add(s.routes, r, func(ctx context.Context, in *I) (*struct{}, error) { return nil, c.put(ctx, PI(in)) })

	r.ID, r.Method, r.Summary = "delete"+c.id, http.MethodDelete, "Remove the configuration of one "+c.noun
	r.About += " An entry that does not exist is no error."
	r.Errors, r.Body = []int{http.StatusBadRequest, http.StatusForbidden, http.StatusGatewayTimeout}, nil
	rest.Add(s.routes, r, func(ctx context.Context, q *Q) (*struct{}, error) { return nil, c.delete(ctx, PQ(q)) })
}

func (c configured) get(ctx context.Context, q entryQuery) (*entryOutput, error) {
	dir, name, err := c.locate(q)
	if err != nil {
		return nil, err
	}
	entry, err := c.store.Entry(ctx, dir, c.kind, name)
	if errors.Is(err, folders.ErrNotFound) {
		return nil, rest.Missing(string(c.kind), name)
	}
	if err != nil {
		return nil, configProblem(err)
	}
	normal, err := c.normal(dir, name, entry.Content)
	if err != nil {
		return nil, err
	}
	return &entryOutput{strconv.Quote(entry.Hash), entry.Approved, normal}, nil
}

// normal is check for an entry of a file.
func (c configured) normal(dir, name string, content json.RawMessage) (json.RawMessage, error) {
	normal, err := c.check(content)
	if p, ok := errors.AsType[*rest.Problem](err); ok {
		// Somebody else has written it, so it is the file that is wrong.
		reason := strings.TrimPrefix(p.Detail, "invalid request: ")
		file := configfile.Path(dir, string(c.kind))
		err = configProblem(&configfile.InvalidFileError{Path: file, Reason: fmt.Errorf("entry %q: %s", name, reason)})
	}
	return normal, err
}

func (c configured) put(ctx context.Context, in entryInput) error {
	dir, name, err := c.locate(in)
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
	return configProblem(c.store.Put(ctx, dir, c.kind, name, entry))
}

func (c configured) delete(ctx context.Context, q entryQuery) error {
	dir, name, err := c.locate(q)
	if err != nil {
		return err
	}
	return configProblem(c.store.Delete(ctx, dir, c.kind, name))
}

// mustBeJSON is what huma does for operations whose body is always JSON.
func mustBeJSON(contentType string) error {
	media, _, err := mime.ParseMediaType(contentType)
	if err != nil || media != fiber.MIMEApplicationJSON && !strings.HasSuffix(media, "+json") {
		return rest.NotJSON()
	}
	return nil
}

// locate returns the folder and the name of an entry.
func (c configured) locate(q entryQuery) (dir, name string, err error) {
	directory, name := q.entry()
	switch {
	case strings.TrimSpace(name) == "" && strings.TrimSpace(directory) != "":
		return "", "", missingQuery(c.param)
	case !utf8.ValidString(name):
		return "", "", rest.InvalidRequest.Problem(fmt.Sprintf("invalid request: %s must be UTF-8", c.param))
	}
	dir, err = folderOf(directory)
	return dir, name, err
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

// configProblem decides what a client is told about an error of package
// configfile.
func configProblem(err error) error {
	var invalid *configfile.InvalidFileError
	var path *fs.PathError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &invalid):
		return rest.InvalidRequest.Problem("invalid request: " + invalid.Error() + "; repair or remove that file")
	case errors.Is(err, configfile.ErrTooLarge):
		return rest.PayloadTooLarge.Problem("invalid request: " + err.Error())
	case errors.Is(err, configfile.ErrLocked):
		return rest.TimedOut.Problem("timeout: "+err.Error()).With("details", map[string]any{"message": err.Error()})
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return rest.PermissionDenied.Problem("permission denied: " + err.Error())
	case NoSpace(err):
		return fullProblem(err)
	case errors.As(err, &path) && (errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ENAMETOOLONG) || errors.Is(err, syscall.ELOOP)):
		return rest.InvalidRequest.Problem("invalid request: " + err.Error())
	}
	return err
}
