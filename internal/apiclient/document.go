package apiclient

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Document is what the commands are made of: the part of an OpenAPI 3.1
// document (https://spec.openapis.org/oas/v3.1.1) that says what can be called.
type Document struct {
	operations []*Operation // sorted by path, then method
	schemas    map[string]*schema
}

// Operation is one method of one path.
type Operation struct {
	// Method is in capitals, Path a template as /v1/processes/{id}.
	Method, Path string
	// Words name the command. Two operations never share them; none are those of
	// an operation that only its path names.
	Words []string
	// Tag groups operations. Summary is one line without a full stop.
	Tag, Summary, Description string

	parameters []*parameter
	body       *requestBody
	answers    map[string]answer // by status
	doc        *Document
}

type parameter struct {
	Name        string  `json:"name"`
	In          string  `json:"in"`
	Description string  `json:"description"`
	Required    bool    `json:"required"`
	Explode     *bool   `json:"explode"`
	Schema      *schema `json:"schema"`
}

type requestBody struct {
	Content     map[string]media `json:"content"`
	Description string           `json:"description"`
	Required    bool             `json:"required"`
}

type media struct {
	Schema *schema `json:"schema"`
}

type answer struct {
	Content map[string]struct{} `json:"content"`
}

// schema is the part of a JSON schema that a command line can make use of.
type schema struct {
	Ref         string             `json:"$ref"`
	Type        types              `json:"type"`
	Description string             `json:"description"`
	Default     json.RawMessage    `json:"default"`
	Enum        []json.RawMessage  `json:"enum"`
	Examples    []json.RawMessage  `json:"examples"`
	Properties  map[string]*schema `json:"properties"`
	Required    []string           `json:"required"`
	Items       *schema            `json:"items"`
	Additional  additional         `json:"additionalProperties"`
	AnyOf       []*schema          `json:"anyOf"`
	OneOf       []*schema          `json:"oneOf"`
	AllOf       []*schema          `json:"allOf"`
}

// types are one name, or a list of them.
type types []string

func (t *types) UnmarshalJSON(text []byte) error {
	if len(text) > 0 && text[0] == '[' {
		return json.Unmarshal(text, (*[]string)(t))
	}
	var one string
	err := json.Unmarshal(text, &one)
	*t = types{one}
	return err
}

// additional is what members may be there beside the named ones: a schema, or
// whether there may be any.
type additional struct{ schema *schema }

func (a *additional) UnmarshalJSON(text []byte) error {
	if len(text) > 0 && text[0] == '{' {
		return json.Unmarshal(text, &a.schema)
	}
	return nil
}

type operationObject struct {
	Summary     string            `json:"summary"`
	Description string            `json:"description"`
	Tags        []string          `json:"tags"`
	Parameters  []*parameter      `json:"parameters"`
	RequestBody *requestBody      `json:"requestBody"`
	Responses   map[string]answer `json:"responses"`
}

type pathItem struct {
	Get        *operationObject `json:"get"`
	Post       *operationObject `json:"post"`
	Put        *operationObject `json:"put"`
	Patch      *operationObject `json:"patch"`
	Delete     *operationObject `json:"delete"`
	Parameters []*parameter     `json:"parameters"`
}

// methods are those that make operations, as they are listed.
var methods = []string{"GET", "POST", "PUT", "PATCH", "DELETE"}

func (p *pathItem) operation(method string) *operationObject {
	return map[string]*operationObject{
		"GET": p.Get, "POST": p.Post, "PUT": p.Put, "PATCH": p.Patch, "DELETE": p.Delete,
	}[method]
}

// operations are those of the path.
func (p *pathItem) operations(d *Document, path string) []*Operation {
	var list []*Operation
	for _, method := range methods {
		o := p.operation(method)
		if o == nil {
			continue
		}
		op := &Operation{
			Method: method, Path: path, Summary: o.Summary, Description: o.Description, Tag: "Other",
			parameters: slices.Concat(p.Parameters, o.Parameters), body: o.RequestBody, answers: o.Responses, doc: d,
		}
		if len(o.Tags) > 0 {
			op.Tag = o.Tags[0]
		}
		list = append(list, op)
	}
	return list
}

// Parse reads a document, and names its operations.
func Parse(text []byte) (*Document, error) {
	var raw struct {
		Paths      map[string]*pathItem `json:"paths"`
		Components struct {
			Schemas map[string]*schema `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(bytes.TrimSpace(text), &raw); err != nil {
		return nil, fmt.Errorf("OpenAPI document: %w", err)
	}
	d := &Document{schemas: raw.Components.Schemas}
	for path, item := range raw.Paths {
		if item != nil && strings.HasPrefix(path, "/") {
			d.operations = append(d.operations, item.operations(d, path)...)
		}
	}
	if len(d.operations) == 0 {
		return nil, fmt.Errorf("OpenAPI document: it has no operation")
	}
	slices.SortFunc(d.operations, func(a, b *Operation) int {
		if c := strings.Compare(a.Path, b.Path); c != 0 {
			return c
		}
		return slices.Index(methods, a.Method) - slices.Index(methods, b.Method)
	})
	d.name()
	return d, nil
}

// Operations are all of them, sorted by path. They must not be changed.
func (d *Document) Operations() []*Operation { return d.operations }

// mostReferences bounds a chain of references, which might be a circle.
const mostReferences = 16

// resolve follows references, and takes the one alternative of schemas that
// have just one beside null.
func (d *Document) resolve(s *schema) *schema {
	for range mostReferences {
		if s == nil {
			return &schema{}
		}
		alternatives := d.alternatives(s)
		switch {
		case s.Ref != "":
			s = d.schemas[s.Ref[strings.LastIndexByte(s.Ref, '/')+1:]]
		case len(s.AllOf) == 1 && len(s.Properties) == 0:
			s = s.AllOf[0]
		case len(alternatives) == 1:
			s = alternatives[0]
		default:
			return s
		}
	}
	return &schema{}
}

// alternatives are those of a schema that says anyOf or oneOf, without null.
func (d *Document) alternatives(s *schema) []*schema {
	isNull := func(a *schema) bool { return slices.Equal(a.Type, types{"null"}) }
	return slices.DeleteFunc(slices.Concat(s.AnyOf, s.OneOf), isNull)
}

// jsonBody is the schema of the operation's JSON body; nil: it has none.
func (op *Operation) jsonBody() *schema {
	if op.body == nil {
		return nil
	}
	for _, name := range sortedKeys(op.body.Content) {
		if isJSON(name) {
			return op.doc.resolve(op.body.Content[name].Schema)
		}
	}
	return nil
}

// rawBodies are the types of bodies, other than JSON, that the operation takes.
func (op *Operation) rawBodies() []string {
	if op.body == nil {
		return nil
	}
	return slices.DeleteFunc(sortedKeys(op.body.Content), isJSON)
}

// answerTypes are the types of what the operation answers when it succeeds.
func (op *Operation) answerTypes() []string {
	var list []string
	for status, a := range op.answers {
		if strings.HasPrefix(status, "2") {
			list = append(list, sortedKeys(a.Content)...)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// streams says whether the operation answers with server-sent events, at least
// sometimes.
func (op *Operation) streams() bool { return slices.Contains(op.answerTypes(), eventStream) }

// upgrades says whether the operation becomes a WebSocket.
func (op *Operation) upgrades() bool {
	_, ok := op.answers["101"]
	return ok
}
