package registry

import (
	"errors"
	"fmt"
	"strings"
)

// ErrUnknownAgent says that no agent has that name.
var ErrUnknownAgent = errors.New("unsupported agent")

// ErrNotInstalled says that an agent is known, and not installed. The error is
// a [NotInstalledError].
var ErrNotInstalled = errors.New("agent not installed")

// ErrClosed says that the registry was closed before or during the call.
var ErrClosed = errors.New("registry is closed")

// NotInstalledError says why an agent cannot be started.
type NotInstalledError struct {
	Agent  string
	Reason string // empty: it is simply not there
	Remedy string
}

// Error implements error.
func (e *NotInstalledError) Error() string {
	return sentence("agent not installed: "+e.Agent, e.Reason, e.Remedy)
}

// Is makes it an [ErrNotInstalled].
func (e *NotInstalledError) Is(target error) bool { return target == ErrNotInstalled }

// InstallError says why an agent could not be installed.
type InstallError struct {
	Agent  string
	Stage  Stage
	Err    error
	Remedy string // empty: none is known
	Stderr string // the end of what npm, or the agent, wrote
}

// Error implements error.
func (e *InstallError) Error() string {
	return sentence(fmt.Sprintf("install %s: %s: %v", e.Agent, e.Stage, e.Err), e.Remedy)
}

// Unwrap returns the reason.
func (e *InstallError) Unwrap() error { return e.Err }

// InvalidError reports an invalid argument.
type InvalidError struct {
	Field  string
	Reason string // the rest of the sentence that begins with Field
}

// Error implements error.
func (e *InvalidError) Error() string { return e.Field + " " + e.Reason }

// AskError says why an agent did not tell about itself.
type AskError struct {
	Agent  string
	Err    error
	Stderr string // the end of what it wrote
}

// Error implements error.
func (e *AskError) Error() string { return fmt.Sprintf("ask %s: %v", e.Agent, e.Err) }

// Unwrap returns the reason.
func (e *AskError) Unwrap() error { return e.Err }

func sentence(parts ...string) string {
	var kept []string
	for _, p := range parts {
		if p != "" {
			kept = append(kept, p)
		}
	}
	return strings.Join(kept, "; ")
}
