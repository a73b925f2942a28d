package opencomputer

import (
	"context"
	bytewise "encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fasthttp/websocket"

	"github.com/deskhand/deskhand/httpapi/internal/rest"
	"github.com/deskhand/deskhand/process"
)

const (
	frameStderr = 2

	// maxTimeout is the longest time, in seconds, after which a program may be ended: a year.
	maxTimeout = 365 * 24 * 3600

	// killPatience is how long a call waits for the end of a program.
	killPatience = 5 * time.Second

	// typePatience is how long a program may leave its input unread.
	typePatience = 5 * time.Second

	// mostInput is how many bytes a client may send at a time.
	mostInput = 1 << 20
)

// execution is a program or a terminal of a sandbox. It is a process of the server too.
type execution struct {
	*process.Process
	sandbox string
	clients atomic.Int64
}

// executionInfo describes a program of a sandbox.
type executionInfo struct {
	ID        string   `json:"sessionID"`
	Sandbox   string   `json:"sandboxID"`
	Command   string   `json:"command"`
	Args      []string `json:"args"`
	Running   bool     `json:"running"`
	ExitCode  *int     `json:"exitCode,omitempty"`
	StartedAt string   `json:"startedAt"`
	Clients   int64    `json:"attachedClients"`
}

func (x *execution) info() executionInfo {
	i := x.Info()
	out := executionInfo{
		x.ID(), x.sandbox, i.Command, append([]string{}, i.Args...), i.Running, nil, i.Started.UTC().Format(time.RFC3339Nano), x.clients.Load(),
	}
	if !i.Running {
		out.ExitCode = new(exitStatus(i))
	}
	return out
}

// exitStatus returns the exit status of a process, as a shell has it.
func exitStatus(i process.Info) int {
	switch {
	case i.Exit == nil:
		return 0
	case i.Exit.Code != nil:
		return *i.Exit.Code
	case i.Exit.Signal == "SIGTERM":
		return 128 + 15
	}
	return 128 + 9
}

// executionResult is the output of a program so far.
type executionResult struct {
	ID       string `json:"execId"`
	Running  bool   `json:"running"`
	ExitCode *int   `json:"exitCode,omitempty"`
	Stdout   string `json:"stdout"`
	Stderr   string `json:"stderr"`
}

func (x *execution) result() executionResult {
	info := x.info()
	var texts [2]strings.Builder
	for _, e := range x.Log().Entries(process.Query{}) {
		at := 0
		if e.Stream == process.Stderr {
			at = 1
		}
		texts[at].Write(e.Data)
	}
	valid := func(b *strings.Builder) string { return strings.ToValidUTF8(b.String(), "\uFFFD") }
	return executionResult{info.ID, info.Running, info.ExitCode, valid(&texts[0]), valid(&texts[1])}
}

// executionBody says what to run.
type executionBody struct {
	Command string            `json:"cmd"`
	Args    []string          `json:"args"`
	Envs    map[string]string `json:"envs"`
	Cwd     string            `json:"cwd"`
	Timeout int               `json:"timeout"` // seconds; 0: none
	Keep    *int              `json:"maxRunAfterDisconnect"`
}

