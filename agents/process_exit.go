package agents

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/deskhand/deskhand/agents/eventlog"
)

// end ends the agent and waits until that is in the log.
func (p *agentProcess) end(reason string) {
	p.mu.Lock()
	if p.reason == "" || reason == endedDeleted {
		p.reason = reason
	}
	p.mu.Unlock()
	if err := p.child.end(); err != nil {
		p.log.Error("end agent", "error", err)
	}
	<-p.done
}

func (p *agentProcess) isEnding() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reason != ""
}

// exitError returns the error for a message that comes too late.
func (p *agentProcess) exitError() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.lost != nil:
		return p.lost
	case p.reason == endedDeleted:
		return ErrServerNotFound
	case p.reason == endedServer && p.host.isClosed():
		return ErrClosed
	case p.reason == endedServer:
		return errResting
	case p.exit != nil:
		return p.exit
	}
	return &ExitedError{Agent: p.agent}
}

func (p *agentProcess) handleExit(b *commitBatch, fx *effects) {
	b.exit = true
	e := p.child.exit()
	p.mu.Lock()
	if p.reason == "" {
		p.reason = endedItself
		if p.host.isClosed() {
			p.reason = endedServer
		}
	}
	reason := p.reason
	p.mu.Unlock()
	words := ""
	if reason == endedItself { // otherwise they do not explain its end
		words = p.child.stderr()
	}
	exited := exitEvent(e, words)
	p.publish(fx, eventlog.Daemon, nil, "_adapter/agent_exited", exited)
	for _, q := range p.questions {
		q.row.State, q.row.AnsweredAt = eventlog.Cancelled, time.Now()
		fx.requests = append(fx.requests, q.row)
	}
	for _, s := range p.sessions.byID {
		p.recordMessage(fx, eventlog.Daemon, s, "_adapter/agent_exited", exited)
		p.interrupt(b, s, e, reason)
	}
	now := time.Now()
	p.record.ExitedAt, p.record.Reason, p.record.ExitCode, p.record.Stderr = now, reason, e.code, []byte(p.child.stderr())
	p.recordDirty = true
	p.server.keepRecord(p.record)
}

// interrupt sets the state of a session whose process has ended.
func (p *agentProcess) interrupt(b *commitBatch, s *attachedSession, e ended, reason string) {
	state := s.state()
	b.markChanged(s)
	switch state {
	case eventlog.Running, eventlog.Waiting:
		s.row.State, s.row.ExitCode = eventlog.Interrupted, e.code
		s.row.EndReason = "the agent's process ended in the middle of a turn (" + reason + ")"
		s.ended = true
	case eventlog.Starting: // who makes it says what becomes of it
		s.ended = true
	case eventlog.Idle, eventlog.Interrupted, eventlog.Ended, eventlog.Failed:
	}
	if reason == endedDeleted && state != eventlog.Ended {
		s.row.Server = ""
	}
}

// exitEvent returns the message that followers get at the end of a process. stderr is
// the end of its standard error, if it exited.
func exitEvent(e ended, stderr string) []byte {
	return notification("_adapter/agent_exited", struct {
		Success bool   `json:"success"`
		Code    *int   `json:"code"`
		Signal  string `json:"signal,omitempty"`
		Stderr  string `json:"stderr,omitempty"`
	}{e.success(), e.code, e.signal, cleaned(stderr)})
}

// release ends the calls and commands that wait for a process that has ended.
func (p *agentProcess) release() {
	over := p.exitStatus()
	p.mu.Lock()
	p.exit = over
	p.mu.Unlock()
	p.logExit(over) // before callers get errors
	for _, c := range p.pending.byID {
		err := p.exitError()
		if errors.Is(err, errResting) {
			err = over // the agent has got the message: no caller sends it again
		}
		c.finish(reply{err: err})
	}
	close(p.done)
	for _, q := range p.questions {
		q.stop()
	}
	for {
		select {
		case c := <-p.commands:
			p.releaseOutput(c.weight)
			if c.refuse != nil {
				c.refuse(p.exitError())
			}
		default:
			return
		}
	}
}

// logExit logs the exit of an agent that the host did not end.
func (p *agentProcess) logExit(over *ExitedError) {
	p.mu.Lock()
	reason := p.reason
	p.mu.Unlock()
	if reason != endedItself {
		return
	}
	level := slog.LevelWarn
	if over.Code != nil && *over.Code == 0 {
		level = slog.LevelInfo
	}
	p.log.Log(context.Background(), level, "agent exited", "agent", over.Agent, "error", over)
}

func (p *agentProcess) exitStatus() *ExitedError {
	e := p.child.exit()
	return &ExitedError{Agent: p.agent, Code: e.code, Signal: e.signal, Stderr: p.child.stderr()}
}
