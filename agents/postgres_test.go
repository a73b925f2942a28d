package agents_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/agents/registry"
	"github.com/deskhand/deskhand/internal/testpostgres"
)

// openFull opens a log that survives a crash of Postgres. The caller closes it.
func openFull(t testing.TB, dsn string) *eventlog.Log {
	t.Helper()
	log, err := eventlog.Open(t.Context(), eventlog.Config{DSN: dsn})
	if err != nil {
		t.Fatal(err)
	}
	return log
}

// hostOn runs a host with its own log on a database until the test ends.
func hostOn(t testing.TB, dsn string, cfg agents.Config) *agents.Host {
	t.Helper()
	cfg.Log = openFull(t, dsn)
	closing(t, cfg.Log)
	return host(t, cfg)
}

// leaveHost closes a host and its log.
func leaveHost(t testing.TB, h *agents.Host) {
	t.Helper()
	if err := errors.Join(h.Close(), h.Log().Close()); err != nil {
		t.Fatal(err)
	}
}

// TestPostgres: the sessions of one host continue in the next one on the same database.
func TestPostgres(t *testing.T) {
	t.Parallel()
	dsn, dir := testpostgres.DSN(t), t.TempDir()
	cfg := agents.Config{StateDir: t.TempDir(), Launch: agentOf(`CAPS={"loadSession":true}`, "SESSIONS="+dir)}
	cfg.Log = openFull(t, dsn)
	h, err := agents.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	post(t, h, "srv", initialize)
	id := newSession(t, h, "srv")
	prompt(t, h, "srv", id, "remember the seal")
	seen := follow(t, h, "srv", agents.Replay{}, "end_turn")
	last := seen[len(seen)-1].Seq
	leaveHost(t, h)

	h = hostOn(t, dsn, cfg)
	answer, err := h.Post(within(t), "srv", agents.PostOptions{}, []byte(promptOf(id, "and now?")))
	if err != nil || !strings.Contains(string(answer), "end_turn") {
		t.Fatalf("prompt after the restart: %s, %v", answer, err)
	}
	events := follow(t, h, "srv", agents.Replay{After: last}, "end_turn")
	if text := payloads(events); events[0].Seq != last+1 || !strings.Contains(text, "you said: and now?") || strings.Contains(text, "again:") {
		t.Errorf("events after %d:%s", last, text)
	}
	stateOf(t, h, id, eventlog.Idle)
}

// TestPostgresMock is the same with the methods for callers in Go, and with the agent that
// needs no install.
func TestPostgresMock(t *testing.T) {
	t.Parallel()
	dsn := testpostgres.DSN(t)
	known, err := registry.New(registry.Config{Mock: []string{"/nonexistent"}}) // the one inside of this program
	if err != nil {
		t.Fatal(err)
	}
	closing(t, known)
	cfg := agents.Config{StateDir: t.TempDir(), Registry: known, Log: openFull(t, dsn)}
	h, err := agents.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	create(t, h, "mine", agents.SessionOptions{Agent: "mock"})
	finish(t, say(t, h, "mine", "first"))
	leaveHost(t, h)
	h = hostOn(t, dsn, cfg)
	finish(t, say(t, h, "mine", "second"))
	text := payloads(stream(t, h, "mine"))
	for _, want := range []string{`"first"`, "_adapter/agent_exited", `"second"`} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is not in the stream:%s", want, text)
		}
	}
}

// outage is a way in which Postgres becomes unreachable and reachable again.
type outage struct{ away, back func() }

// outages has a Postgres that crashes, and connections that are cut. Each function returns the
// DSN of a database.
var outages = map[string]func(*testing.T) (string, outage){
	"stopped": func(t *testing.T) (string, outage) {
		t.Helper()
		c := testpostgres.Start(t)
		return c.DSN(), outage{c.Stop, func() { c.Restart(t) }}
	},
	"cut": func(t *testing.T) (string, outage) {
		t.Helper()
		c := testpostgres.Shared(t)
		p := c.Proxy(t)
		return p.Through(c.Schema(t)), outage{p.Refuse, p.Accept}
	},
}

