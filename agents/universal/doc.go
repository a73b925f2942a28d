// Package universal makes the events of the older REST API of sandbox-agent (0.1:
// UniversalEvent) from a session's log, stores them, and reads them.
//
// # Usage
//
// A [Projector] has the events of all sessions of a log. Projector.Session returns the
// [Projection] of one session: Events reads pages of its events, and Follow waits for new
// ones. See the example.
//
// A [State] makes events of entries without a log and stores nothing, see its example. Apply
// is a pure function of the state and the entry: the same log always makes the same events,
// with the same ids and sequence numbers. [State.Snapshot] stores a State, which [Restore]
// reads in programs with the same [Version].
//
// # Events
//
//	session/new answered           session.started
//	a prompt                       turn.started, and the user's message as an item
//	message and thought chunks     an item, with a delta for each chunk
//	tool call                      an item tool_call; when it ends, an item tool_result
//	plan, mode, options, usage     an item of kind status
//	a question about permission    permission.requested and permission.resolved
//	a plan that wants approval     question.requested and question.resolved
//	a form (elicitation/create)    question.requested and question.resolved
//	the prompt answered            turn.ended, with an error event if it failed
//	the agent exited in a turn     error, turn.ended, session.ended
//	configuration that fails       error, with the code configuration
//	session ended                  session.ended
//	other messages of the agent    agent.unparsed
//
// Every item has item.started, at least one item.delta if it has text, and
// item.completed. Events that the agent did not send have synthetic true and source daemon.
//
// # Lifetime
//
// Events are made when they are read. Events of long sessions are made earlier, in the
// background ([Projector.OnAppend]). [Projector.Close] stops the background work and waits for
// it. A Follower and a State need no Close.
//
// # Concurrency
//
// The methods of a Projector and a [Projection] may be called from any goroutine.
// A State and a [Follower] are for one goroutine at a time.
//
// # Errors
//
// The errors of package eventlog, and [io.EOF] at the end of a turn that is followed. An entry
// that cannot be understood becomes agent.unparsed.
package universal
