package httpapi

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/fleet"
	"github.com/deskhand/deskhand/httpapi/internal/grants"
)

// route is one operation, as all of them are described.
type route struct {
	id      string // operationId
	method  string
	path    string // below /v1/desktop for a desktop's
	summary string
	about   string // longer description
	tag     string
	status  int          // of success; zero: 200
	errors  []int        // statuses of problems that are particular to it
	query   bool         // the token may come in the URL
	open    bool         // no token is needed
	scope   grants.Scope // that a token needs; zero: everything
	other   kind         // of errors that have none of their own
	content map[string]*huma.MediaType
	more    map[string]*huma.Response // besides success and problems
	body    *huma.RequestBody
	most    int64 // bytes of the body; zero: Config.MaxBodyBytes
	admin   bool  // of a desktop's: only a token for everything will do
	large   bool  // answers may take many megabytes
}

// operation describes a route to huma.
func (s *Server) operation(r route) huma.Operation {
	op := huma.Operation{
		OperationID: r.id, Method: r.method, Path: r.path, Summary: r.summary, Description: r.about,
		Tags: []string{r.tag}, DefaultStatus: r.status, RequestBody: r.body, Responses: map[string]*huma.Response{},
		MaxBodyBytes:     int64(s.cfg.MaxBodyBytes) + 1, // huma refuses what has as many
		SkipValidateBody: r.body != nil,
		Metadata:         map[string]any{scopeKey: r.scope},
	}
	if r.large {
		op.Metadata[largeKey] = newLargeAnswers()
	}
	if r.most > 0 {
		op.MaxBodyBytes = r.most + 1
	}
	switch {
	case r.open:
		op.Security = []map[string][]string{} // nil would leave it to the document
	case r.query:
		op.Security = byTokenOrQuery()
	default:
		op.Security = byToken()
	}
	if r.content != nil {
		op.Responses["200"] = &huma.Response{Description: http.StatusText(http.StatusOK), Content: r.content}
	}
	maps.Copy(op.Responses, r.more)
	statuses := slices.Clone(r.errors)
	if !r.open {
		statuses = append(statuses, http.StatusUnauthorized)
	}
	s.describeProblems(&op, statuses)
	return op
}

// add registers an operation that belongs to no desktop.
func add[I, O any](s *Server, r route, handle func(context.Context, *I) (*O, error)) {
	huma.Register(s.api, s.operation(r), func(ctx context.Context, in *I) (*O, error) {
		out, err := handle(ctx, in)
		if err != nil {
			return nil, s.fail(ctx, r, err)
		}
		return out, nil
	})
}

// fail is the problem that an error is, logged when the client is not told all.
func (s *Server) fail(ctx context.Context, r route, err error) error {
	other := r.other
	if other.code == "" {
		other = internal
	}
	p := problemOf(err, other)
	if grantOf(ctx).Over() && errors.Is(err, context.Canceled) {
		p = errTokenOver()
	}
	if p.Status == http.StatusInternalServerError {
		a, _ := ctx.Value(askedKey{}).(asked)
		s.failed(a, "request failed", "operation", r.id, "error", err)
	}
	return p
}

const (
	mainDesktop  = fleet.Main
	mainPath     = "/v1/desktop"
	anyPath      = "/v1/desktops/{desktop}"
	recordedPath = anyPath + "/recordings"
	desktopParam = "desktop"
)

// instanceKey is the key of the desktop that a path names, in a context.
type instanceKey struct{}

type requestKey struct{}

// onInstance registers an operation of a desktop twice: of main, and of any.
func onInstance[I, O any](s *Server, r route, handle func(context.Context, *fleet.Instance, *I) (*O, error)) {
	of := func(ctx context.Context, in *I) (*O, error) {
		inst, ok := ctx.Value(instanceKey{}).(*fleet.Instance)
		if !ok {
			return nil, unknownDesktop("")
		}
		return handle(ctx, inst, in)
	}
	if r.scope == grants.ScopeAdmin && !r.admin {
		if r.scope = grants.ScopeControl; r.method == http.MethodGet {
			r.scope = grants.ScopeView
		}
	}
	path := r.path
	r.path = mainPath + path
	add(s, r, of)
	r.path, r.id = anyPath+path, r.id+"Of"
	r.errors = append(slices.Clone(r.errors), http.StatusNotFound)
	add(s, r, of)
}

