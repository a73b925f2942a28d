package opencode

import (
	"context"
	"encoding/json"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/internal/cuttext"
)

// command is a slash command of an agent.
type command struct {
	Name        string   `json:"name"`
	Description string   `json:"description,omitempty"`
	Source      string   `json:"source"`
	Template    string   `json:"template"`
	Hints       []string `json:"hints"`
}

const (
	// commandSessions is how many of the newest sessions commands are taken from, and
	// commandEntries how many entries of a session are read: agents list their commands when
	// a session begins.
	commandSessions = 50
	commandEntries  = 64

	maxCommands     = 1000
	maxCommandEntry = 8 << 20 // bytes of an entry
	maxCommandText  = 1 << 10 // bytes of a name, a description or a hint
)

func (m *machine) commandRoutes() []route {
	return []route{get("/command", func(c *call) (any, error) { return m.commands(c.ctx, c.directory) })}
}

// commands returns the commands that the agents of a directory have reported in their newest
// sessions there, at most maxCommands. It leaves out entries above maxCommandEntry.
func (m *machine) commands(ctx context.Context, dir string) ([]command, error) {
	host, err := m.Host.Get(ctx)
	if err != nil {
		return nil, err
	}
	var sessions []string
	asked := map[string]bool{}
	err = eachSession(ctx, host, eventlog.SessionFilter{Newest: true}, commandSessions, func(s agents.Session) {
		if s.Cwd == dir && !asked[s.Agent] {
			asked[s.Agent] = true
			sessions = append(sessions, s.ID)
		}
	})
	if err != nil {
		return nil, err
	}
	all, known := []command{}, map[string]bool{}
	lists := eventlog.Selection{Dir: eventlog.Agent, Kind: "session/update", MaxBytes: maxCommandEntry}
	for _, id := range sessions {
		for before := int64(commandEntries + 1); ; {
			entries, err := host.Log().ReadBack(ctx, agents.SessionStream(id), before, lists)
			if err != nil {
				return nil, err
			}
			if len(entries) == 0 {
				break
			}
			for _, e := range entries {
				before = e.Seq
				for _, c := range commandsIn(e.Payload) {
					if known[c.Name] {
						continue
					}
					known[c.Name] = true
					if all = append(all, c); len(all) == maxCommands {
						return all, nil
					}
				}
			}
		}
	}
	return all, nil
}

// shortened returns the beginning of a text.
func shortened(text string) string { return cuttext.Cut(text, maxCommandText) }

// commandsIn returns the commands that a message of an agent lists, or nil.
func commandsIn(message []byte) []command {
	var m struct {
		Params struct {
			Update struct {
				Kind     string `json:"sessionUpdate"`
				Commands []struct {
					Name, Description string
					Input             *struct{ Hint string }
				} `json:"availableCommands"`
			}
		}
	}
	if json.Unmarshal(message, &m) != nil || m.Params.Update.Kind != "available_commands_update" {
		return nil
	}
	var all []command
	for _, c := range m.Params.Update.Commands[:min(len(m.Params.Update.Commands), maxCommands)] {
		name := shortened(c.Name)
		one := command{Name: name, Description: shortened(c.Description), Source: "command", Template: "/" + name + " $ARGUMENTS", Hints: []string{}}
		if c.Input != nil && c.Input.Hint != "" {
			one.Hints = append(one.Hints, shortened(c.Input.Hint))
		}
		all = append(all, one)
	}
	return all
}
