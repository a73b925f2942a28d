package apiclient

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/deskhand/deskhand/internal/plainjson"
)

const (
	jsonType    = "application/json"
	octetStream = "application/octet-stream"
)

// request is what is sent.
type request struct {
	method string
	path   string // with the query, escaped
	header http.Header
	body   *payload // nil for none
}

// payload is a request's body.
type payload struct {
	reader io.ReadCloser
	size   int64  // -1 if unknown
	kind   string // its media type
}

// build makes the request of a target.
func (r *run) build(t *target) (*request, error) {
	req := &request{method: t.method, path: t.path, header: http.Header{}}
	if t.op != nil {
		req.method, req.path = t.op.method, t.op.path
	}
	if err := r.check(t); err != nil {
		return nil, err
	}
	if err := t.parameters(req); err != nil {
		return nil, err
	}
	for _, h := range r.headers {
		name, value, ok := strings.Cut(h, ":")
		if !ok || strings.TrimSpace(name) == "" {
			return nil, usagef(t.command(), "--header must be 'NAME: VALUE', not %q", h)
		}
		req.header.Add(strings.TrimSpace(name), strings.TrimSpace(value))
	}
	var err error
	switch {
	case r.hasData || r.hasJSON:
		req.body, err = r.wholeBody(t)
	case t.op != nil && t.op.jsonBody() != nil:
		req.body, err = t.jsonBody()
	case t.op != nil && t.op.RequestBody != nil && t.op.RequestBody.Required:
		err = usagef(t.command(), "a body is missing: give it with --data @FILE, or --data - for standard input")
	}
	return req, err
}

// check returns an error if values are missing or exclude each other. It moves the
// value of a flag that names a member and a parameter to the parameter if there is
// no JSON body.
func (r *run) check(t *target) error {
	if r.hasJSON && r.hasData {
		return usagef(t.command(), "--json excludes --data")
	}
	for _, f := range t.fields {
		if f.twin != nil && r.hasData {
			f.twin.texts, f.texts = f.texts, nil
		}
		if f.place != inBody || !f.given() {
			continue
		}
		if r.hasData || r.hasJSON {
			return usagef(t.command(), "%s is a member of the JSON body, which --json and --data exclude", f.label)
		}
	}
	for _, f := range t.fields {
		if needed := f.place != inBody || !r.hasData && !r.hasJSON; f.required && needed && !f.given() {
			return usagef(t.command(), "%s is missing", f.label)
		}
	}
	return nil
}

// parameters puts the parameters of path, query and headers into the request.
func (t *target) parameters(req *request) error {
	query := url.Values{}
	for _, f := range t.fields {
		if f.place == inBody || !f.given() {
			continue
		}
		value, err := f.encode()
		if err != nil {
			return usagef(t.command(), "%s %v", f.label, err)
		}
		switch text := plain(value); f.place {
		case inPath:
			req.path = strings.ReplaceAll(req.path, "{"+f.name+"}", url.PathEscape(text))
		case inHeader:
			req.header.Add(f.name, text)
		default:
			query.Add(f.name, text)
		}
	}
	if len(query) > 0 {
		req.path += "?" + query.Encode()
	}
	return nil
}

// jsonBody makes a JSON body of the members.
func (t *target) jsonBody() (*payload, error) {
	members := map[string]json.RawMessage{}
	for _, f := range t.fields {
		if f.place != inBody || !f.given() {
			continue
		}
		value, err := f.encode()
		if err != nil {
			return nil, usagef(t.command(), "%s %v", f.label, err)
		}
		members[f.name] = value
	}
	text, err := plainjson.Marshal(members)
	return payloadOf(text, jsonType), err
}

// wholeBody opens the body that --json or --data gives. Files are sent while they are
// read.
func (r *run) wholeBody(t *target) (*payload, error) {
	flag, value, kind := "--data", r.data, cmp.Or(r.contentType, t.op.rawType())
	if r.hasJSON {
		flag, value, kind = "--json", r.json, jsonType
	}
	p, err := r.open(value)
	if err != nil {
		return nil, usagef(t.command(), "%s: %v", flag, err)
	}
	p.kind = kind
	return p, nil
}

// open opens the body that a flag gives as TEXT, @FILE or - for standard input.
func (r *run) open(value string) (*payload, error) {
	name, isFile := strings.CutPrefix(value, "@")
	switch {
	case value == "-":
		return &payload{reader: io.NopCloser(r.Stdin), size: restOf(r.Stdin)}, nil
	case isFile:
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		if info, err := f.Stat(); err == nil && info.IsDir() {
			_ = f.Close()
			return nil, fmt.Errorf("%s is a directory", name)
		}
		return &payload{reader: f, size: restOf(f)}, nil
	}
	return payloadOf([]byte(value), ""), nil
}

func payloadOf(text []byte, kind string) *payload {
	return &payload{reader: io.NopCloser(bytes.NewReader(text)), size: int64(len(text)), kind: kind}
}

// restOf returns the number of bytes left to read of a regular file, else -1.
func restOf(in io.Reader) int64 {
	f, ok := in.(*os.File)
	if !ok {
		return -1
	}
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return -1
	}
	at, err := f.Seek(0, io.SeekCurrent)
	if err != nil || at > info.Size() {
		return -1
	}
	return info.Size() - at
}
