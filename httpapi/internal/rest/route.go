package rest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"

	"github.com/deskhand/deskhand/httpapi/internal/grants"
	"github.com/deskhand/deskhand/internal/plainjson"
)

// ProblemOf returns the problem for an error. other is the kind of errors that have
// none of their own.
func (g Group) ProblemOf(err error, other Kind) *Problem {
	if g.Problem != nil {
		if p := g.Problem(err); p != nil {
			return p
		}
	}
	var p *Problem
	switch {
	case errors.As(err, &p):
		return p
	case NoSpaceLeft(err):
		return DiskFull(err.Error())
	case errors.Is(err, context.DeadlineExceeded):
		return TimedOut.Problem("timeout").With("details", map[string]any{"message": err.Error()})
	case other == Internal:
		return Internal.Problem("something went wrong inside the server; its log has the details under this response's X-Request-Id")
	}
	return other.WithCode(Sentence(err))
}

// Route is one operation, as all of them are described.
type Route struct {
	ID      string // operationId
	Method  string
	Path    string // below /v1/desktop for a desktop's
	Summary string
	About   string // longer description
	Tag     string
	Status  int          // of success; zero: 200
	Errors  []int        // statuses of problems that are particular to it
	Query   bool         // the token may come in the URL
	Open    bool         // no token is needed
	APIKey  bool         // the token may come as OpenComputer's clients send it
	Basic   bool         // the token may come as the password of Basic authentication
	Scope   grants.Scope // that a token needs; zero: everything
	Other   Kind         // of errors that have none of their own
	Content map[string]*huma.MediaType
	More    map[string]*huma.Response // other than success and problems
	Body    *huma.RequestBody
	Most    int64 // bytes of the body; zero: Config.MaxBodyBytes
	Large   bool  // answers may take many megabytes
	Revokes bool  // a token may end itself
	Hidden  bool  // the document leaves it out
	Admin   bool  // of a desktop's: only a token for everything will do

	// Enter is called before the body is read. Unless it calls next, it answers.
	Enter func(ctx huma.Context, next func(huma.Context))

	// Parameters describes parameters that Enter reads. The input describes all others.
	Parameters []*huma.Param

	// UntilGone ends the context when the client closes its connection.
	UntilGone bool
}

// Get returns a route that is like r, for reading what is at a path.
func (r Route) Get(id, path, summary string) Route { return r.named(http.MethodGet, id, path, summary) }

// Post returns a route that is like r, for an action.
func (r Route) Post(id, path, summary string) Route {
	return r.named(http.MethodPost, id, path, summary)
}

// Delete returns a route that is like r, for removing what is at a path.
func (r Route) Delete(id, path, summary string) Route {
	r.Status = http.StatusNoContent
	return r.named(http.MethodDelete, id, path, summary)
}

func (r Route) named(method, id, path, summary string) Route {
	r.Method, r.ID, r.Path, r.Summary = method, id, path, summary
	return r
}

// WithAbout returns a route that is like r with a longer description.
func (r Route) WithAbout(about string) Route {
	r.About = about
	return r
}

// WithErrors returns a route that is like r with further statuses of problems.
func (r Route) WithErrors(statuses ...int) Route {
	r.Errors = slices.Concat(r.Errors, statuses)
	return r
}

// Operation describes a route to huma.
func (a *API) Operation(r Route) huma.Operation {
	op := huma.Operation{
		OperationID: r.ID, Method: r.Method, Path: r.Path, Summary: r.Summary, Description: r.About,
		Tags: []string{r.Tag}, DefaultStatus: r.Status, RequestBody: r.Body, Responses: map[string]*huma.Response{},
		MaxBodyBytes:     a.cfg.MaxBodyBytes + 1, // huma refuses what has as many
		SkipValidateBody: r.Body != nil,
		Parameters:       r.Parameters,
		Hidden:           r.Hidden,
		Metadata:         map[string]any{scopeKey: r.Scope, apiKeyKey: r.APIKey, basicKey: r.Basic},
	}
	if r.Large {
		op.Metadata[largeKey] = newPlacesByScope(largePlaces, largePlaces)
	}
	if r.Most > 0 {
		op.MaxBodyBytes = r.Most + 1
	}
	switch {
	case r.Open:
		op.Security = []map[string][]string{} // nil would leave it to the document
	case r.Query:
		op.Security = byTokenOrQuery()
	default:
		op.Security = byToken()
	}
	if r.Content != nil {
		op.Responses["200"] = &huma.Response{Description: http.StatusText(http.StatusOK), Content: r.Content}
	}
	maps.Copy(op.Responses, r.More)
	if r.Enter != nil {
		op.Middlewares = huma.Middlewares{r.Enter}
	}
	statuses := slices.Clone(r.Errors)
	if !r.Open {
		statuses = append(statuses, http.StatusUnauthorized)
	}
	a.describeProblems(&op, statuses)
	return op
}

// Group registers the routes of one area.
type Group struct {
	*API

	// Problem returns the problem for an error of the packages that the area uses, or nil
	// if err is another error. Nil: there are no such errors.
	Problem func(err error) *Problem
}

// Add registers an operation.
func Add[I, O any](g Group, r Route, handle func(context.Context, *I) (*O, error)) {
	huma.Register(g.Huma, g.Operation(r), func(ctx context.Context, in *I) (*O, error) {
		if GrantOf(ctx).Over() { // since authenticate, while the body was read
			return nil, g.Fail(ctx, r, TokenOver())
		}
		if r.UntilGone {
			var stop func()
			ctx, stop = UntilGone(ctx, RequestIn(ctx).Fiber)
			defer stop()
		}
		out, err := handle(ctx, in)
		switch {
		case err != nil:
			return nil, g.Refuse(ctx, r, err)
		case GrantOf(ctx).Over() && !r.Revokes:
			if d, ok := any(out).(discarder); ok {
				d.Discard()
			}
			return nil, g.Fail(ctx, r, TokenOver())
		}
		return out, nil
	})
}

