package registry

import (
	"errors"
	"fmt"
	"strings"
)

// ErrUnknownAgent is returned if no agent has that name.
var ErrUnknownAgent = errors.New("unsupported agent")

// ErrNotInstalled is matched by every [NotInstalledError].
var ErrNotInstalled = errors.New("agent not installed")

// ErrClosed is returned if the registry was closed before or during the call.
var ErrClosed = errors.New("registry is closed")

// NotInstalledError reports that an agent is known but not installed.
type NotInstalledError struct {
	Agent  string
	Reason string // empty: it was not found
	Remedy string // what to do
}

// Error implements error.
func (e *NotInstalledError) Error() string {
	return sentence("agent not installed: "+e.Agent, e.Reason, e.Remedy)
}

// Is reports whether target is [ErrNotInstalled].
func (e *NotInstalledError) Is(target error) bool { return target == ErrNotInstalled }

// InstallError reports why an agent could not be installed.
type InstallError struct {
	Agent  string
	Stage  Stage
	Err    error
	Remedy string // what to do; empty: unknown
	Stderr string // the end of the output of npm, or of the agent
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

// AskError reports why [Registry.Ask] failed.
type AskError struct {
	Agent  string
	Err    error
	Stderr string // the end of its standard error
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
