// Package agents hosts coding agents that speak the Agent Client Protocol (ACP),
// and loses nothing of what they and their clients say.
//
// # Usage
//
//	log, err := eventlog.Open(ctx, eventlog.Config{DSN: "events.db"})
//	agents, err := registry.New(registry.Config{})
//	h, err := agents.Start(ctx, agents.Config{Log: log, Registry: agents})
//	defer h.Close()
//	s, err := h.CreateSession(ctx, "mine", agents.SessionOptions{Agent: "mock", Cwd: dir})
//	turn, err := h.Prompt(ctx, "mine", []byte(`[{"type":"text","text":"hello"}]`))
//	result, err := turn.Wait(ctx)
//
// There are two ways to an agent, and both may be used for one session by any
// number of callers at a time:
//
//   - [Host.Post] and [Host.Follow] carry ACP as it is, under a server id of the
//     client's choice, which stands for one agent in one process after the
//     other. This is what clients of sandbox-agent speak. [Host.Submit] is like
//     Post for callers that take the answers from the events.
//   - [Host.CreateSession], [Host.Prompt], [Host.Answer] and their like are made
//     of the same messages, for callers in Go.
//
// # Messages
//
// Messages pass as the bytes that they are. Three things are changed on the way
// to the agent, and back on the way to clients: the id of a request, since
// clients choose theirs without knowing of each other; the request that
// $/cancel_request names; and the id of a session whose agent calls it by
// another name than its clients do. A session that is made or opened gets, in
// addition to what its client asks for, the tool servers and skills that are
// configured for its folder (.sandbox-agent/config/mcp.json, skills.json) and
// count (package agents/folders), and its desktop. [Session].Problems lists
// entries that do not work or are not approved; they do not keep the session
// from starting.
//
// Of several answers to a question of the agent's the first counts. Of one
// process 1024 questions may be open, which together may have
// Config.MaxMessageBytes; further ones are answered with an error, at once.
//
// # The log
//
// Everything is in the log before it is passed on, in either direction, so that
// whatever a client was told is there after a crash. A server's stream
// ("acp:ID", which Follow reads) has what the agent wrote, and events of the
// host: _adapter/invalid_stdout for what is no message, _adapter/agent_exited,
// and _adapter/unmatched_response for an answer that nobody asked for. A
// session's stream ([SessionStream]) has what was said in both directions. Its
// events are named by the method, "response:" and the method for answers, and
// by session/restored and session/problem for what the host tells.
//
// A client sees the events of a turn no later than the turn's answer: before
// [Host.Post] returns an answer it waits a moment for the streams that tell, by
// [Stream.Sent], what they have passed on.
//
// While the log takes nothing (no space, locked, its Postgres away), clients get
// its error at once, and agents wait: what they say meanwhile comes afterwards.
// Whose message was just being committed when Postgres went away waits, and gets
// [eventlog.ErrUncertain] when that takes more than two seconds; the message may
// be passed on later then.
//
// Hosts may share a log that is in Postgres. A server runs in one of them at a
// time; the others return an [ElsewhereError] for it until its process or its
// host has ended. Of a host that is gone for Config.GoneAfter they complete the
// record: its sessions are in no turn any more, and who follows them is told so.
// One that was cut off ends its agents whose servers others have started or deleted
// meanwhile, and writes nothing more of them: who waits for them, or follows them,
// gets the ElsewhereError, or ErrServerNotFound.
//
// # Lives and sessions
//
// A process of an agent ends by itself, with the host, when it is idle for
// Config.IdleTimeout, or by [Host.Delete]. After the second and third the next
// message starts it again, whoever sends it and without naming the agent: the
// host repeats the client's initialize, unless the message is one, and opens the
// session that the message is for once that is answered: by session/resume, by
// session/load, or in a new session whose first prompt tells the agent what was
// said, whichever the agent can do first. The session is set to what was chosen
// for it before anybody else's message passes. A prompt is never sent twice.
//
// A session is starting, idle, running (a turn is under way), waiting (an agent
// asks for a permission), interrupted (its process ended in the middle of a
// turn; it can go on), ended, or failed (it could not be made).
//
// An agent is ended by the end of its input, then by SIGTERM, then by SIGKILL,
// and everything that it started ends with it. Where this program may make
// control groups of version 2 below its own, each agent runs in one, and nothing
// can leave that. Elsewhere what cleans its environment and also leaves its tree
// and its session is not found (package supervise).
//
// # Concurrency
//
// Everything may be called from any goroutine. Close waits for all that runs;
// the calls that wait for an agent get [ErrClosed].
//
// # Errors
//
// [ErrClosed], [ErrServerNotFound], [ErrAgentNeeded], [ErrNotObject],
// [ErrSessionNotFound], [ErrSessionExists], [ErrSessionStarting],
// [ErrSessionEnded], [ErrRequestNotFound], [ErrTooManyRequests];
// [EnvelopeError], [ConflictError], [ElsewhereError], [ExitedError],
// [StartError], [TimeoutError], [RestoreError], [ResponseError] and
// [InvalidError]; those of package eventlog when the log takes nothing, and
// those of package registry about agents that cannot be started.
//
// # Requirements
//
// Linux; git for skills that come from repositories; root to run agents as
// another user; for control groups, Linux 5.14 and a cgroup2 that this user may
// write to.
package agents