// prompt1 prompts in the background.
func prompt1(t testing.TB, h *agents.Host, server, message string) <-chan error {
	t.Helper()
	ctx, done := within(t), make(chan error, 1)
	go func() {
		answer, err := h.Post(ctx, server, agents.PostOptions{}, []byte(message))
		if err == nil && !bytes.Contains(answer, []byte("end_turn")) {
			err = fmt.Errorf("answer = %s", answer)
		}
		done <- err
	}()
	return done
}

// TestPostgresGone loses Postgres in the middle of a turn. Clients get an error immediately.
// The agent's messages arrive afterwards, completely, in order and once.
func TestPostgresGone(t *testing.T) {
	t.Parallel()
	for name, begin := range outages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn, o := begin(t)
			const parts = 5_000
			h := hostOn(t, dsn, agents.Config{StateDir: t.TempDir()})
			post(t, h, "srv", initialize)
			id := newSession(t, h, "srv")
			for turn := range 3 {
				token := fmt.Sprint("turn", turn)
				answered := prompt1(t, h, "srv", promptOf(id, fmt.Sprintf("count %s %d", token, parts)))
				follow(t, h, "srv", agents.Replay{}, "<"+token+"/")
				o.away()
				refusing(t, h, id, time.Duration(turn)*1200*time.Millisecond)
				select {
				case err := <-answered:
					t.Fatalf("the turn was over: %v", err)
				default:
				}
				o.back()
				if err := <-answered; err != nil {
					t.Errorf("the prompt that was under way: %v", err)
				}
				whole(t, h, "acp:srv", token, parts)
				whole(t, h, agents.SessionStream(id), token, parts)
			}
			prompt(t, h, "srv", id, "and now?")
			text := payloads(follow(t, h, "srv", agents.Replay{}, "and now?"))
			if strings.Contains(text, "lost?") {
				t.Error("the agent got what was refused")
			}
			stateOf(t, h, id, eventlog.Idle)
		})
	}
}

// refusing makes the calls of clients for some time while Postgres is away.
func refusing(t *testing.T, h *agents.Host, session string, d time.Duration) {
	t.Helper()
	// What was just being committed may have been, which its client is told. From
	// then on it is known that nothing can be.
	wait(t, func() error {
		_, err := h.Post(within(t), "srv", agents.PostOptions{}, []byte(promptOf(session, "perhaps?")))
		if !errors.Is(err, eventlog.ErrUnavailable) {
			return fmt.Errorf("Post = %w", err)
		}
		return nil
	})
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for begun := time.Now(); ; <-tick.C {
		refused(t, h, session)
		if time.Since(begun) > d {
			return
		}
	}
}

// refused makes all calls. Each must return soon.
func refused(t *testing.T, h *agents.Host, session string) {
	t.Helper()
	calls := map[string]func(context.Context) error{
		"Post": func(ctx context.Context) error {
			_, err := h.Post(ctx, "srv", agents.PostOptions{}, []byte(promptOf(session, "lost?")))
			return err
		},
		"Post to a new server": func(ctx context.Context) error {
			_, err := h.Post(ctx, "new", agents.PostOptions{Agent: "scripted"}, []byte(initialize))
			return err
		},
		"CreateSession": func(ctx context.Context) error {
			_, err := h.CreateSession(ctx, "made", agents.SessionOptions{Agent: "scripted", Cwd: "/"})
			return err
		},
		"Prompt": func(ctx context.Context) error {
			_, err := h.Prompt(ctx, session, json.RawMessage(`[{"type":"text","text":"lost?"}]`))
			return err
		},
		"Session":        func(ctx context.Context) error { _, err := h.Session(ctx, session); return err },
		"Servers":        func(ctx context.Context) error { _, err := h.Servers(ctx); return err },
		"Cancel":         func(ctx context.Context) error { return h.Cancel(ctx, session) },
		"Terminate":      func(ctx context.Context) error { return h.Terminate(ctx, session) },
		"SetPermissions": func(ctx context.Context) error { return h.SetPermissions(ctx, session, agents.Policy{}) },
		"Delete":         func(ctx context.Context) error { return h.Delete(ctx, "another") },
	}
	var wg sync.WaitGroup
	for name, f := range calls {
		wg.Go(func() {
			begun := time.Now()
			if err := f(within(t)); !errors.Is(err, eventlog.ErrUnavailable) {
				t.Errorf("%s = %v", name, err)
			}
			if took := time.Since(begun); took > limit/4 {
				t.Errorf("%s took %v", name, took)
			}
		})
	}
	wg.Wait()
}

