package tokens

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/deskhand/deskhand/desktop/fleet"
	"github.com/deskhand/deskhand/httpapi/internal/grants"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

type tokenBody struct {
	Scope   string `json:"scope" enum:"view,control,agent,supervise,admin" doc:"view: watch a desktop. control: also send input, which includes a shell if a terminal is open. agent: the same as an agent, and start programs, which includes a shell. supervise: all desktops, agents and sessions, which includes a shell as their users, and the files of roots, but no tokens, secrets and processes of other clients. admin: full access"`
	Desktop string `json:"desktop,omitempty" doc:"Id of the only desktop for which the API accepts the token; defaults to all desktops. Programs on that desktop can use the displays of all desktops of the same user"`
	TTL     *int64 `json:"ttl,omitempty" minimum:"1" maximum:"31622400" doc:"Seconds until the token expires; defaults to a day, at most a year"`
	Name    string `json:"name,omitempty" maxLength:"64" doc:"Name of the recipient, which others can see"`

	Roots []string `json:"roots,omitempty" nullable:"false" maxItems:"16" doc:"Directories whose files a token of the scope supervise reads and writes, with the rights of the server; absolute paths without symbolic links. Defaults to none"`
}

// tokenInfo describes a token without its value.
type tokenInfo struct {
	ID        string    `json:"id"`
	Scope     string    `json:"scope" enum:"view,control,agent,supervise,admin"`
	Desktop   string    `json:"desktop,omitempty"`
	Name      string    `json:"name,omitempty"`
	Roots     []string  `json:"roots,omitempty" nullable:"false" doc:"Directories whose files the token reaches"`
	CreatedAt time.Time `json:"createdAt"`
	ExpiresAt time.Time `json:"expiresAt,omitzero" doc:"Omitted for the token of an agent that runs on this server, which ends with the agent's process"`
	Token     string    `json:"token,omitempty" doc:"Value of the token; only in the response that creates it"`
	Allows    string    `json:"allows,omitempty" doc:"What the token allows, as a text; only in the response that creates it"`
}

type (
	tokenOutput struct{ Body tokenInfo }

	tokensOutput struct {
		Body struct {
			Tokens []tokenInfo `json:"tokens" nullable:"false"`
		}
	}

	tokenID struct {
		ID string `path:"id"`
	}
)

func infoOfToken(g *grants.Grant) tokenInfo {
	return tokenInfo{ID: g.ID, Scope: g.Scope.String(), Desktop: g.Desktop, Name: g.Name, Roots: g.Roots, CreatedAt: g.Created, ExpiresAt: g.Expires}
}

// Config configures the routes of tokens.
type Config struct {
	Store *grants.Store

	// CheckRoot returns an error if a token must not reach the files of a directory.
	CheckRoot func(dir string) error

	// DesktopUser is the name of the user of desktops' programs; empty: this program's.
	// DesktopMenu says that desktops have a menu.
	DesktopUser string
	DesktopMenu bool

	// AgentUser is the name of the user of agents; empty: this program's.
	AgentUser string
}

// area is the area of tokens.
type area struct {
	rest.Group
	Config
}

