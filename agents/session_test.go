package agents_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/internal/testpostgres"
)

// stateOf waits until a session is in a state.
func stateOf(t testing.TB, h *agents.Host, id string, want eventlog.State) agents.Session {
	t.Helper()
	var s agents.Session
	wait(t, func() (err error) {
		if s, err = h.Session(t.Context(), id); err != nil || s.State != want {
			return fmt.Errorf("session is %s (%w), want %s", s.State, err, want)
		}
		return nil
	})
	return s
}

func create(t testing.TB, h *agents.Host, id string, o agents.SessionOptions) agents.Session {
	t.Helper()
	if o.Agent == "" {
		o.Agent = "scripted"
	}
	if o.Cwd == "" {
		o.Cwd = t.TempDir()
	}
	s, err := h.CreateSession(within(t), id, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func say(t testing.TB, h *agents.Host, id, text string) *agents.Turn {
	t.Helper()
	turn, err := h.Prompt(within(t), id, fmt.Appendf(nil, `[{"type":"text","text":%q}]`, text))
	if err != nil {
		t.Fatal(err)
	}
	return turn
}

func finish(t testing.TB, turn *agents.Turn) string {
	t.Helper()
	result, err := turn.Wait(within(t))
	if err != nil {
		t.Fatal(err)
	}
	return string(result)
}

func stream(t testing.TB, h *agents.Host, id string) []eventlog.Event {
	t.Helper()
	events, err := h.Log().Read(within(t), agents.SessionStream(id), 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	return events
}

func TestSessionInGo(t *testing.T) {
	t.Parallel()
	h := host(t, agents.Config{})
	s := create(t, h, "mine", agents.SessionOptions{Title: "T"})
	if s.State != eventlog.Idle || s.Title != "T" || s.Native == "" || s.Native == "mine" {
		t.Errorf("session = %+v", s.Session)
	}
	if _, err := h.CreateSession(within(t), "mine", agents.SessionOptions{Agent: "scripted", Cwd: "/"}); !errors.Is(err, agents.ErrSessionExists) {
		t.Errorf("CreateSession again = %v", err)
	}
	turn := say(t, h, "mine", "hello")
	if got := finish(t, turn); got != `{"stopReason":"end_turn"}` {
		t.Errorf("result = %s", got)
	}
	events := stream(t, h, "mine")
	var kinds []string
	for _, e := range events {
		kinds = append(kinds, e.Dir.String()+" "+e.Kind)
		if strings.Contains(string(e.Payload), s.Native) && e.Kind != "response:session/new" {
			t.Errorf("the agent's name for the session is in %s", e.Payload)
		}
	}
	want := "client session/new, agent response:session/new, client session/prompt, agent session/update, agent response:session/prompt"
	if got := strings.Join(kinds, ", "); got != want {
		t.Errorf("stream = %s", got)
	}
	if err := h.SetMode(within(t), "mine", "zz"); err == nil || !strings.Contains(err.Error(), "cannot be chosen") {
		t.Errorf("SetMode = %v", err)
	}
	if err := h.Terminate(within(t), "mine"); err != nil {
		t.Fatal(err)
	}
	if s := stateOf(t, h, "mine", eventlog.Ended); s.EndReason != "terminated" || s.EndedAt.IsZero() {
		t.Errorf("session = %+v", s.Session)
	}
	if _, err := h.Prompt(within(t), "mine", []byte(`[]`)); !errors.Is(err, agents.ErrSessionEnded) {
		t.Errorf("Prompt = %v", err)
	}
	if _, err := h.Prompt(within(t), "missing", []byte(`[]`)); !errors.Is(err, agents.ErrSessionNotFound) {
		t.Errorf("Prompt = %v", err)
	}
}

func TestFailedSession(t *testing.T) {
	t.Parallel()
	h := host(t, agents.Config{Launch: agentOf("DIE_AT=session/new")})
	_, err := h.CreateSession(within(t), "x", agents.SessionOptions{Agent: "scripted", Cwd: "/"})
	if _, ok := errors.AsType[*agents.ExitedError](err); !ok {
		t.Errorf("CreateSession = %v", err)
	}
	s := stateOf(t, h, "x", eventlog.Failed)
	if !strings.Contains(string(s.Error), "exited") {
		t.Errorf("session = %+v", s.Session)
	}
}

// Sessions that were made with one API can be used with the other.
func TestBothWays(t *testing.T) {
	t.Parallel()
	h := host(t, agents.Config{})
	post(t, h, "srv", initialize)
	id := newSession(t, h, "srv")
	finish(t, say(t, h, id, "from Go"))
	prompt(t, h, "srv", id, "from ACP")
	create(t, h, "go", agents.SessionOptions{})
	prompt(t, h, "ses-go", "go", "from ACP")
	finish(t, say(t, h, "go", "from Go"))
	for _, session := range []string{id, "go"} {
		text := payloads(stream(t, h, session))
		if !strings.Contains(text, "you said: from Go") || !strings.Contains(text, "you said: from ACP") {
			t.Errorf("stream of %s:%s", session, text)
		}
	}
}

func TestPermissions(t *testing.T) {
	t.Parallel()
	const (
		yes    = `answered {\"outcome\":{\"outcome\":\"selected\",\"optionId\":\"yes-1\"}}`
		always = `answered {\"outcome\":{\"outcome\":\"selected\",\"optionId\":\"all-2\"}}`
		no     = `answered {\"outcome\":{\"outcome\":\"selected\",\"optionId\":\"no-3\"}}`
		none   = `answered {\"outcome\":{\"outcome\":\"cancelled\"}}`
	)
	answer := func(r agents.Reply) func(*testing.T, *agents.Host) {
		return func(t *testing.T, h *agents.Host) {
			t.Helper()
			stateOf(t, h, "s", eventlog.Waiting)
			open, err := h.Requests(within(t), "s")
			if err != nil || len(open) != 1 || open[0].Method != "session/request_permission" {
				t.Fatalf("Requests = %+v, %v", open, err)
			}
			if err := h.Answer(within(t), "s", open[0].PublicID, r); err != nil {
				t.Fatal(err)
			}
			if err := h.Answer(within(t), "s", open[0].PublicID, r); !errors.Is(err, agents.ErrRequestNotFound) {
				t.Errorf("second Answer = %v", err)
			}
		}
	}
	// Where only options for always are offered, asking for another is refused and
	// leaves the question open.
	refusedFor := func(kinds ...string) func(*testing.T, *agents.Host) {
		return func(t *testing.T, h *agents.Host) {
			t.Helper()
			stateOf(t, h, "s", eventlog.Waiting)
			open, err := h.Requests(within(t), "s")
			if err != nil || len(open) != 1 {
				t.Fatalf("Requests = %+v, %v", open, err)
			}
			err = h.Answer(within(t), "s", open[0].PublicID, agents.Reply{Kinds: kinds})
			if other, ok := errors.AsType[*agents.OptionError](err); !ok || len(other.Offered) != 2 || !strings.Contains(err.Error(), `"Always" (allow_always)`) {
				t.Errorf("Answer = %v", err)
			}
			answer(agents.Reply{Kinds: []string{agents.AllowAlways}})(t, h)
		}
	}
	for _, c := range []struct {
		name   string
		policy agents.Policy
		do     func(*testing.T, *agents.Host)
		want   string
	}{
		{"allow", agents.Policy{Mode: agents.Allow}, nil, yes},
		{"reject", agents.Policy{Mode: agents.Reject}, nil, no},
		{"timeout", agents.Policy{Timeout: 50 * time.Millisecond}, nil, none},
		{"kind", agents.Policy{}, answer(agents.Reply{Kinds: []string{agents.AllowAlways}}), always},
		{"option", agents.Policy{}, answer(agents.Reply{Option: "no-3"}), no},
		{"cancel", agents.Policy{}, answer(agents.Reply{Cancel: true}), none},
		{"allow, only always", agents.Policy{Mode: agents.Allow}, refusedFor(agents.AllowOnce, agents.RejectOnce), always},
		{"reject, only always", agents.Policy{Mode: agents.Reject}, nil, none},
		{"else cancel", agents.Policy{}, answer(agents.Reply{Kinds: []string{agents.RejectOnce}, Cancel: true}), no},
		{"only always, else cancel", agents.Policy{}, answer(agents.Reply{Kinds: []string{agents.RejectOnce}, Cancel: true}), none},
		{"cancelled", agents.Policy{}, func(t *testing.T, h *agents.Host) {
			t.Helper()
			stateOf(t, h, "s", eventlog.Waiting)
			if err := h.Cancel(within(t), "s"); err != nil {
				t.Fatal(err)
			}
		}, none},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := host(t, agents.Config{Permissions: agents.Policy{Mode: agents.Ask}})
			create(t, h, "s", agents.SessionOptions{Permissions: &c.policy})
			word := "ask"
			if strings.Contains(c.name, "only always") {
				word = "ask always"
			}
			turn := say(t, h, "s", word)
			if c.do != nil {
				c.do(t, h)
			}
			finish(t, turn)
			if text := payloads(stream(t, h, "s")); !strings.Contains(text, c.want) {
				t.Errorf("no %s in%s", c.want, text)
			}
			if open, err := h.Requests(within(t), "s"); err != nil || len(open) > 0 {
				t.Errorf("open requests: %+v, %v", open, err)
			}
			stateOf(t, h, "s", eventlog.Idle)
		})
	}
}

// The first of several answers counts. The agent does not get the others.
func TestFirstAnswerWins(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "received")
	h := host(t, agents.Config{Launch: agentOf("RECEIVED=" + file)})
	id := newSession(t, h, "srv")
	turn := say(t, h, id, "ask")
	stateOf(t, h, id, eventlog.Waiting)
	post(t, h, "srv", `{"jsonrpc":"2.0","id":17,"result":{"stray":true}}`)
	for _, option := range []string{"all-2", "yes-1", "no-3"} {
		post(t, h, "srv", `{"jsonrpc":"2.0","id":0,"result":{"outcome":{"outcome":"selected","optionId":"`+option+`"}}}`)
	}
	finish(t, turn)
	post(t, h, "srv", `{"id":9,"method":"echo","params":1}`)
	if got := received(t, file); strings.Contains(got, "yes-1") || strings.Contains(got, "stray") {
		t.Errorf("the agent got %s", got)
	}
	if text := payloads(stream(t, h, id)); !strings.Contains(text, `\"all-2\"`) {
		t.Errorf("stream:%s", text)
	}
}