// TestPostgresUncertain: the connection to Postgres breaks during the commit of a prompt. Its
// client gets ErrUncertain, other clients get ErrUnavailable. When Postgres is back, the agent
// gets the prompt once.
func TestPostgresUncertain(t *testing.T) {
	t.Parallel()
	for name, cut := range map[string]testpostgres.Cut{"before": testpostgres.Before, "after": testpostgres.After} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := testpostgres.Shared(t)
			p := c.Proxy(t)
			h := hostOn(t, p.Through(c.Schema(t)), agents.Config{})
			post(t, h, "srv", initialize)
			id := newSession(t, h, "srv")
			p.RefuseNew()
			p.CutNext(cut)
			open := prompt1(t, h, "srv", promptOf(id, "perhaps"))
			wait(t, func() error {
				if !p.HasCut() {
					return errors.New("the prompt is not being committed")
				}
				return nil
			})
			wait(t, func() error {
				_, err := h.Post(within(t), "srv", agents.PostOptions{}, []byte(`{"id":"lost","method":"echo","params":1}`))
				if !errors.Is(err, eventlog.ErrUnavailable) {
					return fmt.Errorf("Post meanwhile = %w", err)
				}
				return nil
			})
			if err := <-open; !errors.Is(err, eventlog.ErrUncertain) {
				t.Errorf("Post = %v", err)
			}
			p.Accept()
			wait(t, func() error {
				_, err := h.Post(within(t), "srv", agents.PostOptions{}, []byte(promptOf(id, "afterwards")))
				return err
			})
			text := payloads(stream(t, h, id))
			if strings.Count(text, "you said: perhaps") != 1 || strings.Count(text, "you said: afterwards") != 1 {
				t.Errorf("stream:%s", text)
			}
			if text := payloads(follow(t, h, "srv", agents.Replay{All: true}, "afterwards")); strings.Contains(text, `"lost"`) {
				t.Errorf("what was refused was done:%s", text)
			}
		})
	}
}

// whole checks that a stream has all parts that an agent counted, in order and once.
func whole(t *testing.T, h *agents.Host, name, token string, parts int) {
	t.Helper()
	next, answers := 0, 0
	for after := int64(0); ; {
		events, err := h.Log().Read(within(t), name, after, 1000)
		if err != nil {
			t.Fatal(err)
		}
		if len(events) == 0 {
			break
		}
		for _, e := range events {
			if after++; e.Seq != after {
				t.Fatalf("%s has %d where %d belongs", name, e.Seq, after)
			}
			if e.Kind == "response:session/prompt" && next == parts {
				answers++
			}
			if e.Kind != "session/update" || !bytes.Contains(e.Payload, []byte("<"+token+"/")) {
				continue
			}
			if !bytes.Contains(e.Payload, fmt.Appendf(nil, "<%s/%d>", token, next)) {
				t.Fatalf("%s has %s where part %d belongs", name, e.Payload, next)
			}
			next++
		}
	}
	if next != parts || answers == 0 {
		t.Errorf("%s has %d parts of %d, and %d answers", name, next, parts, answers)
	}
}

