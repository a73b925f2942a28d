package registry

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"

	"github.com/deskhand/deskhand/internal/cuttext"
	"github.com/deskhand/deskhand/internal/supervise"
)

// Ask starts an agent, has it begin a session in the home of its user, records its answers like
// [Registry.Observe], and ends it. It installs nothing. It blocks until the agent has ended. The
// agent has Config.AskTimeout to answer. Two agents are asked at the same time, because agents take
// a lot of memory while they start, and further calls wait. The error is [ErrUnknownAgent],
// [ErrClosed], a [NotInstalledError] or an [AskError], which wraps the cause of the end of ctx, if
// that ends.
func (r *Registry) Ask(ctx context.Context, id string) error {
	c, err := r.Command(id)
	if err != nil {
		return err
	}
	ctx, done, err := r.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	select {
	case r.asking <- struct{}{}:
		defer func() { <-r.asking }()
	case <-ctx.Done():
		return &AskError{Agent: id, Err: context.Cause(ctx)}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, r.cfg.AskTimeout, fmt.Errorf("no answer for %v", r.cfg.AskTimeout))
	defer cancel()
	tail, err := r.ask(ctx, c)
	if err != nil {
		return &AskError{Agent: id, Err: err, Stderr: tail}
	}
	return nil
}

// ask is Ask for a command. tail is the end of the agent's standard error.
func (r *Registry) ask(ctx context.Context, c Command) (tail string, err error) {
	if err := cmp.Or(r.user.CanStart(c.Path, c.Args), r.CheckTrusted(c)); err != nil {
		return "", err
	}
	stdin, send, err := os.Pipe()
	if err != nil {
		return "", err
	}
	defer send.Close()
	defer stdin.Close()
	g, err := r.group()
	if err != nil {
		return "", err
	}
	env := c.Env
	if r.user.Root() {
		// Claude Code refuses to work for root without exactly this.
		env = append(slices.Clone(env), "IS_SANDBOX=1")
	}
	answers := newAnswers()
	spec, err := r.asAgent(supervise.Spec{Name: c.Agent, Path: c.Path, Args: c.Args, Env: env, Stdin: stdin, Stdout: answers})
	if err != nil {
		return "", err
	}
	folder, err := json.Marshal(spec.Dir)
	if err != nil {
		return "", err
	}
	child, err := g.Start(spec)
	if err != nil {
		return "", err
	}
	defer child.Forget()
	requests := []struct{ method, params string }{
		{"initialize", `{"protocolVersion":1,"clientInfo":{"name":"deskhand","version":"1"},"clientCapabilities":{}}`},
		{"session/new", `{"cwd":` + string(folder) + `,"mcpServers":[]}`},
	}
	for i, q := range requests {
		var result json.RawMessage
		if result, err = answers.call(ctx, child, send, i, q.method, q.params); err != nil {
			err = fmt.Errorf("%s: %w", q.method, err)
			break
		}
		r.Observe(c.Agent, q.method, result)
	}
	_ = send.Close()
	tail = child.Tail()
	return tail, errors.Join(err, child.Stop(context.WithoutCancel(ctx)))
}

const (
	maxAnswer    = 4 << 20
	maxErrorText = 4 << 10
)

// answers reads an agent's output and keeps the first answer to the newest request.
type answers struct {
	lines

	mu     sync.Mutex     // guards the fields below
	id     int            // of the newest request
	answer chan rpcAnswer // to the newest request; nil before the first one
}

func newAnswers() *answers {
	a := new(answers)
	a.lines = lines{limit: maxAnswer, each: a.receive}
	return a
}

type rpcAnswer struct {
	ID     *int            `json:"id"`
	Method string          `json:"method"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data"`
	} `json:"error"`
}

// receive keeps a line that is the answer to the newest request.
func (a *answers) receive(line []byte) {
	var answer rpcAnswer
	a.mu.Lock()
	defer a.mu.Unlock()
	if json.Unmarshal(line, &answer) != nil || answer.ID == nil || *answer.ID != a.id || answer.Method != "" {
		return
	}
	select {
	case a.answer <- answer:
	default: // there is an answer, or no request
	}
}

// call sends a request and waits for its answer.
func (a *answers) call(ctx context.Context, child *supervise.Child, send io.Writer, id int, method, params string) (json.RawMessage, error) {
	answered := make(chan rpcAnswer, 1)
	a.mu.Lock()
	a.id, a.answer = id, answered
	a.mu.Unlock()
	request := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`+"\n", id, method, params)
	if _, err := io.WriteString(send, request); err != nil {
		return nil, err
	}
	var answer rpcAnswer
	select {
	case answer = <-answered:
	case <-child.Done():
		select {
		case answer = <-answered: // the answer came before the end
		default:
			return nil, fmt.Errorf("it ended: %v", child.Exit())
		}
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if answer.Error != nil {
		return nil, errors.New(cuttext.Cut(answer.Error.Message, maxErrorText))
	}
	return answer.Result, nil
}
