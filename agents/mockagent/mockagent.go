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

	"github.com/deskhand/deskhand/internal/supervise"
)

// Limits of what clients can make the agent hold.
const (
	maxSessions = 1024    // open sessions
	maxQueue    = 64      // prompts that wait in one session
	maxBurst    = 1 << 20 // messages of one burst
)

// ErrCrash is returned by [Run] after the prompt "crash". A program that runs the agent
// should then exit with a status other than zero.
var ErrCrash = errors.New("mock agent: crash was asked for")

// Config configures the agent. The zero value keeps nothing.
type Config struct {
	// Dir is the directory of session files, which session/load and session/resume
	// read for 30 days after the last turn. Run makes it. Empty: sessions end with Run.
	Dir string

	// Version is the agent's version in the answer to initialize. Empty: "1".
	Version string

	// MaxLine bounds the bytes of a message. A longer one is answered with an error.
	// Zero: 64 MiB.
	MaxLine int

	// Tick is the time between two messages of the prompt "slow". Zero: half a second.
	Tick time.Duration

	// Env is the environment of MCP servers that the agent starts. Nil: this program's,
	// without deskhand's secrets.
	Env []string

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
	if c.Env == nil {
		c.Env = supervise.Inherit(false)
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// Run serves one client and returns nil at the end of in.
//
// If ctx ends first, Run returns without waiting for a running Read of in. The owner of in
// should close it then. A Write that blocks keeps Run from returning until out is closed.
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
	for _, s := range a.sessions {
		s.tools.close()
	}
	a.out.flush()
	return err
}

// serve handles messages in their order until the connection ends.
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

// agent is the state of one Run.
type agent struct {
	cfg Config
	end context.CancelCauseFunc // ends Run with an error
	out *output

	turns sync.WaitGroup // the goroutines that run turns

	mu       sync.Mutex // guards the fields below, and the sessions' fields
	sessions map[string]*session
	asked    map[int64]chan json.RawMessage // questions to the client, by id
	question int64                          // the id of the next one
	calls    int                            // the number of tool calls, for their ids
}

// ask sends a request to the client and returns the whole response.
func (a *agent) ask(ctx context.Context, method string, params any) (json.RawMessage, error) {
	answer := make(chan json.RawMessage, 1)
	a.mu.Lock()
	// Ids count from 0, as in real agents, and so collide with the client's.
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

// answered passes a response to the ask that waits for it, and reports whether there
// is one.
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
