package opencode

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/agents/opencode"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
	"github.com/deskhand/deskhand/process"
)

// shellRoutes are the routes of commands that the user runs in a session.
func (a *area) shellRoutes() []route {
	return []route{{http.MethodPost, "/session/{sessionID}/shell", func(c *call) (any, error) { return runShell(a, c) }}}
}

// runShell runs a command of the user in the directory of a session. The session's log has the
// command and its output. The agent does not get them.
func runShell(a *area, c *call) (any, error) {
	var body struct {
		Message string `json:"messageID"`
		Command string `json:"command"`
	}
	if err := c.ReadJSON(&body); err != nil {
		return nil, err
	}
	if strings.TrimSpace(body.Command) == "" {
		return nil, rest.InvalidField("command", "command must not be empty")
	}
	f, err := a.find(c)
	if err != nil {
		return nil, err
	}
	if f.isDraft() {
		return nil, rest.ConflictOf("the session has no agent before its first prompt; name a model when you make it")
	}
	processes, err := a.Processes()
	if err != nil {
		return nil, err
	}
	s := opencode.Shell{ID: "sh_" + rand.Text(), Command: body.Command, Chosen: opencode.Chosen{Session: f.ID, Message: body.Message}}
	if err := recordShell(c.ctx, f, s); err != nil {
		return nil, err
	}
	ctx, stop := rest.UntilGone(c.ctx, c.Fiber)
	result, failed := processes.Run(ctx, process.Spec{Command: "/bin/sh", Args: []string{"-c", body.Command}, Dir: f.Cwd, User: a.AgentUser}, process.RunOptions{})
	stop()
	s.Ended, s.Output = true, strings.ToValidUTF8(string(result.Stdout)+string(result.Stderr), "\uFFFD")
	switch {
	case failed != nil:
		s.Failure = failed.Error()
	case result.TimedOut:
		s.Failure = "the command did not end in time"
	default:
		s.Code = exitStatus(process.Info{Exit: &result.Exit})
	}
	if err := recordShell(context.WithoutCancel(c.ctx), f, s); err != nil {
		return nil, err
	}
	return a.answerFrom(c, func(t *opencode.Transcript) any {
		if m := t.Shell(s.ID); m != nil {
			return m
		}
		return nil
	})
}

// recordShell appends the beginning or the end of a command to the log of a session.
func recordShell(ctx context.Context, f found, s opencode.Shell) error {
	payload, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "method": opencode.KindShell, "params": s})
	if err != nil {
		return err
	}
	return f.host.Log().Commit(ctx, func(tx *eventlog.Tx) error {
		_, err := tx.Append(eventlog.Event{Stream: agents.SessionStream(f.ID), Session: f.ID, Dir: eventlog.Daemon, Kind: opencode.KindShell, Payload: payload})
		return err
	})
}
