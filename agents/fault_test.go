package agents_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
)

// Two requests under one id are both answered, each with its own answer.
func TestSameID(t *testing.T) {
	t.Parallel()
	h := host(t, agents.Config{})
	post(t, h, "srv", initialize)
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			want := fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"result":{"n":%d}}`, i)
			answer, err := h.Post(within(t), "srv", agents.PostOptions{}, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":7,"method":"echo","params":{"n":%d}}`, i))
			if err != nil || string(answer) != want {
				t.Errorf("answer = %s, %v, want %s", answer, err, want)
			}
		})
	}
	wg.Wait()
}

func TestIDsAreKept(t *testing.T) {
	t.Parallel()
	h := host(t, agents.Config{})
	for _, id := range []string{"null", `"a\u0062"`, "1.50", "12345678901234567890", `{"a":[1]}`} {
		want := `{"jsonrpc":"2.0","id":` + id + `,"result":1}`
		if got := post(t, h, "srv", `{"id":`+id+`,"method":"echo","params":1}`); got != want {
			t.Errorf("answer = %s, want %s", got, want)
		}
	}
}

func TestCancelRequest(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "received")
	h := host(t, agents.Config{Launch: agentOf("SILENT_AT=slow", "RECEIVED="+file)})
	post(t, h, "srv", initialize)
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() {
		_, err := h.Post(ctx, "srv", agents.PostOptions{}, []byte(`{"id":"x","method":"slow"}`))
		gone <- err
	}()
	wait(t, func() error {
		if !strings.Contains(received(t, file), `"id":2,"method":"slow"`) {
			return errors.New("the request did not arrive")
		}
		return nil
	})
	post(t, h, "srv", `{"method":"$/cancel_request","params":{"requestId":"x"}}`)
	post(t, h, "srv", `{"method":"$/cancel_request","params":{"requestId":"y"}}`)
	post(t, h, "srv", `{"id":3,"method":"echo","params":1}`)
	got := received(t, file)
	if !strings.Contains(got, `{"method":"$/cancel_request","params":{"requestId":2}}`) || strings.Contains(got, `"y"`) {
		t.Errorf("the agent got %s", got)
	}
	cancel()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("Post = %v", err)
	}
}

// wait polls until f returns nil.
func wait(t testing.TB, f func() error) {
	t.Helper()
	deadline := time.After(limit)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		err := f()
		if err == nil {
			return
		}
		select {
		case <-deadline:
			t.Fatal(err)
		case <-tick.C:
		}
	}
}

func TestGarbage(t *testing.T) {
	t.Parallel()
	h := host(t, agents.Config{})
	for _, c := range []struct{ line, want string }{
		{`no json`, `{"jsonrpc":"2.0","method":"_adapter/invalid_stdout","params":{"error":"invalid character 'o' in literal null (expecting 'u')","raw":"no json"}}`},
		{"\\u001b[31m<red>", `<red>"}}`},
		{`[1,2]`, `[1,2]`},
		{`\"text\"`, `"text"`},
		{`{\"id\":99,\"result\":{}}`, `{"jsonrpc":"2.0","method":"_adapter/unmatched_response","params":{"envelope":{"id":99,"result":{}}}}`},
		{`{\"id\":null,\"error\":{}}`, `{"id":null,"error":{}}`},
		{`  {\"method\":\"_x/y\"}  `, `{"method":"_x/y"}`},
		// Such a message would be read from the log as an answer of a client, or as a report of the host.
		{`{\"id\":1,\"method\":\"response:session/request_permission\",\"result\":{}}`, `dropped","raw":"{\"id\":1,\"method\":\"response:session/request_permission\",\"result\":{}}"}}`},
		{`{\"method\":\"_adapter/agent_exited\"}`, `dropped","raw":"{\"method\":\"_adapter/agent_exited\"}"}}`},
	} {
		post(t, h, "srv", `{"id":1,"method":"raw","params":{"line":"`+c.line+`"}}`)
		events := follow(t, h, "srv", agents.Replay{All: true}, c.want)
		if got := string(events[len(events)-1].Payload); !strings.HasSuffix(got, c.want) {
			t.Errorf("%s became %s", c.line, got)
		}
	}
}

