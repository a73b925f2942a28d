package agents

import (
	"cmp"
	"context"

	"golang.org/x/sync/semaphore"
)

// inbox holds the commands for agentProcess.run: messages of clients, lines of the agent, and
// changes by the host. run executes each command once or refuses it, in their order. After
// done is closed, no command is accepted.
type inbox struct {
	commands  chan command
	done      chan struct{} // closed when the end of the process is in the log
	exitError func() error  // the error for commands after that
	backlog   []command     // received while the log took nothing; owned by run

	lines *semaphore.Weighted // bytes of lines of this agent that are not committed
	large *semaphore.Weighted // see Host.large
}

// command is something that run does.
type command struct {
	handle func(*effects)
	refuse func(error) // tells a client that the command is not done; nil: it must be done
	weight int64       // of a line of the agent
}

func newInbox(lines int64, large *semaphore.Weighted, exitError func() error) *inbox {
	return &inbox{
		commands: make(chan command, 256), done: make(chan struct{}), exitError: exitError,
		lines: semaphore.NewWeighted(lines), large: large,
	}
}

// release gives back the room of a line that is committed.
func (in *inbox) release(weight int64) {
	in.lines.Release(weight)
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