// TestCloseWhilePostgresIsGone: Close does not wait for Postgres, and the next host completes
// the record.
func TestCloseWhilePostgresIsGone(t *testing.T) {
	t.Parallel()
	for name, begin := range outages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn, o := begin(t)
			h, err := agents.Start(t.Context(), agents.Config{Log: openFull(t, dsn), Launch: agentOf("IGNORE_EOF=1")})
			if err != nil {
				t.Fatal(err)
			}
			post(t, h, "srv", initialize)
			id := newSession(t, h, "srv")
			answered := prompt1(t, h, "srv", promptOf(id, "count token 20000"))
			told := follow(t, h, "srv", agents.Replay{All: true}, "<token/10>")
			starting := make(chan error, 1)
			o.away()
			go func() {
				_, err := h.CreateSession(context.Background(), "made", agents.SessionOptions{Agent: "scripted", Cwd: "/"})
				starting <- err
			}()
			begun := time.Now()
			leaveHost(t, h)
			if took := time.Since(begun); took > limit/2 {
				t.Errorf("Close took %v", took)
			}
			for name, ended := range map[string]<-chan error{"prompt": answered, "CreateSession": starting} {
				if err := <-ended; err == nil {
					t.Errorf("%s succeeded", name)
				}
			}
			o.back()
			h = hostOn(t, dsn, agents.Config{})
			stateOf(t, h, id, eventlog.Interrupted)
			events := follow(t, h, "srv", agents.Replay{All: true}, "_adapter/agent_exited")
			for i, e := range told {
				if !bytes.Equal(events[i].Payload, e.Payload) {
					t.Errorf("event %d was told as %s and is %s", e.Seq, e.Payload, events[i].Payload)
				}
			}
			if _, err := h.Post(within(t), "srv", agents.PostOptions{}, []byte(promptOf(id, "hello"))); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestSessionFailsWhilePostgresIsGone: the failure is recorded when Postgres is back. Then the
// session can be made.
func TestSessionFailsWhilePostgresIsGone(t *testing.T) {
	t.Parallel()
	for name, begin := range outages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn, o := begin(t)
			file, silent := filepath.Join(t.TempDir(), "received"), "SILENT_AT=session/new"
			launch := func(ctx context.Context, name string) (agents.Launch, error) {
				return agentOf("RECEIVED="+file, silent)(ctx, name)
			}
			h := hostOn(t, dsn, agents.Config{Launch: launch})
			ctx, cancel := context.WithCancel(t.Context())
			made := make(chan error, 1)
			go func() {
				_, err := h.CreateSession(ctx, "mine", agents.SessionOptions{Agent: "scripted", Cwd: "/"})
				made <- err
			}()
			wait(t, func() error {
				if b, err := os.ReadFile(file); err != nil || !bytes.Contains(b, []byte("session/new")) {
					return fmt.Errorf("the agent got %s, %w", b, err)
				}
				return nil
			})
			o.away()
			cancel()
			begun := time.Now()
			if err := <-made; !errors.Is(err, context.Canceled) {
				t.Errorf("CreateSession = %v", err)
			}
			if took := time.Since(begun); took > limit/2 {
				t.Errorf("CreateSession took %v", took)
			}
			o.back()
			s := stateOf(t, h, "mine", eventlog.Failed)
			if !strings.Contains(s.EndReason, context.Canceled.Error()) {
				t.Errorf("session = %+v", s)
			}
			silent = "SILENT_AT="
			create(t, h, "mine", agents.SessionOptions{})
			finish(t, say(t, h, "mine", "hello"))
		})
	}
}

