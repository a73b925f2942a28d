// Package mockagent is an agent without a model: it speaks the Agent Client
// Protocol as Claude Code or Codex do, needs no key and no network, and does
// what the words of a prompt say. It is there for trying things out and for
// tests, and so behaves like the real ones where that matters to a client:
// its questions have ids that collide with the client's, it asks for
// permission, it can be cancelled, restored, and it can crash.
//
// # Usage
//
//	err := mockagent.Run(ctx, os.Stdin, os.Stdout, mockagent.Config{Dir: "/var/lib/mock"})
//
// A prompt's first word chooses what it does:
//
//	demo              a message, a thought, tool calls, a plan, usage
//	markdown          a message with every sort of markup
//	permission KINDS  a tool call that asks first, offering options of these
//	                  kinds, or allow_always, allow_once and reject_once
//	plan              a plan that wants approval; changes the mode
//	image             a picture, as message and from a tool
//	diff              an edit with the text before and after
//	error             the turn fails
//	slow              a tick every half second, 20 times; can be cancelled
//	burst N           N messages, as fast as they go
//	crash             the process ends in the middle of the turn
//	tool NAME {json}  a call of that tool of a mounted MCP server
//
// Anything else is echoed as the agent's message, pictures included. The first
// prompt of a session is answered with that list before all else.
//
// Requests and notifications that the protocol does not know are echoed as the
// mock agent of sandbox-agent echoes everything: by a notification "mock/echo"
// and, for requests, by {"echoed": message}.
//
// # Lifetime
//
// [Run] serves one connection, a JSON object per line, until its input ends or
// its context does. Running turns are cancelled then. With [Config.Dir],
// sessions are kept there at the end of each turn, and a later Run can load,
// resume and list them; a Run begins by deleting those whose last turn was 30
// days ago. Without, they end with Run and that is not offered.
//
// # Concurrency
//
// Several Runs may share a directory as long as each session is used by one at
// a time. Prompts of one session wait for each other; those of several run
// side by side.
//
// # Errors
//
// [ErrCrash], what reading and writing returned, and the context's error.
// Everything that a client does wrong is answered with a JSON-RPC error.
//
// # Requirements
//
// None, but for a mounted stdio MCP server the program that it names.
package mockagent
