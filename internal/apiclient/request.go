package apiclient

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
)

// payload is a request's body.
type payload struct {
	reader io.ReadCloser
	size   int64  // -1: not known
	kind   string // its media type
	stream bool   // it may be long
}

func payloadOf(text []byte, kind string) *payload {
	return &payload{reader: io.NopCloser(bytes.NewReader(text)), size: int64(len(text)), kind: kind}
}

// request is what is sent.
type request struct {
	method string
	path   string // with the query, escaped
	header http.Header
	body   *payload // nil: none
}

const jsonType = "application/json"

// build makes the request of what the command line says.
func (r *run) build(t *target, in *inputs) (*request, error) {
	command := t.command()
	req := &request{method: t.method, path: t.path, header: http.Header{}}
	if t.path == "" {
		req.method, req.path = t.op.Method, expand(t.op.Path, in)
	}
	if r.hasJSON && r.hasData {
		return nil, usagef(command, "--json excludes --data")
	}
	if err := in.parameters(req, r.hasData, command); err != nil {
		return nil, err
	}
	for _, h := range r.headers {
		name, value, ok := strings.Cut(h, ":")
		if !ok || strings.TrimSpace(name) == "" {
			return nil, usagef(command, "--header must be 'NAME: VALUE', not %q", h)
		}
		req.header.Add(strings.TrimSpace(name), strings.TrimSpace(value))
	}
	var err error
	switch {
	case r.hasData:
		req.body, err = r.rawBody(t.op, in, command)
	case t.op == nil && !r.hasJSON:
	case t.op == nil || t.op.jsonBody() != nil:
		req.body, err = r.jsonPayload(t.op, in, command)
	case t.op.body != nil && t.op.body.Required:
		err = usagef(command, "a body is missing: give it with --data @FILE, or --data - for standard input")
	}
	return req, err
}

// expand puts the path's parameters in.
func expand(template string, in *inputs) string {
	for _, v := range in.all {
		if v.place == inPath {
			template = strings.ReplaceAll(template, "{"+v.name+"}", url.PathEscape(v.texts[0]))
		}
	}
	return template
}

// parameters adds those of query and headers. raw says that the body is no
// JSON, so that flags which name a member and a parameter are the latter's.
func (in *inputs) parameters(req *request, raw bool, command string) error {
	query := url.Values{}
	for _, v := range in.all {
		if raw && v.twin != nil && v.given() {
			v.twin.texts, v.texts = v.texts, nil
		}
	}
	for _, v := range in.all {
		switch {
		case v.place != inQuery && v.place != inHeader:
			continue
		case !v.given() && v.required && !strings.Contains(req.path, "?"):
			return usagef(command, "%s is missing", in.nameOf(v))
		case !v.given():
			continue
		}
		texts, err := v.plainTexts(command)
		if err != nil {
			return err
		}
		for _, text := range texts {
			if v.place == inHeader {
				req.header.Add(v.name, text)
			} else {
				query.Add(v.name, text)
			}
		}
	}
	if len(query) > 0 {
		separator := "?"
		if strings.Contains(req.path, "?") {
			separator = "&"
		}
		req.path += separator + query.Encode()
	}
	return nil
}

// plainTexts are what a parameter is sent as.
func (in *input) plainTexts(command string) ([]string, error) {
	value, err := in.encode(in.texts)
	if err != nil {
		return nil, usagef(command, "%s %v", in.label, err)
	}
	if in.kind() != arrayKind {
		return []string{plain(value)}, nil
	}
	var items []json.RawMessage
	if err := json.Unmarshal(value, &items); err != nil {
		return nil, usagef(command, "%s %v", in.label, err)
	}
	texts := make([]string, len(items))
	for i, item := range items {
		texts[i] = plain(item)
	}
	if !in.explode {
		return []string{strings.Join(texts, ",")}, nil
	}
	return texts, nil
}

// jsonPayload is the JSON body: that of --json with the members of flags on
// top. When there is nothing to say it is {}.
func (r *run) jsonPayload(op *Operation, in *inputs, command string) (*payload, error) {
	var whole json.RawMessage
	if r.hasJSON {
		text, err := r.readJSON()
		if err != nil {
			return nil, usagef(command, "--json: %v", err)
		}
		whole = text
	}
	var missing []string
	members := map[string]json.RawMessage{}
	for _, v := range in.all {
		switch {
		case v.place != inBody:
		case v.given():
			value, err := v.encode(v.texts)
			if err != nil {
				return nil, usagef(command, "%s %v", v.label, err)
			}
			members[strings.Join(v.path, "\x00")] = value
		case v.required && whole == nil:
			missing = append(missing, in.nameOf(v))
		}
	}
	// A body that may be left out is left out as a whole only.
	if len(missing) > 0 && (op.body.Required || len(members) > 0) {
		return nil, usagef(command, "%s missing", isOrAre(missing))
	}
	if len(members) == 0 && whole != nil {
		return payloadOf(whole, jsonType), nil
	}
	text, err := merge(whole, in, members)
	if err != nil {
		return nil, usagef(command, "--json: %v", err)
	}
	return payloadOf(text, jsonType), nil
}

// nameOf is how the user is told to give a value.
func (in *inputs) nameOf(v *input) string {
	if slices.Contains(in.positions, v) {
		return v.argument()
	}
	return v.label
}

func isOrAre(labels []string) string {
	if len(labels) == 1 {
		return labels[0] + " is"
	}
	return strings.Join(labels[:len(labels)-1], ", ") + " and " + labels[len(labels)-1] + " are"
}

// merge puts members into an object, in the order of the fields: outer ones
// first.
func merge(whole json.RawMessage, in *inputs, members map[string]json.RawMessage) ([]byte, error) {
	object := map[string]any{}
	if whole != nil {
		if err := decode(whole, &object); err != nil || object == nil {
			return nil, errors.New("flags for members go into an object, which this is not")
		}
	}
	for _, v := range in.all {
		value, ok := members[strings.Join(v.path, "\x00")]
		if !ok || v.place != inBody {
			continue
		}
		at := object
		for _, name := range v.path[:len(v.path)-1] {
			below, ok := at[name].(map[string]any)
			if !ok {
				below = map[string]any{}
				at[name] = below
			}
			at = below
		}
		var member any
		if err := decode(value, &member); err != nil {
			return nil, err
		}
		at[v.path[len(v.path)-1]] = member
	}
	return marshal(object)
}

// marshal is json.Marshal without the escapes that only HTML needs.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimRight(b.Bytes(), "\n"), err
}

// decode reads JSON without making numbers inexact.
func decode(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return d.Decode(into)
}

// readJSON reads what --json says and checks that it is JSON.
func (r *run) readJSON() (json.RawMessage, error) {
	text := []byte(r.json)
	var err error
	switch {
	case r.json == "-":
		text, err = io.ReadAll(r.Stdin)
	case strings.HasPrefix(r.json, "@"):
		text, err = os.ReadFile(r.json[1:])
	}
	if err != nil {
		return nil, err
	}
	var any json.RawMessage
	if err := json.Unmarshal(text, &any); err != nil {
		if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
			return nil, valuef("%v, at byte %d of it", err, syntax.Offset)
		}
		return nil, err
	}
	return any, nil
}