func (b *sandboxes) registerExecutions(one string) {
	b.add(http.MethodGet, one+"/exec", func(c *call) (any, error) {
		all := []executionInfo{}
		for _, x := range b.executionsOf(c.ID) {
			all = append(all, x.info())
		}
		return all, nil
	})
	b.add(http.MethodPost, one+"/exec", func(c *call) (any, error) {
		x, err := b.execute(c, false)
		if err != nil {
			return nil, err
		}
		c.SetStatus(http.StatusCreated)
		return x.info(), nil
	})
	b.add(http.MethodPost, one+"/exec/run-async", func(c *call) (any, error) {
		x, err := b.execute(c, true)
		if err != nil {
			return nil, err
		}
		return map[string]string{"execId": x.ID()}, nil
	})
	b.add(http.MethodPost, one+"/exec/run", func(c *call) (any, error) {
		x, err := b.execute(c, true)
		if err != nil {
			return nil, err
		}
		ctx, stop := rest.UntilGone(c.ctx, c.Fiber)
		defer stop()
		select {
		case <-x.Done():
		case <-ctx.Done():
			x.Kill(c.ctx, killPatience)
			return nil, ctx.Err()
		}
		result := x.result()
		result.ID = ""
		return result, nil
	})
	b.add(http.MethodGet, one+"/exec/{execId}/result", b.with("execId", func(_ *call, x *execution) (any, error) { return x.result(), nil }))
	b.add(http.MethodPost, one+"/exec/{execId}/kill", b.with("execId", func(c *call, x *execution) (any, error) {
		body := struct{ Signal int }{9}
		if err := c.ReadJSON(&body); err != nil {
			return nil, err
		}
		switch body.Signal {
		case 9:
			x.Kill(c.ctx, killPatience)
		case 15:
			x.Stop(c.ctx, killPatience)
		default:
			return nil, rest.InvalidField("signal", "signal must be 9 or 15")
		}
		return nil, nil //nolint:nilnil // the answer is empty
	}))
	b.add(http.MethodGet, one+"/exec/{execId}", b.with("execId", func(c *call, x *execution) (any, error) {
		return func() {
			b.Upgrade(c.Request, mostInput, func(ctx context.Context, ws *rest.Socket) { x.attend(ctx, ws, x.showFrames, stdinOf) })
		}, nil
	}))
	b.add(http.MethodPost, one+"/pty", b.openTerminal)
	b.add(http.MethodGet, one+"/pty/{execId}", b.with("execId", func(c *call, x *execution) (any, error) {
		typed := func(data []byte) []byte { return data }
		return func() {
			b.Upgrade(c.Request, mostInput, func(ctx context.Context, ws *rest.Socket) { x.attend(ctx, ws, x.showBytes, typed) })
		}, nil
	}))
}

// with returns the handler of a route about one program of a sandbox.
func (b *sandboxes) with(param string, handle func(*call, *execution) (any, error)) func(*call) (any, error) {
	return func(c *call) (any, error) {
		id := c.Param(param)
		b.mu.Lock()
		x := b.executions[id]
		b.mu.Unlock()
		if x == nil || x.sandbox != c.ID {
			return nil, rest.Missing("exec session", id)
		}
		return handle(c, x)
	}
}

// executionsOf returns the programs of a sandbox, the oldest first.
func (b *sandboxes) executionsOf(id string) (all []*execution) {
	processes, err := b.processes()
	if err != nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.forgetRemoved(processes)
	for _, x := range b.executions {
		if x.sandbox == id {
			all = append(all, x)
		}
	}
	slices.SortFunc(all, func(a, b *execution) int { return a.Info().Started.Compare(b.Info().Started) })
	return all
}

// forgetRemoved forgets the programs that the server has forgotten, with their logs. The caller holds
// mu.
func (b *sandboxes) forgetRemoved(processes *process.Manager) {
	maps.DeleteFunc(b.executions, func(id string, _ *execution) bool {
		_, err := processes.Find(id)
		return err != nil
	})
}

// execute starts the program that a request describes. A program without input reads the end of
// it.
func (b *sandboxes) execute(c *call, noInput bool) (*execution, error) {
	var body executionBody
	if err := c.ReadJSON(&body); err != nil {
		return nil, err
	}
	if body.Keep != nil {
		return nil, notImplemented("maxRunAfterDisconnect is not supported: a program runs until its timeout or until it is killed")
	}
	if body.Timeout > maxTimeout {
		return nil, rest.InvalidField("timeout", fmt.Sprintf("timeout must be at most %d seconds", maxTimeout))
	}
	x, err := b.start(c, process.Spec{Command: body.Command, Args: body.Args, Dir: c.at(body.Cwd), Env: body.Envs})
	if err != nil {
		return nil, err
	}
	if noInput {
		if err := x.CloseInput(); err != nil && !errors.Is(err, process.ErrInputClosed) && !errors.Is(err, process.ErrNotRunning) {
			return nil, err
		}
	}
	if body.Timeout > 0 {
		err = b.Go(func() {
			late := time.NewTimer(time.Duration(body.Timeout) * time.Second)
			defer late.Stop()
			select {
			case <-x.Done():
			case <-b.Done():
			case <-late.C:
				x.Kill(context.Background(), killPatience)
			}
		})
	}
	return x, err
}

