package agents

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/deskhand/deskhand/agents/eventlog"
)

// Why a life ended, as eventlog.Life.Reason has it.
const (
	endedItself  = "exit"                 // the agent did; the next process needs to be asked for by name
	endedServer  = "server"               // this program did, or the agent was idle; the next request goes on
	endedDeleted = eventlog.ReasonDeleted // a client wanted it
)

// life is one process of an agent. One goroutine, run, owns what it knows: all
// messages pass through it one after the other, so that their order in the log
// is the order in which the agent got or sent them. Each is committed before it
// is passed on.
type life struct {
	host *Host
	s    *server
	id   string
	// agent is the one of this process. That of s is known once one works.
	agent string
	proc  *proc
	env   []string // that the process was started with
	log   *slog.Logger

	items chan item // to run
	box   outbox    // to the agent
	done  chan struct{}

	inputs  *semaphore.Weighted // bytes of messages that the agent has not read
	outputs *semaphore.Weighted // bytes of lines that are not committed

	// What run owns.
	backlog   []item // that were taken from items, and wait for the log
	row       eventlog.Life
	rowDirty  bool
	cutOff    bool // nothing is written any more: the log was away at the host's end, or the server is another host's
	next      int64
	pending   map[int64]*call
	questions map[string]*question
	talks     map[string]*talk // by our ids
	natives   map[string]*talk // by the agent's
	flooded   bool             // with questions, which was told

	mu        sync.Mutex      // guards what follows
	here      map[string]bool // sessions that it knows; false: being made
	restoring map[string]*restoration
	caps      capabilities
	ready     bool          // it has answered initialize
	greeting  chan struct{} // nil: no client is to initialize it; closed: see greeted
	greetWith []byte        // what the host does so with, if the client does not
	reason    string
	trouble   error // why nothing can be committed at the moment
	lost      error // another host has taken the server over: what clients are told
	over      *ExitedError
	active    time.Time // when anything passed last
	busy      int       // requests and questions that are open, in either direction
	preparing int       // messages that are not sent yet while their session is configured
}

// item is what run takes: one of its members is set.
type item struct {
	line   []byte
	weight int64
	long   *outsized
	call   *call
	decide *decision
	edit   *sessionEdit
	lost   error
	exit   bool
}

// call is a message to the agent, of a client or of the host.
type call struct {
	env    *envelope
	weight int64
	reply  chan reply // one is sent

	internal  bool          // of the host: its answer is no client's business
	origin    string        // of the session that it makes
	want      string        // the id which that session gets; empty: the agent's
	row       *talk         // the session that it loads, known before
	continues string        // the session whose history that has which it makes or opens; empty: none
	edits     []byte        // what the agent gets instead of env.raw; nil: that
	policy    *Policy       // of the session that it makes
	title     string        // the same
	skills    string        // the same: the hash of its own skills
	goesOn    bool          // it is refused unless the session that it names is there
	givenUp   atomic.Bool   // a late answer makes or opens no session any more
	accepted  chan struct{} // nil, or closed once it is in the log
	replayed  int           // updates that were swallowed meanwhile
	problems  []string      // what of the configuration did not work

	out     int64
	talk    *talk
	session string // our id
	asked   int64  // its number in the session's stream; 0: it is not there
	seq     int64  // of its answer in the server's stream; 0: it is not there
}

// reply is the end of a call: the answer, or nothing for what has none.
type reply struct {
	raw []byte
	err error
}

const (
	maxPending = 4096 // requests that wait for an agent
	maxBatch   = 512  // items that are committed together
)

// weight is what a message counts against the bound of those that are under
// way, in each direction as much as the largest one that is allowed.
func (l *life) weight(size int) int64 { return int64(min(size, l.host.cfg.MaxMessageBytes)) }

func newLifeID() string { return "life_" + strings.ToLower(rand.Text()) }

// submit hands an item to run.
func (l *life) submit(ctx context.Context, it item) error {
	select {
	case l.items <- it:
		return nil
	case <-l.done:
		return l.exited()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// exited is the error of who comes too late.
func (l *life) exited() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.lost != nil:
		return l.lost
	case l.reason == endedDeleted:
		return ErrServerNotFound
	case l.reason == endedServer && l.host.isClosed():
		return ErrClosed
	case l.reason == endedServer:
		return errResting
	case l.over != nil:
		return l.over
	}
	return &ExitedError{Agent: l.agent}
}

