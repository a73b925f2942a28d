// Package universal makes the events of the older REST API of sandbox-agent
// (0.1: UniversalEvent) of what a session's log holds, stores them, and reads
// them.
//
// # Usage
//
// A [Projector] has the events of all sessions in a log:
//
//	p := universal.NewProjector(log)
//	defer p.Close()
//	events, more, err := p.Session("my-session").Events(ctx, after, 100)
//	for f, err := p.Session("my-session").Follow(ctx, after); err == nil; {
//		events, err = f.Next(ctx) // waits for at least one
//	}
//
// A [State] makes the events of entries and stores nothing:
//
//	s := universal.NewState("my-session")
//	for _, entry := range entries { // of the session's stream, in order
//		for _, e := range s.Apply(entry) {
//			send(e.JSON(includeRaw))
//		}
//	}
//
// Apply is a pure function of the state and the entry: the same log makes the
// same events with the same ids and sequence numbers, at any time, on any
// machine, in one go or entry by entry. [State.Snapshot] is for going on later,
// with the same [Version].
//
// # What becomes what
//
//	session/new answered           session.started
//	a prompt                       turn.started, and the user's message as an item
//	message and thought chunks     an item, with a delta for each chunk
//	tool call                      an item tool_call; when it is over, an item tool_result
//	plan, mode, options, usage     an item of kind status
//	a question about permission    permission.requested and permission.resolved
//	a plan that wants approval     question.requested and question.resolved
//	the prompt answered            turn.ended, with an error event if it failed
//	the agent exited in a turn     error, turn.ended, session.ended
//	configuration that fails       error, with the code configuration
//	session ended                  session.ended
//	anything else of the agent     agent.unparsed
//
// Every item has item.started, at least one item.delta where it has text, and
// item.completed. What an agent does not send itself is made up: such events have
// synthetic true and source daemon.
//
// # Concurrency
//
// The methods of a Projector and a [Projection] may be called from any goroutine.
// A State and a [Follower] are for one goroutine at a time.
//
// # Errors
//
// The errors are those of package eventlog, and [io.EOF] at the end of a turn that
// is followed. An entry that cannot be understood becomes agent.unparsed.
package universal