// Questions that are open when the server ends are cancelled, and the prompt is not sent
// again.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "received")
	cfg := agents.Config{
		Log: openLog(t, ""), StateDir: t.TempDir(), Launch: agentOf(`CAPS={"loadSession":true}`, "SESSIONS="+dir, "RECEIVED="+file),
	}
	h := host(t, cfg)
	post(t, h, "srv", initialize)
	id := newSession(t, h, "srv")
	turn := say(t, h, id, "ask")
	stateOf(t, h, id, eventlog.Waiting)
	h = restart(t, h, cfg)
	if _, err := turn.Wait(within(t)); !errors.Is(err, agents.ErrClosed) {
		t.Errorf("the turn of before: %v", err)
	}
	stateOf(t, h, id, eventlog.Interrupted)
	if open, err := h.Requests(within(t), id); err != nil || len(open) > 0 {
		t.Errorf("open requests: %+v, %v", open, err)
	}
	finish(t, say(t, h, id, "again"))
	if s := stateOf(t, h, id, eventlog.Idle); s.EndReason != "" {
		t.Errorf("session = %+v", s.Session)
	}
	if got := received(t, file); strings.Count(got, `"text":"ask"`) != 1 {
		t.Errorf("the prompt was sent again:\n%s", got)
	}
}

