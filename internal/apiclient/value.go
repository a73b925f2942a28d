package apiclient

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// kind is what a value is, as far as a command line is concerned.
type kind int

const (
	anyKind kind = iota // one of several, or anything
	stringKind
	integerKind
	numberKind
	booleanKind
	arrayKind
	objectKind // its members have names
	mapKind    // its members are named by whoever calls
)

func (f *field) kind() kind { return f.doc.kindOf(f.schema) }

// kindOf is the kind of a resolved schema.
func (d *Document) kindOf(s *schema) kind {
	if len(d.alternatives(s)) > 1 {
		for _, a := range d.alternatives(s) {
			if d.kindOf(d.resolve(a)) != objectKind {
				return anyKind
			}
		}
		return objectKind
	}
	named := slices.DeleteFunc(slices.Clone(s.Type), func(t string) bool { return t == "null" })
	switch {
	case len(named) == 0 && (len(s.Properties) > 0 || len(s.AllOf) > 0):
		return objectKind
	case len(named) != 1:
		return anyKind
	case named[0] == "object" && len(s.Properties) == 0 && len(s.AllOf) == 0:
		return mapKind
	}
	return map[string]kind{
		"string": stringKind, "integer": integerKind, "number": numberKind, "boolean": booleanKind, "array": arrayKind, "object": objectKind,
	}[named[0]]
}

// valueError says what would have been accepted for a value.
type valueError struct{ text string }

func (e *valueError) Error() string { return e.text }

func valuef(format string, args ...any) error { return &valueError{fmt.Sprintf(format, args...)} }

// encode turns the texts that were given for a field into JSON. Its error goes
// on from the flag's name.
func (f *field) encode(texts []string) (json.RawMessage, error) { return f.doc.encode(f.schema, texts) }

func (d *Document) encode(s *schema, texts []string) (json.RawMessage, error) {
	last := texts[len(texts)-1]
	switch d.kindOf(s) {
	case arrayKind:
		return d.encodeArray(s, texts)
	case objectKind, mapKind:
		return d.encodeObject(s, texts)
	case anyKind:
		return d.encodeAny(s, texts)
	case stringKind:
		return encodeString(s, last)
	case integerKind:
		return encodeInteger(last)
	case numberKind:
		return encodeNumber(last)
	case booleanKind:
		if last != "true" && last != "false" {
			return nil, valuef("must be true or false, not %q", last)
		}
		return json.RawMessage(last), nil
	}
	return nil, valuef("cannot be given as a flag; use --json")
}

func encodeString(s *schema, text string) (json.RawMessage, error) {
	var names []string
	for _, raw := range s.Enum {
		var name string
		if json.Unmarshal(raw, &name) == nil {
			names = append(names, name)
		}
	}
	if len(names) > 0 && !slices.Contains(names, text) {
		return nil, valuef("must be %s, not %q", oneOf(names), text)
	}
	return marshal(text)
}

func encodeInteger(text string) (json.RawMessage, error) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return json.RawMessage(strconv.FormatInt(n, 10)), nil
	}
	if n, err := strconv.ParseUint(text, 10, 64); err == nil {
		return json.RawMessage(strconv.FormatUint(n, 10)), nil
	}
	return nil, valuef("must be an integer, not %q", text)
}

func encodeNumber(text string) (json.RawMessage, error) {
	n, err := strconv.ParseFloat(text, 64)
	switch {
	case err != nil || math.IsNaN(n) || math.IsInf(n, 0):
		return nil, valuef("must be a number, not %q", text)
	case json.Valid([]byte(text)):
		return json.RawMessage(text), nil
	}
	return marshal(n) // .5 and 1_000 are no JSON
}

func (d *Document) encodeArray(s *schema, texts []string) (json.RawMessage, error) {
	item := d.resolve(s.Items)
	list := make([]json.RawMessage, len(texts))
	for i, text := range texts {
		var err error
		if list[i], err = d.encode(item, []string{text}); err != nil {
			return nil, err
		}
	}
	return marshal(list)
}

