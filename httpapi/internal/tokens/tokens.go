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
	Scope   string `json:"scope" enum:"view,control,agent,admin" doc:"view: see a desktop. control: act on it, too, which is a shell if a terminal is open there. agent: the same as an agent, and start programs on it, which is a shell. admin: everything"`
	Desktop string `json:"desktop,omitempty" doc:"Id of the only desktop that it is good for; all when left out"`
	TTL     *int64 `json:"ttl,omitempty" minimum:"1" maximum:"31622400" doc:"Seconds until it expires; a day when left out, a year at most"`
	Name    string `json:"name,omitempty" maxLength:"64" doc:"Whom it is for; others see it"`
}

// tokenInfo describes a token without its value.
type tokenInfo struct {
	ID        string    `json:"id"`
	Scope     string    `json:"scope" enum:"view,control,agent,admin"`
	Desktop   string    `json:"desktop,omitempty"`
	Name      string    `json:"name,omitempty"`
	CreatedAt time.Time `json:"createdAt"`
	ExpiresAt time.Time `json:"expiresAt,omitzero" doc:"Left out if it is the token of an agent that runs here, which ends with the agent's process"`
	Token     string    `json:"token,omitempty" doc:"Its value, shown when it is made and never again"`
	Allows    string    `json:"allows,omitempty" doc:"What its holder can do with it, in words; told when it is made"`
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
	return tokenInfo{ID: g.ID, Scope: g.Scope.String(), Desktop: g.Desktop, Name: g.Name, CreatedAt: g.Created, ExpiresAt: g.Expires}
}

// Config configures the routes of tokens.
type Config struct {
	Store *grants.Store

	// DesktopUser is the name of the user of desktops' programs; empty: this program's.
	// DesktopMenu says that desktops have a menu.
	DesktopUser string
	DesktopMenu bool
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
	create := r.Post("createToken", "/v1/tokens", "Make a token for another client")
	create.About = "It is accepted wherever the server's own is, for as much as its scope allows, until it expires or is revoked. " +
		"It ends with the token that made it, and with its desktop. " +
		"Put a view token behind #token= of the page at /ui/ to have a link to share."
	rest.Add(a.Group, create.WithErrors(http.StatusBadRequest, http.StatusConflict, http.StatusServiceUnavailable, http.StatusInsufficientStorage), a.createToken)
	list := r.Get("listTokens", "/v1/tokens", "List tokens, without their values").
		WithAbout("The list has the tokens that were made by request, and the tokens with which agents that run here use desktops.")
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
	revoke.About = "Whatever uses it ends within a second, and so do the tokens that were made with it. 503 and 507 say that the token " +
		"has ended but that this could not be stored, so that it would be valid again after a restart; the server tries again until it is stored."
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
	g := &grants.Grant{Name: b.Name, Desktop: b.Desktop}
	if err := g.Scope.UnmarshalText([]byte(b.Scope)); err != nil {
		return nil, err // the schema has the same names
	}
	switch {
	case b.Desktop != "" && g.Scope == grants.ScopeAdmin:
		return nil, rest.InvalidRequest.Problem("invalid request: desktop cannot narrow the scope admin; leave it out").With("field", "desktop")
	case b.Desktop != "" && fleet.CheckID(b.Desktop) != nil:
		return nil, rest.InvalidRequest.Problem("invalid request: desktop must be the id of a desktop, such as main").With("field", "desktop")
	case b.Name != "" && !grants.ActorName().MatchString(b.Name):
		return nil, rest.InvalidRequest.Problem("invalid request: name must have letters, digits, spaces or any of . _ @ -, and begin with a letter or a digit").With("field", "name")
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
	out.Body.Token, out.Body.Allows = value, a.allows(g.Scope)
	return out, nil
}
