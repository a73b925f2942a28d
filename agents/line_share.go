package agents

import (
	"context"
	"io"
	"time"

	"github.com/deskhand/deskhand/internal/jsonlines"
)

const (
	// maxLarge is the room of Host.large, unless a line of the largest size needs more.
	maxLarge = 128 << 20

	// maxLineTime is the time between the first jsonlines.Large bytes of a line and its end.
	maxLineTime = 30 * time.Second
)

// lineShare is the part of inbox.lines and inbox.large that the line takes which is being read.
// A large line takes the weight of the largest line before it is read on, and keeps its own
// weight until it is committed. The time between is bounded: the agent has some time to write
// the line, and run commits it without waiting for another process. agentProcess.read owns it,
// except stop.
type lineShare struct {
	inbox   *inbox
	out     io.Reader
	most    int64           // the weight of the largest line
	time    time.Duration   // for the rest of a large line
	reading context.Context //nolint:containedctx // of no call: until stop
	stop    func()          // ends Take
	held    int64           // of both; 0: the line is not large
}

func newLineShare(in *inbox, out io.Reader, most int64, d time.Duration) *lineShare {
	s := &lineShare{inbox: in, out: out, most: most, time: d}
	s.reading, s.stop = context.WithCancel(context.Background())
	return s
}

// Take implements [jsonlines.Share].
func (s *lineShare) Take() error {
	if err := s.inbox.lines.Acquire(context.Background(), s.most); err != nil {
		return err
	}
	if err := s.inbox.large.Acquire(s.reading, s.most); err != nil {
		s.inbox.lines.Release(s.most)
		return err
	}
	s.held = s.most
	s.setDeadline(time.Now().Add(s.time))
	return nil
}

// Drop implements [jsonlines.Share].
func (s *lineShare) Drop() { s.release(0) }

// keep keeps the share of a line that was read, until inbox.release is called with its weight.
func (s *lineShare) keep(weight int64) {
	if s.held > 0 {
		s.release(weight)
		return
	}
	_ = s.inbox.lines.Acquire(context.Background(), weight)
}

// release gives back all but weight.
func (s *lineShare) release(weight int64) {
	s.setDeadline(time.Time{})
	s.inbox.lines.Release(s.held - weight)
	s.inbox.large.Release(s.held - largeWeight(weight))
	s.held = 0
}

// setDeadline bounds the time of the line. Functions of this program have no deadline.
func (s *lineShare) setDeadline(at time.Time) {
	if out, ok := s.out.(interface{ SetReadDeadline(t time.Time) error }); ok {
		_ = out.SetReadDeadline(at) // a closed pipe needs no deadline
	}
}

// largeWeight returns the part of Host.large that a line of that weight keeps.
func largeWeight(weight int64) int64 {
	if weight <= jsonlines.Large {
		return 0
	}
	return weight
}