// encodeObject accepts a JSON object, or KEY=VALUE any number of times.
func (d *Document) encodeObject(s *schema, texts []string) (json.RawMessage, error) {
	properties, _ := d.properties(s)
	all := map[string]json.RawMessage{}
	for _, text := range texts {
		if strings.HasPrefix(strings.TrimSpace(text), "{") {
			var whole map[string]json.RawMessage
			if err := json.Unmarshal([]byte(text), &whole); err != nil {
				return nil, valuef("must be KEY=VALUE or a JSON object: %v", err)
			}
			maps.Copy(all, whole)
			continue
		}
		key, value, ok := strings.Cut(text, "=")
		if !ok || key == "" {
			return nil, valuef("must be KEY=VALUE or a JSON object, not %q", text)
		}
		member := properties[key]
		if member == nil {
			member = s.Additional.schema
		}
		encoded, err := d.encode(d.resolve(member), []string{value})
		if err != nil {
			return nil, valuef("%s %v", key, err)
		}
		all[key] = encoded
	}
	return marshal(all)
}

// encodeAny is for values of several kinds: a text is one when it is no JSON of
// another kind that is accepted, and several are a list.
func (d *Document) encodeAny(s *schema, texts []string) (json.RawMessage, error) {
	accepted := d.accepted(s)
	if array := accepted[arrayKind]; array != nil && len(texts) > 1 {
		return d.encodeArray(array, texts)
	}
	text := texts[len(texts)-1]
	valid := json.Valid([]byte(text))
	if valid && (len(accepted) == 0 || accepted[kindOfJSON(text)] != nil) {
		return json.RawMessage(text), nil
	}
	if len(accepted) == 0 || accepted[stringKind] != nil {
		return marshal(text)
	}
	if len(accepted) == 1 {
		for _, only := range accepted {
			return d.encode(only, texts)
		}
	}
	return nil, valuef("must be JSON, not %q", text)
}

// accepted are the kinds that a schema of several allows; none: all.
func (d *Document) accepted(s *schema) map[kind]*schema {
	all := map[kind]*schema{}
	for _, a := range d.alternatives(s) {
		a = d.resolve(a)
		k := d.kindOf(a)
		if k == anyKind {
			return nil
		}
		if k == objectKind {
			k = mapKind
		}
		all[k] = a
	}
	for _, t := range s.Type {
		one := *s
		one.Type = types{t}
		if k := d.kindOf(&one); k != anyKind {
			all[k] = &one
		}
	}
	return all
}

// kindOfJSON is the kind of a valid JSON text.
func kindOfJSON(text string) kind {
	switch text = strings.TrimSpace(text); text[0] {
	case '{':
		return mapKind
	case '[':
		return arrayKind
	case '"':
		return stringKind
	case 't', 'f':
		return booleanKind
	case 'n':
		return anyKind
	}
	if strings.ContainsAny(text, ".eE") {
		return numberKind
	}
	return integerKind
}

// plain is a value as it stands in a URL or a header: texts without quotes.
func plain(value json.RawMessage) string {
	var text string
	if json.Unmarshal(value, &text) == nil {
		return text
	}
	return string(value)
}

// typeName is how help calls what a field takes; a boolean has no name, being
// true when it is there.
func (f *field) typeName() string { return f.doc.nameOf(f.schema) }

func (d *Document) nameOf(s *schema) string {
	switch d.kindOf(s) {
	case anyKind:
		if d.accepted(s)[stringKind] != nil {
			return "text"
		}
	case stringKind:
		var names []string
		for _, raw := range s.Enum {
			names = append(names, plain(raw))
		}
		if len(names) > 0 {
			return strings.Join(names, "|")
		}
		return "text"
	case integerKind:
		return "integer"
	case numberKind:
		return "number"
	case booleanKind:
		return "bool"
	case arrayKind:
		return d.nameOf(d.resolve(s.Items))
	case mapKind:
		return "KEY=VALUE"
	case objectKind:
	}
	return "JSON"
}

// oneOf joins words as a sentence does.
func oneOf(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
