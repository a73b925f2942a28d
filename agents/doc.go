// Package agents runs coding agents that speak the Agent Client Protocol (ACP), and logs all
// messages between agents and clients before it passes them on.
//
// # Usage
//
// [Start] returns a [Host]. [Host.CreateSession] makes a session with an agent, [Host.Prompt]
// begins a turn, and [Turn.Wait] waits for its end. [Host.Answer] answers an agent's questions.
// The example runs the mock agent.
//
// [Host.Post] and [Host.Follow] pass ACP messages, under a server id of the client's choice. A
// server is one agent, in one process after the other. [Host.Submit] is like Post for callers
// that take the answers from the events. Any number of callers can use all these methods for
// one session concurrently.
//
// docs/sessions.md describes the states of sessions, the events, and the end of processes.
//
// # Messages
//
// The host passes on the bytes of a message. It changes only ids of requests, which clients
// choose without knowing of each other, the request in $/cancel_request, and the id of a
// session that its agent knows by another name. A new session also gets its desktop, and the
// approved tool servers and skills of its folder (package agents/folders). [Session].Problems
// lists entries that do not work or are not approved.
//
// The log has a stream for each server ("acp:ID"), with the agent's messages and events of the
// host, and a stream for each session ([SessionStream]), with both directions. A message is
// committed before it is passed on, so it is not lost in a crash.
//
// # Lifetime
//
// A process of an agent ends when the agent exits, after Config.IdleTimeout, by [Host.Delete],
// or by [Host.Close], which ends all processes and waits for all calls. The host closes the
// agent's input, then sends SIGTERM and SIGKILL, and ends all processes that the agent has
// started. After the idle timeout, or in a new host, the next message starts the agent again
// and restores its session. A prompt is never sent twice.
//
// [Host.Drain] lets turns end before Close. Hosts can share a log in Postgres. Each server runs
// in one of them at a time.
//
// # Concurrency
//
// All methods may be called from any goroutine, except the methods of [Stream], which are for
// one goroutine at a time. [Stream.Sent] may be called from any goroutine.
//
// # Errors
//
// The Err variables and Error types of this package. Errors of package eventlog report that the
// log could not store a message. After [eventlog.ErrUncertain] the message may still be passed
// on. Errors of package registry report that an agent cannot be started.
//
// # Requirements
//
// Linux. Skills from repositories need git. Running agents as another user needs root. With
// Linux 5.14 and a cgroup2 that this user may write to, each agent runs in a control group, so
// that none of its processes outlives it.
package agents
