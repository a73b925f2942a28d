// Package mockagent is an agent without a model, for tests and experiments. It
// speaks the Agent Client Protocol (ACP) as Claude Code and Codex do, and needs no key and
// no network. The first word of a prompt chooses what it does. Like real agents it uses request ids
// that collide with the client's, asks for permission, can be cancelled and restored, and
// can crash.
//
// # Usage
//
// Run serves one client, which sends a JSON object per line. The example sends one request.
// The first word of a prompt chooses what the agent does:
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
//	burst N           N messages, as fast as possible
//	crash             the process ends in the middle of the turn
//	desktop X Y       a screenshot and a click at a point of the desktop, after asking
//	tool NAME {json}  a call of that tool of a mounted MCP server
//
// All other prompts are echoed as the agent's message, with their pictures. The first
// answer in a session begins with this list.
//
// A message whose method ACP does not have is echoed as the mock agent of sandbox-agent
// echoes every message: by a notification mock/echo and, if it is a request, by the result
// {"echoed": message}.
//
// # Lifetime
//
// [Run] returns when its input or its context ends. It cancels running turns. With
// [Config.Dir], sessions are kept there at the end of each turn, and a later Run can load,
// resume and list them. A Run begins by deleting sessions whose last turn was 30 days ago.
// Without Config.Dir, sessions end with Run.
//
// # Concurrency
//
// Several Runs can share a directory if each session is used by one Run at a time. Prompts
// of one session run one after the other, prompts of different sessions concurrently.
//
// # Errors
//
// [ErrCrash], errors of reading and writing, and the error of the context. Errors of the
// client are answered with a JSON-RPC error.
//
// # Requirements
//
// None, except the program of a mounted stdio MCP server.
package mockagent
