package apiclient

import (
	"net/http"
	"slices"
	"strings"
	"unicode"
)

// place is where a value goes in a request.
type place string

const (
	inPath   place = "path"
	inQuery  place = "query"
	inHeader place = "header"
	inBody   place = "body"
)

// field is one value that a request may carry.
type field struct {
	place    place
	name     string   // as on the wire
	path     []string // of a body's member: the names that lead to it
	flag     string   // its flag, without dashes
	schema   *schema  // resolved
	about    string
	required bool
	explode  bool // a list is sent as several parameters
	doc      *Document
}

// deepest is how far below the body members have flags of their own.
const deepest = 3

// ownHeaders are described elsewhere in documents, whatever parameters say
// (OpenAPI 3.1.1, section 4.8.12.1).
var ownHeaders = []string{"Accept", "Authorization", "Content-Type"}

// fields are all values that the operation takes: the path's parameters, then
// those of query and headers, then the body's members.
func (op *Operation) fields() []*field {
	var list []*field
	for _, where := range []place{inPath, inQuery, inHeader} {
		for _, p := range op.parameters {
			if place(p.In) != where || where == inHeader && slices.Contains(ownHeaders, http.CanonicalHeaderKey(p.Name)) {
				continue
			}
			f := &field{
				place: where, name: p.Name, flag: kebab(p.Name), schema: op.doc.resolve(p.Schema),
				about: p.Description, required: p.Required || where == inPath, explode: p.Explode == nil || *p.Explode, doc: op.doc,
			}
			// A second spelling of the same name, for older clients, is no second flag.
			if !slices.ContainsFunc(list, func(o *field) bool { return o.place == where && o.flag == f.flag }) {
				list = append(list, f)
			}
		}
	}
	slices.SortStableFunc(list, func(a, b *field) int {
		if a.place == inPath && b.place == inPath {
			return strings.Index(op.Path, "{"+a.name+"}") - strings.Index(op.Path, "{"+b.name+"}")
		}
		return 0
	})
	if body := op.jsonBody(); body != nil {
		list = op.doc.members(list, body, nil)
	}
	return list
}

// members appends the members of an object's schema.
func (d *Document) members(list []*field, s *schema, above []string) []*field {
	properties, required := d.properties(s)
	names := slices.Clone(required)
	for _, name := range sortedKeys(properties) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, name := range names {
		member := properties[name]
		if member == nil {
			continue
		}
		path := append(slices.Clone(above), name)
		flags := make([]string, len(path))
		for i, part := range path {
			flags[i] = kebab(part)
		}
		f := &field{
			place: inBody, name: strings.Join(path, "."), path: path, flag: strings.Join(flags, "."), schema: d.resolve(member),
			about: member.Description, required: len(above) == 0 && slices.Contains(required, name), doc: d,
		}
		if f.about == "" {
			f.about = f.schema.Description
		}
		list = append(list, f)
		if f.kind() == objectKind && len(path) < deepest {
			list = d.members(list, f.schema, path)
		}
	}
	return list
}

// properties are the named members of an object, and which of them must be
// there. Of alternatives it is all that any of them has, and what all demand.
func (d *Document) properties(s *schema) (map[string]*schema, []string) {
	parts := slices.Concat(d.alternatives(s), s.AllOf)
	if len(parts) == 0 {
		return s.Properties, s.Required
	}
	all := map[string]*schema{}
	required, first := slices.Clone(s.Required), true
	add := func(properties map[string]*schema) {
		for name, member := range properties {
			all[name] = d.either(all[name], member)
		}
	}
	add(s.Properties)
	for _, part := range parts {
		properties, demanded := d.properties(d.resolve(part))
		add(properties)
		switch {
		case len(s.AllOf) > 0:
			required = append(required, demanded...)
		case first:
			required, first = append(required, demanded...), false
		default:
			required = slices.DeleteFunc(required, func(name string) bool { return !slices.Contains(demanded, name) })
		}
	}
	return all, required
}

// either is the schema of a member that has one in several alternatives.
func (d *Document) either(a, b *schema) *schema {
	if a == nil || a == b {
		return b
	}
	ra, rb := d.resolve(a), d.resolve(b)
	if len(ra.Enum) == 0 && len(rb.Enum) == 0 && slices.Equal(ra.Type, rb.Type) {
		return a
	}
	if len(ra.Enum) > 0 && len(rb.Enum) > 0 {
		merged := *ra
		merged.Enum = slices.Concat(ra.Enum, rb.Enum)
		if about := []string{a.Description, b.Description}; about[0] != about[1] {
			merged.Description = strings.Join(about, ", or ")
		}
		return &merged
	}
	return &schema{Description: ra.Description, AnyOf: []*schema{a, b}}
}

// byPosition are the fields that may be given as arguments, and the list that
// takes all further ones; nil: none does.
func byPosition(fields []*field) (list []*field, rest *field) {
	const most = 4 // more than that are told apart by their names only
	var more, optional []*field
	for _, f := range fields {
		switch {
		case f.place == inPath:
			list = append(list, f)
		case f.required && len(f.path) <= 1:
			more = append(more, f)
		case slices.Contains([]string{"path", "from", "to"}, f.name) && f.place != inHeader:
			optional = append(optional, f)
		}
		if f.name == "args" && f.place == inBody && f.kind() == arrayKind {
			rest = f
		}
	}
	plain := func(f *field) bool { return slices.Contains([]kind{stringKind, integerKind, numberKind}, f.kind()) }
	switch n := slices.IndexFunc(more, func(f *field) bool { return !plain(f) }); {
	case len(more) > most:
		more = nil
	case n >= 0:
		more = more[:n]
	case len(more) == 0 && len(optional) > 0:
		return append(list, optional...), nil
	}
	// Further arguments are those of a program that was named right before.
	if len(more) == 0 || !slices.Contains([]string{"command", "app"}, more[len(more)-1].name) {
		rest = nil
	}
	return append(list, more...), rest
}

// argument is how help calls a field that is given by its position.
func (f *field) argument() string { return strings.ToUpper(f.flag) }

// kebab turns a name of the document into a flag's: clickCount into
// click-count, show_cursor into show-cursor, If-None-Match into if-none-match.
func kebab(name string) string {
	letters := []rune(name)
	var b strings.Builder
	for i, r := range letters {
		switch {
		case r == '_' || r == '-' || r == ' ':
			if b.Len() > 0 && !strings.HasSuffix(b.String(), "-") {
				b.WriteByte('-')
			}
			continue
		case unicode.IsUpper(r) && i > 0 && b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			// A new word begins after a small letter, and before the last capital
			// of several: URLPath is url-path.
			ends := i+1 < len(letters) && unicode.IsLower(letters[i+1])
			if !unicode.IsUpper(letters[i-1]) || ends {
				b.WriteByte('-')
			}
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
