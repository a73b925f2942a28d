package secrets

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/deskhand/deskhand/desktop/secrets"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

type secretBody struct {
	Value string `json:"value" format:"password" writeOnly:"true" doc:"1 to 65,536 bytes of UTF-8 without NUL. No response contains it"`
}

type (
	secretName struct {
		Name string `path:"name" maxLength:"64"`
	}

	secretInput struct {
		Name string `path:"name" maxLength:"64" doc:"1 to 64 letters, digits or any of _ . -; begins with a letter or _"`
		Body secretBody
	}

	secretInfo struct {
		Name  string    `json:"name"`
		SetAt time.Time `json:"setAt" doc:"When its value was set"`
	}

	secretList struct {
		Secrets []secretInfo `json:"secrets" nullable:"false" doc:"Sorted by name"`
	}
)

// Register adds the routes of secrets.
func Register(api *rest.API, store *secrets.Store) {
	g := rest.Group{API: api, Problem: problem}
	r := rest.Route{Tag: "Secrets"}
	list := r.Get("listSecrets", "/v1/secrets", "List secrets without their values")
	rest.Add(g, list, func(context.Context, *struct{}) (*rest.Output[secretList], error) {
		list := []secretInfo{}
		for _, s := range store.List() {
			list = append(list, secretInfo{s.Name, s.Set})
		}
		return rest.Reply(secretList{list}, nil)
	})
	set := r.Get("setSecret", "/v1/secrets/{name}", "Set a secret").
		WithAbout("keyboard/type and the secretEnv of processes use a secret by its name. The server keeps the value in memory until the secret is deleted "+
			"or the server ends. No response contains it.").
		WithErrors(http.StatusBadRequest, http.StatusConflict)
	set.Method, set.Status = http.MethodPut, http.StatusNoContent
	rest.Add(g, set, func(_ context.Context, in *secretInput) (*struct{}, error) {
		return nil, store.Set(in.Name, in.Body.Value)
	})
	remove := r.Delete("deleteSecret", "/v1/secrets/{name}", "Delete a secret").WithErrors(http.StatusNotFound)
	rest.Add(g, remove, func(_ context.Context, in *secretName) (*struct{}, error) {
		err := store.Delete(in.Name)
		if errors.Is(err, secrets.ErrNotFound) {
			return nil, rest.Missing("secret", in.Name)
		}
		return nil, err
	})
}

// problem returns the problem for an error of a store, or nil if err is another error.
func problem(err error) *rest.Problem {
	var bad *secrets.InvalidError
	switch {
	case errors.As(err, &bad):
		return rest.InvalidField(bad.Field, bad.Error())
	case errors.Is(err, secrets.ErrTooMany):
		return rest.ConflictOf(err.Error() + "; DELETE one first")
	}
	return nil
}
