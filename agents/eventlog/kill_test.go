package eventlog_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/internal/testpostgres"
)

const (
	victimVariable = "DESKHAND_EVENTLOG_VICTIM"
	victimSync     = "DESKHAND_EVENTLOG_SYNC"
	victimSessions = 8
)

// victim is a process that commits to a log until it is killed, and prints the
// acknowledged commits.
func victim(dsn string) {
	mode, _ := strconv.Atoi(os.Getenv(victimSync))
	l, err := eventlog.Open(context.Background(), eventlog.Config{DSN: dsn, Synchronous: eventlog.Mode(mode)})
	if err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
	var wg sync.WaitGroup
	for s := range victimSessions {
		wg.Go(func() {
			own := fmt.Sprintf("ses:%d", s)
			for i := 0; ; i++ {
				var all, mine eventlog.Event
				err := l.Commit(context.Background(), func(tx *eventlog.Tx) (err error) {
					payload := fmt.Appendf(nil, "%s %d %d", own, os.Getpid(), i)
					if all, err = tx.Append(eventlog.Event{Stream: "acp:all", Payload: payload}); err != nil {
						return err
					}
					if mine, err = tx.Append(eventlog.Event{Stream: own, Payload: payload}); err != nil {
						return err
					}
					return tx.PutSession(eventlog.Session{ID: own, State: eventlog.Running, Title: strconv.FormatInt(mine.Seq, 10)})
				})
				if err != nil {
					fmt.Println("failed:", err)
					os.Exit(1)
				}
				fmt.Printf("%d %d %s\n", all.Seq, mine.Seq, mine.Payload)
			}
		})
	}
	wg.Wait()
}

// TestKill: after a process was killed at any time, the log has each acknowledged commit
// once, and no commit in part.
func TestKill(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		dsn  func(testing.TB) string
		mode eventlog.Mode
	}{
		"full": {file, eventlog.Full}, "normal": {file, eventlog.Normal}, "postgres": {testpostgres.DSN, eventlog.Full},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn := c.dsn(t)
			rounds := min(5*soak(), 50)
			if c.mode == eventlog.Normal {
				rounds = soak()
			}
			acked := map[int64]string{} // by its sequence in acp:all
			for round := range rounds {
				before := len(acked)
				killOnce(t, dsn, c.mode, acked)
				checkVictim(t, dsn, acked)
				t.Logf("round %d: %d acknowledged", round, len(acked)-before)
			}
		})
	}
}

// killOnce runs a victim until it has acknowledged a random number of commits.
func killOnce(t *testing.T, dsn string, mode eventlog.Mode, acked map[int64]string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), victimVariable+"="+dsn, fmt.Sprintf("%s=%d", victimSync, mode))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	lines, enough := bufio.NewReader(out), rand.IntN(1500)
	for n := 0; ; n++ {
		if n == enough {
			must(t, cmd.Process.Kill())
		}
		line, err := lines.ReadString('\n')
		if err != nil {
			return // the last line, which may be cut off, was not acknowledged
		}
		if strings.HasPrefix(line, "failed") {
			t.Fatal(line)
		}
		all, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		seq, err := strconv.ParseInt(all, 10, 64)
		must(t, err)
		if old, ok := acked[seq]; ok {
			t.Fatalf("%d was given to %s and to %s", seq, old, rest)
		}
		acked[seq] = rest
	}
}

func checkVictim(t *testing.T, dsn string, acked map[int64]string) {
	t.Helper()
	errs := &errorLog{}
	l := open(t, eventlog.Config{DSN: dsn, Logger: errs.logger()}) // checks the file, too
	if errs.String() != "" {
		t.Errorf("after kill -9: %s", errs)
	}
	defer closeLog(t, l)
	var own [victimSessions][]eventlog.Event
	for s := range own {
		name := fmt.Sprintf("ses:%d", s)
		own[s] = readAll(t, l, name)
		if session, err := l.Session(t.Context(), name); len(own[s]) > 0 && (err != nil || session.Title != fmt.Sprint(len(own[s]))) {
			t.Errorf("%s has %d events, its record says %q (%v)", name, len(own[s]), session.Title, err)
		}
	}
	var next [victimSessions]int
	seen := map[string]bool{}
	for _, e := range readAll(t, l, "acp:all") {
		var s int
		if _, err := fmt.Sscanf(string(e.Payload), "ses:%d ", &s); err != nil || next[s] >= len(own[s]) {
			t.Fatalf("%q is not in its session", e.Payload)
		}
		mine := own[s][next[s]]
		if next[s]++; string(mine.Payload) != string(e.Payload) || seen[string(e.Payload)] {
			t.Fatalf("%q: the session has %q, doubled: %v", e.Payload, mine.Payload, seen[string(e.Payload)])
		}
		seen[string(e.Payload)] = true
		if want, ok := acked[e.Seq]; ok && want != fmt.Sprintf("%d %s", mine.Seq, e.Payload) {
			t.Fatalf("%d is %q, acknowledged was %q", e.Seq, e.Payload, want)
		}
	}
	for seq, payload := range acked {
		if seq > int64(len(seen)) {
			t.Errorf("%s, number %d, was acknowledged and is lost", payload, seq)
		}
	}
	for s := range own {
		if next[s] != len(own[s]) {
			t.Errorf("session %d has %d events, the whole has %d of them", s, len(own[s]), next[s])
		}
	}
}