// errResting says that the agent was ended because there was nothing to do for
// it, before it got a message: it is started again for that.
var errResting = errors.New("the agent was ended because it was idle")

// again calls f until it meets no agent that is just being ended.
func again(f func() error) error {
	for range 3 {
		if err := f(); !errors.Is(err, errResting) {
			return err
		}
	}
	return f()
}

// send submits a call and waits for its end, or that of ctx, for which the
// call goes on.
func (l *life) send(ctx context.Context, c *call) ([]byte, error) {
	if err := l.begin(ctx, c); err != nil {
		return nil, err
	}
	return l.await(ctx, c)
}

// begin submits a call.
func (l *life) begin(ctx context.Context, c *call) error {
	if err := l.enter(ctx); err != nil {
		return err
	}
	c.reply = make(chan reply, 1)
	c.weight = l.weight(len(c.env.raw) + len(c.edits))
	if err := l.reserve(ctx, c.weight); err != nil {
		return err
	}
	if err := l.submit(ctx, item{call: c}); err != nil {
		l.inputs.Release(c.weight)
		return err
	}
	return nil
}

// enter lets a message in. One that comes while the agent is being ended waits for
// that: the agent reads nothing any more, and may take its time.
func (l *life) enter(ctx context.Context) error {
	l.mu.Lock()
	trouble, ends := l.trouble, l.reason != ""
	if !ends {
		l.active = time.Now() // so that it is not retired before the message is in the log
	}
	l.mu.Unlock()
	switch {
	case trouble != nil:
		return trouble
	case !ends:
		return nil
	}
	select {
	case <-l.done:
		return l.exited()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// reserve waits until the agent has read enough for a message to be passed on.
func (l *life) reserve(ctx context.Context, weight int64) error {
	if l.inputs.TryAcquire(weight) {
		return nil
	}
	wait, cancel := context.WithCancel(ctx)
	defer cancel()
	watch := make(chan struct{})
	go func() { // ends with this call
		defer close(watch)
		select {
		case <-l.done: // nobody reads any more
			cancel()
		case <-wait.Done():
		}
	}()
	err := l.inputs.Acquire(wait, weight)
	cancel()
	<-watch
	switch {
	case err == nil:
		return nil
	case ctx.Err() == nil:
		return l.exited()
	}
	return fmt.Errorf("the agent does not read its input: %w", err)
}

func (l *life) await(ctx context.Context, c *call) ([]byte, error) {
	select {
	case r := <-c.reply:
		return r.raw, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-l.done:
	}
	select {
	case r := <-c.reply:
		return r.raw, r.err
	default:
		return nil, l.exited()
	}
}

// request makes a request of the host's own and returns its result.
func (l *life) request(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	env, err := parse(requestOf(0, method, params))
	if err != nil {
		return nil, err
	}
	raw, err := l.send(ctx, &call{env: env, internal: true})
	if errors.Is(err, context.DeadlineExceeded) {
		err = &TimeoutError{Agent: l.agent, Method: method}
	}
	if err != nil {
		return nil, err
	}
	return resultOf(method, raw)
}

// resultOf is the result in an answer, or its error.
func resultOf(method string, raw []byte) (json.RawMessage, error) {
	var a struct {
		Result json.RawMessage `json:"result"`
		Error  *struct {
			Code    int             `json:"code"`
			Message string          `json:"message"`
			Data    json.RawMessage `json:"data"`
		} `json:"error"`
	}
	if err := json.Unmarshal(raw, &a); err != nil {
		return nil, &ResponseError{Method: method, Message: "the answer is no JSON-RPC: " + err.Error()}
	}
	if a.Error != nil {
		return nil, &ResponseError{Method: method, Code: a.Error.Code, Message: a.Error.Message, Data: a.Error.Data}
	}
	return a.Result, nil
}

// createdBy is resultOf of what makes a session, which has to have a name.
func createdBy(method string, raw []byte) (json.RawMessage, error) {
	result, err := resultOf(method, raw)
	if err != nil {
		return nil, err
	}
	var c created
	_ = json.Unmarshal(result, &c)
	if !recordable(c.Session) {
		return nil, &ResponseError{Method: method, Message: fmt.Sprintf("the agent's answer has no sessionId that is text of 1 to %d bytes", maxSessionID)}
	}
	return result, nil
}

// start begins the goroutines of a life whose process runs.
func (l *life) start() {
	l.host.lives.Go(l.run)
	l.host.lives.Go(l.read)
	l.host.lives.Go(func() { l.box.run(l.proc.in, l.done, l.inputs, l.log) })
	l.host.lives.Go(l.watch)
}

// read takes the agent's lines until there can be no more.
func (l *life) read() {
	defer l.proc.out.Close()
	lines := newLineReader(l.proc.out, l.host.cfg.MaxMessageBytes)
	for {
		line, long, err := lines.next()
		it := item{line: line, long: long}
		if err != nil {
			// One that closes its output can answer no more.
			if err := l.proc.end(); err != nil {
				l.log.Error("agent left processes", "error", err)
			}
			<-l.proc.done
			it = item{exit: true}
		}
		it.weight = l.weight(len(line))
		_ = l.outputs.Acquire(context.Background(), it.weight) // run releases
		select {
		case l.items <- it:
		case <-l.done:
			return
		}
		if err != nil {
			return
		}
	}
}

// watch ends what the agent left running when it has ended, which also ends its
// output, and ends it when it is idle for too long.
func (l *life) watch() {
	var idle <-chan time.Time
	if d := l.host.cfg.IdleTimeout; d > 0 {
		t := time.NewTicker(max(d/4, time.Second))
		defer t.Stop()
		idle = t.C
	}
	for {
		select {
		case <-l.proc.done:
			if err := l.proc.end(); err != nil {
				l.log.Error("agent left processes", "error", err)
			}
			l.expectEnd()
			l.s.forget(l)
			return
		case <-idle:
			if l.retire() {
				l.end(endedServer)
			}
		}
	}
}

// expectEnd gives the output a moment to end by itself: something that cannot be
// killed may still hold it.
func (l *life) expectEnd() {
	t := time.NewTimer(leftWait)
	defer t.Stop()
	select {
	case <-l.done:
	case <-t.C:
		_ = l.proc.out.Close()
		<-l.done
	}
}

// retire lets no more messages in if there was nothing to do for long enough.
func (l *life) retire() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.reason != "" || l.busy+l.preparing > 0 || l.s.followers.n.Load() > 0 || time.Since(l.active) <= l.host.cfg.IdleTimeout {
		return false
	}
	l.reason = endedServer
	return true
}

// prepares keeps the life from being retired until the function is called that it
// returns.
func (l *life) prepares() func() {
	l.mu.Lock()
	l.preparing++
	l.mu.Unlock()
	return func() {
		l.mu.Lock()
		l.preparing--
		l.active = time.Now()
		l.mu.Unlock()
	}
}

// end ends the agent and waits until that is in the log.
func (l *life) end(reason string) {
	l.mu.Lock()
	if l.reason == "" || reason == endedDeleted {
		l.reason = reason
	}
	l.mu.Unlock()
	if err := l.proc.end(); err != nil {
		l.log.Error("end agent", "error", err)
	}
	<-l.done
}

// present tells whether the process knows a session, by our id.
func (l *life) present(session string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.here[session]
}

// knows is present for sessions, too, that are being made.
func (l *life) knows(session string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.here[session]
	return ok
}

func (l *life) capabilities() capabilities {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.caps
}

// capabilities are those of an agent's that matter to the host.
type capabilities struct {
	raw    json.RawMessage // agentCapabilities
	load   bool
	resume bool
	close  bool
	http   bool
	sse    bool
}

func capabilitiesOf(result json.RawMessage) capabilities {
	var r struct {
		Caps json.RawMessage `json:"agentCapabilities"`
	}
	var c struct {
		Load bool `json:"loadSession"`
		MCP  struct {
			HTTP bool `json:"http"`
			SSE  bool `json:"sse"`
		} `json:"mcpCapabilities"`
		Session map[string]json.RawMessage `json:"sessionCapabilities"`
	}
	// What is of another type counts as absent.
	_ = json.Unmarshal(result, &r)
	_ = json.Unmarshal(r.Caps, &c)
	can := func(name string) bool {
		v, ok := c.Session[name]
		return ok && string(v) != "null" && string(v) != "false"
	}
	return capabilities{raw: r.Caps, load: c.Load, resume: can("resume"), close: can("close"), http: c.MCP.HTTP, sse: c.MCP.SSE}
}
