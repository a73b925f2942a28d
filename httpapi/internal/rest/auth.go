package rest

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"

	"github.com/deskhand/deskhand/httpapi/internal/grants"
)

// The security schemes of the OpenAPI document. An operation names the schemes by
// which clients can authenticate. An operation without a scheme is open.
const (
	bearerScheme = "bearer"
	QueryScheme  = "accessToken"
)

// byToken is the Security of operations that need the token in a header.
func byToken() []map[string][]string {
	return []map[string][]string{{bearerScheme: {}}}
}

// byTokenOrQuery is the Security of operations that browsers reach with a bare
// URL: pictures, event streams and WebSockets cannot send headers.
func byTokenOrQuery() []map[string][]string {
	return []map[string][]string{{bearerScheme: {}}, {QueryScheme: {}}}
}

// access decides which requests pass: by their origin, their token, and its scope.
type access struct{ *API }

// authenticate lets a request pass when it has the token.
func (a access) authenticate(ctx huma.Context, next func(huma.Context)) {
	r := RequestOf(ctx)
	switch {
	case len(r.op.Security) == 0:
		next(ctx)
		return
	case a.cfg.NoToken:
		a.beginSpan(r)
		next(ctx)
		return
	}
	switch g, ok := a.admits(r); {
	case !ok:
	case g != nil && !g.Scope.Allows(scopeOf(r.op)):
		a.Write(r.Fiber, PermissionDenied.Problem(fmt.Sprintf(
			"permission denied: this token has the scope %s, and this needs %s", g.Scope, scopeOf(r.op))).
			With("details", map[string]any{"scope": g.Scope.String(), "needed": scopeOf(r.op).String()}))
		return
	default:
		r.Grant = g
		a.beginSpan(r)
		defer r.endWith(g)()
		next(ctx)
		return
	}
	a.logRefusal(r)
	p := tokenInvalid.Problem("token invalid").
		With("details", map[string]any{"message": "missing or invalid bearer token"}).
		WithHeader(fiber.HeaderWWWAuthenticate, "Bearer")
	a.Write(r.Fiber, p)
}

// logRefusal logs a request without a valid token. It leaves out every part that may hold a
// token.
func (a access) logRefusal(r *Request) {
	skipped, due := a.refusals.Take(time.Now())
	if !due {
		return
	}
	about := askedOf(r.Fiber)
	a.log.Warn("request without a valid token", "method", about.method, "path", redact(about.path), "client", a.Client(r.Fiber), "request", about.id, "skipped", skipped)
}

// GrantOf returns the grant of a request's token; nil for the server's own or none.
func GrantOf(ctx context.Context) *grants.Grant {
	if r := RequestIn(ctx); r != nil {
		return r.Grant
	}
	return nil
}

// endWith ends the request's context when its token ends, unless stop is called before.
func (r *Request) endWith(g *grants.Grant) (stop func()) {
	if g == nil {
		return func() {}
	}
	// It is not cancelled when the handler returns: what the handler has left
	// running ends on its own, or with the connection that Hold closes.
	ctx, cancel := context.WithCancel(r.ctx)
	r.WithContext(ctx)
	end := context.AfterFunc(g.Context(), cancel)
	return func() { end() }
}

// TokenOver returns the problem for a request whose token ended before its answer.
func TokenOver() *Problem {
	return tokenInvalid.Problem("token invalid").With("details", map[string]any{"message": "the token has expired or was revoked"})
}

// admits reports whether a request has a valid token. The grant
// is nil for the server's own.
func (a access) admits(r *Request) (*grants.Grant, bool) {
	token, ok := headerToken(r.Fiber)
	if !ok && r.op.Metadata[basicKey] == true {
		token, ok = basicToken(r.Fiber)
	}
	if !ok {
		token = "" // other schemes have no token
		others := r.op.Metadata[apiKeyKey] == true
		if others {
			token = r.Fiber.Get("X-Api-Key")
		}
		for _, scheme := range r.op.Security {
			if _, inQuery := scheme[QueryScheme]; inQuery {
				token = cmp.Or(token, r.Fiber.Query("access_token"))
				if others {
					token = cmp.Or(token, r.Fiber.Query("token"), r.Fiber.Query("api_key"))
				}
			}
		}
	}
	return a.lookUp(token)
}