// on registers an operation on a running desktop, which ends when the client
// closes its connection. check sees the arguments
// first: what is wrong with them is told before what is wrong with the desktop.
func on[I, O any](s *Server, r route, check func(*I) error, handle func(context.Context, Desktop, *I) (*O, error)) {
	r.errors = append([]int{http.StatusBadRequest, http.StatusConflict, http.StatusServiceUnavailable, http.StatusGatewayTimeout}, r.errors...)
	onInstance(s, r, func(ctx context.Context, inst *fleet.Instance, in *I) (*O, error) {
		if check != nil {
			if err := check(in); err != nil {
				return nil, err
			}
		}
		d, err := running(inst)
		if err != nil {
			return nil, err
		}
		if r, ok := ctx.Value(requestKey{}).(*request); ok {
			var stop func()
			ctx, stop = untilGone(ctx, r.c)
			defer stop()
		}
		return handle(ctx, d, in)
	})
}

// findInstance is the middleware that looks up the desktop which a path names.
func (s *Server) findInstance(ctx huma.Context, next func(huma.Context)) {
	path := ctx.Operation().Path
	id := mainDesktop
	switch {
	case strings.HasPrefix(path, anyPath):
		id = ctx.Param(desktopParam)
	case path != mainPath && !strings.HasPrefix(path, mainPath+"/"):
		next(ctx)
		return
	}
	find := s.fleet.Find
	if strings.HasPrefix(path, recordedPath) && (path != recordedPath || ctx.Method() != http.MethodPost) {
		find = s.fleet.FindRecorded
	}
	inst, actor, bad := s.visit(requestOf(ctx), id, find)
	if bad != nil {
		s.write(requestOf(ctx).c, bad)
		return
	}
	acting := desktop.WithActor(ctx.Context(), actor)
	if requestOf(ctx).c.Get(typingHeader) != "" {
		acting = desktop.WithPerson(acting)
	}
	ctx = huma.WithContext(ctx, acting)
	next(huma.WithValue(huma.WithValue(ctx, instanceKey{}, inst), requestKey{}, requestOf(ctx)))
}

// visit returns the desktop with an id, and the actor of a request on it. A token that is
// for another desktop gets the same problem whether the desktop exists or not.
func (s *Server) visit(r *request, id string, find func(string) (*fleet.Instance, error)) (*fleet.Instance, desktop.Actor, *Problem) {
	if g := r.grant; g != nil && g.Desktop != "" && g.Desktop != id {
		return nil, desktop.Actor{}, permissionDenied.problem(
			fmt.Sprintf("permission denied: this token is good for the desktop %s only", g.Desktop))
	}
	inst, err := find(id)
	if err != nil {
		return nil, desktop.Actor{}, problemOf(err, internal)
	}
	name, bad := callerOf(r.c.Get(actorHeader))
	if bad != nil {
		return nil, desktop.Actor{}, bad
	}
	actor := r.grant.Actor(name)
	if key := r.c.Get(viewerHeader); key != "" {
		if stream := inst.RunningStream(); stream != nil {
			if v, ok := stream.ViewerActor(key); ok {
				actor = v
			}
		}
	}
	return inst, actor, nil
}

func unknownDesktop(id string) *Problem {
	return missing("desktop", id)
}

// missing is the problem of an id that names nothing.
func missing(resource, id string) *Problem {
	return notFound.problem("not found: "+resource+" "+id).
		with("details", map[string]any{"resource": resource, "id": id})
}

// oldSpellings are further names of query parameters, which the document leaves
// out: code that is generated of it has one name for both.
var oldSpellings = map[string]string{"showCursor": "show_cursor"}

// checkQuery refuses what huma would let pass: parameters that are given twice,
// and booleans other than true and false.
func (s *Server) checkQuery(ctx huma.Context, next func(huma.Context)) {
	r := requestOf(ctx)
	args := r.c.Context().QueryArgs()
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
			s.write(r.c, rejected(invalidRequest, []*huma.ErrorDetail{{Location: "query." + name, Message: problem}}))
			return
		}
	}
	next(ctx)
}

// pngType is the MIME type of PNG pictures.
const pngType = desktop.TypePNG

// binary describes a body of that MIME type.
func binary() *huma.MediaType {
	return &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}
}
