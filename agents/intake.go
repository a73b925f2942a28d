package agents

import (
	"log/slog"
	"time"

	"github.com/deskhand/deskhand/agents/eventlog"
)

// intake takes in the messages of clients (intake_client.go) and of the agent
// (intake_agent.go): it validates them, maps their ids, attaches their sessions, and collects
// what there is to commit and to deliver. agentProcess.run owns it. Its state includes the
// messages of the batch that is not committed yet. What a message of a client has changed can
// be undone.
type intake struct {
	host    *Host
	server  *server
	process string // the id in the log
	agent   string
	child   *childProcess
	log     *slog.Logger

	record    *processRecord
	handshake *handshake
	outbox    *outbox
	pending   pendingCalls
	questions questionTable
	sessions  *sessionTable
	turns     *turnSpans
}

// open returns the number of requests and questions without an answer.
func (in *intake) open() int { return len(in.pending.byID) + len(in.questions.open) }

// edit changes an attached session, and adds a host event to its stream.
func (in *intake) edit(fx *effects, session string, n hostEvent, f func(*attachedSession) error, finish func(error)) {
	s := in.sessions.byID[session]
	if s == nil {
		finish(ErrSessionNotFound)
		return
	}
	was := *s
	if err := f(s); err != nil {
		// Earlier changes of the session are in the log by then.
		fx.afterCommit(func() { finish(err) })
		return
	}
	fx.markChanged(s)
	fx.recordHostEvent(s, n)
	fx.onRefusal(func() { s.row, s.data, s.making, s.opening = was.row, was.data, was.making, was.opening })
	fx.afterCommit(func() {
		switch {
		case s.row.State == eventlog.Ended:
			in.sessions.detach(s)
		case in.sessions.byID[session] == s: // it is still attached
			in.sessions.open(s)
		}
		finish(nil)
	})
}

// handleExit takes in the end of the agent. reason is why it has ended.
func (in *intake) handleExit(fx *effects, reason string) {
	fx.batch.exit = true
	e, stderr := in.child.exit(), in.child.stderr()
	explanation := ""
	if reason == endedItself {
		explanation = stderr
	}
	exited := exitEvent(e, explanation)
	fx.publishHostEvent(exited)
	for _, q := range in.questions.open {
		q.cancel(fx)
	}
	for _, s := range in.sessions.byID {
		fx.recordHostEvent(s, exited)
		fx.markChanged(s)
		s.interrupt(e, reason)
	}
	in.record.ExitedAt, in.record.Reason, in.record.ExitCode, in.record.Stderr = time.Now(), reason, e.code, []byte(stderr)
	in.record.changed = true
	in.server.keepRecord(in.record.Process)
}

// reopen writes the record of the process again, which another host has completed: see
// committer.write.
func (in *intake) reopen(*effects) { in.record.changed = true }

// markTurns has the rows of sessions written that are in a turn.
func (in *intake) markTurns(b *commitBatch) {
	for _, s := range in.sessions.byID {
		if state := s.state(); state == eventlog.Running || state == eventlog.Waiting {
			s.row.UpdatedAt = time.Now()
			b.changed[s] = struct{}{}
		}
	}
}

// leave cancels the turn of a session that another host has ended, and detaches the session.
func (in *intake) leave(fx *effects, s *attachedSession) {
	if in.sessions.byID[s.row.ID] != s {
		return
	}
	if s.prompts > 0 {
		c, err := newClientCall("session/cancel", false, map[string]string{"sessionId": s.row.ID})
		if err == nil {
			in.handleNotification(fx, c)
		}
	}
	fx.afterCommit(func() { in.sessions.detach(s) })
}

// exitEvent returns the host event about the end of a process. stderr is the end of its standard
// error, if it exited.
func exitEvent(e exitStatus, stderr string) hostEvent {
	return newHostEvent("_adapter/agent_exited", struct {
		Success bool   `json:"success"`
		Code    *int   `json:"code"`
		Signal  string `json:"signal,omitempty"`
		Stderr  string `json:"stderr,omitempty"`
	}{e.success(), e.code, e.signal, sanitized(stderr)})
}

// storedPolicy reads the policy of a session from the log.
func (h *Host) storedPolicy(session string) (Policy, error) {
	row, err := h.cfg.Log.Session(h.tasks.ctx, session)
	return attachedSessionOf(row).data.Permissions, err
}