// Register adds the routes of tokens.
func Register(api *rest.API, cfg Config) {
	a := &area{rest.Group{API: api, Problem: problem}, cfg}

	r := rest.Route{Tag: "Tokens"}
	create := r.Post("createToken", "/v1/tokens", "Create a token")
	create.About = "The server accepts the token like its own, within its scope, until it expires or is revoked. " +
		"The token ends with the token that created it, and when its desktop is deleted. " +
		"To share a link, append #token= and a view token to the URL of the page at /ui/."
	rest.Add(a.Group, create.WithErrors(http.StatusBadRequest, http.StatusConflict, http.StatusServiceUnavailable, http.StatusInsufficientStorage), a.createToken)
	list := r.Get("listTokens", "/v1/tokens", "List tokens, without their values").
		WithAbout("The list includes the tokens of this API, and those that agents on this server use for desktops.")
	rest.Add(a.Group, list, func(context.Context, *struct{}) (*tokensOutput, error) {
		grants, err := a.Store.List()
		out := &tokensOutput{}
		out.Body.Tokens = []tokenInfo{}
		for _, g := range grants {
			out.Body.Tokens = append(out.Body.Tokens, infoOfToken(g))
		}
		return out, err
	})
	revoke := r.Delete("revokeToken", "/v1/tokens/{id}", "Revoke a token").
		WithErrors(http.StatusNotFound, http.StatusServiceUnavailable, http.StatusInsufficientStorage)
	revoke.About = "Connections that use the token, and the tokens that were created with it, end within a second. With 503 and 507, the token " +
		"has ended but the revocation is not stored, so that a restart would make it valid again; the server retries until it is stored."
	revoke.Revokes = true
	rest.Add(a.Group, revoke, func(_ context.Context, in *tokenID) (*struct{}, error) {
		err := a.Store.Revoke(in.ID)
		if errors.Is(err, grants.ErrNotFound) {
			return nil, rest.Missing("token", in.ID)
		}
		return nil, err
	})
}

// problem returns the problem for an error of the tokens, or nil if err is another error.
func problem(err error) *rest.Problem {
	var limit *grants.LimitError
	var storage *grants.StorageError
	switch {
	case errors.As(err, &limit):
		return rest.ConflictOf(limit.Error() + "; DELETE some first")
	case errors.As(err, &storage):
		k := rest.Unavailable
		if rest.NoSpaceLeft(err) {
			k = rest.NoSpace
		}
		return k.Problem(storage.Error()).WithHeader(fiber.HeaderRetryAfter, "2")
	case errors.Is(err, grants.ErrEnded):
		return rest.TokenOver()
	case errors.Is(err, grants.ErrClosed), errors.Is(err, fleet.ErrClosed):
		return rest.Closing()
	}
	return nil
}

func (a *area) createToken(ctx context.Context, in *rest.Input[tokenBody]) (*tokenOutput, error) {
	b := &in.Body
	g := &grants.Grant{Name: b.Name, Desktop: b.Desktop, Roots: b.Roots}
	if err := g.Scope.UnmarshalText([]byte(b.Scope)); err != nil {
		return nil, err // the schema has the same names
	}
	switch {
	case b.Desktop != "" && g.Supervises():
		return nil, rest.InvalidRequest.Problem("invalid request: desktop cannot narrow the scope "+b.Scope+"; leave it out").With("field", "desktop")
	case b.Desktop != "" && fleet.CheckID(b.Desktop) != nil:
		return nil, rest.InvalidRequest.Problem("invalid request: desktop must be the id of a desktop, such as main").With("field", "desktop")
	case b.Name != "" && !grants.ActorName().MatchString(b.Name):
		return nil, rest.InvalidRequest.Problem("invalid request: name must have letters, digits, spaces or any of . _ @ -, and begin with a letter or a digit").With("field", "name")
	}
	if err := a.checkRoots(g); err != nil {
		return nil, err
	}
	var ttl time.Duration // the schema bounds it
	if b.TTL != nil {
		ttl = time.Duration(*b.TTL) * time.Second
	}
	value, err := a.Store.Create(g, ttl, rest.GrantOf(ctx))
	if err != nil {
		return nil, err
	}
	out := &tokenOutput{infoOfToken(g)}
	out.Body.Token, out.Body.Allows = value, a.allows(g)
	return out, nil
}

func (a *area) checkRoots(g *grants.Grant) error {
	if len(g.Roots) > 0 && g.Scope != grants.ScopeSupervise {
		return rest.InvalidRequest.Problem("invalid request: roots are for tokens of the scope supervise; leave them out").With("field", "roots")
	}
	for _, dir := range g.Roots {
		if err := a.CheckRoot(dir); err != nil {
			return rest.InvalidRequest.Problem("invalid request: roots: "+rest.JSONPath(err.Error())).With("field", "roots")
		}
	}
	return nil
}
