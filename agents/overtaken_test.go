package agents_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/internal/testpostgres"
)

// isElsewhere tells whether an error says that the server runs in another host.
func isElsewhere(err error) bool {
	_, is := errors.AsType[*agents.ElsewhereError](err)
	return is
}

// pair is two hosts that share a database. The first host reaches it through a proxy that can
// cut the connection. It runs a server whose agent is in a turn.
type pair struct {
	proxy    *testpostgres.Proxy
	one, two *agents.Host
	pids     string // file with the processes of the first one's agents
	session  string
	prompted <-chan error // the turn
	stream   *agents.Stream
}

// newPair starts two hosts. said is the prompt, shown the agent's message, and gone the
// GoneAfter of the first host.
func newPair(t *testing.T, said, shown string, gone time.Duration) *pair {
	t.Helper()
	c := testpostgres.Shared(t)
	dsn, dir := c.Schema(t), t.TempDir()
	env := []string{`CAPS={"loadSession":true}`, "SESSIONS=" + dir}
	p := &pair{proxy: c.Proxy(t), pids: filepath.Join(t.TempDir(), "pids")}
	p.one = hostOn(t, p.proxy.Through(dsn), agents.Config{GoneAfter: gone, Launch: counting(t, p.pids, env...)})
	p.two = hostOn(t, dsn, agents.Config{GoneAfter: time.Hour, Launch: agentOf(env...)})
	post(t, p.one, "srv", initialize)
	p.session = newSession(t, p.one, "srv")
	p.prompted = prompt1(t, p.one, "srv", promptOf(p.session, said))
	follow(t, p.one, "srv", agents.Replay{}, shown)
	var err error
	if p.stream, err = p.one.Follow(within(t), "srv", agents.Replay{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.stream.Close)
	return p
}

// takeOver cuts the connection of the first host and lets the second host take its server.
func (p *pair) takeOver(t *testing.T, take func() error) {
	t.Helper()
	p.proxy.Refuse()
	wait(t, func() error { // until Postgres has noticed
		err := take()
		if err != nil && !isElsewhere(err) {
			t.Fatal(err)
		}
		return err
	})
}

// gone waits until the agent, the turn and the client's stream have ended in the first host.
// The turn and the stream get the error.
func (p *pair) gone(t *testing.T, is func(error) bool) {
	t.Helper()
	if err := <-p.prompted; !is(err) {
		t.Errorf("the turn = %v", err)
	}
	for {
		if _, err := p.stream.Next(within(t)); err != nil {
			if !is(err) {
				t.Errorf("Next = %v", err)
			}
			break
		}
	}
	wait(t, func() error {
		if alives := running(t, p.pids); len(alives) > 0 {
			return fmt.Errorf("%v are alive", alives)
		}
		return nil
	})
}

// told returns the log's events of the server and its session, and their rows.
func (p *pair) told(t *testing.T) (all []string) {
	t.Helper()
	for _, name := range []string{"acp:srv", "cli:srv", agents.SessionStream(p.session)} {
		for after := int64(0); ; {
			events, err := p.two.Log().Read(within(t), name, after, 0)
			if err != nil {
				t.Fatal(err)
			}
			if len(events) == 0 {
				break
			}
			after = events[len(events)-1].Seq
			for _, e := range events {
				all = append(all, fmt.Sprintf("%+v %s", e, e.Payload))
			}
		}
	}
	row, err := p.two.Session(within(t), p.session)
	if err != nil {
		t.Fatal(err)
	}
	processes, err := p.two.Log().Processes(within(t), eventlog.ProcessFilter{Server: "srv"})
	if err != nil {
		t.Fatal(err)
	}
	return append(all, fmt.Sprintf("%+v", row), fmt.Sprintf("%+v", processes))
}

// unchanged checks that the log has the same events and rows as before.
func (p *pair) unchanged(t *testing.T, before []string) {
	t.Helper()
	now := p.told(t)
	if len(now) != len(before) {
		t.Fatalf("the log has %d entries more", len(now)-len(before))
	}
	for i := range now {
		if now[i] != before[i] {
			t.Errorf("the log has %s\ninstead of %s", now[i], before[i])
		}
	}
}

// A host that has lost Postgres, and whose server another host has started meanwhile, ends its
// own process of the server and writes nothing more, however it learns of that. Its clients
// get an error. They can use the server here again when it has ended in the other host.
func TestOvertaken(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		said, shown string
		gone        time.Duration
		client      bool // asks for the server
	}{
		"by its own watch":      {"hang", "hanging", 100 * time.Millisecond, false},
		"from a client":         {"hang", "hanging", time.Hour, true},
		"by what is to be said": {"count token 50000", "<token/10>", time.Hour, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPair(t, c.said, c.shown, c.gone)
			p.takeOver(t, func() error {
				_, err := p.two.Post(within(t), "srv", agents.PostOptions{}, []byte(promptOf(p.session, "taken over")))
				return err
			})
			before := p.told(t)
			p.proxy.Accept()
			if c.client {
				wait(t, func() error {
					_, err := p.one.Post(within(t), "srv", agents.PostOptions{}, []byte(promptOf(p.session, "lost?")))
					if !isElsewhere(err) {
						return fmt.Errorf("Post = %w", err)
					}
					return nil
				})
			}
			p.gone(t, isElsewhere)
			_, err := p.one.Post(within(t), "srv", agents.PostOptions{}, []byte(promptOf(p.session, "lost?")))
			_, err2 := p.one.Follow(within(t), "srv", agents.Replay{})
			for name, err := range map[string]error{
				"Post": err, "Follow": err2,
				"Terminate":      p.one.Terminate(within(t), p.session),
				"SetPermissions": p.one.SetPermissions(within(t), p.session, agents.Policy{Mode: agents.Allow}),
				"SetMode":        p.one.SetMode(within(t), p.session, "b"),
				"Cancel":         p.one.Cancel(within(t), p.session),
				"Delete":         p.one.Delete(within(t), "srv"),
			} {
				if !isElsewhere(err) {
					t.Errorf("%s = %v", name, err)
				}
			}
			p.unchanged(t, before)
			prompt(t, p.two, "srv", p.session, "goes on there")
			leave := p.two.Close()
			if _, err := p.one.Post(within(t), "srv", agents.PostOptions{}, []byte(promptOf(p.session, "goes on here"))); errors.Join(err, leave) != nil {
				t.Fatal(err, leave)
			}
			follow(t, p.one, "srv", agents.Replay{}, "goes on here")
		})
	}
}

