package agents_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/internal/testpostgres"
)

// killServers is the number of agents that work in the host that is killed.
const killServers = 3

// TestKillHost kills a host under load, repeatedly. Every message that a client has seen is in
// the log afterwards, unchanged and once. The sessions continue in the next round.
func TestKillHost(t *testing.T) {
	t.Parallel()
	for name, dsn := range map[string]func(testing.TB) string{
		"sqlite":   func(t testing.TB) string { return filepath.Join(t.TempDir(), "events.db") },
		"postgres": testpostgres.DSN,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, dsn := t.TempDir(), dsn(t)
			told := map[string]string{} // by server and sequence: the hash of the event
			answered := map[string]bool{}
			for round := range 5 * soak() {
				killRound(t, dir, dsn, round, told, answered)
				checkLog(t, dsn, told, answered)
				if t.Failed() {
					t.Fatalf("in round %d", round+1)
				}
			}
			host(t, agents.Config{StateDir: filepath.Join(dir, "state")}) // which removes what the last one left
			t.Logf("%d events and %d answers were told", len(told), len(answered))
		})
	}
}

// killRound runs a host until it has worked for a moment, and adds the messages that its
// clients have seen.
func killRound(t *testing.T, dir, dsn string, round int, told map[string]string, answered map[string]bool) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), actAs+"=host", "VICTIM_DIR="+dir, "VICTIM_DSN="+dsn, "VICTIM_ROUND="+strconv.Itoa(round))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(2*limit, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	var kill *time.Timer
	answers := map[string]int{} // by server
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadString('\n')
		if err != nil { // what is cut off was not told
			break
		}
		f := strings.Fields(line)
		switch f[0] {
		case "E":
			told[f[1]+" "+f[2]] = f[3]
		case "A":
			answered[f[1]+" "+f[2]] = true
			if answers[f[1]]++; kill == nil && len(answers) == killServers {
				kill = time.AfterFunc(rand.N(300*time.Millisecond), func() { _ = cmd.Process.Kill() })
			}
		}
	}
	err = cmd.Wait()
	if kill == nil {
		t.Fatalf("the host answered %v prompts: %v\n%s", answers, err, &stderr)
	}
	kill.Stop()
}

var counted = regexp.MustCompile(`<[^>]+>`)

// checkLog checks that the log has each message that a client has seen, once.
func checkLog(t *testing.T, dsn string, told map[string]string, answered map[string]bool) {
	t.Helper()
	var log *eventlog.Log
	wait(t, func() (err error) {
		log, err = eventlog.Open(t.Context(), eventlog.Config{DSN: dsn})
		return err
	})
	defer func() {
		if err := log.Close(); err != nil {
			t.Error(err)
		}
	}()
	have, replies := map[string]string{}, map[string]int{}
	for i := range killServers {
		name := fmt.Sprintf("srv%d", i)
		seen := map[string]bool{}
		for after := int64(0); ; {
			events, err := log.Read(t.Context(), "acp:"+name, after, 1000)
			if err != nil {
				t.Fatal(err)
			}
			if len(events) == 0 {
				break
			}
			for _, e := range events {
				if e.Seq != after+1 {
					t.Errorf("%s: sequence %d follows %d", name, e.Seq, after)
				}
				after = e.Seq
				have[name+" "+strconv.FormatInt(e.Seq, 10)] = hash(e.Payload)
				if e.Kind == "response:session/prompt" {
					replies[name+" "+strings.Trim(member(t, string(e.Payload), "id"), `"`)]++
				}
				if token := counted.FindString(string(e.Payload)); token != "" {
					if seen[token] {
						t.Errorf("%s: %s is there twice", name, token)
					}
					seen[token] = true
				}
			}
		}
	}
	for where, sum := range told {
		if have[where] != sum {
			t.Errorf("event %s was told and is lost or another", where)
		}
	}
	for id := range answered {
		if replies[id] != 1 {
			t.Errorf("answer %s is there %d times", id, replies[id])
		}
	}
}

func hash(b []byte) string {
	sum := sha256.Sum256(b)
	return fmt.Sprintf("%x", sum[:8])
}

// victim is the host that is killed.
func victim() int {
	ctx := context.Background()
	dir, cfg := os.Getenv("VICTIM_DIR"), eventlog.Config{DSN: os.Getenv("VICTIM_DSN")}
	log, err := eventlog.Open(ctx, cfg)
	// A process that another test is just starting may have the lock that was
	// let go, until it becomes the program that it is to be.
	for begun := time.Now(); errors.Is(err, eventlog.ErrInUse) && time.Since(begun) < limit; {
		log, err = eventlog.Open(ctx, cfg)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	h, err := agents.Start(ctx, agents.Config{
		Log: log, StateDir: filepath.Join(dir, "state"), Launch: agentOf(`CAPS={"loadSession":true}`, "SESSIONS="+dir),
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	v := &victimHost{h: h, out: os.Stdout, round: os.Getenv("VICTIM_ROUND")}
	var wg sync.WaitGroup
	for i := range killServers {
		wg.Go(func() {
			if err := v.work(ctx, fmt.Sprintf("srv%d", i)); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
		})
	}
	wg.Wait()
	return 1
}

type victimHost struct {
	h     *agents.Host
	round string

	mu  sync.Mutex
	out io.Writer
}

func (v *victimHost) tell(format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	fmt.Fprintf(v.out, format+"\n", args...)
}

// work prompts the session of a server until it is killed.
func (v *victimHost) work(ctx context.Context, server string) error {
	post := func(agent, message string) ([]byte, error) {
		return v.h.Post(ctx, server, agents.PostOptions{Agent: agent}, []byte(message))
	}
	session := ""
	if v.round == "0" {
		if _, err := post("scripted", initialize); err != nil {
			return err
		}
		answer, err := post("", `{"id":1,"method":"session/new","params":{"cwd":"/","mcpServers":[]}}`)
		if err != nil {
			return err
		}
		var a struct {
			Result struct{ SessionID string }
		}
		if err := json.Unmarshal(answer, &a); err != nil {
			return err
		}
		session = a.Result.SessionID
	} else {
		page, _, err := v.h.Sessions(ctx, eventlog.SessionFilter{Server: server}, "", 0)
		if err != nil || len(page) != 1 {
			return fmt.Errorf("sessions of %s: %d, %w", server, len(page), err)
		}
		session = page[0].ID
	}
	s, err := v.h.Follow(ctx, server, agents.Replay{All: true})
	if err != nil {
		return err
	}
	go v.follow(ctx, server, s) // until the end of the process
	for n := 0; ; n++ {
		token := fmt.Sprintf("r%s-%d", v.round, n)
		answer, err := post("", fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"method":"session/prompt","params":{"sessionId":%q,"prompt":[{"type":"text","text":"count %s 20"}]}}`, token, session, token))
		if err != nil || !bytes.Contains(answer, []byte("end_turn")) {
			return fmt.Errorf("prompt of %s: %s, %w", server, answer, err)
		}
		v.tell("A %s %s", server, token)
	}
}

func (v *victimHost) follow(ctx context.Context, server string, s *agents.Stream) {
	for {
		events, err := s.Next(ctx)
		if err != nil {
			return
		}
		for _, e := range events {
			v.tell("E %s %d %s", server, e.Seq, hash(e.Payload))
		}
	}
}
