package process_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/deskhand/deskhand/process"
)

func TestRun(t *testing.T) {
	t.Parallel()
	m := newManager(t, process.Config{})
	for _, tt := range []struct {
		script, exit, stdout, stderr string
	}{
		{"echo out; echo err >&2", "0", "out\n", "err\n"},
		{"exit 3", "3", "", ""},
		{"kill -9 $$", "SIGKILL", "", ""},
		{"kill -34 $$", "SIG34", "", ""},
		{"cat; echo end", "0", "end\n", ""}, // its input is empty
		{"printf 'a\\000\\377b'", "0", "a\x00\xffb", ""},
	} {
		r, err := m.Run(t.Context(), script(tt.script), process.RunOptions{})
		if err != nil || code(r.Exit) != tt.exit || r.TimedOut || string(r.Stdout) != tt.stdout || string(r.Stderr) != tt.stderr ||
			r.StdoutTruncated || r.StderrTruncated || r.Duration <= 0 || r.Duration > limit {
			t.Errorf("%q: %+v %s, %v", tt.script, r, code(r.Exit), err)
		}
	}
	if infos := m.List(""); len(infos) != 0 {
		t.Errorf("runs are listed: %+v", infos)
	}
}

// Run returns when the program has ended, with all of its output, even if the program left a
// process that holds the pipe. That process continues.
func TestRunLeavesAProcess(t *testing.T) {
	t.Parallel()
	m := newManager(t, process.Config{})
	r, err := m.Run(t.Context(), script("sleep 1000 & echo $!; head -c 60000 /dev/zero >&2; exit 4"), process.RunOptions{})
	if err != nil || code(r.Exit) != "4" || r.TimedOut || len(r.Stderr) != 60000 {
		t.Fatalf("%s, timed out %v, %d bytes, %v", code(r.Exit), r.TimedOut, len(r.Stderr), err)
	}
	if r.Duration > 10*time.Second {
		t.Errorf("it took %v", r.Duration)
	}
	pid := number(t, strings.TrimSpace(string(r.Stdout)))
	if !alive(pid) {
		t.Error("the process that it left has ended")
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if alive(pid) {
		t.Error("the process that it left outlives the manager")
	}
}

// At the timeout, Run ends the program and the processes that it started, and immediately
// returns the output that has arrived.
func TestRunTimeout(t *testing.T) {
	t.Parallel()
	m := newManager(t, process.Config{})
	const timeout = 3 * time.Second // for the family to start
	began := time.Now()
	r, err := m.Run(t.Context(), script("trap '' TERM; setsid sleep 1000 & sleep 1000 & echo $$ $! $(ps -o pid= --ppid $$); wait; wait"),
		process.RunOptions{Timeout: timeout})
	took := time.Since(began)
	if err != nil || !r.TimedOut || r.Exit.Code != nil || r.Exit.Signal != "" {
		t.Fatalf("%+v, %v", r, err)
	}
	if took < timeout || took > timeout+5*time.Second || r.Duration < timeout || r.Duration > took {
		t.Errorf("took %v, said %v", took, r.Duration)
	}
	pids := numbers(t, string(r.Stdout))
	if len(pids) < 3 {
		t.Fatalf("read %q, want the numbers of the family", r.Stdout)
	}
	gone(t, pids...)
}

// The timeout ends a program whose child holds the pipe, such as sh -c 'echo hi; sleep 5'.
func TestRunTimeoutWithAHeldPipe(t *testing.T) {
	t.Parallel()
	m := newManager(t, process.Config{})
	r, err := m.Run(t.Context(), script("echo hi; sleep 1000; true"), process.RunOptions{Timeout: 2 * time.Second})
	if err != nil || !r.TimedOut || string(r.Stdout) != "hi\n" || r.Duration > 7*time.Second {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestRunTimeoutBounds(t *testing.T) {
	t.Parallel()
	m := newManager(t, process.Config{Limits: process.Limits{RunTimeout: time.Hour, MaxRunTimeout: 200 * time.Millisecond}})
	if got := m.Limits(); got.RunTimeout != got.MaxRunTimeout {
		t.Errorf("RunTimeout %v above MaxRunTimeout %v", got.RunTimeout, got.MaxRunTimeout)
	}
	for _, timeout := range []time.Duration{0, -1, time.Hour} {
		r, err := m.Run(t.Context(), script("sleep 1000"), process.RunOptions{Timeout: timeout})
		if err != nil || !r.TimedOut || r.Duration < 200*time.Millisecond {
			t.Errorf("Timeout %v: %+v, %v", timeout, r, err)
		}
	}
}

func TestRunContext(t *testing.T) {
	t.Parallel()
	m := newManager(t, process.Config{})
	path := fifo(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	type answer struct {
		process.Result
		err error
	}
	answers := make(chan answer, 1)
	go func() {
		r, err := m.Run(ctx, script("echo $$; echo up >"+path+"; sleep 1000"), process.RunOptions{})
		answers <- answer{r, err}
	}()
	if _, err := os.ReadFile(path); err != nil { // returns when the program has opened it
		t.Fatal(err)
	}
	cancel()
	a := <-answers
	if !errors.Is(a.err, context.Canceled) || a.TimedOut {
		t.Errorf("%+v, want the error of the context", a)
	}
	gone(t, number(t, strings.TrimSpace(string(a.Stdout))))
}

func TestRunOutputBound(t *testing.T) {
	t.Parallel()
	m := newManager(t, process.Config{Limits: process.Limits{MaxOutput: 100_000}})
	for _, tt := range []struct {
		ask            *int
		writes, want   int
		wantsTruncated bool
	}{
		{nil, 99_999, 99_999, false},
		{nil, 100_000, 100_000, false},
		{nil, 100_001, 100_000, true},
		{nil, 5_000_000, 100_000, true},
		{new(1 << 30), 5_000_000, 100_000, true},
		{new(0), 0, 0, false},
		{new(0), 1, 0, true},
		{new(5), 5, 5, false},
		{new(5), 6, 5, true},
	} {
		r, err := m.Run(t.Context(), script(fmt.Sprintf("head -c %d /dev/zero; head -c 6 /dev/zero >&2", tt.writes)), process.RunOptions{MaxOutput: tt.ask})
		if err != nil || len(r.Stdout) != tt.want || r.StdoutTruncated != tt.wantsTruncated || code(r.Exit) != "0" {
			t.Errorf("%+v: %d bytes, truncated %v, exit %s, %v", tt, len(r.Stdout), r.StdoutTruncated, code(r.Exit), err)
		}
		wantErr := 6 // each stream has its own limit
		if tt.ask != nil {
			wantErr = min(wantErr, *tt.ask)
		}
		if len(r.Stderr) != wantErr || r.StderrTruncated != (wantErr < 6) {
			t.Errorf("%+v: %d bytes of errors, truncated %v", tt, len(r.Stderr), r.StderrTruncated)
		}
	}
	if _, err := m.Run(t.Context(), script("true"), process.RunOptions{MaxOutput: new(-1)}); !isInvalid(err, "MaxOutput") {
		t.Errorf("MaxOutput -1: %v", err)
	}
}

func isInvalid(err error, field string) bool {
	var invalid *process.InvalidError
	return errors.As(err, &invalid) && invalid.Field == field && invalid.Reason != ""
}

// At most MaxProcesses run concurrently. The others wait for their turn, and no longer
// than their timeout.
func TestRunTurns(t *testing.T) {
	t.Parallel()
	m := newManager(t, process.Config{Limits: process.Limits{MaxProcesses: 2}})
	dir := t.TempDir()
	count := "mkdir " + dir + "/$$ && ls " + dir + " | wc -l; sleep 0.02; rmdir " + dir + "/$$"
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			r, err := m.Run(t.Context(), script(count), process.RunOptions{})
			if err != nil || code(r.Exit) != "0" {
				t.Errorf("%+v, %v", r, err)
				return
			}
			if n := strings.TrimSpace(string(r.Stdout)); n != "1" && n != "2" {
				t.Errorf("%s run, want at most 2", n)
			}
		})
	}
	wg.Wait()

	path := fifo(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range 2 {
		wg.Go(func() {
			_, err := m.Run(ctx, script("echo up >"+path+"; sleep 1000"), process.RunOptions{})
			if !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
		if _, err := os.ReadFile(path); err != nil {
			t.Error(err)
		}
	}
	var full *process.LimitError
	began := time.Now()
	_, err := m.Run(t.Context(), script("true"), process.RunOptions{Timeout: 100 * time.Millisecond})
	if !errors.As(err, &full) || full.Limit != 2 || time.Since(began) < 100*time.Millisecond {
		t.Errorf("with no turn in time: %v after %v", err, time.Since(began))
	}
	given, give := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer give()
	if _, err := m.Run(given, script("true"), process.RunOptions{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("with a context that ends: %v", err)
	}
	limits := m.Limits()
	limits.MaxProcesses = 3
	if err := m.SetLimits(limits); err != nil {
		t.Fatal(err)
	}
	if r, err := m.Run(t.Context(), script("true"), process.RunOptions{}); err != nil || code(r.Exit) != "0" {
		t.Errorf("after the limit was raised: %+v, %v", r, err)
	}
	cancel()
	wg.Wait()
}

func TestRunAndClose(t *testing.T) {
	t.Parallel()
	m := newManager(t, process.Config{Limits: process.Limits{MaxProcesses: 1}})
	path := fifo(t)
	var wg sync.WaitGroup
	run := func(s string) {
		_, err := m.Run(t.Context(), script(s), process.RunOptions{})
		if !errors.Is(err, process.ErrClosed) {
			t.Errorf("%q: %v, want ErrClosed", s, err)
		}
	}
	wg.Go(func() { run("echo up >" + path + "; sleep 1000") })
	if _, err := os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	wg.Go(func() { run("true") }) // waits for its turn, or is called after Close
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	run("true")
}
