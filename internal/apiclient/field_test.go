package apiclient

import (
	"encoding/json"
	"strings"
	"testing"
)

// valueDocument has a body with a member of every kind.
const valueDocument = `{"paths": {"/v1/values": {"post": {"requestBody": {"required": true, "content": {"application/json": {
	"schema": {"$ref": "#/components/schemas/Values"}}}}}}},
"components": {"schemas": {
	"Values": {"type": "object", "required": ["list"], "properties": {
		"text": {"type": "string"}, "name": {"type": "string", "enum": ["one", "two", "three"]}, "nullable": {"type": ["string", "null"]},
		"n": {"type": "integer"}, "f": {"type": "number"}, "b": {"type": "boolean"},
		"list": {"type": "array", "items": {"type": "string"}}, "numbers": {"type": "array", "items": {"type": "integer"}},
		"objects": {"type": "array", "items": {"$ref": "#/components/schemas/Inner"}},
		"map": {"type": "object", "additionalProperties": {"type": "string"}}, "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
		"free": {"type": "object", "additionalProperties": true}, "inner": {"$ref": "#/components/schemas/Inner"},
		"any": {}, "textOrList": {"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
		"objectOrFalse": {"oneOf": [{"$ref": "#/components/schemas/Inner"}, {"type": "boolean"}]},
		"union": {"type": ["integer", "boolean"]}}},
	"Inner": {"type": "object", "properties": {"on": {"type": "boolean"}, "deep": {"type": "object", "properties": {"x": {"type": "integer"}}}}}
}}}`

func valueField(t *testing.T, name string) *field {
	t.Helper()
	d, err := parse([]byte(valueDocument), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range d.operations[0].fields() {
		if f.name == name {
			return f
		}
	}
	t.Fatalf("there is no member %s", name)
	return nil
}

func TestEncode(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		member string
		texts  []string
		want   string // JSON, or what the error has
	}{
		{"text", []string{"a"}, `"a"`},
		{"text", []string{"a", "b"}, `"b"`},
		{"text", []string{"1"}, `"1"`},
		{"text", []string{"true"}, `"true"`},
		{"text", []string{""}, `""`},
		{"text", []string{"é<&>\n\x00"}, `"é<&>\n\u0000"`},
		{"nullable", []string{"x"}, `"x"`},
		{"name", []string{"two"}, `"two"`},
		{"n", []string{"-7"}, "-7"},
		{"n", []string{"18446744073709551615"}, "18446744073709551615"},
		{"n", []string{"many"}, `"many"`}, // for the server to refuse
		{"f", []string{"0.10"}, "0.10"},
		{"f", []string{"1e3"}, "1e3"},
		{"b", []string{"true"}, "true"},
		{"list", []string{"a", "[", "1"}, `["a","[","1"]`},
		{"numbers", []string{"1", "2"}, "[1,2]"},
		{"objects", []string{`{"on":true}`, "on=false"}, `[{"on":true},{"on":false}]`},
		{"map", []string{"A=1", "B=x=y", "C="}, `{"A":"1","B":"x=y","C":""}`},
		{"map", []string{`{"A":"1"}`, "B=2"}, `{"A":"1","B":"2"}`},
		{"map", []string{"A"}, `must be KEY=VALUE or a JSON object, not "A"`},
		{"map", []string{"=1"}, `must be KEY=VALUE`},
		{"map", []string{"{A:1}"}, "must be KEY=VALUE or a JSON object"},
		{"counts", []string{"a=1"}, `{"a":1}`},
		{"free", []string{"a=1", "b=x", `c=[true]`}, `{"a":1,"b":"x","c":[true]}`},
		{"inner", []string{"on=true"}, `{"on":true}`},
		{"inner", []string{`{"other":1}`}, `{"other":1}`},
		{"any", []string{"x"}, `"x"`},
		{"any", []string{`{"a":[1]}`}, `{"a":[1]}`},
		{"any", []string{"12"}, "12"},
		{"textOrList", []string{"npx"}, `"npx"`},
		{"textOrList", []string{`["a"]`}, `["a"]`},
		{"objectOrFalse", []string{"false"}, "false"},
		{"objectOrFalse", []string{`{"on":true}`}, `{"on":true}`},
		{"union", []string{"3"}, "3"},
		{"union", []string{"true"}, "true"},
	} {
		f := valueField(t, c.member)
		f.texts = c.texts
		got, err := f.encode()
		switch {
		case err != nil && (strings.HasPrefix(c.want, `"`) || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s %q: %v, want %s", c.member, c.texts, err, c.want)
		case err == nil && string(got) != c.want:
			t.Errorf("%s %q: %s, want %s", c.member, c.texts, got, c.want)
		case err == nil && !json.Valid(got):
			t.Errorf("%s %q: %s is no JSON", c.member, c.texts, got)
		}
	}
}

func FuzzEncode(f *testing.F) {
	for _, text := range []string{"", "a", "a=b", `{"a":1}`, "1e9", "true", "[1]", "null", "{", "\xff"} {
		f.Add(text, text)
	}
	d, err := parse([]byte(valueDocument), nil)
	if err != nil {
		f.Fatal(err)
	}
	fields := d.operations[0].fields()
	f.Fuzz(func(t *testing.T, a, b string) {
		for _, field := range fields {
			for _, texts := range [][]string{{a}, {a, b}} {
				if got, err := field.doc.encode(field.schema, texts); err == nil && !json.Valid(got) {
					t.Errorf("%s %q: %s is no JSON", field.name, texts, got)
				}
			}
		}
	})
}
