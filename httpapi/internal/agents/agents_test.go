package agents

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/registry"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

func TestServerStatus(t *testing.T) {
	t.Parallel()
	known, err := registry.New(registry.Config{Dir: t.TempDir(), Env: []string{"HOME=" + t.TempDir(), "PATH=" + t.TempDir()}})
	if err != nil {
		t.Fatal(err)
	}
	api, err := rest.New(rest.Config{NoToken: true, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	Register(api, Config{Registry: known, Servers: func(context.Context) map[string]agents.AgentStatus {
		return map[string]agents.AgentStatus{"mock": {Running: true, Since: time.Now().Add(-time.Hour)}, "pi": {}}
	}})
	api.Finish()
	t.Cleanup(func() {
		api.BeginClose()
		api.AwaitServing()
		if err := known.Close(); err != nil {
			t.Error(err)
		}
	})
	status := func(id string) map[string]any {
		w := httptest.NewRecorder()
		api.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost/v1/agents/"+id, nil))
		var info struct{ ServerStatus map[string]any }
		if err := json.Unmarshal(w.Body.Bytes(), &info); err != nil || w.Code != 200 {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		return info.ServerStatus
	}
	if up, _ := status("mock")["uptimeMs"].(float64); up < 3.6e6 || status("mock")["status"] != "running" {
		t.Errorf("mock: %v", status("mock"))
	}
	if diff := cmp.Diff(map[string]any{"status": "stopped"}, status("pi")); diff != "" {
		t.Errorf("pi (-want +got):\n%s", diff)
	}
	if got := status("claude"); got != nil {
		t.Errorf("claude: %v", got)
	}
}
