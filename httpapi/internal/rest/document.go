package rest

import (
	"io"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"

	"github.com/deskhand/deskhand/internal/plainjson"
)

// documentConfig configures huma: no pages of its own, unknown members allowed, null
// treated as absent.
func documentConfig(c Config) huma.Config {
	jsonFormat := huma.Format{
		Marshal: func(w io.Writer, v any) error {
			text, err := plainjson.Marshal(v)
			if err != nil {
				return err
			}
			_, err = w.Write(text)
			return err
		},
		Unmarshal: DecodeJSON,
	}
	cfg := huma.DefaultConfig(c.Title, c.Version)
	cfg.Info.Description = c.Description
	cfg.Servers = []*huma.Server{{URL: "/", Description: "The server of this document"}}
	cfg.Tags = c.Tags
	cfg.Info.License = &huma.License{Name: "Apache-2.0", Identifier: "Apache-2.0"}
	cfg.OpenAPIPath, cfg.DocsPath, cfg.SchemasPath, cfg.CreateHooks = "", "", "", nil
	cfg.AllowAdditionalPropertiesByDefault = true
	cfg.Formats = map[string]huma.Format{fiber.MIMEApplicationJSON: jsonFormat, "json": jsonFormat}
	cfg.Transformers = []huma.Transformer{asProblem}
	cfg.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		bearerScheme: {Type: "http", Scheme: "bearer", Description: "The token that the server printed or was given."},
		QueryScheme: {
			Type: "apiKey", In: "query", Name: "access_token",
			Description: "The same token, for requests in which a browser cannot send headers.",
		},
	}
	return cfg
}

// EventContent describes an answer that is an event stream.
func EventContent() map[string]*huma.MediaType {
	return map[string]*huma.MediaType{EventStream: {Schema: &huma.Schema{Type: huma.TypeString}}}
}

// problem describes the members that problems have.
type problem struct {
	Type    string `json:"type" doc:"URN of the error type, which ends with its code" example:"urn:sandbox-agent:error:desktop_invalid_action"`
	Title   string `json:"title" doc:"Short description; the same for every error of this type"`
	Status  int    `json:"status" doc:"The HTTP status"`
	Detail  string `json:"detail,omitempty" doc:"What went wrong, and what to do about it"`
	Code    string `json:"code,omitempty" doc:"Error code; only for errors of desktops"`
	Field   string `json:"field,omitempty" doc:"Argument that was rejected"`
	Details any    `json:"details,omitempty" doc:"More information for programs"`
}

// describeProblems documents the error answers of an operation.
func (a *API) describeProblems(op *huma.Operation, statuses []int) {
	schema := a.Huma.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[problem](), true, "Problem")
	content := map[string]*huma.MediaType{ProblemType: {Schema: schema}}
	for _, status := range statuses {
		op.Responses[strconv.Itoa(status)] = &huma.Response{Description: http.StatusText(status), Content: content}
	}
	op.Responses["default"] = &huma.Response{Description: "Any other error", Content: content}
}

// FinishDocument documents the parts that huma does not see, after all operations are
// registered.
func (a *API) FinishDocument() {
	doc := a.Huma.OpenAPI()
	for path, item := range doc.Paths {
		for _, op := range Operations(item) {
			finishOperation(doc.Components.Schemas, a.cfg.PathParams, path, op)
		}
	}
	// huma registers its own error type, which is never sent.
	for _, name := range []string{"ErrorModel", "ErrorDetail"} {
		delete(doc.Components.Schemas.Map(), name)
	}
}

// dropAnswers frees the descriptions of answers, which only the document
// needs.
func (a *API) dropAnswers() {
	for _, item := range a.Huma.OpenAPI().Paths {
		for _, op := range Operations(item) {
			op.Responses = nil
		}
	}
}

// Operations returns the operations of a path by method.
func Operations(item *huma.PathItem) map[string]*huma.Operation {
	all := map[string]*huma.Operation{
		http.MethodGet: item.Get, http.MethodPost: item.Post, http.MethodPut: item.Put,
		http.MethodPatch: item.Patch, http.MethodDelete: item.Delete,
	}
	maps.DeleteFunc(all, func(_ string, op *huma.Operation) bool { return op == nil })
	return all
}

// finishOperation documents what the operation's Go types do not show.
func finishOperation(schemas huma.Registry, params map[string]*huma.Param, path string, op *huma.Operation) {
	// An input may have a parameter that only some paths of its routes have.
	op.Parameters = slices.DeleteFunc(op.Parameters, func(p *huma.Param) bool {
		return p.In == "path" && (params[p.Name] != nil || !strings.Contains(path, "{"+p.Name+"}"))
	})
	for name, param := range params {
		if strings.Contains(path, "{"+name+"}") {
			op.Parameters = append([]*huma.Param{param}, op.Parameters...)
		}
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

// acceptsEmpty reports whether a body may be left out, which counts as {}.
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