// start starts a program with the sandbox's variables.
func (b *sandboxes) start(c *call, spec process.Spec) (*execution, error) {
	processes, err := b.processes()
	if err != nil {
		return nil, err
	}
	env := maps.Clone(c.Envs)
	if env == nil {
		env = map[string]string{}
	}
	maps.Copy(env, spec.Env)
	spec.Env = env
	p, err := processes.Start(spec)
	if err != nil {
		return nil, err
	}
	x := &execution{Process: p, sandbox: c.ID}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.forgetRemoved(processes)
	b.executions[x.ID()] = x
	return x, nil
}

// openTerminal starts a shell in a terminal.
func (b *sandboxes) openTerminal(c *call) (any, error) {
	var body struct{ Cols, Rows uint16 }
	if err := c.ReadJSON(&body); err != nil {
		return nil, err
	}
	x, err := b.start(c, process.Spec{Command: "/bin/sh", Args: []string{"-c", `exec "${SHELL:-/bin/sh}" -l`}, Dir: c.Dir, Terminal: true, Interactive: true, Cols: body.Cols, Rows: body.Rows})
	if err != nil {
		return nil, err
	}
	c.SetStatus(http.StatusCreated)
	return x.info(), nil
}

// attend serves one client: show sends the output, and input returns the program's input from a
// message.
func (x *execution) attend(ctx context.Context, ws *rest.Socket, show func(context.Context, *rest.Socket), input func([]byte) []byte) {
	x.clients.Add(1)
	defer x.clients.Add(-1)
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		show(ctx, ws)
		ws.Finish()
	})
	for {
		_, data, err := ws.Receive()
		if err != nil {
			break
		}
		if data = input(data); len(data) == 0 {
			continue
		}
		typing, stop := context.WithTimeout(ctx, typePatience)
		_, err = x.Write(typing, data)
		stop()
		if err != nil && x.Running() {
			break
		}
	}
	cancel()
	_ = ws.Under.Close() // ends a send that waits for the client
	wg.Wait()
}

// stdinOf returns the input in a frame.
func stdinOf(frame []byte) []byte {
	if len(frame) == 0 || frame[0] != frameStdin {
		return nil
	}
	return frame[1:]
}

// showFrames sends the output as frames, and marks the end of the past output.
func (x *execution) showFrames(ctx context.Context, ws *rest.Socket) {
	var newest uint64
	if last := x.Log().Entries(process.Query{Tail: new(1)}); len(last) > 0 {
		newest = last[0].Sequence
	}
	send := func(kind byte, data []byte) bool {
		return ws.Send(websocket.BinaryMessage, append([]byte{kind}, data...)) == nil
	}
	marked := false
	mark := func(sequence uint64) bool {
		if marked || sequence < newest {
			return true
		}
		marked = true
		return send(frameScrollEnd, nil)
	}
	if !mark(0) {
		return
	}
	out := x.Log().Follow(0)
	for {
		entries, _, err := out.Next(ctx)
		if errors.Is(err, io.EOF) {
			if <-x.Done(); mark(newest) {
				_ = send(frameExit, bytewise.BigEndian.AppendUint32(nil, uint32(exitStatus(x.Info())))) //nolint:gosec // it is small
			}
			return
		}
		if err != nil {
			return
		}
		for _, e := range entries {
			kind := byte(frameStdout)
			if e.Stream == process.Stderr {
				kind = frameStderr
			}
			if !send(kind, e.Data) || !mark(e.Sequence) {
				return
			}
		}
	}
}

// showBytes sends the output of a terminal.
func (x *execution) showBytes(ctx context.Context, ws *rest.Socket) {
	out := x.Log().Follow(0)
	for {
		entries, _, err := out.Next(ctx)
		if err != nil {
			return
		}
		for _, e := range entries {
			if ws.Send(websocket.BinaryMessage, e.Data) != nil {
				return
			}
		}
	}
}
