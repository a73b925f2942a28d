// Package opencomputer makes the messages of OpenComputer's agent sessions of
// what a session's log holds.
//
// # Usage
//
//	var s opencomputer.State
//	for _, entry := range entries { // of the session's stream, in order
//		for _, line := range s.Apply(entry) {
//			send(line)
//		}
//	}
//
// Apply is a pure function of the state and the entry: the same log makes the
// same lines, in one go or entry by entry.
//
// # What becomes what
//
// OpenComputer's clients read ready, configured, turn_complete, interrupted and
// error, and between them the messages of the Claude Agent SDK. Claude's adapter
// passes those on as they are when it is asked to ([MetaOf] does), and then they
// are told as they are. Of other agents' logs they are made: system (init),
// assistant, user (tool results) and result, each with "synthetic": true.
// What gets lost then: partial messages, the models' message ids and stop
// reasons, costs, and everything that ACP has no word for.
//
// # Concurrency
//
// A State is for one goroutine.
//
// # Errors
//
// There are none: what cannot be understood is left out, since the log has it.
package opencomputer
