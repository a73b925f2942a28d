package httpapi

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"

	"github.com/deskhand/deskhand/httpapi/internal/grants"
)

// The security schemes of the OpenAPI document. An operation names those by
// which it lets clients in; one that names none is open.
const (
	bearerScheme = "bearer"
	queryScheme  = "accessToken"
)

// byToken is the Security of operations that need the token in a header.
func byToken() []map[string][]string {
	return []map[string][]string{{bearerScheme: {}}}
}

// byTokenOrQuery is the Security of operations that browsers reach with a bare
// URL: pictures, event streams and WebSockets cannot send headers.
func byTokenOrQuery() []map[string][]string {
	return []map[string][]string{{bearerScheme: {}}, {queryScheme: {}}}
}

// authenticate lets a request pass when it has the token.
func (s *Server) authenticate(ctx huma.Context, next func(huma.Context)) {
	r := requestOf(ctx)
	if s.cfg.NoToken || len(r.op.Security) == 0 {
		next(ctx)
		return
	}
	switch g, ok := s.admits(r); {
	case !ok:
	case g != nil && !g.Scope.Allows(scopeOf(r.op)):
		s.write(r.c, permissionDenied.problem(fmt.Sprintf(
			"permission denied: this token has the scope %s, and this needs %s", g.Scope, scopeOf(r.op))).
			with("details", map[string]any{"scope": g.Scope.String(), "needed": scopeOf(r.op).String()}))
		return
	default:
		r.grant = g
		defer r.endWith(g)()
		next(ctx)
		return
	}
	s.logRefusal(r)
	p := tokenInvalid.problem("token invalid").
		with("details", map[string]any{"message": "missing or invalid bearer token"}).
		header(fiber.HeaderWWWAuthenticate, "Bearer")
	s.write(r.c, p)
}

// refusalInterval is the shortest time between two log lines about requests without
// a valid token.
const refusalInterval = time.Second

// refusals counts requests that were refused and not logged.
type refusals struct {
	mu      sync.Mutex // guards what follows
	logged  time.Time  // the last time that one was logged
	skipped int        // since then
}

// take adds a refusal. It reports whether it is due to be logged, and how many were
// not logged before it.
func (r *refusals) take(now time.Time) (skipped int, due bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.logged) < refusalInterval {
		r.skipped++
		return 0, false
	}
	skipped, r.logged, r.skipped = r.skipped, now, 0
	return skipped, true
}

// logRefusal logs a request without a valid token, but nothing in which the token may
// be.
func (s *Server) logRefusal(r *request) {
	skipped, due := s.refusals.take(time.Now())
	if !due {
		return
	}
	a := askedOf(r.c)
	s.log.Warn("request without a valid token", "method", a.method, "path", a.path, "client", s.client(r.c), "request", a.id, "skipped", skipped)
}

type grantKey struct{}

// grantOf returns the grant of a request's token; nil for the server's own or none.
func grantOf(ctx context.Context) *grants.Grant {
	g, _ := ctx.Value(grantKey{}).(*grants.Grant)
	return g
}

// endWith ends the request's context when its token ends, unless stop is called before.
func (r *request) endWith(g *grants.Grant) (stop func()) {
	if g == nil {
		return func() {}
	}
	// It is not cancelled when the handler returns: what the handler has left
	// running ends by itself, or with what hold was called for.
	ctx, cancel := context.WithCancel(context.WithValue(r.ctx, grantKey{}, g))
	r.WithContext(ctx)
	end := context.AfterFunc(g.Context(), cancel)
	return func() { end() }
}

// errTokenOver is the answer to a request whose token ends before it is done.
func errTokenOver() *Problem {
	return tokenInvalid.problem("token invalid").with("details", map[string]any{"message": "the token has expired or was revoked"})
}

// admits says whether a request has a token that is good for anything. The grant
// is nil for the server's own.
func (s *Server) admits(r *request) (*grants.Grant, bool) {
	token, ok := strings.CutPrefix(r.c.Get(fiber.HeaderAuthorization), "Bearer ")
	if !ok {
		token = "" // what else the header holds is nobody's token
		others := strings.HasPrefix(r.op.Path, ocPath)
		if others { // OpenComputer's clients have a header of their own
			token = r.c.Get("X-Api-Key")
		}
		for _, scheme := range r.op.Security {
			if _, inQuery := scheme[queryScheme]; inQuery {
				token = cmp.Or(token, r.c.Query("access_token"))
				if others {
					token = cmp.Or(token, r.c.Query("token"), r.c.Query("api_key"))
				}
			}
		}
	}
	return s.lookUp(token)
}

// lookUp reports whether a token is valid. The grant is nil for the server's own.
func (s *Server) lookUp(token string) (*grants.Grant, bool) {
	if token == "" {
		return nil, false
	}
	if s.rightToken(token) {
		return nil, true
	}
	g := s.tokens.Find(token)
	return g, g != nil
}

// tokenNames are the query parameters that can hold a token. The page uses t and
// token.
var tokenNames = []string{"access_token", "token", "api_key", "t"}

// proven reports whether a request has a valid token anywhere. A foreign page that
// a user visits does not know a token, and browsers do not add one by themselves.
func (s *Server) proven(c *fiber.Ctx) bool {
	bearer, _ := strings.CutPrefix(c.Get(fiber.HeaderAuthorization), "Bearer ")
	given := []string{bearer, c.Get("X-Api-Key")}
	for _, name := range tokenNames {
		given = append(given, c.Query(name))
	}
	return slices.ContainsFunc(given, func(token string) bool {
		_, ok := s.lookUp(token)
		return ok
	})
}

// scopeKey is where an operation keeps the scope that it needs.
const scopeKey = "deskhand-scope"

func scopeOf(op *huma.Operation) grants.Scope {
	s, _ := op.Metadata[scopeKey].(grants.Scope)
	return s
}

// rightToken compares in a time that tells nothing about the token.
func (s *Server) rightToken(token string) bool {
	got, want := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(s.cfg.Token))
	return subtle.ConstantTimeCompare(got[:], want[:]) == 1
}