// discarder is an answer that uses files or places until it is sent or discarded.
type discarder interface{ Discard() }

// Refuse is like Fail for the answer to the request of ctx. If another server can answer the
// request and Config.Forward is set, that server does when the handler has returned.
func (g Group) Refuse(ctx context.Context, r Route, err error) *Problem {
	p := g.Fail(ctx, r, err)
	if r := RequestIn(ctx); p.At != "" && (forwarder{g.API}).mayForward(r) {
		r.elsewhere = p.At
	}
	return p
}

// Fail returns the problem for an error. If the token of the request has ended, that is
// TokenOver, whatever the error is. Fail logs an error whose text the client does not get, unless
// the client has left.
func (g Group) Fail(ctx context.Context, r Route, err error) *Problem {
	other := r.Other
	if other.Code == "" {
		other = Internal
	}
	p := g.ProblemOf(err, other)
	if GrantOf(ctx).Over() && !r.Revokes {
		p = TokenOver() // err may be about the end of ctx
	}
	if p.Status == http.StatusInternalServerError && !clientGone(ctx, err) {
		var about asked
		if r := RequestIn(ctx); r != nil {
			about = r.asked
		}
		g.failed(about, "request failed", "operation", r.ID, "error", err)
	}
	return p
}

// Missing is the problem of an id that names nothing.
func Missing(resource, id string) *Problem {
	return notFound.Problem("not found: "+resource+" "+id).
		With("details", map[string]any{"resource": resource, "id": id})
}

// oldSpellings are further names of query parameters, which the document leaves
// out: code that is generated of it has one name for both.
var oldSpellings = map[string]string{"showCursor": "show_cursor"}

// checkQuery refuses what huma would let pass: parameters that are given twice,
// and booleans other than true and false.
func (a *API) checkQuery(ctx huma.Context, next func(huma.Context)) {
	r := RequestOf(ctx)
	args := r.Fiber.Context().QueryArgs()
	for _, p := range r.op.Parameters {
		if p.In != "query" {
			continue
		}
		name := p.Name
		if old := oldSpellings[name]; old != "" && args.Has(old) && !args.Has(name) {
			name = old
		}
		values := args.PeekMulti(name)
		problem := ""
		switch {
		case len(values) > 1:
			problem = "must be given once"
		case len(values) == 1 && p.Schema != nil && p.Schema.Type == huma.TypeBoolean:
			if v := string(values[0]); v != "true" && v != "false" {
				problem = "must be true or false"
			}
		}
		if problem != "" {
			a.Write(r.Fiber, Rejected(InvalidRequest, []*huma.ErrorDetail{{Location: "query." + name, Message: problem}}))
			return
		}
	}
	next(ctx)
}

// Binary describes a body of that MIME type.
func Binary() *huma.MediaType {
	return &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}
}

// Plain adds a route that the document leaves out. It asks for a token as other routes do.
// handle reads the request and answers it.
func (g Group) Plain(r Route, handle func(*Request)) {
	op := g.Operation(r)
	serve := op.Middlewares.Handler(func(ctx huma.Context) { handle(RequestOf(ctx)) })
	g.Huma.Adapter().Handle(&op, g.Huma.Middlewares().Handler(serve))
}

// ReadJSON decodes the body of a request to a plain route. An empty body counts as {}. The
// error is a *Problem.
func (r *Request) ReadJSON(v any) error {
	most := r.op.MaxBodyBytes - 1
	data, err := io.ReadAll(io.LimitReader(r.BodyReader(), most+1))
	switch {
	case r.Grant.Over():
		return TokenOver()
	case r.buffered != nil && r.buffered.full:
		return Unavailable.Problem("too many request bodies are in memory; try again later").WithHeader(fiber.HeaderRetryAfter, "1")
	case err != nil:
		return InvalidRequest.Problem("invalid request: its body could not be read to the end")
	case int64(len(data)) > most:
		return TooLarge(most)
	case r.Empty || len(data) == 0:
		return nil
	}
	if kind, _, _ := strings.Cut(r.Fiber.Get(fiber.HeaderContentType), ";"); strings.TrimSpace(kind) != fiber.MIMEApplicationJSON {
		return NotJSON()
	}
	var tree any
	if err = DecodeJSON(data, &tree); err == nil {
		err = DecodeJSON(data, v)
	}
	if err != nil {
		return InvalidRequest.Problem(fmt.Sprintf("invalid request: body: %v", err))
	}
	return nil
}

// SendJSON answers with a value as JSON, or with the status 204 if it is nil.
func (r *Request) SendJSON(v any) error {
	if v == nil {
		r.SetStatus(http.StatusNoContent)
		return nil
	}
	text, err := plainjson.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	r.SetHeader(fiber.HeaderContentType, fiber.MIMEApplicationJSON)
	r.SetStatus(http.StatusOK)
	r.Send(text)
	return nil
}

// SendEvents answers with an event stream.
func (r *Request) SendEvents(out *EventsOutput) {
	r.SetHeader(fiber.HeaderContentType, out.ContentType)
	r.SetHeader(fiber.HeaderCacheControl, out.Cache)
	r.SetHeader("X-Accel-Buffering", out.Buffering)
	out.Body(r)
}
