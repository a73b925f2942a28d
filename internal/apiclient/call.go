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
	"strings"
	"time"
)

// reachTime is how long a server may take to be reached at all. What it then
// takes to answer is its own affair: programs run, and people follow streams.
const reachTime = 10 * time.Second

// client makes the HTTP client of one run. Redirects are not followed: they
// would take a POST's body, or the token, somewhere else.
func client() *http.Client {
	return &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			DialContext:         (&net.Dialer{Timeout: reachTime}).DialContext,
			TLSHandshakeTimeout: reachTime,
			ForceAttemptHTTP2:   true,
			DisableCompression:  true, // lengths and bytes are those of the server
		},
	}
}

// server is where requests go.
func (r *run) server() (Server, error) {
	if r.Connect == nil {
		return Server{URL: &url.URL{Scheme: "http", Host: "127.0.0.1:2468"}}, nil
	}
	return r.Connect()
}

// call sends the request, and prints the answer.
func (r *run) call(ctx context.Context, t *target, in *inputs) error {
	if r.resume && (r.output == "" || r.output == "-") {
		return usagef(t.command(), "--resume needs a file: name it with --output")
	}
	if r.decode && r.output != "" {
		return usagef(t.command(), "--decode prints to standard output: redirect that, in place of --output")
	}
	req, err := r.build(t, in)
	if err != nil {
		return err
	}
	if req.body != nil {
		defer func() { _ = req.body.reader.Close() }()
	}
	server, err := r.server()
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
	c := client()
	defer c.CloseIdleConnections()
	res, err := r.send(ctx, c, server, req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	return r.interrupted(ctx, r.print(ctx, res, file))
}

// send sends a request. Its error says what to do when there is no server.
func (r *run) send(ctx context.Context, c *http.Client, server Server, req *request) (*http.Response, error) {
	base := strings.TrimRight(server.URL.Scheme+"://"+server.URL.Host+server.URL.EscapedPath(), "/")
	hr, err := http.NewRequestWithContext(ctx, req.method, base+req.path, nil)
	if err != nil {
		return nil, usagef("", "%v", err)
	}
	hr.Header = req.header
	if server.Token != "" && hr.Header.Get("Authorization") == "" {
		hr.Header.Set("Authorization", "Bearer "+server.Token)
	}
	hr.Header.Set("User-Agent", "deskhand")
	if hr.Header.Get("Accept") == "" {
		hr.Header.Set("Accept", "*/*")
	}
	var sending *meter
	if b := req.body; b != nil {
		hr.ContentLength, hr.Body = b.size, b.reader
		if b.size == 0 {
			hr.Body = http.NoBody
		}
		if hr.Header.Get("Content-Type") == "" {
			hr.Header.Set("Content-Type", b.kind)
		}
		if b.stream {
			sending = r.newMeter("sending", b.size, 0)
			hr.Body = sending.body(hr.Body)
		}
	}
	res, err := c.Do(hr)
	sending.close()
	if err != nil {
		return nil, r.interrupted(ctx, unreachable(base, err))
	}
	return res, nil
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

// interrupted is the error that goes with an end by the context.
func (r *run) interrupted(ctx context.Context, err error) error {
	var already *InterruptedError
	if err == nil || ctx.Err() == nil || errors.As(err, &already) {
		return err
	}
	return &InterruptedError{}
}

// problemOf reads the answer that tells of an error.
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
		p.Hint = "the server tells its token when it starts: give it with --token-file, or in DESKHAND_TOKEN"
	case res.StatusCode == http.StatusNotFound && strings.Contains(p.Detail, "endpoint not found"):
		p.Hint = "the server is of another version, or --endpoint is not its base; --server-spec shows what it has"
	case res.StatusCode >= 300 && res.StatusCode < 400:
		p.Hint = "it redirects to " + printable(res.Header.Get("Location")) + "; if that is right, give it with --endpoint"
	}
	return p
}

// lateProblem is the problem in an answer that began, with a good status, before
// it was known how it ends. Nil: it is none.
func lateProblem(text []byte) *ProblemError {
	if !bytes.HasPrefix(bytes.TrimSpace(text), []byte(`{"type":"urn:sandbox-agent:error:`)) {
		return nil
	}
	var p ProblemError
	if err := json.Unmarshal(text, &p); err != nil {
		return nil //nolint:nilerr // then it is printed as what it is
	}
	return &p
}

// mostProblem bounds what is read of an answer that tells of an error, and
// mostDocument an OpenAPI document.
const (
	mostProblem  = 1 << 20
	mostDocument = 32 << 20
)

// specTime is how long a server may take to send its document.
const specTime = 5 * time.Second

// fetchDocument reads the server's own document.
func (r *run) fetchDocument(ctx context.Context) (*Document, error) {
	server, err := r.server()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, specTime)
	defer cancel()
	c := client()
	defer c.CloseIdleConnections()
	res, err := r.send(ctx, c, server, &request{method: "GET", path: "/openapi.json", header: http.Header{}})
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("/openapi.json: %s", res.Status)
	}
	text, err := io.ReadAll(io.LimitReader(res.Body, mostDocument))
	if err != nil {
		return nil, err
	}
	return Parse(text)
}

// isJSON says whether a media type, without parameters, is JSON of some sort.
func isJSON(kind string) bool { return kind == jsonType || strings.HasSuffix(kind, "+json") }
