package apiclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/deskhand/deskhand/internal/plainjson"
)

// reachTime bounds connecting to the server. Answers may take any time: programs
// run, and callers follow streams.
const reachTime = 10 * time.Second

// NewHTTPClient returns a client for calls of one server. It follows no redirects, which would
// take a body or the token to another server.
func NewHTTPClient() *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DialContext = (&net.Dialer{Timeout: reachTime}).DialContext
	transport.DisableCompression = true // lengths and bytes stay as the server sent them
	return &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport:     transport,
	}
}

// call sends the request and prints the answer.
func (r *run) call(ctx context.Context, t *target) error {
	if r.resume && (r.output == "" || r.output == "-") {
		return usagef(t.command(), "--resume needs a file: name it with --output")
	}
	if r.decode && r.output != "" {
		return usagef(t.command(), "--decode prints to standard output: redirect that, in place of --output")
	}
	req, err := r.build(t)
	if err != nil {
		return err
	}
	if req.body != nil {
		defer func() { _ = req.body.reader.Close() }()
	}
	server, err := r.Connect()
	if err != nil {
		return err
	}
	file, err := r.openOutput(t.command())
	if err != nil {
		return err
	}
	if file != nil {
		defer file.discard()
		file.continueFrom(req.header)
	}
	c := NewHTTPClient()
	defer c.CloseIdleConnections()
	res, err := r.send(ctx, c, server, req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	if t.op != nil && t.op.report != nil && res.StatusCode == http.StatusOK {
		if err := t.op.report.replace(server, res); err != nil {
			return r.interrupted(ctx, err)
		}
	}
	return r.interrupted(ctx, r.print(ctx, res, file))
}

// send sends a request. If there is no server, the error names the remedy.
func (r *run) send(ctx context.Context, c *http.Client, server Server, req *request) (*http.Response, error) {
	hr, err := http.NewRequestWithContext(ctx, req.method, server.base()+req.path, nil)
	if err != nil {
		return nil, usagef("", "%v", err)
	}
	hr.Header = req.header
	server.authorize(hr.Header)
	hr.Header.Set("User-Agent", "deskhand")
	if hr.Header.Get("Accept") == "" {
		hr.Header.Set("Accept", "*/*")
	}
	if b := req.body; b != nil {
		hr.ContentLength, hr.Body = b.size, b.reader
		if b.size == 0 {
			hr.Body = http.NoBody
		}
		if hr.Header.Get("Content-Type") == "" {
			hr.Header.Set("Content-Type", b.kind)
		}
	}
	res, err := c.Do(hr)
	if err != nil {
		return nil, r.interrupted(ctx, unreachable(server.base(), err))
	}
	return res, nil
}

// authorize adds the token unless the caller gave a header.
func (s Server) authorize(header http.Header) {
	if s.Token != "" && header.Get("Authorization") == "" {
		header.Set("Authorization", "Bearer "+s.Token)
	}
}

// replace replaces the answer by the report that is made of it.
func (p *Report) replace(server Server, res *http.Response) error {
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	made, err := p.Make(server.base(), answer)
	if err != nil {
		return fmt.Errorf("%s: %w", p.Path, err)
	}
	text, err := plainjson.Marshal(made)
	if err != nil {
		return err
	}
	if err := res.Body.Close(); err != nil {
		return err
	}
	res.Body, res.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
	res.Header.Set("Content-Length", strconv.Itoa(len(text)))
	return nil
}

// unreachable explains an error on the way to the server.
func unreachable(base string, err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err // without the URL, which may have a token in it
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return fmt.Errorf("no server answers at %s (%w); start one with 'deskhand server', or say where it is with --endpoint", base, op.Err)
	}
	return fmt.Errorf("%s: %w", base, err)
}

// interrupted returns an InterruptedError for any error after the context has ended.
func (r *run) interrupted(ctx context.Context, err error) error {
	var already *InterruptedError
	if err == nil || ctx.Err() == nil || errors.As(err, &already) {
		return err
	}
	return &InterruptedError{}
}

// problemOf reads an answer that reports an error.
func problemOf(res *http.Response, text []byte) *ProblemError {
	p := &ProblemError{Status: res.StatusCode, Title: http.StatusText(res.StatusCode)}
	var members struct{ Title, Detail string }
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	switch {
	case isJSON(kind) && json.Unmarshal(text, &members) == nil:
		if members.Title != "" {
			p.Title = members.Title
		}
		p.Detail = members.Detail
	case kind == "text/plain" || kind == "" && len(text) > 0:
		const most = 500
		p.Detail = strings.TrimSpace(string(text[:min(len(text), most)]))
	}
	switch {
	case res.StatusCode == http.StatusUnauthorized:
		p.Hint = "the server prints its token when it starts: give it with --token-file, or in DESKHAND_TOKEN"
	case res.StatusCode == http.StatusNotFound && strings.Contains(p.Detail, "endpoint not found"):
		p.Hint = "the server is of another version, or --endpoint is not its base; its /openapi.json lists its routes"
	case res.StatusCode >= 300 && res.StatusCode < 400:
		p.Hint = "the server redirects to " + printable(res.Header.Get("Location")) + "; if that is right, give it with --endpoint"
	}
	return p
}

// lateProblem returns the problem in an answer whose status was sent before the
// server knew the outcome, or nil if the answer is none.
func lateProblem(text []byte) *ProblemError {
	if !bytes.HasPrefix(bytes.TrimSpace(text), []byte(`{"type":"urn:sandbox-agent:error:`)) {
		return nil
	}
	var p ProblemError
	if err := json.Unmarshal(text, &p); err != nil {
		return nil //nolint:nilerr // it is printed unchanged
	}
	return &p
}

// mostProblem bounds the bytes that are read of an answer that reports an error.
const mostProblem = 1 << 20

// isJSON reports whether a media type, without parameters, is JSON of some sort.
func isJSON(kind string) bool { return kind == jsonType || strings.HasSuffix(kind, "+json") }
