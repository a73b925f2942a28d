package mockagent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"
)

// Limits, so that no client makes the agent grow without end.
const (
	maxSessions = 1024    // open at once
	maxQueue    = 64      // prompts that wait in one session
	maxBurst    = 1 << 20 // messages of one burst
)

// ErrCrash is returned when a prompt asked for a crash. A program that runs the
// agent should end with a status that is not zero then.
var ErrCrash = errors.New("mock agent: crash was asked for")

// Config configures the agent. The zero value keeps nothing.
type Config struct {
	// Dir keeps sessions for session/load and session/resume, for 30 days after
	// their last turn. It is made if it is not there. Empty: they end with Run.
	Dir string

	// Version is what the agent calls its version. Empty: "1".
	Version string

	// MaxLine is how many bytes a message may have. A longer one is skipped and
	// answered with an error. Zero: 64 MiB.
	MaxLine int

	// Tick is the pause between two signs of life of the prompt "slow". Zero:
	// half a second.
	Tick time.Duration

	// Logger receives debug messages. Nil: none.
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.Version == "" {
		c.Version = "1"
	}
	if c.MaxLine == 0 {
		c.MaxLine = 64 << 20
	}
	if c.Tick == 0 {
		c.Tick = 500 * time.Millisecond
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// Run is the agent, on one connection. It returns nil at the end of in.
//
// When ctx ends first, Run does not wait for a Read of in that is under way:
// whoever owns in should close it then. A Write to out that nobody reads keeps
// Run from returning until out is closed.
func Run(ctx context.Context, in io.Reader, out io.Writer, cfg Config) error {
	cfg = cfg.withDefaults()
	if cfg.MaxLine < 0 || cfg.Tick < 0 {
		return errors.New("mock agent: MaxLine and Tick must not be negative; leave them zero for the defaults")
	}
	if cfg.Dir != "" {
		if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
			return fmt.Errorf("mock agent: make the directory of its sessions: %w", err)
		}
	}
	ctx, end := context.WithCancelCause(ctx)
	a := &agent{
		cfg: cfg, end: end, out: newOutput(out, end),
		sessions: make(map[string]*session), asked: make(map[int64]chan json.RawMessage),
	}
	if err := a.sweep(); err != nil {
		cfg.Logger.Debug("old sessions stay", "error", err)
	}
	lines := make(chan line)
	go read(in, cfg.MaxLine, lines, ctx.Done())
	err := a.serve(ctx, lines)
	end(err)
	a.turns.Wait()
	a.closeSessions()
	a.out.flush()
	return err
}

// serve takes messages in their order until the connection ends.
func (a *agent) serve(ctx context.Context, lines <-chan line) error {
	for {
		select {
		case l := <-lines:
			switch {
			case errors.Is(l.err, errTooLong):
				a.out.fail(nil, rpcErrorf(codeInvalidRequest, "the message is longer than %d bytes", a.cfg.MaxLine))
			case errors.Is(l.err, io.EOF):
				return nil
			case l.err != nil:
				return fmt.Errorf("mock agent: read: %w", l.err)
			default:
				a.receive(ctx, l.data)
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// agent is one connection's state.
type agent struct {
	cfg Config
	end context.CancelCauseFunc // ends Run with that error
	out *output

	turns sync.WaitGroup // the goroutines that run turns

	mu       sync.Mutex // guards what follows, and the sessions' fields
	sessions map[string]*session
	asked    map[int64]chan json.RawMessage // questions to the client, by id
	question int64                          // the id of the next one
	calls    int                            // tool calls so far, for their ids
}

// ask sends a request to the client and waits for its answer: the whole
// response.
func (a *agent) ask(ctx context.Context, method string, params any) (json.RawMessage, error) {
	answer := make(chan json.RawMessage, 1)
	a.mu.Lock()
	// Numbers from 0, as the real agents' are. The client's own begin there,
	// too: nothing may mix them up.
	id := a.question
	a.question++
	a.asked[id] = answer
	a.mu.Unlock()
	defer func() {
		a.mu.Lock()
		delete(a.asked, id)
		a.mu.Unlock()
	}()
	a.out.send(request{Version: "2.0", ID: id, Method: method, Params: params})
	select {
	case r := <-answer:
		return r, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// answered passes a response to who asked, and tells whether somebody did.
func (a *agent) answered(id, response json.RawMessage) bool {
	var n int64
	if json.Unmarshal(id, &n) != nil {
		return false
	}
	a.mu.Lock()
	c, ok := a.asked[n]
	delete(a.asked, n)
	a.mu.Unlock()
	if ok {
		c <- response
	}
	return ok
}
