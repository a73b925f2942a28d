package files

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/deskhand/deskhand/desktop/fleet"
	"github.com/deskhand/deskhand/filesystem"
	"github.com/deskhand/deskhand/httpapi/internal/grants"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

// TestArchiveOfEndedToken: an archive that is not sent because the token has ended leaves its
// place to others.
func TestArchiveOfEndedToken(t *testing.T) {
	t.Parallel()
	all, err := fleet.Open(t.Context(), fleet.Config{StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	tokens := grants.New(grants.Config{
		StateDir: all.StateDir(), Logger: slog.New(slog.DiscardHandler),
		NewestRecording: func(string) (string, error) { return "", nil },
	})
	top := t.TempDir()
	if err := os.WriteFile(filepath.Join(top, "file"), make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	files, err := filesystem.Open(filesystem.Config{Home: top})
	if err != nil {
		t.Fatal(err)
	}
	api, err := rest.New(rest.Config{FindToken: tokens.Find, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	a := &area{Group: rest.Group{API: api, Problem: Problem}, Reach: NewReach(files, func() []string { return nil })}
	revoke := true
	route := rest.Route{Scope: grants.ScopeSupervise}.Get("test", "/archive", "Download an archive whose token ends")
	rest.Add(a.Group, route, func(ctx context.Context, in *archiveInput) (*archiveOutput, error) {
		out, err := a.downloadArchive(ctx, in)
		if err == nil && revoke {
			err = tokens.Revoke(rest.GrantOf(ctx).ID)
		}
		return out, err
	})
	api.Finish()
	t.Cleanup(func() {
		api.BeginClose()
		api.AwaitServing()
		tokens.Close()
		for _, err := range []error{a.Close(), files.Close(), all.Close()} {
			if err != nil {
				t.Error(err)
			}
		}
	})
	status := func() int {
		value, err := tokens.Create(&grants.Grant{Scope: grants.ScopeSupervise, Roots: []string{top}}, 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "http://localhost/archive", nil)
		r.Header.Set("Authorization", "Bearer "+value)
		api.Handler().ServeHTTP(w, r)
		return w.Code
	}
	for range 8 { // as many as there are places
		if got := status(); got != http.StatusUnauthorized {
			t.Fatalf("the token has ended, and the answer is %d", got)
		}
	}
	revoke = false
	if got := status(); got != http.StatusOK {
		t.Errorf("the answer to another token is %d", got)
	}
}