// TestTwoHosts: a server runs in one of two hosts that share a database. The other host
// returns an ElsewhereError, and can run the server after the first has ended it.
func TestTwoHosts(t *testing.T) {
	t.Parallel()
	dsn := testpostgres.DSN(t)
	const address = "http://one.example:2468"
	one, two := hostOn(t, dsn, agents.Config{Address: address}), hostOn(t, dsn, agents.Config{Address: "http://two.example:2468"})
	post(t, one, "srv", initialize)
	id := newSession(t, one, "srv")
	prompted := prompt1(t, one, "srv", promptOf(id, "ask"))
	follow(t, one, "srv", agents.Replay{}, "request_permission")
	questions, err := two.Requests(within(t), id)
	if err != nil || len(questions) != 1 {
		t.Fatalf("Requests = %v, %v", questions, err)
	}
	_, post1 := two.Post(within(t), "srv", agents.PostOptions{Agent: "scripted"}, []byte(initialize))
	_, follow1 := two.Follow(within(t), "srv", agents.Replay{})
	_, prompt1 := two.Prompt(within(t), id, json.RawMessage(`[{"type":"text","text":"x"}]`))
	for name, err := range map[string]error{
		"Post": post1, "Follow": follow1, "Prompt": prompt1,
		"Cancel":         two.Cancel(within(t), id),
		"Terminate":      two.Terminate(within(t), id),
		"SetPermissions": two.SetPermissions(within(t), id, agents.Policy{}),
		"Answer":         two.Answer(within(t), id, questions[0].PublicID, agents.Reply{Cancel: true}),
		"Delete":         two.Delete(within(t), "srv"),
	} {
		var elsewhere *agents.ElsewhereError
		if !errors.As(err, &elsewhere) || elsewhere.Server != "srv" || elsewhere.Address != address {
			t.Errorf("%s = %v", name, err)
		}
	}
	list, err := two.Servers(within(t))
	if err != nil || len(list) != 1 || !list[0].Running {
		t.Errorf("Servers = %+v, %v", list, err)
	}
	if err := one.Answer(within(t), id, questions[0].PublicID, agents.Reply{Cancel: true}); err != nil {
		t.Error(err)
	}
	if err := <-prompted; err != nil {
		t.Error(err)
	}
	if err := one.Close(); err != nil {
		t.Fatal(err)
	}
	answer, err := two.Post(within(t), "srv", agents.PostOptions{}, []byte(promptOf(id, "hello")))
	if err != nil || !strings.Contains(string(answer), "end_turn") {
		t.Errorf("prompt in the other host: %s, %v", answer, err)
	}
}

// TestTwoHostsOutlastPostgres: when Postgres is back, a host does not take over the servers of
// a host that is not connected again yet.
func TestTwoHostsOutlastPostgres(t *testing.T) {
	t.Parallel()
	c := testpostgres.Start(t)
	one, two := hostOn(t, c.DSN(), agents.Config{}), hostOn(t, c.DSN(), agents.Config{})
	post(t, one, "srv", initialize)
	id := newSession(t, one, "srv")
	c.Stop()
	refusing(t, one, id, 2*time.Second)
	c.Restart(t)
	for range 5 {
		_, err := two.Post(within(t), "srv", agents.PostOptions{}, []byte(promptOf(id, "lost?")))
		if _, elsewhere := errors.AsType[*agents.ElsewhereError](err); !elsewhere {
			t.Fatalf("Post in the other host = %v", err)
		}
	}
	wait(t, func() error { // it looks once a second whether Postgres is back
		_, err := one.Post(within(t), "srv", agents.PostOptions{}, []byte(promptOf(id, "hello")))
		return err
	})
}

// TestHostDiesElsewhere: one of two hosts is killed in the middle of its turns. The other host
// completes the record of a server before it starts the server.
func TestHostDiesElsewhere(t *testing.T) {
	t.Parallel()
	dsn, dir := testpostgres.DSN(t), t.TempDir()
	h := hostOn(t, dsn, agents.Config{Launch: agentOf(`CAPS={"loadSession":true}`, "SESSIONS="+dir)})
	told, answered := map[string]string{}, map[string]bool{}
	killRound(t, dir, dsn, 0, told, answered)
	for i := range killServers {
		server := fmt.Sprintf("srv%d", i)
		page, _, err := h.Sessions(within(t), eventlog.SessionFilter{Server: server}, "", 0)
		if err != nil || len(page) != 1 {
			t.Fatalf("sessions of %s = %v, %v", server, page, err)
		}
		id := page[0].ID
		wait(t, func() error { // until Postgres has noticed
			_, err := h.Post(within(t), server, agents.PostOptions{}, []byte(promptOf(id, "go on")))
			if _, elsewhere := errors.AsType[*agents.ElsewhereError](err); err != nil && !elsewhere {
				t.Fatal(err)
			}
			return err
		})
		text := payloads(follow(t, h, server, agents.Replay{All: true}, "you said: go on"))
		if n := strings.Count(text, "_adapter/agent_exited"); n != 1 {
			t.Errorf("%s ended %d times", server, n)
		}
		processes, err := h.Log().Processes(within(t), eventlog.ProcessFilter{Server: server, Open: true})
		if err != nil || len(processes) != 1 || processes[0].Instance != h.Log().Instance() {
			t.Errorf("open processes of %s = %+v, %v", server, processes, err)
		}
		stateOf(t, h, id, eventlog.Idle)
	}
	checkLog(t, dsn, told, answered)
	host(t, agents.Config{StateDir: filepath.Join(dir, "state")}) // which removes what the killed one left
}