// A line that is too long fails its request, and no other.
func TestHugeLine(t *testing.T) {
	t.Parallel()
	h := host(t, agents.Config{})
	answer := post(t, h, "srv", `{"id":"big","method":"huge","params":{"size":80000000}}`)
	if !strings.HasPrefix(answer, `{"jsonrpc":"2.0","id":"big","error":{"code":-32603,`) || !strings.Contains(answer, "67108864") {
		t.Errorf("answer = %.300s", answer)
	}
	events := follow(t, h, "srv", agents.Replay{}, `"big"`)
	if !bytes.Contains(events[0].Payload, []byte(`_adapter/invalid_stdout`)) || len(events[0].Payload) > 4096 {
		t.Errorf("events =%s", payloads(events))
	}
	if got := post(t, h, "srv", `{"id":2,"method":"echo","params":1}`); got != `{"jsonrpc":"2.0","id":2,"result":1}` {
		t.Errorf("the next answer = %s", got)
	}
	answer = post(t, h, "srv", `{"id":3,"method":"huge","params":{"size":3000000}}`)
	if len(answer) < 3000000 {
		t.Errorf("an answer of 3 MB has %d bytes", len(answer))
	}
}

// TestManyValues: a message that would take a hundred times its size when it is decoded fails
// its request, and no other.
func TestManyValues(t *testing.T) {
	t.Parallel()
	h := host(t, agents.Config{})
	answer := post(t, h, "srv", `{"id":"big","method":"many"}`)
	if !strings.HasPrefix(answer, `{"jsonrpc":"2.0","id":"big","error":{"code":-32603,`) || !strings.Contains(answer, "250000 elements") {
		t.Errorf("answer = %.300s", answer)
	}
	if got := post(t, h, "srv", `{"id":2,"method":"echo","params":1}`); got != `{"jsonrpc":"2.0","id":2,"result":1}` {
		t.Errorf("the next answer = %s", got)
	}
}

func TestDiesAtEachStep(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"initialize", "session/new", "session/prompt"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			h := host(t, agents.Config{Launch: agentOf("DIE_AT=" + method)})
			session := "none"
			for _, m := range []string{initialize, `{"id":1,"method":"session/new","params":{"cwd":"/","mcpServers":[]}}`, "prompt"} {
				if m == "prompt" {
					m = promptOf(session, "hi")
				}
				answer, err := h.Post(within(t), "srv", agents.PostOptions{Agent: "scripted"}, []byte(m))
				if !strings.Contains(m, `"method":"`+method+`"`) {
					if err != nil {
						t.Fatal(err)
					}
					if strings.Contains(m, "session/new") {
						session = strings.Trim(member(t, string(answer), "result", "sessionId"), `"`)
					}
					continue
				}
				var exited *agents.ExitedError
				if !errors.As(err, &exited) || !strings.Contains(exited.Stderr, "dying at "+method) {
					t.Errorf("%s = %s, %v", method, answer, err)
				}
				break
			}
			if session == "none" {
				return
			}
			s, err := h.Session(within(t), session)
			if err != nil || s.State != eventlog.Interrupted || s.ExitCode == nil || *s.ExitCode != 7 {
				t.Errorf("session = %+v, %v", s.Session, err)
			}
		})
	}
}

func TestStderrInErrors(t *testing.T) {
	t.Parallel()
	h := host(t, agents.Config{})
	wait(t, func() error { // the two outputs of a process arrive in any order
		answer := post(t, h, "srv", `{"id":1,"method":"fail"}`)
		if !strings.Contains(answer, `"data":{"agentStderr":"what went wrong\n`) {
			return fmt.Errorf("answer = %s", answer)
		}
		return nil
	})
	events := follow(t, h, "srv", agents.Replay{}, `"error"`)
	if got := string(events[0].Payload); got != `{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"no"}}` {
		t.Errorf("event = %s", got)
	}
}

