package httpapi

import (
	"io"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"

	"github.com/deskhand/deskhand/desktop/fleet"
)

// apiVersion is the version of the wire format, as in the document.
const apiVersion = "0.4.2"

// apiConfig sets huma up: none of its own pages, unknown members allowed, null
// as good as absent.
func apiConfig() huma.Config {
	jsonFormat := huma.Format{
		Marshal: func(w io.Writer, v any) error {
			text, err := marshalJSON(v)
			if err != nil {
				return err
			}
			_, err = w.Write(text)
			return err
		},
		Unmarshal: decodeJSON,
	}
	cfg := huma.DefaultConfig("deskhand", apiVersion)
	cfg.Info.Description = "Virtual Linux desktops that programs and agents can see and use. " +
		"Compatible with sandbox-agent " + apiVersion + ". Everything below /v1/desktop is also below " +
		"/v1/desktops/{desktop}, where the desktop called main is the one of /v1/desktop."
	cfg.Servers = []*huma.Server{{URL: "/", Description: "The server that has this document"}}
	cfg.Tags = tags()
	cfg.Info.License = &huma.License{Name: "Apache-2.0", Identifier: "Apache-2.0"}
	cfg.OpenAPIPath, cfg.DocsPath, cfg.SchemasPath, cfg.CreateHooks = "", "", "", nil
	cfg.AllowAdditionalPropertiesByDefault = true
	cfg.Formats = map[string]huma.Format{fiber.MIMEApplicationJSON: jsonFormat, "json": jsonFormat}
	cfg.Transformers = []huma.Transformer{asProblem}
	cfg.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		bearerScheme: {Type: "http", Scheme: "bearer", Description: "The token that the server printed or was given."},
		queryScheme: {
			Type: "apiKey", In: "query", Name: "access_token",
			Description: "The same token, where a browser cannot send headers.",
		},
	}
	return cfg
}

// tags are the groups of operations, as documentation lists them.
func tags() []*huma.Tag {
	var all []*huma.Tag
	for _, t := range [][2]string{
		{"Server", "The server: whether it answers, and its document"},
		{"Tokens", "Tokens for others, with a scope and an end"},
		{"Desktop lifecycle", "Desktops: start, stop, status"},
		{"Screenshots", "Pictures of a desktop"},
		{"Mouse", "The pointer and its buttons"},
		{"Keyboard", "Keys and text"},
		{"Clipboard", "Both selections, text and images"},
		{"Windows", "Windows of a desktop"},
		{"Programs", "Programs that are launched on a desktop"},
		{"Display", "The display and its size"},
		{"Events", "What happens on a desktop, as a stream"},
		{"Live view", "Watching a desktop, by WebRTC, WHEP or WebSocket"},
		{"Control", "Who may act on a desktop"},
		{"Recordings", "Recordings, their timelines, captions and clips"},
		{"Processes", "Programs without a desktop, their output, input and terminals"},
		{"Files", "Files and directories"},
		{"Configuration", "MCP servers and skills of a directory"},
		{"Agents", "Agents that can be installed, and desktops as their tools"},
		{"Agents (ACP)", "The Agent Client Protocol over HTTP"},
		{"Sessions", "Sessions of agents, their messages and events"},
		{"OpenComputer", "The API of OpenComputer"},
	} {
		all = append(all, &huma.Tag{Name: t[0], Description: t[1]})
	}
	return all
}

// problem describes the members that problems have.
type problem struct {
	Type    string `json:"type" doc:"URN that ends in the code of this sort of error" example:"urn:sandbox-agent:error:desktop_invalid_action"`
	Title   string `json:"title" doc:"The same for every error of this type"`
	Status  int    `json:"status" doc:"The HTTP status"`
	Detail  string `json:"detail,omitempty" doc:"What went wrong this time, and what to do about it"`
	Code    string `json:"code,omitempty" doc:"The code again, of errors of desktops"`
	Field   string `json:"field,omitempty" doc:"The argument that was refused"`
	Details any    `json:"details,omitempty" doc:"More about it, for programs"`
}

// describeProblems documents the error answers of an operation.
func (s *Server) describeProblems(op *huma.Operation, statuses []int) {
	schema := s.api.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[problem](), true, "Problem")
	content := map[string]*huma.MediaType{problemType: {Schema: schema}}
	for _, status := range statuses {
		op.Responses[strconv.Itoa(status)] = &huma.Response{Description: http.StatusText(status), Content: content}
	}
	op.Responses["default"] = &huma.Response{Description: "Any other error", Content: content}
}

// finishDocument documents what huma does not see, once all operations are
// registered.
func (s *Server) finishDocument() {
	doc := s.api.OpenAPI()
	for path, item := range doc.Paths {
		for _, op := range operations(item) {
			finishOperation(doc.Components.Schemas, path, op)
		}
	}
	// huma registers its own error type, which is never sent.
	for _, name := range []string{"ErrorModel", "ErrorDetail"} {
		delete(doc.Components.Schemas.Map(), name)
	}
}

// dropAnswers lets go of the descriptions of answers, which only the document
// needs.
func (s *Server) dropAnswers() {
	for _, item := range s.api.OpenAPI().Paths {
		for _, op := range operations(item) {
			op.Responses = nil
		}
	}
}

// operations are those of a path, by method.
func operations(item *huma.PathItem) map[string]*huma.Operation {
	all := map[string]*huma.Operation{
		http.MethodGet: item.Get, http.MethodPost: item.Post, http.MethodPut: item.Put,
		http.MethodPatch: item.Patch, http.MethodDelete: item.Delete,
	}
	maps.DeleteFunc(all, func(_ string, op *huma.Operation) bool { return op == nil })
	return all
}

// finishOperation documents what the operation's Go types do not show.
func finishOperation(schemas huma.Registry, path string, op *huma.Operation) {
	if len(path) >= len(anyPath) && path[:len(anyPath)] == anyPath &&
		!slices.ContainsFunc(op.Parameters, func(p *huma.Param) bool { return p.Name == desktopParam }) {
		op.Parameters = append([]*huma.Param{{
			Name: desktopParam, In: "path", Required: true, Description: "The desktop's id", Example: mainDesktop,
			Schema: &huma.Schema{Type: huma.TypeString, Pattern: fleet.IDPattern},
		}}, op.Parameters...)
	}
	if op.RequestBody != nil {
		for _, status := range []int{
			http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity,
			http.StatusServiceUnavailable,
		} {
			op.Responses[strconv.Itoa(status)] = &huma.Response{Description: http.StatusText(status), Content: op.Responses["default"].Content}
		}
		op.RequestBody.Required = !acceptsEmpty(schemas, op.RequestBody)
	}
}

// acceptsEmpty says whether a body may be left out, which counts as {}.
func acceptsEmpty(schemas huma.Registry, body *huma.RequestBody) bool {
	media := body.Content[fiber.MIMEApplicationJSON]
	if media == nil || media.Schema == nil {
		return false
	}
	schema := media.Schema
	if schema.Ref != "" {
		schema = schemas.SchemaFromRef(schema.Ref)
	}
	return len(schema.Required) == 0
}

// serveDocument answers with the OpenAPI document.
func serveDocument(c *fiber.Ctx) error {
	c.Set(fiber.HeaderContentType, "application/openapi+json;version=3.1")
	c.Response().SetBodyRaw(committedDocument)
	return nil
}
