package computer_test

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/deskhand/deskhand/agents/computer"
	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/internal/testlog"
)

// TestLog: the log has why a tool failed, unless a person types.
func TestLog(t *testing.T) {
	t.Parallel()
	var log testlog.Buffer
	s, err := computer.NewServer(startDesktop(t, desktop.Config{}), computer.Config{
		Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	if err != nil {
		t.Fatal(err)
	}
	press := func(key string, change func(*http.Request)) {
		t.Helper()
		body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"key","arguments":{"text":"` + key + `"}}}`
		if w := raw(t, s, http.MethodPost, body, change); !strings.Contains(w.Body.String(), key) {
			t.Errorf("key %s: %s", key, w.Body)
		}
	}
	person := func(r *http.Request) { *r = *r.WithContext(desktop.WithPerson(r.Context())) }
	press("hunter1", nil)
	press("hunter2", person)
	got := log.String()
	if !strings.Contains(got, "hunter1") || strings.Contains(got, "hunter2") || strings.Count(got, `msg="tool failed" tool=key`) != 2 {
		t.Errorf("log: %s", got)
	}
}
