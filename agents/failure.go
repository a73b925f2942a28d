package agents

import (
	"encoding/json"
	"errors"
)

// Answered tells whether a message is a request, so that [Host.Post] waits for
// its answer.
func Answered(message []byte) bool {
	e, err := parse(message)
	return err == nil && e.isRequest()
}

// Failure is the answer to a request that an error of [Host.Post] stands for,
// for whom a status cannot be told any more.
func Failure(request []byte, err error) []byte {
	id := json.RawMessage("null")
	if e, bad := parse(request); bad == nil && e.id.there() {
		id = e.bytes(e.id)
	}
	var data any
	if exited, ok := errors.AsType[*ExitedError](err); ok {
		data = map[string]any{"agent": exited.Agent, "exitCode": exited.Code, "agentStderr": exited.Stderr}
	}
	return failureOf(id, codeInternal, err.Error(), data)
}
