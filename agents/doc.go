// Package agents runs coding agents that speak the Agent Client Protocol (ACP), and logs
// everything that they and their clients say before it is passed on.
//
// # Usage
//
// Start returns a [Host]. CreateSession makes a session with an agent, Prompt begins a turn,
// and Turn.Wait waits for its end. See the example, which runs the mock agent. [Host.Answer]
// answers an agent's questions.
//
// [Host.Post] and [Host.Follow] pass ACP messages themselves, under a server id of the client's
// choice. A server is one agent, in one process after the other. Clients of sandbox-agent use
// it. [Host.Submit] is like Post for callers that take the answers from the events. Any number
// of callers can use both ways for one session at the same time.
//
// docs/sessions.md has the states of sessions, the events, and what happens after the end of a
// process.
//
// # Messages
//
// Messages pass as the bytes that they are, with three changes: ids of requests, which clients
// choose without knowing of each other, the request that $/cancel_request names, and the id of a
// session that its agent knows by another name. A new session also gets the tool servers and
// skills of its folder that count (package agents/folders), and its desktop. [Session].Problems
// lists entries that do not work or are not approved.
//
// The log has a stream for each server ("acp:ID"), with what the agent wrote and events of the
// host, and one for each session ([SessionStream]), with both directions. A message is committed
// before it is passed on, so what a client was told is there after a crash. [Host.Post] returns
// an answer after the followers that report their progress ([Stream.Sent]) have sent the events
// before it, or after a moment.
//
// # Lifetime
//
// A process of an agent ends by itself, when it is idle for Config.IdleTimeout, by [Host.Delete],
// or by Close, which ends all processes and waits for all calls. After the idle timeout or a
// restart of the host, the next message starts it again and restores its session. A prompt is
// never sent twice. An agent is ended by the end of its input, then by SIGTERM, then by SIGKILL,
// with everything that it started.
//
// Hosts can share a log in Postgres. A server runs in one of them at a time.
//
// # Concurrency
//
// All methods may be called from any goroutine, except the methods of a [Stream], which is for one
// goroutine at a time. Only [Stream.Sent] may be called from any.
//
// # Errors
//
// The Err variables and the Error types. [ElsewhereError] says that another host runs the server.
// Errors of package eventlog say that the log could not store a message. After
// [eventlog.ErrUncertain] the message may still be passed on. Errors of package registry are about
// agents that cannot be started.
//
// # Requirements
//
// Linux. Skills from repositories need git, and running agents as another user needs root. With
// Linux 5.14 and a cgroup2 that this user may write to, each agent runs in a control group, so that
// none of its processes can escape its end.
package agents