// All followers see the same events in the same order, however slow one of them is.
func TestFollowers(t *testing.T) {
	t.Parallel()
	h := host(t, agents.Config{})
	id := newSession(t, h, "srv")
	slow, err := h.Follow(within(t), "srv", agents.Replay{All: true})
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() { inOrder(t, follow(t, h, "srv", agents.Replay{All: true}, "end_turn")) })
	}
	turn := say(t, h, id, "burst 2000")
	finish(t, turn)
	wg.Wait()
	var all []eventlog.Event
	for len(all) < 2002 {
		events, err := slow.Next(within(t))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, events...)
	}
	inOrder(t, all)
}

func inOrder(t *testing.T, events []eventlog.Event) {
	t.Helper()
	n := 0
	for i, e := range events {
		if e.Seq != int64(i+1) {
			t.Errorf("event %d has sequence %d", i+1, e.Seq)
			return
		}
		if e.Kind == "session/update" {
			if !strings.Contains(string(e.Payload), fmt.Sprintf(`"part %d"`, n)) {
				t.Errorf("update %d is %s", n, e.Payload)
				return
			}
			n++
		}
	}
	if n != 2000 {
		t.Errorf("%d updates", n)
	}
}

func TestReplay(t *testing.T) {
	t.Parallel()
	h := host(t, agents.Config{})
	for i := range 1100 {
		post(t, h, "srv", fmt.Sprintf(`{"id":%d,"method":"echo","params":1}`, i))
	}
	first := func(r agents.Replay) int64 {
		ctx := within(t)
		s, err := h.Follow(ctx, "srv", r)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if r.None {
			post(t, h, "srv", `{"id":1,"method":"echo","params":2}`)
		}
		events, err := s.Next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return events[0].Seq
	}
	for _, c := range []struct {
		r    agents.Replay
		want int64
	}{
		{agents.Replay{}, 77},
		{agents.Replay{All: true}, 1},
		{agents.Replay{After: 5}, 6},
		{agents.Replay{After: 99999}, 1},
		{agents.Replay{None: true}, 1101},
	} {
		if got := first(c.r); got != c.want {
			t.Errorf("%+v begins with %d, want %d", c.r, got, c.want)
		}
	}
}

