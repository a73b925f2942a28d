package opencomputer

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/agents/opencomputer"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

// session is a session of a sandbox.
type session struct {
	host *agents.Host
	agents.Session
}

// record appends an entry to a stream of the log.
func (s *session) record(ctx context.Context, stream string, from eventlog.Direction, kind string, entry any) error {
	payload, err := json.Marshal(entry)
	if err != nil {
		return err
	}
	return s.host.Log().Commit(ctx, func(tx *eventlog.Tx) error {
		_, err := tx.Append(eventlog.Event{Stream: stream, Session: s.ID, Dir: from, Kind: kind, Payload: payload})
		return err
	})
}

// prompt prompts the agent.
func (s *session) prompt(ctx context.Context, text string) error {
	if strings.TrimSpace(text) == "" {
		return rest.InvalidField("text", "text must not be empty")
	}
	blocks, err := json.Marshal([]map[string]string{{"type": "text", "text": text}})
	if err != nil {
		return err
	}
	_, err = s.host.Prompt(ctx, s.ID, blocks)
	return err
}

// configure changes options of the session, and records in its log those that cannot be
// changed.
func (s *session) configure(ctx context.Context, o opencomputer.Options) error {
	missed := append([]string{}, o.Late()...)
	try := func(name, value string, err error) {
		if err != nil {
			missed = append(missed, fmt.Sprintf("%s: %q: %v", name, value, err))
		}
	}
	if o.Model != "" {
		try("model", o.Model, s.host.SetModel(ctx, s.ID, o.Model))
	}
	if o.PermissionMode != "" {
		policy := agents.Policy{}
		if o.PermissionMode == opencomputer.DefaultPermissionMode {
			policy.Mode = agents.Allow
		} else {
			try("permissionMode", o.PermissionMode, s.host.SetMode(ctx, s.ID, o.PermissionMode))
		}
		try("permissionMode", o.PermissionMode, s.host.SetPermissions(ctx, s.ID, policy))
	}
	return s.record(ctx, agents.SessionStream(s.ID), eventlog.Daemon, opencomputer.KindConfigured,
		map[string]any{"jsonrpc": "2.0", "method": opencomputer.KindConfigured, "params": missed})
}

// killed is the kind of an entry that has a killSignal.
const killed = "kill"

type killSignal struct {
	Signal int `json:"signal"`
}

// kill ends the session for good, and records the signal that the client would have ended a
// program with.
func (s *session) kill(ctx context.Context, signal int) error {
	if s.State != eventlog.Ended {
		if err := s.record(ctx, streamOf(s.ID), eventlog.Client, killed, killSignal{signal}); err != nil {
			return err
		}
	}
	return s.host.Terminate(ctx, s.ID)
}

// exitStatus returns the exit status of a session that has ended, as a shell reports it: 128
// and the signal if it was killed, else 0. It does not depend on the agent's process, which
// may have ended earlier or serve other sessions.
func (s *session) exitStatus(ctx context.Context) uint32 {
	stream := streamOf(s.ID)
	newest, err := s.host.Log().Last(ctx, stream)
	if err != nil || newest == 0 {
		return 0 // the log cannot be read
	}
	entries, err := s.host.Log().Read(ctx, stream, newest-1, 1)
	if err != nil || len(entries) == 0 || entries[0].Kind != killed {
		return 0
	}
	var k killSignal
	if json.Unmarshal(entries[0].Payload, &k) != nil || k.Signal < 1 || k.Signal > 64 {
		return 0
	}
	return 128 + uint32(k.Signal)
}
