package processes

import (
	"fmt"

	"github.com/danielgtaylor/huma/v2"

	"github.com/deskhand/deskhand/httpapi/internal/grants"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
	"github.com/deskhand/deskhand/process"
)

// A token of the scope supervise starts processes on desktops alone, where they run as the
// user of desktops and without the server's environment. It gets no values of secrets, and
// nothing of processes that other tokens started. The processes of all these tokens have a
// manager of their own.

// limited reports whether a token is one of the scope supervise.
func limited(g *grants.Grant) bool { return g != nil && g.Scope != grants.ScopeAdmin }

// enter is the Enter of routes of one process.
func (a *Area) enter(ctx huma.Context, next func(huma.Context)) {
	r := rest.RequestOf(ctx)
	if limited(r.Grant) && !a.ofGuest(ctx.Param("id")) {
		a.Write(r.Fiber, rest.Missing("process", ctx.Param("id")))
		return
	}
	next(ctx)
}

// ofGuest reports whether a token of the scope supervise started the process of that id.
func (a *Area) ofGuest(id string) bool {
	m, err := a.managers()
	if err != nil {
		return false
	}
	p, err := m.guests.Find(id)
	return err == nil && p.Info().Owner == process.OwnerUser
}

// allowedFor refuses what a token must not start.
func (b *startBody) allowedFor(g *grants.Grant) error {
	if !limited(g) {
		return nil
	}
	field := ""
	switch {
	case b.User != "":
		field = "user"
	case len(b.SecretEnv) > 0:
		field = "secretEnv"
	case b.Desktop == "":
		return rest.PermissionDenied.Problem(fmt.Sprintf("permission denied: this token has the scope %s, which starts processes on a desktop only; set desktop", g.Scope)).
			With("field", "desktop")
	default:
		return nil
	}
	return rest.PermissionDenied.Problem(fmt.Sprintf("permission denied: this token has the scope %s, and %s needs admin", g.Scope, field)).With("field", field)
}