// headerToken returns the token of the header Authorization. ok is false if the header has
// another scheme than Bearer, or Token, which older clients send.
func headerToken(c *fiber.Ctx) (token string, ok bool) {
	header := c.Get(fiber.HeaderAuthorization)
	if token, ok = strings.CutPrefix(header, "Bearer "); ok {
		return token, true
	}
	return strings.CutPrefix(header, "Token ")
}

// basicToken returns the password of Basic authentication, from the header or the query
// parameter auth_token, in which OpenCode's clients send it.
func basicToken(c *fiber.Ctx) (token string, ok bool) {
	encoded, ok := strings.CutPrefix(c.Get(fiber.HeaderAuthorization), "Basic ")
	if !ok {
		encoded = c.Query(basicParameter)
	}
	decoded, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return "", false
	}
	_, token, ok = strings.Cut(string(decoded), ":")
	return token, ok
}

// lookUp reports whether a token is valid. The grant is nil for the server's own.
func (a access) lookUp(token string) (*grants.Grant, bool) {
	if token == "" {
		return nil, false
	}
	if a.rightToken(token) {
		return nil, true
	}
	g := a.cfg.FindToken(token)
	return g, g != nil
}

// tokenNames are the query parameters that can hold a token. The page uses t and
// token.
var tokenNames = []string{"access_token", "token", "api_key", "t", basicParameter}

// basicParameter is the query parameter of basicToken.
const basicParameter = "auth_token"

// proven reports whether a valid token shows that a page of another origin may send this request.
// A page that a user visits does not know a token. With one in the query, it was given that. This
// counts only if there is none in the header, which comes first. With one in the header, the page
// had to ask first by a preflight, or a proxy has added it, perhaps to the requests of all pages.
// Browsers say whose page it is in Sec-Fetch-Site, but Chromium does not for WebSockets, which
// have no preflight: only a page of this machine may have one then. Without tokens proven returns
// false: every request has all rights, and a stored token may have a smaller scope.
func (a access) proven(c *fiber.Ctx, origin string) bool {
	if a.cfg.NoToken {
		return false
	}
	var given []string
	if c.Get(fiber.HeaderAuthorization) == "" && c.Get("X-Api-Key") == "" { // which may come before the query
		basic, _ := basicToken(c)
		given = append(given, basic)
		for _, name := range tokenNames {
			given = append(given, c.Query(name))
		}
	}
	_, host, _ := strings.Cut(origin, "://")
	socket := strings.EqualFold(c.Get(fiber.HeaderUpgrade), "websocket")
	if !fromOtherSite(c) && (!socket || a.Gate.knownHost(host)) {
		header, _ := headerToken(c)
		given = append(given, header, c.Get("X-Api-Key"))
	}
	return slices.ContainsFunc(given, func(token string) bool {
		_, ok := a.lookUp(token)
		return ok
	})
}

// Keys of what an operation keeps for authenticate: the scope that it needs, and whether
// the token may also come as an API key or as a password.
const (
	scopeKey  = "deskhand-scope"
	apiKeyKey = "deskhand-api-key"
	basicKey  = "deskhand-basic"
)

func scopeOf(op *huma.Operation) grants.Scope {
	s, _ := op.Metadata[scopeKey].(grants.Scope)
	return s
}

// rightToken compares in constant time.
func (a access) rightToken(token string) bool {
	got, want := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(a.cfg.Token))
	return subtle.ConstantTimeCompare(got[:], want[:]) == 1
}