// The same for a server that another host has deleted.
func TestOvertakenByDelete(t *testing.T) {
	t.Parallel()
	p := newPair(t, "hang", "hanging", 100*time.Millisecond)
	p.takeOver(t, func() error { return p.two.Delete(within(t), "srv") })
	before := p.told(t)
	p.proxy.Accept()
	p.gone(t, func(err error) bool { return errors.Is(err, agents.ErrServerNotFound) })
	_, err := p.one.Post(within(t), "srv", agents.PostOptions{}, []byte(promptOf(p.session, "lost?")))
	_, err2 := p.one.Follow(within(t), "srv", agents.Replay{})
	if !errors.Is(err, agents.ErrAgentNeeded) && !errors.Is(err, agents.ErrServerNotFound) || !errors.Is(err2, agents.ErrServerNotFound) {
		t.Errorf("Post = %v, Follow = %v", err, err2)
	}
	p.unchanged(t, before)
}

// A session that could not be made because its host was cut off does not fail if another host
// has made a session of that id meanwhile.
func TestOvertakenWhileMaking(t *testing.T) {
	t.Parallel()
	c := testpostgres.Shared(t)
	proxy, dsn, file := c.Proxy(t), c.Schema(t), filepath.Join(t.TempDir(), "received")
	one := hostOn(t, proxy.Through(dsn), agents.Config{GoneAfter: time.Hour, Launch: agentOf("SILENT_AT=session/new", "RECEIVED="+file)})
	two := hostOn(t, dsn, agents.Config{GoneAfter: 100 * time.Millisecond})
	ctx, cancel := context.WithCancel(within(t))
	made := make(chan error, 1)
	go func() {
		_, err := one.CreateSession(ctx, "mine", agents.SessionOptions{Agent: "scripted", Cwd: "/"})
		made <- err
	}()
	wait(t, func() error {
		if b, err := os.ReadFile(file); err != nil || !strings.Contains(string(b), "session/new") {
			return fmt.Errorf("the agent got %s, %w", b, err)
		}
		return nil
	})
	proxy.Refuse()
	stateOf(t, two, "mine", eventlog.Failed)
	create(t, two, "mine", agents.SessionOptions{})
	proxy.Accept()
	wait(t, func() error { _, err := one.Servers(within(t)); return err })
	cancel()
	if err := <-made; !errors.Is(err, context.Canceled) {
		t.Errorf("CreateSession = %v", err)
	}
	turn, err := two.Prompt(within(t), "mine", json.RawMessage(`[{"type":"text","text":"hello"}]`))
	if err != nil {
		t.Fatal(err)
	}
	finish(t, turn)
	stateOf(t, two, "mine", eventlog.Idle)
}