// counting is like agentOf for agents that write their process numbers into a file.
func counting(t *testing.T, file string, env ...string) func(context.Context, string) (agents.Launch, error) {
	t.Helper()
	return func(ctx context.Context, name string) (agents.Launch, error) {
		l, err := agentOf(env...)(ctx, name)
		l.Args = []string{"-c", `echo $$ >>"$0"; exec "$1"`, file, l.Path}
		l.Path = "/bin/sh"
		return l, err
	}
}

// running returns the agents of counting that run.
func running(t testing.TB, file string) (alives []int) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.FieldsSeq(string(b)) {
		pid, err := strconv.Atoi(line)
		if err != nil {
			t.Fatal(err)
		}
		if alive(pid) {
			alives = append(alives, pid)
		}
	}
	return alives
}

// TestOneServerConcurrently: two hosts are asked concurrently for a new server of one id. One of
// them starts it. The other returns an ElsewhereError.
func TestOneServerConcurrently(t *testing.T) {
	t.Parallel()
	dsn := testpostgres.DSN(t)
	file := filepath.Join(t.TempDir(), "pids")
	var hosts [2]*agents.Host
	for i := range hosts {
		hosts[i] = hostOn(t, dsn, agents.Config{Launch: counting(t, file)})
	}
	starts := map[string]func(*agents.Host, string) error{
		"Post": func(h *agents.Host, id string) error {
			_, err := h.Post(within(t), id, agents.PostOptions{Agent: "scripted"}, []byte(initialize))
			return err
		},
		"CreateSession": func(h *agents.Host, id string) error {
			_, err := h.CreateSession(within(t), id, agents.SessionOptions{Agent: "scripted", Cwd: "/"})
			return err
		},
	}
	for round := range 20 {
		for name, start := range starts {
			id := fmt.Sprintf("%s-%d", strings.ToLower(name), round)
			var errs [2]error
			var wg sync.WaitGroup
			gate := make(chan struct{})
			for i, h := range hosts {
				wg.Go(func() {
					<-gate
					errs[i] = start(h, id)
				})
			}
			close(gate)
			wg.Wait()
			winner := 0
			if errs[0] != nil {
				winner = 1
			}
			var elsewhere *agents.ElsewhereError
			if lost := errs[1-winner]; errs[winner] != nil || !errors.As(lost, &elsewhere) && !errors.Is(lost, agents.ErrSessionExists) {
				t.Fatalf("%s = %v", name, errs)
			}
			started(t, hosts[winner], name, id)
		}
		wait(t, func() error {
			if alives := running(t, file); len(alives) != 2*(round+1) {
				return fmt.Errorf("%v are alive after %d starts", alives, 2*(round+1))
			}
			return nil
		})
	}
}

// started checks the record of a server that was started once.
func started(t *testing.T, h *agents.Host, name, id string) {
	t.Helper()
	server := id
	if name == "CreateSession" {
		server = "ses-" + id
	}
	processes, err := h.Log().Processes(within(t), eventlog.ProcessFilter{Server: server})
	if err != nil || len(processes) != 1 || processes[0].Instance != h.Log().Instance() || !processes[0].ExitedAt.IsZero() {
		t.Errorf("processes of %s = %+v, %v", server, processes, err)
	}
	kinds := map[string]int{}
	for _, s := range []string{"acp:" + server, "cli:" + server, agents.SessionStream(id)} {
		events, err := h.Log().Read(within(t), s, 0, 100)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			kinds[s+" "+e.Kind]++
		}
	}
	for kind, n := range kinds {
		if n != 1 {
			t.Errorf("%s is there %d times", kind, n)
		}
	}
}
