package agents

import (
	"cmp"
	"context"
	"io"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/deskhand/deskhand/internal/jsonlines"
)

// inbox holds the commands for agentProcess.run: messages of clients, lines of the agent, and
// changes by the host. run executes each command once or refuses it, in their order. After
// done is closed, no command is accepted.
type inbox struct {
	commands  chan command
	done      chan struct{} // closed when the end of the process is in the log
	exitError func() error  // the error for commands after that
	backlog   []command     // received while the log took nothing; owned by run

	lines  *semaphore.Weighted // bytes of lines of this agent that are not committed
	medium *semaphore.Weighted // see Host.medium
	large  *semaphore.Weighted // see Host.large
}

// command is something that run does.
type command struct {
	handle func(*effects)
	refuse func(error) // reports to a client that the command is not done; nil: it must be done
	weight int64       // of a line of the agent
}

func newInbox(lines int64, medium, large *semaphore.Weighted, exitError func() error) *inbox {
	return &inbox{
		commands: make(chan command, 256), done: make(chan struct{}), exitError: exitError,
		lines: semaphore.NewWeighted(lines), medium: medium, large: large,
	}
}

// release gives back the room of a line that is committed.
func (in *inbox) release(weight int64) {
	in.lines.Release(weight)
	in.medium.Release(mediumWeight(weight))
	in.large.Release(largeWeight(weight))
}

// put adds a command.
func (in *inbox) put(ctx context.Context, next command) error {
	select {
	case in.commands <- next:
		return nil
	case <-in.done:
		return in.exitError()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// execute has run call handle, and returns the first error that is passed to finish.
func (in *inbox) execute(ctx context.Context, handle func(fx *effects, finish func(error))) error {
	done := make(chan error, 1)
	finish := func(err error) {
		select {
		case done <- err:
		default:
		}
	}
	err := in.put(ctx, command{refuse: finish, handle: func(fx *effects) {
		fx.refuse, fx.report = finish, finish
		handle(fx, finish)
	}})
	if err != nil {
		return err
	}
	result, err := receive(ctx, in, done)
	return cmp.Or(err, result)
}

// receive waits for a value of ch. It returns an error if the process ends before that.
func receive[T any](ctx context.Context, in *inbox, ch <-chan T) (v T, err error) {
	select {
	case v = <-ch:
		return v, nil
	case <-ctx.Done():
		return v, ctx.Err()
	case <-in.done:
	}
	select {
	case v = <-ch:
		return v, nil
	default:
		return v, in.exitError()
	}
}

// awaitEnd waits for the end of the process and returns the error for its callers.
func (in *inbox) awaitEnd(ctx context.Context) error {
	_, err := receive(ctx, in, (<-chan struct{})(nil))
	return err
}

// collect executes the commands that wait. It waits for one if there are none.
func (in *inbox) collect(b *commitBatch) {
	execute := func(c command) { c.handle(b.add(c.weight)) }
	for !b.exit && len(b.effects) < maxBatch {
		if len(in.backlog) > 0 {
			c := in.backlog[0]
			in.backlog = in.backlog[1:]
			execute(c)
			continue
		}
		if len(b.effects) == 0 {
			execute(<-in.commands)
			continue
		}
		select {
		case c := <-in.commands:
			execute(c)
		default:
			return
		}
	}
}

// refuse refuses the commands of clients that wait. It keeps the others.
func (in *inbox) refuse(err error) {
	for {
		select {
		case c := <-in.commands:
			if c.refuse != nil {
				c.refuse(err)
			} else {
				in.backlog = append(in.backlog, c)
			}
		default:
			return
		}
	}
}

// close closes done and refuses all commands that wait.
func (in *inbox) close() {
	close(in.done)
	in.refuse(in.exitError())
	for _, c := range in.backlog {
		in.release(c.weight)
	}
}

const (
	// maxLarge is the room of Host.large, unless a line of the largest size needs more.
	maxLarge = 128 << 20

	// mediumFrom is the size above which a line that is not large takes a part of Host.medium.
	mediumFrom = 64 << 10

	// maxMedium is the room of Host.medium.
	maxMedium = 64 << 20

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
	} else {
		_ = s.inbox.lines.Acquire(context.Background(), weight)
	}
	if medium := mediumWeight(weight); medium > 0 { // even 0 bytes would wait behind others
		_ = s.inbox.medium.Acquire(context.Background(), medium)
	}
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

// mediumWeight returns the part of Host.medium that a line of that weight keeps.
func mediumWeight(weight int64) int64 {
	if weight <= mediumFrom || weight > jsonlines.Large {
		return 0
	}
	return weight
}

// largeWeight returns the part of Host.large that a line of that weight keeps.
func largeWeight(weight int64) int64 {
	if weight <= jsonlines.Large {
		return 0
	}
	return weight
}