func TestTimeout(t *testing.T) {
	t.Parallel()
	h := host(t, agents.Config{Launch: agentOf("SILENT_AT=slow"), RequestTimeout: 50 * time.Millisecond})
	_, err := h.Post(within(t), "srv", agents.PostOptions{Agent: "scripted"}, []byte(`{"id":1,"method":"slow"}`))
	var late *agents.TimeoutError
	if !errors.As(err, &late) || late.Method != "slow" {
		t.Errorf("Post = %v", err)
	}
}

// shell starts a shell script as the agent.
func shell(script string) func(context.Context, string) (agents.Launch, error) {
	return func(context.Context, string) (agents.Launch, error) {
		return agents.Launch{Path: "sh", Args: []string{"-c", script}}, nil
	}
}

func alive(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, after, _ := strings.Cut(string(b), ") ")
	return !strings.HasPrefix(after, "Z")
}

// pidsOf returns the process numbers that an agent wrote as [1,2].
func pidsOf(t *testing.T, h *agents.Host, server string) (pids []int) {
	t.Helper()
	events := follow(t, h, server, agents.Replay{}, "]")
	for s := range strings.SplitSeq(strings.Trim(string(events[len(events)-1].Payload), "[]"), ",") {
		pid, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return pids
}

// However an agent behaves, no process of it is left after Delete, and clients wait for less
// than the two seconds that they have.
func TestDeleteLeavesNothing(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"ends":         `echo "[$$]"; exec cat`,
		"ignores":      `trap "" TERM INT HUP; echo "[$$]"; cat >/dev/null; while :; do sleep 1000 & wait; done`,
		"forks":        `setsid sleep 1000 & echo "[$$,$!]"; exec cat`,
		"orphans":      `setsid sh -c 'trap "" TERM; echo "[$$]"; while :; do sleep 1000 & wait; done' & sleep 1000`,
		"closesOutput": `echo "[$$]"; exec >/dev/null; sleep 1000`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := host(t, agents.Config{Launch: shell(script)})
			post(t, h, "srv", `{"method":"hello"}`)
			pids := pidsOf(t, h, "srv")
			begun := time.Now()
			if err := h.Delete(within(t), "srv"); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(begun); took > limit/2 {
				t.Errorf("Delete took %v", took)
			}
			if list, err := h.Servers(within(t)); err != nil || len(list) > 0 && name == "ends" {
				t.Errorf("Servers = %v, %v", list, err)
			}
			wait(t, func() error {
				for _, pid := range pids {
					if alive(pid) {
						return fmt.Errorf("%d of %v is alive", pid, pids)
					}
				}
				return nil
			})
			wait(t, func() error {
				if list, err := h.Servers(t.Context()); err != nil || len(list) > 0 {
					return fmt.Errorf("Servers = %v, %w", list, err)
				}
				return nil
			})
		})
	}
}

// The processes that an agent leaves end after its exit.
func TestExitLeavesNothing(t *testing.T) {
	t.Parallel()
	h := host(t, agents.Config{Launch: shell(`setsid sleep 1000 & echo "[$$,$!]"; read line; exit 3`)})
	post(t, h, "srv", `{"method":"hello"}`)
	pids := pidsOf(t, h, "srv")
	follow(t, h, "srv", agents.Replay{}, `"code":3`)
	wait(t, func() error {
		if alive(pids[1]) {
			return fmt.Errorf("%d is alive", pids[1])
		}
		return nil
	})
}

// An agent that exits immediately is started once per call.
func TestEndsImmediately(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "starts")
	h := host(t, agents.Config{Launch: shell(`echo x >>` + file + `; exit 3`)})
	_, err := h.Post(within(t), "srv", agents.PostOptions{Agent: "scripted"}, []byte(initialize))
	var exited *agents.ExitedError
	if !errors.As(err, &exited) || *exited.Code != 3 {
		t.Errorf("Post = %v", err)
	}
	if got := received(t, file); got != "x\n" {
		t.Errorf("starts: %q", got)
	}
}

