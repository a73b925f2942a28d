package mockagent_test

import (
	"fmt"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/deskhand/deskhand/agents/mockagent"
)

func TestTools(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(toolHandler())
	t.Cleanup(server.Close)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	stdio := fmt.Sprintf(`{"name":"child","command":%q,"args":[],"env":[{"name":%q,"value":"mcp"},{"name":"PLACE","value":"a child"}]}`, self, playVariable)
	web := func(token string) string {
		return fmt.Sprintf(`{"type":"http","name":"web","url":%q,"headers":[{"name":"Authorization","value":"Bearer %s"}]}`, server.URL, token)
	}
	for _, test := range []struct{ name, servers, place string }{
		{"http", "[" + web("secret") + "]", ""},
		{"stdio", "[" + stdio + "]", "a child"},
		{"first one broken", "[" + web("wrong") + "," + stdio + "]", "a child"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := startAgent(t, mockagent.Config{})
			id := c.session(test.servers)
			for i := range 2 { // the connection stays
				c.prompt(id, `tool count {"text":"x"}`)
				want := fmt.Sprintf("call %d in %s", i+1, test.place)
				if c.kinds() != "tool_call:in_progress tool_call_update:completed agent_message_chunk" || c.seen[1].Params.Update.text() != want {
					t.Errorf("%s: %q", c.kinds(), c.said())
				}
				if !strings.Contains(c.said(), "1 image(s)") || !strings.Contains(c.seen[1].raw, `"type":"image"`) {
					t.Error(c.said())
				}
			}
			c.prompt(id, `tool refuse {"text":"this"}`)
			if c.kinds() != "tool_call:in_progress tool_call_update:failed agent_message_chunk" || !strings.Contains(c.said(), "will not this") {
				t.Errorf("%s: %q", c.kinds(), c.said())
			}
		})
	}
	for _, test := range []struct{ name, servers, want string }{
		{"no such tool", "[" + web("secret") + "]", "there are count, refuse"},
		{"refused", "[" + web("wrong") + "]", "Unauthorized"},
		{"no such program", `[{"name":"x","command":"/no/such/program"}]`, "/no/such/program"},
		{"no server", `[{"name":"x","command":"sh","args":["-c","echo broken >&2; exit 1"]}]`, "broken"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := startAgent(t, mockagent.Config{})
			id := c.session(test.servers)
			c.prompt(id, "tool nothing")
			if c.kinds() != "tool_call:in_progress tool_call_update:failed agent_message_chunk" || !strings.Contains(c.said(), test.want) {
				t.Errorf("%s: %q", c.kinds(), c.said())
			}
		})
	}
}
