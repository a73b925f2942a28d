// Package opencomputer makes the messages of OpenComputer's agent sessions from a
// session's log.
//
// # Usage
//
// A [State] takes the entries of a session's log in order. [State.Apply] returns the lines
// that an entry makes, see the example. Apply is a pure function of the state and the
// entry: the same log always makes the same lines.
//
// [MetaOf] returns what Claude's adapter gets with session/new, so that it passes the
// messages of the Claude Agent SDK on.
//
// # Messages
//
// OpenComputer's clients read ready, configured, turn_complete, interrupted and error, and
// between them the messages of the Claude Agent SDK. If Claude's adapter passes these on,
// they are returned unchanged. For other agents they are made from the log, each with
// "synthetic": true: system (init), assistant, user (tool results) and result. These have
// no partial messages, message ids, stop reasons or costs, and nothing for which ACP has no
// message.
//
// # Concurrency
//
// A State is for one goroutine at a time.
//
// # Errors
//
// Apply returns no errors. It leaves out what it cannot understand.
package opencomputer
