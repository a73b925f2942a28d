package apiclient

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// document is the part of an OpenAPI 3.1 document
// (https://spec.openapis.org/oas/v3.1.1) that commands are made of.
type document struct {
	operations []*operation // sorted by path, then method
	schemas    map[string]*schema
}

// operation is one method of one path, or a report.
type operation struct {
	Summary     string // one line without a full stop
	Description string
	Tags        []string
	Parameters  []parameter
	RequestBody *requestBody
	Responses   map[string]response // by status

	method, path string   // "GET", "/v1/processes/{id}"
	words        []string // the command; empty if only its path calls it
	alias        bool     // another operation is the same under its usual words
	report       *Report  // nil for a route
	doc          *document
}

type parameter struct {
	Name        string
	In          string
	Description string
	Required    bool
	Schema      *schema
}

type requestBody struct {
	Content  map[string]struct{ Schema *schema } // by media type
	Required bool
}

type response struct {
	Content map[string]struct{} // by media type
}

// schema is the part of a JSON schema that decides how a value is written on a
// command line.
type schema struct {
	Ref         string `json:"$ref"`
	Type        types
	Description string
	Default     json.RawMessage
	Enum        []json.RawMessage
	Properties  map[string]*schema
	Required    []string
	Items       *schema
	OneOf       []*schema
	Format      string
	Argument    bool     `json:"x-argument"` // also an argument if it is not required
	Additional  anything `json:"additionalProperties"`
}

// types is one name of a type, or a list of names.
type types []string

// UnmarshalJSON reads a name or a list.
func (t *types) UnmarshalJSON(text []byte) error {
	if text[0] == '[' {
		return json.Unmarshal(text, (*[]string)(t))
	}
	*t = types{""}
	return json.Unmarshal(text, &(*t)[0])
}

// anything is a schema or a boolean, of which only the schema is kept.
type anything struct{ schema *schema }

// UnmarshalJSON reads a schema or a boolean.
func (a *anything) UnmarshalJSON(text []byte) error {
	if text[0] != '{' {
		return nil
	}
	return json.Unmarshal(text, &a.schema)
}

// methods are the methods of operations, in the order of lists.
var methods = []string{"GET", "POST", "PUT", "PATCH", "DELETE"}

// parse reads a document, adds the reports and names all operations.
func parse(text []byte, reports []Report) (*document, error) {
	var raw struct {
		Paths      map[string]map[string]*operation
		Components struct{ Schemas map[string]*schema }
	}
	if err := json.Unmarshal(text, &raw); err != nil {
		return nil, fmt.Errorf("OpenAPI document: %w", err)
	}
	d := &document{schemas: raw.Components.Schemas}
	for _, path := range slices.Sorted(maps.Keys(raw.Paths)) {
		for _, method := range methods {
			if op := raw.Paths[path][strings.ToLower(method)]; op != nil {
				op.method, op.path, op.doc = method, path, d
				d.operations = append(d.operations, op)
			}
		}
	}
	if len(d.operations) == 0 {
		return nil, errors.New("OpenAPI document: it has no operation")
	}
	d.name()
	for i, p := range reports {
		d.operations = append(d.operations, &operation{
			Summary: p.Summary, Description: p.About, Tags: []string{p.Tag},
			method: "GET", path: p.Path, words: p.Words, report: &reports[i], doc: d,
		})
	}
	return d, nil
}

// resolve follows a reference to its schema. A missing schema allows anything.
func (d *document) resolve(s *schema) *schema {
	if s != nil && s.Ref != "" {
		s = d.schemas[s.Ref[strings.LastIndexByte(s.Ref, '/')+1:]]
	}
	if s == nil {
		return &schema{}
	}
	return s
}

// jsonBody returns the schema of the operation's JSON body, or nil if it takes none.
func (op *operation) jsonBody() *schema {
	if op.RequestBody == nil {
		return nil
	}
	if body, ok := op.RequestBody.Content[jsonType]; ok {
		return op.doc.resolve(body.Schema)
	}
	return nil
}

// rawBodies returns the media types, other than JSON, of bodies that the operation
// takes, sorted.
func (op *operation) rawBodies() []string {
	if op.RequestBody == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(op.RequestBody.Content)), isJSON)
}

// rawType returns the media type of --data: the first one that the operation takes
// which says more than octet-stream. op may be nil.
func (op *operation) rawType() string {
	if op != nil {
		for _, kind := range op.rawBodies() {
			if kind != octetStream {
				return kind
			}
		}
	}
	return octetStream
}

// answerTypes returns the media types of successful answers, sorted.
func (op *operation) answerTypes() []string {
	var list []string
	for status, r := range op.Responses {
		if strings.HasPrefix(status, "2") {
			list = slices.AppendSeq(list, maps.Keys(r.Content))
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// upgrades reports whether the operation becomes a WebSocket.
func (op *operation) upgrades() bool {
	_, ok := op.Responses["101"]
	return ok
}

// tag returns the heading that lists show the operation under.
func (op *operation) tag() string {
	if len(op.Tags) == 0 {
		return "Other"
	}
	return op.Tags[0]
}
