package agents

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
)

var (
	// ErrClosed says that the host was closed before or during the call.
	ErrClosed = errors.New("agent host is closed")

	// ErrServerNotFound says that there is no ACP server of that id: there
	// never was, or it was deleted.
	ErrServerNotFound = errors.New("no such ACP server")

	// ErrAgentNeeded says that the first message to an ACP server does not say
	// for which agent it is.
	ErrAgentNeeded = errors.New("missing required 'agent' query parameter")

	// ErrNotObject says that a message is JSON, but no object. Batches are none.
	ErrNotObject = errNotObject

	// ErrSessionNotFound says that there is no session of that id.
	ErrSessionNotFound = errors.New("no such session")

	// ErrSessionExists says that a session's id is taken.
	ErrSessionExists = errors.New("session already exists")

	// ErrSessionEnded says that a session takes nothing any more.
	ErrSessionEnded = errors.New("session has ended")

	// ErrSessionStarting says that a session is being made: nobody uses it before
	// it is whole. Try again shortly.
	ErrSessionStarting = errors.New("session is being made")

	// ErrTooManyRequests says that as many requests as may be wait for an agent's
	// answers already. Nothing was done; try again when some are there.
	ErrTooManyRequests = errors.New("too many requests wait for the agent")

	// ErrRequestNotFound says that no question of that id is open: there never
	// was one, or it was answered or cancelled.
	ErrRequestNotFound = errors.New("no such open request")
)

// ConflictError says that an ACP server runs another agent.
type ConflictError struct {
	Server, Have, Want string // Have and Want are agents
}

// Error implements error.
func (e *ConflictError) Error() string {
	return fmt.Sprintf("server '%s' already exists for agent '%s'; requested '%s'", e.Server, e.Have, e.Want)
}

// EnvelopeError says that a message is no JSON.
type EnvelopeError struct{ Err error }

// Error implements error.
func (e *EnvelopeError) Error() string { return "invalid JSON body: " + e.Err.Error() }

// Unwrap returns Err.
func (e *EnvelopeError) Unwrap() error { return e.Err }

// ExitedError says that an agent ended: before it answered, or before it was
// asked.
type ExitedError struct {
	Agent  string
	Code   *int   // nil: a signal ended it, or nobody knows how it ended
	Signal string // SIGKILL, for one
	Stderr string // the last 8 KiB of it
}

// Error implements error. It has the last lines of Stderr, not all.
func (e *ExitedError) Error() string {
	text := "agent process exited: " + e.Agent
	switch {
	case e.Code != nil:
		text += fmt.Sprintf(" (exit code %d)", *e.Code)
	case e.Signal != "":
		text += " (" + e.Signal + ")"
	}
	if words := lastWords(e.Stderr); words != "" {
		text += ": " + words
	}
	return text
}

const (
	wordLines = 3   // of what an agent wrote, in an error's text
	wordBytes = 500 // the same
)

// lastWords are the last lines of what an agent wrote, as one line.
func lastWords(stderr string) string {
	var lines []string
	for line := range strings.Lines(cleaned(stderr)) {
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
	text := strings.Join(lines[max(0, len(lines)-wordLines):], " | ")
	if len(text) > wordBytes {
		text = "..." + strings.ToValidUTF8(text[len(text)-wordBytes:], "")
	}
	return text
}

// ElsewhereError says that the agent of an ACP server runs in another program
// that shares the log. Talk to that one, or end it.
type ElsewhereError struct{ Server string }

// Error implements error.
func (e *ElsewhereError) Error() string {
	return fmt.Sprintf("the agent of server '%s' runs in another program that shares the event log", e.Server)
}

// StartError says why an agent could not be started.
type StartError struct {
	Agent string
	Err   error
}

// Error implements error.
func (e *StartError) Error() string { return "failed to start agent process: " + e.Err.Error() }

// Unwrap returns Err.
func (e *StartError) Unwrap() error { return e.Err }

// TimeoutError says that an agent did not answer in time. The request goes on;
// its answer is among the server's events if it comes.
type TimeoutError struct {
	Agent, Method string
	After         time.Duration // zero: not known
}

// Error implements error.
func (e *TimeoutError) Error() string {
	if e.After == 0 {
		return fmt.Sprintf("%s did not answer %s in time", e.Agent, e.Method)
	}
	return fmt.Sprintf("%s did not answer %s within %v", e.Agent, e.Method, e.After)
}

// Timeout tells that it is one.
func (e *TimeoutError) Timeout() bool { return true }

// RestoreError says that a session could not be continued in a new process of
// its agent. The session stays as it was; the next request tries again.
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

// ResponseError is a JSON-RPC error of an agent, to a request that the host
// made itself or was asked to make by a method of Go.
type ResponseError struct {
	Method  string
	Code    int // zero: the answer was none that could be used
	Message string
	Data    []byte // JSON; nil: none
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
