package httpapi

import (
	"context"
	"encoding/json"

	"github.com/deskhand/deskhand/agents/eventlog"
)

// ocKilled is the kind of the entry in ocStream that has an ocSignal.
const ocKilled = "kill"

type ocSignal struct {
	Signal int `json:"signal"`
}

// ocEnd ends a session for good, and remembers the signal that the client would
// have ended a program with.
func ocEnd(ctx context.Context, v *view, signal int) error {
	id := v.session.ID
	if v.session.State != eventlog.Ended {
		payload, err := json.Marshal(ocSignal{signal})
		if err != nil {
			return err
		}
		err = v.log.Commit(ctx, func(tx *eventlog.Tx) error {
			_, err := tx.Append(eventlog.Event{Stream: ocStream(id), Session: id, Dir: eventlog.Client, Kind: ocKilled, Payload: payload})
			return err
		})
		if err != nil {
			return err
		}
	}
	return v.host.Terminate(ctx, id)
}

// ocStatus is the exit status of a session that has ended, as a shell would tell
// it: 128 and the signal when it was killed, else 0. The agent's process may
// still run, for other sessions, or have ended before.
func ocStatus(ctx context.Context, v *view) int32 {
	stream := ocStream(v.session.ID)
	newest, err := v.log.Last(ctx, stream)
	if err != nil || newest == 0 {
		return 0 // the log cannot be read: all that is known is that it ended
	}
	entries, err := v.log.Read(ctx, stream, newest-1, 1)
	if err != nil || len(entries) == 0 || entries[0].Kind != ocKilled {
		return 0
	}
	var s ocSignal
	if json.Unmarshal(entries[0].Payload, &s) != nil || s.Signal < 1 || s.Signal > 64 {
		return 0
	}
	return 128 + int32(s.Signal)
}
