package httpapi

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
)

// TestOpenCodeCommands: the list of slash commands is bounded, and has none from entries that are
// large or not of the agent.
func TestOpenCodeCommands(t *testing.T) {
	t.Parallel()
	s, dir := serve(t, Config{}), t.TempDir()
	if err := s.OpenAgents(t.Context()); err != nil {
		t.Fatal(err)
	}
	list := func(format string, n int) []byte {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(format, i))
		}
		return []byte(`{"params":{"update":{"sessionUpdate":"available_commands_update","availableCommands":[` + strings.Join(all, ",") + `]}}}`)
	}
	long := strings.Repeat("x", 4<<10)
	err := s.agents.Started().Log().Commit(t.Context(), func(tx *eventlog.Tx) error {
		if err := tx.PutSession(eventlog.Session{ID: "listed", Agent: "mock", Origin: "oc", Cwd: dir, State: eventlog.Idle}); err != nil {
			return err
		}
		for _, e := range []eventlog.Event{
			{Dir: eventlog.Agent, Payload: list(`{"name":"long%d`+long+`","description":"`+long+`","input":{"hint":"`+long+`"}}`, 3)},
			{Dir: eventlog.Agent, Payload: list(`{"name":"large%d","description":"`+strings.Repeat("x", 9<<20)+`"}`, 1)},
			{Dir: eventlog.Client, Payload: list(`{"name":"forged%d"}`, 1)},
			{Dir: eventlog.Agent, Payload: list(`{"name":"small%d"}`, 600)},
			{Dir: eventlog.Agent, Payload: list(`{"name":"many%d"}`, 390)},
		} {
			e.Stream, e.Kind = agents.SessionStream("listed"), "session/update"
			if _, err := tx.Append(e); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var got []struct {
		Name, Description, Template string
		Hints                       []string
	}
	read := func() (kinds map[string]int) {
		t.Helper()
		decode(t, s.get(t, "/opencode/command?directory="+url.QueryEscape(dir)).want(t, 200).body, &got)
		kinds = map[string]int{}
		for _, c := range got {
			kinds[strings.TrimRight(c.Name, "0123456789x")]++
			if len(c.Name)+len(c.Description)+len(c.Template)+len(strings.Join(c.Hints, "")) > 5<<10 {
				t.Errorf("the command %.10s has %d bytes of a name, %d of a description", c.Name, len(c.Name), len(c.Description))
			}
		}
		return kinds
	}
	if kinds := read(); fmt.Sprint(kinds) != "map[long:3 many:390 small:600]" {
		t.Errorf("commands = %v", kinds)
	}
	err = s.agents.Started().Log().Commit(t.Context(), func(tx *eventlog.Tx) error {
		_, err := tx.Append(eventlog.Event{
			Stream: agents.SessionStream("listed"), Dir: eventlog.Agent, Kind: "session/update", Payload: list(`{"name":"more%d"}`, 5000),
		})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if kinds := read(); fmt.Sprint(kinds) != "map[more:1000]" {
		t.Errorf("commands = %v", kinds)
	}
}
