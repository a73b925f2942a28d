package agents

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/internal/jsonlines"
)

// agentProcess is one process of an agent. It owns the child and the goroutines that pass every
// message to and from the agent through three stages:
//
//  1. intake: a message is validated, its ids are mapped, and its session is attached.
//  2. commit (committer): one transaction writes the effects of a batch of messages to the
//     log.
//  3. deliver (commitBatch.deliver): messages go to the agent's input and to waiting callers.
//
// One goroutine, run, does all three stages, so messages have the same order in the log as
// for the agent.
type agentProcess struct {
	host   *Host
	server *server
	id     string
	agent  string // server.agent is set later, when a process works
	child  *childProcess
	env    []string // of the child
	log    *slog.Logger

	inbox     *inbox
	lineShare *lineShare
	intake    *intake
	committer *committer
	outbox    *outbox
	lifecycle *lifecycle
	handshake *handshake
	restorer  *restorer
	turns     *turnSpans

	alive context.Context //nolint:containedctx // of no call: done when the child has ended
	ended func()          // ends alive
}

// processPrefix begins the ids of processes.
const processPrefix = "life_"

// newProcess returns a process whose child runs. row is its record.
func (s *server) newProcess(child *childProcess, turns *turnSpans, row eventlog.Process) *agentProcess {
	h := s.host
	row.ID = processPrefix + strings.ToLower(rand.Text())
	p := &agentProcess{host: h, server: s, id: row.ID, agent: row.Agent, child: child, turns: turns, log: h.cfg.Logger.With("server", s.id, "process", row.ID)}
	size, record := int64(h.cfg.MaxMessageBytes), &processRecord{Process: row}
	p.lifecycle = &lifecycle{agent: p.agent, closed: h.tasks.isClosed, active: time.Now()}
	p.inbox = newInbox(size, h.medium, h.large, p.lifecycle.exitError)
	p.lineShare = newLineShare(p.inbox, child.out, size, h.lineTime)
	p.outbox = newOutbox(size)
	p.handshake = &handshake{process: p}
	p.restorer = &restorer{process: p, running: map[string]*restoration{}}
	p.intake = &intake{
		host: h, server: s, process: p.id, agent: p.agent, child: child, log: p.log, record: record, handshake: p.handshake,
		outbox: p.outbox, pending: pendingCalls{byID: map[int64]*call{}}, sessions: newSessionTable(), turns: turns,
		questions: questionTable{
			open: map[string]*question{}, closing: map[string]bool{}, maxBytes: h.cfg.MaxMessageBytes, total: &h.questions, policy: h.cfg.Permissions, stored: h.storedPolicy,
			inbox: p.inbox, outbox: p.outbox, log: p.log,
		},
	}
	p.committer = &committer{
		host: h, log: p.log, server: s.id, record: record, intake: p.intake, inbox: p.inbox, lifecycle: p.lifecycle, lose: p.lose,
	}
	return p
}

// start starts the goroutines of a process whose child runs.
func (p *agentProcess) start() {
	p.host.processes.Go(p.run)
	p.host.processes.Go(p.read)
	p.host.processes.Go(func() { p.outbox.run(p.child.in, p.inbox.done, p.log) })
	p.host.processes.Go(p.watch)
}

// run passes messages through the three stages until the agent's end is in the log.
func (p *agentProcess) run() {
	defer p.release()
	for {
		b := newBatch(p.server.id, p.id)
		p.inbox.collect(b)
		deliver := p.committer.commit(b)
		p.lifecycle.setOpen(p.intake.open())
		p.intake.questions.count()
		for _, fx := range b.effects {
			p.inbox.release(fx.weight)
		}
		if deliver {
			b.deliver()
		}
		if b.exit {
			return
		}
	}
}

// read reads the agent's lines until the end of its output.
func (p *agentProcess) read() {
	defer p.child.out.Close()
	lines := jsonlines.NewReader(p.child.out, p.host.cfg.MaxMessageBytes, p.lineShare)
	for {
		line, long, err := lines.Next()
		next := command{weight: p.weight(len(line)), handle: func(fx *effects) {
			if long != nil {
				p.intake.handleOutsized(fx, long)
			} else {
				p.intake.handleLine(fx, line)
			}
		}}
		if err != nil {
			// An agent that closes its output can answer no more.
			p.endChild()
			<-p.child.done
			next = command{handle: func(fx *effects) { p.intake.handleExit(fx, p.lifecycle.beginExit()) }}
		}
		p.lineShare.keep(next.weight)
		if p.inbox.put(context.Background(), next) != nil {
			p.inbox.release(next.weight)
			return
		}
		if err != nil {
			return
		}
	}
}

// minWeight is the memory that a message of few bytes takes.
const minWeight = 256

// weight returns the room that a message takes in the inbox or the outbox. Each of them has room
// for one message of the largest size.
func (p *agentProcess) weight(size int) int64 {
	return int64(min(max(size, minWeight), p.host.cfg.MaxMessageBytes))
}

// watch ends an agent that is idle for too long and, after the end of an agent, the processes
// that it has left.
func (p *agentProcess) watch() {
	var idle <-chan time.Time
	most := p.host.cfg.IdleTimeout
	if most > 0 {
		t := time.NewTicker(max(most/4, time.Second))
		defer t.Stop()
		idle = t.C
	}
	for {
		select {
		case <-p.child.done:
			p.ended()
			p.endChild()
			select {
			case <-p.inbox.done:
			case <-time.After(leftWait): // a process that cannot be killed holds the output
				p.lineShare.stop()
				_ = p.child.out.Close()
				<-p.inbox.done
			}
			p.server.forgetProcess(p)
			return
		case <-idle:
			if p.server.followers.count() == 0 && p.lifecycle.retire(most) {
				p.end(endedServer)
			}
		}
	}
}

// end ends the agent and waits until that is in the log.
func (p *agentProcess) end(reason string) {
	p.lifecycle.beginEnd(reason)
	p.endChild()
	<-p.inbox.done
}

func (p *agentProcess) endChild() {
	if err := p.child.end(); err != nil {
		p.log.Error("end agent", "error", err)
	}
}

// lose ends a process whose server another host has started or deleted. Nothing of it is
// written any more, and waiting callers get the error.
func (p *agentProcess) lose(why error) {
	p.log.Warn("another host has taken the server over, so its agent is ended here", "error", why)
	p.lifecycle.lose(why)
	row := p.committer.record.Process
	row.Reason = endedServer // the next caller reads the log
	p.server.keepRecord(row)
	for _, c := range p.intake.pending.byID {
		c.finish(reply{err: why})
	}
	p.server.followers.endStreams(why)
	p.host.processes.Go(func() { p.end(endedServer) }) // run has not ended, so processes is not zero
}

// release ends the calls and commands that wait for a process that has ended.
func (p *agentProcess) release() {
	exit := p.child.exit()
	exited := &ExitedError{Agent: p.agent, Code: exit.code, Signal: exit.signal, Stderr: p.child.stderr()}
	p.lifecycle.setExit(exited)
	if p.lifecycle.endReason() == endedItself { // logged before callers get errors
		level := slog.LevelWarn
		if exit.success() {
			level = slog.LevelInfo
		}
		p.log.Log(context.Background(), level, "agent exited", "agent", p.agent, "error", exited)
	}
	err := p.lifecycle.exitError()
	if errors.Is(err, errResting) {
		err = exited // the agent has got the messages: no caller sends them again
	}
	for _, c := range p.intake.pending.byID {
		c.finish(reply{err: err})
	}
	p.intake.questions.close()
	p.inbox.close()
}
