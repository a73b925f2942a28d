package httpapi

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"testing"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/mockagent"
)

// The token of an agent's process is listed. It ends with the process, and when it is
// revoked.
func TestAgentTokenEnds(t *testing.T) {
	t.Parallel()
	requireDesktop(t)
	var heard bytes.Buffer // by the agent that was started last
	cfg := Config{}
	cfg.AgentHost.Launch = func(context.Context, string) (agents.Launch, error) {
		heard.Reset()
		return agents.Launch{Run: func(ctx context.Context, in io.Reader, out io.Writer) error {
			return mockagent.Run(ctx, io.TeeReader(in, &heard), out, mockagent.Config{})
		}}, nil
	}
	s := serve(t, cfg)
	begin := func(id string) (value string) {
		t.Helper()
		s.post(t, "/v1/sessions/"+id, fmt.Sprintf(`{"agent":"mock","directory":%q,"desktop":"main"}`, t.TempDir())).want(t, 200)
		return regexp.MustCompile(`dha_\w+`).FindString(heard.String())
	}
	status := func(value string) int {
		return s.do(t, call{path: "/v1/desktop/status", header: map[string]string{"Authorization": "Bearer " + value}}).StatusCode
	}
	listed := func() []map[string]any {
		var list struct{ Tokens []map[string]any }
		decode(t, s.get(t, "/v1/tokens").want(t, 200).body, &list)
		return list.Tokens
	}
	one, two := begin("one"), begin("two")
	if one == two || status(one) != 200 || status(two) != 200 {
		t.Fatalf("the tokens %q and %q are answered %d and %d", one, two, status(one), status(two))
	}
	all := listed()
	if len(all) != 2 {
		t.Fatalf("tokens: %v", all)
	}
	for _, token := range all {
		_, expires := token["expiresAt"]
		if token["name"] != "mock" || token["scope"] != "agent" || token["desktop"] != "main" || expires {
			t.Errorf("token: %v", token)
		}
	}
	s.do(t, call{method: http.MethodDelete, path: fmt.Sprint("/v1/tokens/", all[1]["id"])}).want(t, 204)
	if status(one) != 200 || status(two) != 401 || len(listed()) != 1 {
		t.Errorf("after the second token was revoked the tokens are answered %d and %d; tokens: %v", status(one), status(two), listed())
	}
	s.post(t, "/v1/sessions/one/terminate", "{}").want(t, 204)
	eventually(t, "the end of the token with its agent", func() bool { return status(one) == 401 && len(listed()) == 0 })
}
