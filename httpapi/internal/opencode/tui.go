package opencode

import (
	"cmp"

	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

// The commands of the terminal UI, by the names that older clients have for them.
var tuiCommands = map[string]string{
	"session_new": "session.new", "session_list": "session.list", "session_share": "session.share", "session_interrupt": "session.interrupt",
	"session_compact": "session.compact", "messages_page_up": "session.page.up", "messages_page_down": "session.page.down",
	"messages_half_page_up": "session.half.page.up", "messages_half_page_down": "session.half.page.down", "messages_line_up": "session.line.up",
	"messages_line_down": "session.line.down", "messages_first": "session.first", "messages_last": "session.last",
	"agent_cycle": "agent.cycle", "input_clear": "prompt.clear", "input_submit": "prompt.submit",
}

// The events that control a terminal UI.
const (
	tuiAppend  = "tui.prompt.append"
	tuiCommand = "tui.command.execute"
	tuiToast   = "tui.toast.show"
	tuiSelect  = "tui.session.select"
)

// tuiRoutes lists the routes that control the terminal UIs that follow the events of a
// directory.
func (m *machine) tuiRoutes() []route {
	command := func(c *call, name string) (any, error) {
		m.publish(c.directory, tuiCommand, map[string]string{"command": name})
		return true, nil
	}
	all := []route{
		post("/tui/append-prompt", func(c *call) (any, error) { return m.control(c, tuiAppend, "text") }),
		post("/tui/show-toast", func(c *call) (any, error) { return m.control(c, tuiToast, "message", "variant") }),
		post("/tui/select-session", func(c *call) (any, error) { return m.control(c, tuiSelect, "sessionID") }),
		post("/tui/execute-command", func(c *call) (any, error) {
			var b struct{ Command string }
			if err := c.ReadJSON(&b); err != nil {
				return nil, err
			}
			return command(c, cmp.Or(tuiCommands[b.Command], b.Command))
		}),
		post("/tui/publish", func(c *call) (any, error) {
			var b struct {
				Type       string
				Properties map[string]any
			}
			if err := c.ReadJSON(&b); err != nil {
				return nil, err
			}
			if err := oneOf("type", b.Type, tuiAppend, tuiCommand, tuiToast, tuiSelect); err != nil {
				return nil, err
			}
			m.publish(c.directory, b.Type, b.Properties)
			return true, nil
		}),
	}
	for path, name := range map[string]string{
		"open-help": "help.show", "open-models": "model.list", "open-sessions": "session.list", "open-themes": "theme.list",
		"submit-prompt": "prompt.submit", "clear-prompt": "prompt.clear",
	} {
		all = append(all, post("/tui/"+path, func(c *call) (any, error) { return command(c, name) }))
	}
	return all
}

// control publishes the body of a request as an event. The body must have the named members,
// which are texts.
func (m *machine) control(c *call, kind string, members ...string) (any, error) {
	var b map[string]any
	if err := c.ReadJSON(&b); err != nil {
		return nil, err
	}
	for _, name := range members {
		if text, ok := b[name].(string); !ok || text == "" {
			return nil, rest.InvalidField(name, name+" is missing")
		}
	}
	m.publish(c.directory, kind, b)
	return true, nil
}
