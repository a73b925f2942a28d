package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/fleet"
	"github.com/deskhand/deskhand/httpapi/internal/grants"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

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
func onInstance[I, O any](s *Server, r rest.Route, handle func(context.Context, *fleet.Instance, *I) (*O, error)) {
	of := func(ctx context.Context, in *I) (*O, error) {
		inst, ok := ctx.Value(instanceKey{}).(*fleet.Instance)
		if !ok {
			return nil, unknownDesktop("")
		}
		return handle(ctx, inst, in)
	}
	if r.Scope == grants.ScopeAdmin && !r.Admin {
		if r.Scope = grants.ScopeControl; r.Method == http.MethodGet {
			r.Scope = grants.ScopeView
		}
	}
	path := r.Path
	r.Path = mainPath + path
	rest.Add(s.routes, r, of)
	r.Path, r.ID = anyPath+path, r.ID+"Of"
	r.Errors = append(slices.Clone(r.Errors), http.StatusNotFound)
	rest.Add(s.routes, r, of)
}

// on registers an operation on a running desktop, which ends when the client
// closes its connection. check sees the arguments
// first: what is wrong with them is told before what is wrong with the desktop.
func on[I, O any](s *Server, r rest.Route, check func(*I) error, handle func(context.Context, Desktop, *I) (*O, error)) {
	r.Errors = append([]int{http.StatusBadRequest, http.StatusConflict, http.StatusServiceUnavailable, http.StatusGatewayTimeout}, r.Errors...)
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
		if r, ok := ctx.Value(requestKey{}).(*rest.Request); ok {
			var stop func()
			ctx, stop = rest.UntilGone(ctx, r.Fiber)
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
	inst, actor, bad := s.visit(rest.RequestOf(ctx), id, find)
	if bad != nil {
		s.rest.Write(rest.RequestOf(ctx).Fiber, bad)
		return
	}
	acting := desktop.WithActor(ctx.Context(), actor)
	if rest.RequestOf(ctx).Fiber.Get(typingHeader) != "" {
		acting = desktop.WithPerson(acting)
	}
	ctx = huma.WithContext(ctx, acting)
	next(huma.WithValue(huma.WithValue(ctx, instanceKey{}, inst), requestKey{}, rest.RequestOf(ctx)))
}

// visit returns the desktop with an id, and the actor of a request on it. A token that is
// for another desktop gets the same problem whether the desktop exists or not.
func (s *Server) visit(r *rest.Request, id string, find func(string) (*fleet.Instance, error)) (*fleet.Instance, desktop.Actor, *rest.Problem) {
	if g := r.Grant; g != nil && g.Desktop != "" && g.Desktop != id {
		return nil, desktop.Actor{}, rest.PermissionDenied.Problem(
			fmt.Sprintf("permission denied: this token is good for the desktop %s only", g.Desktop))
	}
	inst, err := find(id)
	if err != nil {
		return nil, desktop.Actor{}, problemOf(err, rest.Internal)
	}
	name, bad := callerOf(r.Fiber.Get(actorHeader))
	if bad != nil {
		return nil, desktop.Actor{}, bad
	}
	actor := r.Grant.Actor(name)
	if key := r.Fiber.Get(viewerHeader); key != "" {
		if stream := inst.RunningStream(); stream != nil {
			if v, ok := stream.ViewerActor(key); ok {
				actor = v
			}
		}
	}
	return inst, actor, nil
}

func unknownDesktop(id string) *rest.Problem {
	return rest.Missing("desktop", id)
}

// pngType is the MIME type of PNG pictures.
const pngType = desktop.TypePNG
