package process_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/deskhand/deskhand/process"
)

// A reader ends with the process, even if another process holds its output. A reader that
// begins after the end ends, too.
func TestFollowEnds(t *testing.T) {
	t.Parallel()
	m := newManager(t, process.Config{})
	path := fifo(t)
	for _, terminal := range []bool{false, true} {
		s := script("sleep 1000 & echo one; read line <" + path + "; echo two")
		s.Terminal = terminal
		p := start(t, m, s)
		r := p.Log().Follow(0)
		await(t, p, "one")
		go func() {
			if err := os.WriteFile(path, []byte("go\n"), 0); err != nil {
				t.Error(err)
			}
		}()
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		var text strings.Builder
		var err error
		for err == nil {
			var entries []process.Entry
			entries, _, err = r.Next(ctx)
			for _, e := range entries {
				text.Write(e.Data)
			}
		}
		if got := strings.ReplaceAll(text.String(), "\r", ""); !errors.Is(err, io.EOF) || got != "one\ntwo\n" {
			t.Errorf("terminal %v: %q, then %v", terminal, got, err)
		}
		wait(t, p)
		if got, _ := readAll(t, p.Log().Follow(0)); got != text.String() {
			t.Errorf("after the end: %q", got)
		}
		p.Kill(t.Context(), 0)
	}
}

// When a reader gets io.EOF, Info has the exit of the process.
func TestExitIsKnownAtTheEndOfOutput(t *testing.T) {
	t.Parallel()
	m := newManager(t, process.Config{})
	var wg sync.WaitGroup
	defer wg.Wait()
	for range 50 {
		p := start(t, m, process.Spec{Command: "true"})
		for range 4 {
			wg.Go(func() {
				readAll(t, p.Log().Follow(0))
				if i := p.Info(); i.Exit == nil || i.Running {
					t.Errorf("at the end of its output: %+v", i)
				}
			})
		}
	}
}

// The log also keeps output of processes that an ended process left running.
func TestOutputAfterTheEnd(t *testing.T) {
	t.Parallel()
	m := newManager(t, process.Config{})
	path := fifo(t)
	p := start(t, m, script("(read line <"+path+"; echo later) & echo now"))
	wait(t, p)
	if err := os.WriteFile(path, []byte("go\n"), 0); err != nil {
		t.Fatal(err)
	}
	poll(t, func() error {
		if got := text(p); got != "now\nlater\n" {
			return fmt.Errorf("the log has %q", got)
		}
		return nil
	})
}

// Each of many followers gets every byte once, in order.
func TestFollowers(t *testing.T) {
	t.Parallel()
	m := newManager(t, process.Config{})
	path := fifo(t)
	const lines = 20000
	p := start(t, m, script(fmt.Sprintf("read line <%s; seq 1 %d; seq 1 %d >&2; echo end", path, lines, lines)))
	var want strings.Builder
	for n := 1; n <= lines; n++ {
		fmt.Fprintln(&want, n)
	}
	var wg sync.WaitGroup
	for i := range 64 {
		r := p.Log().Follow(0)
		if i%2 == 1 {
			r = p.Log().FollowBytes(0)
		}
		wg.Go(func() {
			var out, errs strings.Builder
			var last uint64
			for {
				entries, gap, err := r.Next(t.Context())
				for _, e := range entries {
					if e.Sequence != last+1 {
						t.Errorf("sequence %d after %d", e.Sequence, last)
					}
					last = e.Sequence
					if e.Stream == process.Stderr {
						errs.Write(e.Data)
					} else {
						out.Write(e.Data)
					}
				}
				if err != nil || gap != (process.Gap{}) {
					if !errors.Is(err, io.EOF) {
						t.Errorf("Next: %+v, %v", gap, err)
					}
					break
				}
			}
			if out.String() != want.String()+"end\n" || errs.String() != want.String() {
				t.Errorf("follower %d has %d and %d bytes of %d", i, out.Len(), errs.Len(), want.Len())
			}
		})
	}
	if err := os.WriteFile(path, []byte("go\n"), 0); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
}

// A reader that has stopped slows neither the process nor another reader.
func TestReaderThatStops(t *testing.T) {
	t.Parallel()
	m := newManager(t, process.Config{Limits: process.Limits{MaxLog: 1 << 20}})
	const size = 50_000_000
	path := fifo(t)
	p := start(t, m, script(fmt.Sprintf("echo begin; read line <%s; head -c %d /dev/zero; echo end", path, size)))
	stopped, keeps := p.Log().Follow(0), p.Log().Follow(0)
	if entries, _, err := stopped.Next(t.Context()); err != nil || entries[0].Sequence != 1 {
		t.Fatalf("%d entries, %v", len(entries), err)
	}
	if err := os.WriteFile(path, []byte("go\n"), 0); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	text, gap := readAll(t, keeps)
	if got := len(text) + int(gap.Bytes); got != len("begin\n")+size+len("end\n") || !strings.HasSuffix(text, "end\n") {
		t.Errorf("the other reader has %d bytes and lost %d", len(text), gap.Bytes)
	}
	if i := wait(t, p); code(*i.Exit) != "0" {
		t.Errorf("%+v after %v", i, time.Since(began))
	}
	rest, gap := readAll(t, stopped)
	if gap.Bytes < size-2<<20 || gap.Entries == 0 || len(rest) > 1<<20 || !strings.HasSuffix(rest, "end\n") {
		t.Errorf("the reader that stopped has %d bytes and lost %+v", len(rest), gap)
	}
}
