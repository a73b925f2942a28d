package opencode_test

import (
	"fmt"
	"time"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/agents/opencode"
)

// A session's title is the first line of its first prompt until it has another.
func Example() {
	s := agents.Session{
		Session: eventlog.Session{ID: "ses_1", Agent: "codex", Cwd: "/project", State: eventlog.Running, CreatedAt: time.UnixMilli(1), UpdatedAt: time.UnixMilli(2)},
		Prompt:  "Find the fault.",
	}
	as := opencode.SessionOf(s, "global", "1.0.0")
	fmt.Println(as.Title, as.Model.Provider, as.Model.ID, opencode.StatusOf(s).Type)
	// Output: Find the fault. codex default busy
}
