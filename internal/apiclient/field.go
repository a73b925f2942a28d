package apiclient

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"unicode"

	"github.com/deskhand/deskhand/internal/plainjson"
)

// place is the part of a request that a value belongs to.
type place string

const (
	inPath   place = "path"
	inQuery  place = "query"
	inHeader place = "header"
	inBody   place = "body"
)

// field is a parameter of an operation or a member of its JSON body. It is a
// [pflag.Value] that keeps the texts of its flag.
type field struct {
	place    place
	name     string // on the wire
	flag     string // without dashes
	about    string
	required bool
	schema   *schema // resolved
	doc      *document

	texts []string // from flags or arguments
	label string   // the flag or argument, for messages
	twin  *field   // the parameter that shares the flag of this member
}

// String returns the texts that were given.
func (f *field) String() string { return strings.Join(f.texts, ",") }

// Type returns how help calls a value.
func (f *field) Type() string { return f.doc.typeName(f.schema) }

// Set adds the value of a flag.
func (f *field) Set(text string) error { f.texts = append(f.texts, text); return nil }

// given reports whether the field has a value. An empty text is no value of a
// path's parameter.
func (f *field) given() bool { return len(f.texts) > 0 && (f.place != inPath || f.texts[0] != "") }

// argument returns how help calls the field among the arguments.
func (f *field) argument() string { return strings.ToUpper(f.flag) }

// fields returns the values that the operation takes: parameters of the path, the
// query and headers, then members of the body.
func (op *operation) fields() []*field {
	var list []*field
	for _, where := range []place{inPath, inQuery, inHeader} {
		for _, p := range op.Parameters {
			// --content-type is among the flags of bodies.
			if place(p.In) == where && http.CanonicalHeaderKey(p.Name) != "Content-Type" {
				list = append(list, op.field(where, p.Name, p.Schema, p.Description, p.Required || where == inPath))
			}
		}
	}
	if body := op.jsonBody(); body != nil {
		names := slices.Clone(body.Required)
		for _, name := range sortedKeys(body.Properties) {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
		for _, name := range names {
			member := body.Properties[name]
			list = append(list, op.field(inBody, name, member, member.Description, slices.Contains(body.Required, name)))
		}
	}
	return list
}

func (op *operation) field(where place, name string, s *schema, about string, required bool) *field {
	s = op.doc.resolve(s)
	return &field{place: where, name: name, flag: kebab(name), about: cmp.Or(about, s.Description), required: required, schema: s, doc: op.doc}
}

// positions returns the fields that may be given as arguments, and the list that takes
// further arguments, or nil. The fields are the required texts and numbers, except texts that
// other programs must not see in the list of processes, and what the document marks.
func positions(fields []*field) (list []*field, rest *field) {
	for _, f := range fields {
		switch kind := f.schema.kind(); {
		case f.schema.Format == "password":
		case (f.required || f.schema.Argument) && slices.Contains([]string{"string", "integer", "number"}, kind):
			list = append(list, f)
		case f.place == inBody && f.name == "args" && kind == "array":
			rest = f
		}
	}
	return list, rest
}

// kebab turns a name of the document into a flag: clickCount into click-count,
// If-None-Match into if-none-match.
func kebab(name string) string {
	var b strings.Builder
	lower := false
	for _, r := range name {
		switch {
		case r == '_':
			r = '-'
		case unicode.IsUpper(r) && lower:
			b.WriteByte('-')
		}
		lower = unicode.IsLower(r) || unicode.IsDigit(r)
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// kind returns the JSON type of values, or "" if they may be of several types.
func (s *schema) kind() string {
	named := slices.DeleteFunc(slices.Clone(s.Type), func(t string) bool { return t == "null" })
	if len(named) != 1 {
		return ""
	}
	return named[0]
}

// takes reports whether values may be of a JSON type.
func (s *schema) takes(kind string) bool {
	return s.kind() == kind || slices.ContainsFunc(s.OneOf, func(one *schema) bool { return one.kind() == kind })
}

// typeName returns how help calls a value.
func (d *document) typeName(s *schema) string {
	switch s.kind() {
	case "string":
		var names []string
		for _, name := range s.Enum {
			names = append(names, plain(name))
		}
		return cmp.Or(strings.Join(names, "|"), "text")
	case "integer", "number":
		return s.kind()
	case "boolean":
		return "bool"
	case "array":
		return d.typeName(d.resolve(s.Items))
	case "object":
		return "KEY=VALUE"
	}
	if s.takes("boolean") && s.takes("string") && len(s.OneOf) == 2 {
		return "bool|text"
	}
	return "JSON"
}

// encode returns the JSON of the field's value. The text of an error continues the
// field's label. The server checks values against the schema.
func (f *field) encode() (json.RawMessage, error) { return f.doc.encode(f.schema, f.texts) }

// encode returns the texts of a value as JSON. A text that is JSON is the value,
// unless the schema asks for a string. Other texts are strings.
func (d *document) encode(s *schema, texts []string) (json.RawMessage, error) {
	text := texts[len(texts)-1]
	switch kind := s.kind(); {
	case kind == "array":
		return d.encodeList(d.resolve(s.Items), texts)
	case kind == "object":
		return d.encodeObject(s, texts)
	case kind != "string" && json.Valid([]byte(text)):
		return json.RawMessage(text), nil
	}
	return plainjson.Marshal(text)
}

func (d *document) encodeList(item *schema, texts []string) (json.RawMessage, error) {
	list := make([]json.RawMessage, len(texts))
	for i, text := range texts {
		var err error
		if list[i], err = d.encode(item, []string{text}); err != nil {
			return nil, err
		}
	}
	return plainjson.Marshal(list)
}

// encodeObject reads JSON objects and KEY=VALUE, any number of them.
func (d *document) encodeObject(s *schema, texts []string) (json.RawMessage, error) {
	all := map[string]json.RawMessage{}
	for _, text := range texts {
		if json.Unmarshal([]byte(text), &all) == nil {
			continue
		}
		key, value, ok := strings.Cut(text, "=")
		if !ok || key == "" {
			return nil, fmt.Errorf("must be KEY=VALUE or a JSON object, not %q", text)
		}
		member := s.Properties[key]
		if member == nil {
			member = s.Additional.schema
		}
		var err error
		if all[key], err = d.encode(d.resolve(member), []string{value}); err != nil {
			return nil, err
		}
	}
	return plainjson.Marshal(all)
}

// plain returns a JSON value as it stands in a URL or a header: a text without
// quotes.
func plain(value json.RawMessage) string {
	var text string
	if json.Unmarshal(value, &text) == nil {
		return text
	}
	return string(value)
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
