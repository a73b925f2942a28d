package httpapi

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/fleet"
)

// TestDatabaseSecrets: with the password of the log of all sessions, what a server
// starts could write to it. A file has none, and then the variable is the user's.
func TestDatabaseSecrets(t *testing.T) {
	t.Setenv("PGPASSWORD", "of the database")
	for dsn, hidden := range map[string]bool{"postgresql://me@host/db": true, "postgres.db": false} {
		var secrets []string
		s := serve(t, Config{
			EventLog: eventlog.Config{DSN: dsn}, Secrets: []string{"MY_SECRET"},
			Start: func(_ context.Context, _ string, cfg desktop.Config) (fleet.Desktop, error) {
				secrets = cfg.Secrets
				return nil, errors.New("it does not start")
			},
		})
		out := s.post(t, "/v1/processes/run", `{"command":"env"}`).want(t, 200).json(t)["stdout"].(string)
		if strings.Contains(out, "PGPASSWORD=") == hidden {
			t.Errorf("%s: environment of a process: %s", dsn, out)
		}
		s.post(t, "/v1/desktop/start", "{}")
		if slices.Contains(secrets, "PGPASSWORD") != hidden || !slices.Contains(secrets, "MY_SECRET") {
			t.Errorf("%s: desktops do not get %q", dsn, secrets)
		}
	}
}
