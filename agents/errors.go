package agents

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
)

var (
	// ErrClosed is returned if the host was closed before or during the call.
	ErrClosed = errors.New("agent host is closed")

	// ErrDraining is returned for new sessions and prompts after [Host.Drain]. Try again at
	// another host with the same log, or at the next one.
	ErrDraining = errors.New("the agent host is shutting down and takes no new work")

	// ErrServerNotFound is returned if there is no ACP server of that id, or it was deleted.
	ErrServerNotFound = errors.New("no such ACP server")

	// ErrAgentNeeded is returned if the first message to an ACP server names no agent.
	ErrAgentNeeded = errors.New("missing required 'agent' query parameter")

	// ErrNotObject is returned for a message that is JSON but not an object, such as a
	// batch.
	ErrNotObject = errors.New("request body must be a JSON-RPC object")

	// ErrSessionNotFound is returned if there is no session of that id.
	ErrSessionNotFound = errors.New("no such session")

	// ErrSessionExists is returned if a session's id is taken.
	ErrSessionExists = errors.New("session already exists")

	// ErrSessionEnded is returned for a session that has ended.
	ErrSessionEnded = errors.New("session has ended")

	// ErrSessionStarting is returned for a session that is being made. Try again shortly.
	ErrSessionStarting = errors.New("session is being made")

	// ErrTooManyRequests is returned if too many requests wait for an agent's answers. The
	// agent did not get the message. Try again after some answers.
	ErrTooManyRequests = errors.New("too many requests wait for the agent")

	// ErrTooManyAgents is returned if Config.MaxAgents agents run. Try again when one has
	// ended.
	ErrTooManyAgents = errors.New("as many agents run as allowed; end a session, or try again later")

	// ErrNoMemory is returned if less memory than Config.MinMemory is available. Try again
	// later.
	ErrNoMemory = errors.New("too little memory is available to start an agent; end programs, or try again later")

	// ErrRequestNotFound is returned if no question of that id is open. It may have been
	// answered or cancelled.
	ErrRequestNotFound = errors.New("no such open request")
)

// ConflictError reports that an ACP server runs another agent.
type ConflictError struct {
	Server, Have, Want string // Have and Want are agents
}

// Error implements error.
func (e *ConflictError) Error() string {
	return fmt.Sprintf("server '%s' already exists for agent '%s'; requested '%s'", e.Server, e.Have, e.Want)
}

// EnvelopeError reports that a message is not JSON.
type EnvelopeError struct{ Err error }

// Error implements error.
func (e *EnvelopeError) Error() string { return "invalid JSON body: " + e.Err.Error() }

// Unwrap returns Err.
func (e *EnvelopeError) Unwrap() error { return e.Err }

// ExitedError reports that an agent's process ended before it answered, or before the
// request.
type ExitedError struct {
	Agent  string
	Code   *int   // nil: a signal ended it, or it is not known how it ended
	Signal string // for example SIGKILL
	Stderr string // the last 8 KiB of its standard error
}

// Error implements error. It includes the last lines of Stderr.
func (e *ExitedError) Error() string {
	text := "agent process exited: " + e.Agent
	switch {
	case e.Code != nil:
		text += fmt.Sprintf(" (exit code %d)", *e.Code)
	case e.Signal != "":
		text += " (" + e.Signal + ")"
	}
	if words := lastLines(e.Stderr); words != "" {
		text += ": " + words
	}
	return text
}

const (
	stderrLines = 3   // of stderr, in an error's text
	stderrBytes = 500 // of stderr, in an error's text
)

// lastLines returns the last lines of an agent's standard error as one line.
func lastLines(stderr string) string {
	var lines []string
	for line := range strings.Lines(sanitized(stderr)) {
		line = strings.TrimSpace(strings.Map(func(r rune) rune {
			if unicode.IsControl(r) {
				return ' '
			}
			return r
		}, line))
		if line != "" {
			lines = append(lines, line)
		}
	}
	text := strings.Join(lines[max(0, len(lines)-stderrLines):], " | ")
	if len(text) > stderrBytes {
		text = "..." + strings.ToValidUTF8(text[len(text)-stderrBytes:], "")
	}
	return text
}

// ElsewhereError reports that the agent of an ACP server runs in another program that
// shares the log. Use that program, or end it.
type ElsewhereError struct {
	Server  string
	Address string // Config.Address of the other host; empty: it is not known
}

// Error implements error.
func (e *ElsewhereError) Error() string {
	text := fmt.Sprintf("the agent of server '%s' runs in another program that shares the event log", e.Server)
	if e.Address != "" {
		text += ", at " + e.Address
	}
	return text
}

// StartError reports why an agent could not be started.
type StartError struct {
	Agent string
	Err   error
}

// Error implements error.
func (e *StartError) Error() string { return "failed to start agent process: " + e.Err.Error() }

// Unwrap returns Err.
func (e *StartError) Unwrap() error { return e.Err }

// TimeoutError reports that an agent did not answer in time. The request continues. A late
// answer is among the server's events.
type TimeoutError struct {
	Agent, Method string
	After         time.Duration // zero: unknown
}

// Error implements error.
func (e *TimeoutError) Error() string {
	if e.After == 0 {
		return fmt.Sprintf("%s did not answer %s in time", e.Agent, e.Method)
	}
	return fmt.Sprintf("%s did not answer %s within %v", e.Agent, e.Method, e.After)
}

// Timeout returns true.
func (e *TimeoutError) Timeout() bool { return true }

// RestoreError reports that a session could not be opened in a new process of its agent.
// The session does not change. The next request tries again.
type RestoreError struct {
	Session string
	Err     error
}

// Error implements error.
func (e *RestoreError) Error() string {
	return fmt.Sprintf("session %s could not be restored: %v", e.Session, e.Err)
}

// Unwrap returns Err.
func (e *RestoreError) Unwrap() error { return e.Err }

// Bounds of what errors have of an agent's. Sessions keep the text. The data may have the end of
// the agent's standard error.
const (
	maxErrorText = 4 << 10
	maxErrorData = 64 << 10
)

// ResponseError is an agent's JSON-RPC error to a request of the host.
type ResponseError struct {
	Method  string
	Code    int    // zero: the answer was not usable
	Message string // cut at 4 KiB
	Data    []byte // JSON, or nil if there is none or it has more than 64 KiB
}

// Error implements error.
func (e *ResponseError) Error() string {
	if e.Code == 0 {
		return e.Method + ": " + e.Message
	}
	return fmt.Sprintf("%s: %s (%d)", e.Method, e.Message, e.Code)
}

// InvalidError reports an invalid argument.
type InvalidError struct {
	Field  string // as the HTTP API spells it, for example "agent" or "permissionMode"
	Reason string // the rest of the sentence that begins with Field, for example "must not be empty"
}

// Error implements error.
func (e *InvalidError) Error() string { return e.Field + " " + e.Reason }
