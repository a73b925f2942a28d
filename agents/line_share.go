package agents

import (
	"context"
	"time"

	"github.com/deskhand/deskhand/internal/jsonlines"
)

const (
	// maxLarge is the room of Host.large, unless a line of the largest size needs more.
	maxLarge = 128 << 20

	// maxLineTime is the time between the first jsonlines.Large bytes of a line and its end.
	maxLineTime = 30 * time.Second
)

// lineShare is the part of agentProcess.outputs and of Host.large that the line takes which
// is being read. A large line takes the weight of the largest line before it is read on, and
// keeps its own weight until it is committed. The time between is bounded: the agent has
// maxLineTime to write the line, and run commits it without waiting for another process.
type lineShare struct {
	p    *agentProcess
	held int64 // of both; 0: the line is not large
}

// Take implements [jsonlines.Share].
func (s *lineShare) Take() error {
	p, most := s.p, s.p.weight(s.p.host.cfg.MaxMessageBytes)
	if err := p.outputs.Acquire(context.Background(), most); err != nil {
		return err
	}
	if err := p.host.large.Acquire(p.reading, most); err != nil {
		p.outputs.Release(most)
		return err
	}
	s.held = most
	s.setDeadline(time.Now().Add(p.host.lineTime))
	return nil
}

// Drop implements [jsonlines.Share].
func (s *lineShare) Drop() { s.release(0) }

// keep keeps the share of a line that was read, until releaseOutput is called with its
// weight.
func (s *lineShare) keep(weight int64) {
	if s.held > 0 {
		s.release(weight)
		return
	}
	_ = s.p.outputs.Acquire(context.Background(), weight) // commit releases it
}

// release gives back all but weight.
func (s *lineShare) release(weight int64) {
	s.setDeadline(time.Time{})
	s.p.outputs.Release(s.held - weight)
	s.p.host.large.Release(s.held - largeWeight(weight))
	s.held = 0
}

// setDeadline bounds the time of the line. Functions of this program have no deadline.
func (s *lineShare) setDeadline(at time.Time) {
	if out, ok := s.p.child.out.(interface{ SetReadDeadline(t time.Time) error }); ok {
		_ = out.SetReadDeadline(at) // of a pipe that is closed it does not matter
	}
}

func (p *agentProcess) releaseOutput(weight int64) {
	p.outputs.Release(weight)
	p.host.large.Release(largeWeight(weight))
}

// largeWeight returns the part of Host.large that a line of that weight keeps.
func largeWeight(weight int64) int64 {
	if weight <= jsonlines.Large {
		return 0
	}
	return weight
}