func TestEnvironment(t *testing.T) {
	t.Setenv("DESKHAND_TOKEN", "secret")
	t.Setenv("SANDBOX_AGENT_TOKEN", "secret")
	t.Setenv("MY_DSN", "secret")
	t.Setenv("ANTHROPIC_API_KEY", "key")
	t.Setenv("SOME_VARIABLE", "some")
	t.Setenv("IS_SANDBOX", "yes")
	for _, clean := range []bool{false, true} {
		h := host(t, agents.Config{CleanEnv: clean, Secrets: []string{"MY_DSN"}})
		got := post(t, h, "srv", `{"id":1,"method":"env"}`)
		if strings.Contains(got, "secret") || !strings.Contains(got, `"ANTHROPIC_API_KEY=key"`) {
			t.Errorf("environment = %s", got)
		}
		if want := fmt.Sprintf(`"TMPDIR=%s/deskhand-%d-programs"`, strings.TrimSuffix(os.TempDir(), "/"), os.Geteuid()); !strings.Contains(got, want) {
			t.Errorf("no %s: environment = %s", want, got)
		}
		if clean == strings.Contains(got, "SOME_VARIABLE") {
			t.Errorf("clean %v: environment = %s", clean, got)
		}
		if root := os.Geteuid() == 0; strings.Contains(got, `"IS_SANDBOX=1"`) != root || strings.Contains(got, "IS_SANDBOX=yes") {
			t.Errorf("root %v: environment = %s", root, got)
		}
	}
}

// TestDatabaseSecrets: agents do not get the password of the log, with which they could write
// to it.
func TestDatabaseSecrets(t *testing.T) { //nolint:paralleltest // it sets a variable
	dsn := testpostgres.DSN(t)
	t.Setenv("PGPASSWORD", "secret") // which trust does not ask for
	h := hostOn(t, dsn, agents.Config{})
	if got := post(t, h, "srv", `{"id":1,"method":"env"}`); !strings.Contains(got, `"PATH=`) || strings.Contains(got, "PGPASSWORD") {
		t.Errorf("environment = %s", got)
	}
	h = host(t, agents.Config{Log: openLog(t, filepath.Join(t.TempDir(), "events.db"))})
	if got := post(t, h, "srv", `{"id":1,"method":"env"}`); !strings.Contains(got, `"PGPASSWORD=secret"`) {
		t.Errorf("with a file, environment = %s", got)
	}
}

func TestRunAs(t *testing.T) { //nolint:paralleltest // it sets a variable
	if os.Geteuid() != 0 {
		t.Skip("only root may")
	}
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	h := host(t, agents.Config{RunAs: "www-data", Launch: shell(`echo "[$(id -u), \"$HOME\", \"$IS_SANDBOX$XDG_STATE_HOME\"]"; exec cat`)})
	post(t, h, "srv", `{"method":"hello"}`)
	events := follow(t, h, "srv", agents.Replay{}, "]")
	if got := string(events[0].Payload); !strings.HasPrefix(got, `[33, "/`) || !strings.HasSuffix(got, `, ""]`) {
		t.Errorf("user, home and IS_SANDBOX = %s", got)
	}
	if _, err := agents.Start(t.Context(), agents.Config{Log: openLog(t, ""), Launch: agentOf(), RunAs: "no-such-user"}); err == nil {
		t.Error("a user that does not exist was taken")
	}
	script := filepath.Join(t.TempDir(), "agent.js") // no other user may enter
	if err := os.WriteFile(script, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	h = host(t, agents.Config{RunAs: "www-data", Launch: func(context.Context, string) (agents.Launch, error) {
		return agents.Launch{Path: "/bin/sh", Args: []string{script}}, nil
	}})
	_, err := h.Post(within(t), "srv", agents.PostOptions{Agent: "any"}, []byte(`{"method":"hello"}`))
	if err == nil || !strings.Contains(err.Error(), `user "www-data" may not enter `) || !strings.Contains(err.Error(), script) {
		t.Errorf("an agent that the user cannot read: %v", err)
	}
}

// The mock agent runs in this program if the registry has no command for it.
func TestMock(t *testing.T) {
	t.Parallel()
	h := host(t, agents.Config{Registry: withoutMock(t), StateDir: t.TempDir()})
	s, err := h.CreateSession(within(t), "m", agents.SessionOptions{Agent: "mock", Cwd: t.TempDir(), Mode: "plan", Model: "mock-fast", ThoughtLevel: "high"})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(s.Config), `"currentValue":"high"`) {
		t.Errorf("session = %s", s.Config)
	}
	finish(t, say(t, h, "m", "hello there"))
	_, err = h.CreateSession(within(t), "n", agents.SessionOptions{Agent: "mock", Cwd: t.TempDir(), Mode: "none"})
	if err == nil || err.Error() != "mode must be one of normal, plan" {
		t.Errorf("CreateSession = %v", err)
	}
	turn := say(t, h, "m", "crash")
	var exited *agents.ExitedError
	if _, err := turn.Wait(within(t)); !errors.As(err, &exited) {
		t.Errorf("crash = %v", err)
	}
	finish(t, say(t, h, "m", "and again"))
}
