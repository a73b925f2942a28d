// Package agents hosts coding agents that speak the Agent Client Protocol (ACP),
// and keeps everything that they and their clients say in a log.
//
// # Usage
//
// See the example, which runs the mock agent: [eventlog.Open], [Start],
// [Host.CreateSession], [Host.Prompt], [Turn.Wait].
//
// There are two ways to an agent. Any number of callers may use both for one session:
//
//   - [Host.Post] and [Host.Follow] carry ACP unchanged, under a server id that the
//     client chooses. A server is one agent, in one process after the other. Clients
//     of sandbox-agent speak this. [Host.Submit] is like Post for callers that take the
//     answers from the events.
//   - [Host.CreateSession], [Host.Prompt], [Host.Answer] and others are for callers in
//     Go. They send the same messages.
//
// # Messages
//
// A message passes byte by byte, except for three values: the id of a request, since
// clients choose theirs without knowing of each other; the request that
// $/cancel_request names; and the id of a session that the agent knows by another id.
// A session that is made or opened also gets its desktop, and the tool servers and
// skills that are configured for its folder and approved (package agents/folders).
// [Session].Problems lists the entries that do not work.
//
// The first answer to a question of the agent's counts. A process may have 1024 open
// questions, of Config.MaxMessageBytes together. Others are answered with an error.
//
// # The log
//
// Every message is in the log before it is passed on. A server's stream ("acp:ID",
// which Follow reads) has what the agent wrote, and these messages of the host:
// _adapter/invalid_stdout for a line that is not a message, _adapter/agent_exited, and
// _adapter/unmatched_response for an answer without a request. A session's stream
// ([SessionStream]) has the messages in both directions. Its events are named by the
// method, or "response:" and the method. session/restored and session/problem are the
// host's.
//
// A client sees the events of a turn no later than the turn's answer: before
// [Host.Post] returns an answer it waits a moment for the streams that tell, by
// [Stream.Sent], what they have passed on.
//
// While the log takes nothing (no space, locked, Postgres away), clients get its error
// immediately, and the messages of agents wait. A caller whose message is being
// committed when Postgres goes away blocks for up to two seconds, then gets
// [eventlog.ErrUncertain]: the message may still be passed on.
//
// Hosts may share a log in Postgres. A server runs in one of them at a time. The others
// return an [ElsewhereError] until its process or its host has ended. They complete the
// record of a host that is gone for Config.GoneAfter. A host that was cut off ends the
// agents whose servers another host has started or deleted meanwhile, and writes
// nothing more of them.
//
// # Processes and sessions
//
// An agent's process ends by itself, with the host, after Config.IdleTimeout, or by
// [Host.Delete]. After the second and third the next message starts the agent again.
// The host then repeats the client's initialize and opens the session of the message: by
// session/resume, by session/load, or in a new session whose first prompt begins with
// the history, whichever the agent can do first. It makes the session's choices again
// before other messages pass. A prompt is never sent twice.
//
// A session is starting, idle, running (in a turn), waiting (for a permission),
// interrupted (its process ended in a turn; it can go on), ended, or failed (it could
// not be made).
//
// An agent is ended by the end of its input, then by SIGTERM, then by SIGKILL, with
// everything that it started. It runs in a control group of its own where this program
// may make one. Elsewhere a process that leaves its tree and session and cleans its
// environment is not found (package supervise).
//
// # Concurrency
//
// All methods may be called from any goroutine, except those of [Stream]. Close waits
// for everything that runs. Calls that wait for an agent get [ErrClosed].
//
// # Errors
//
// [ErrClosed], [ErrServerNotFound], [ErrAgentNeeded], [ErrNotObject],
// [ErrSessionNotFound], [ErrSessionExists], [ErrSessionStarting], [ErrSessionEnded],
// [ErrRequestNotFound], [ErrTooManyRequests]; [EnvelopeError], [ConflictError],
// [ElsewhereError], [ExitedError], [StartError], [TimeoutError], [RestoreError],
// [ResponseError], [OptionError] and [InvalidError]; those of package eventlog while the
// log takes nothing, and those of package registry about agents that cannot be started.
//
// # Requirements
//
// Linux; git for skills from repositories; root to run agents as another user; for
// control groups, Linux 5.14 and a cgroup2 that this user may write to.
package agents