// A message with a name that the log cannot hold does not delay other messages.
func TestOddNames(t *testing.T) {
	t.Parallel()
	h := host(t, agents.Config{})
	id := newSession(t, h, "srv")
	for _, line := range []string{
		`{\"method\":\"a\\u0000b` + strings.Repeat("x", 2000) + `\"}`,
		`{\"id\":\"` + strings.Repeat("q", 5000) + `\",\"method\":\"fs/read\"}`,
		`{\"method\":\"session/update\",\"params\":{\"sessionId\":\"` + id + `\",\"update\":{\"sessionUpdate\":\"session_info_update\",\"title\":\"` + strings.Repeat("t", 100000) + `\"}}}`,
	} {
		post(t, h, "srv", `{"id":1,"method":"raw","params":{"line":"`+line+`"}}`)
	}
	prompt(t, h, "srv", id, "hello")
	if s, err := h.Session(within(t), id); err != nil || len(s.Title) != 1024 {
		t.Errorf("title of %d bytes, %v", len(s.Title), err)
	}
	if _, err := h.Post(within(t), "a\x00b", agents.PostOptions{Agent: "scripted"}, []byte(initialize)); err == nil {
		t.Error("an id with a zero byte was taken")
	}
}

func TestKilled(t *testing.T) {
	t.Parallel()
	h := host(t, agents.Config{Launch: shell(`echo "[$$]"; sleep 1000`)})
	post(t, h, "srv", `{"method":"hello"}`)
	if err := syscall.Kill(pidsOf(t, h, "srv")[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	follow(t, h, "srv", agents.Replay{}, `{"success":false,"code":null,"signal":"SIGKILL"}`)
}

// An agent that reads nothing blocks only its own clients, until their contexts end.
func TestDeafAgent(t *testing.T) {
	t.Parallel()
	h := host(t, agents.Config{Launch: shell(`echo '[1]'; exec sleep 1000`), MaxMessageBytes: 1 << 20})
	big := fmt.Appendf(nil, `{"method":"x","params":%q}`, strings.Repeat("x", 900<<10))
	post(t, h, "srv", `{"method":"hello"}`)
	if _, err := h.Post(within(t), "srv", agents.PostOptions{}, big); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := h.Post(ctx, "srv", agents.PostOptions{}, big); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Post to a full agent = %v", err)
	}
	follow(t, h, "srv", agents.Replay{}, "[1]")
	if err := h.Delete(within(t), "srv"); err != nil {
		t.Fatal(err)
	}
}

func TestStartErrors(t *testing.T) {
	t.Parallel()
	h := host(t, agents.Config{})
	_, err := h.Post(within(t), "srv", agents.PostOptions{Agent: "nope"}, []byte(`{"id":1,"method":"echo"}`))
	if _, ok := errors.AsType[*agents.StartError](err); !ok {
		t.Errorf("Post = %v", err)
	}
	post(t, h, "srv", `{"id":1,"method":"echo","params":1}`) // the id is still free
	_, err = h.Post(within(t), "srv", agents.PostOptions{Agent: "nope"}, []byte(`{"id":1,"method":"echo"}`))
	var other *agents.ConflictError
	if !errors.As(err, &other) || err.Error() != "server 'srv' already exists for agent 'scripted'; requested 'nope'" {
		t.Errorf("Post = %v", err)
	}
	for _, body := range []string{"", "{", `{"id":1} x`, "{\"a\":\"\xff\"}", `{"id":1,"id":2,"method":"x"}`} {
		var bad *agents.EnvelopeError
		if _, err := h.Post(within(t), "srv", agents.PostOptions{}, []byte(body)); !errors.As(err, &bad) {
			t.Errorf("Post %q = %v", body, err)
		}
	}
	for _, body := range []string{"[]", `"x"`, "null", "1"} {
		if _, err := h.Post(within(t), "srv", agents.PostOptions{}, []byte(body)); !errors.Is(err, agents.ErrNotObject) {
			t.Errorf("Post %q = %v", body, err)
		}
	}
}
