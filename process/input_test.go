package process_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/deskhand/deskhand/process"
)

func TestInput(t *testing.T) {
	t.Parallel()
	m := newManager(t, process.Config{})
	p := start(t, m, process.Spec{Command: "cat"})
	for range 3 {
		if n, err := p.Write(t.Context(), []byte("line\n")); n != 5 || err != nil {
			t.Fatalf("Write: %d, %v", n, err)
		}
	}
	if n, err := p.Write(t.Context(), nil); n != 0 || err != nil {
		t.Errorf("Write of nothing: %d, %v", n, err)
	}
	if err := p.CloseInput(); err != nil {
		t.Error("CloseInput:", err)
	}
	if i := wait(t, p); code(*i.Exit) != "0" || text(p) != "line\nline\nline\n" {
		t.Errorf("%+v wrote %q", i, text(p))
	}
	if err := p.CloseInput(); !errors.Is(err, process.ErrNotRunning) {
		t.Errorf("CloseInput after the end: %v", err)
	}
	if n, err := p.Write(t.Context(), []byte("x")); n != 0 || !errors.Is(err, process.ErrNotRunning) {
		t.Errorf("Write after the end: %d, %v", n, err)
	}
}

func TestWriteAfterCloseInput(t *testing.T) {
	t.Parallel()
	m := newManager(t, process.Config{})
	p := start(t, m, script("sleep 1000"))
	for range 2 {
		if err := p.CloseInput(); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := p.Write(t.Context(), []byte("x")); n != 0 || !errors.Is(err, process.ErrInputClosed) {
		t.Errorf("after CloseInput: %d, %v", n, err)
	}
	p = start(t, m, script("exec <&-; echo closed; sleep 1000"))
	await(t, p, "closed")
	// A program that is being started may also have the pipe open, until its exec.
	n, err := p.Write(t.Context(), []byte("x"))
	for deadline := time.Now().Add(limit); err == nil && time.Now().Before(deadline); {
		n, err = p.Write(t.Context(), []byte("x"))
	}
	if n != 0 || !errors.Is(err, syscall.EPIPE) || errors.Is(err, process.ErrNotRunning) {
		t.Errorf("to a program that has closed its input: %d, %v", n, err)
	}
}

// A write to a program that ends returns ErrNotRunning, even shortly before Done is closed.
func TestWriteDuringExit(t *testing.T) {
	t.Parallel()
	m := newManager(t, process.Config{})
	for _, terminal := range []bool{false, true} {
		for range 100 {
			s := script("read line")
			s.Terminal = terminal
			p := start(t, m, s)
			var err error
			for err == nil {
				_, err = p.Write(t.Context(), []byte("line\n"))
			}
			if !errors.Is(err, process.ErrNotRunning) || p.Running() {
				t.Fatalf("in a terminal %v: %v, and it runs %v", terminal, err, p.Running())
			}
		}
	}
}

func TestInputTooLarge(t *testing.T) {
	t.Parallel()
	m := newManager(t, process.Config{Limits: process.Limits{MaxInput: 10}})
	p := start(t, m, process.Spec{Command: "cat"})
	n, err := p.Write(t.Context(), make([]byte, 11))
	var large *process.InputTooLargeError
	if n != 0 || !errors.As(err, &large) || large.Size != 11 || large.Limit != 10 || !strings.Contains(err.Error(), "(10)") {
		t.Errorf("Write: %d, %v", n, err)
	}
	if n, err := p.Write(t.Context(), make([]byte, 10)); n != 10 || err != nil {
		t.Errorf("Write: %d, %v", n, err)
	}
}

// A write to a program that does not read ends with its context, and the error has the
// number of written bytes. A write that waits for its turn ends as well.
func TestInputBlocked(t *testing.T) {
	t.Parallel()
	m := newManager(t, process.Config{Limits: process.Limits{MaxInput: 1 << 20}})
	p := start(t, m, script("echo up; sleep 1000"))
	await(t, p, "up")
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			big := make([]byte, 1<<20)
			n, err := p.Write(ctx, big)
			var input *process.InputError
			if !errors.As(err, &input) || !errors.Is(err, context.DeadlineExceeded) || input.Written != n || input.Size != len(big) || n >= len(big) {
				t.Errorf("Write: %d, %v", n, err)
			}
		})
	}
	wg.Wait()
	written := make(chan error, 1)
	go func() {
		_, err := p.Write(t.Context(), make([]byte, 1<<20))
		written <- err
	}()
	p.Stop(t.Context(), limit)
	if err := <-written; !errors.Is(err, process.ErrNotRunning) {
		t.Errorf("Write during the end of the program: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	q := start(t, m, process.Spec{Command: "cat"})
	if n, err := q.Write(ended, []byte("x")); n != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that has ended: %d, %v", n, err)
	}
	if n, err := q.Write(t.Context(), []byte("x\n")); n != 2 || err != nil {
		t.Errorf("the next: %d, %v", n, err)
	}
	await(t, q, "x")
}

// Writes of several callers do not mix.
func TestInputWhole(t *testing.T) {
	t.Parallel()
	m := newManager(t, process.Config{Limits: process.Limits{MaxInput: 1 << 20}})
	p := start(t, m, process.Spec{Command: "uniq", Args: []string{"-c"}})
	const size = 200_000 // more than a pipe holds
	var wg sync.WaitGroup
	for _, letter := range []string{"a", "b", "c", "d"} {
		wg.Go(func() {
			if n, err := p.Write(t.Context(), []byte(strings.Repeat(letter+"\n", size))); n != 2*size || err != nil {
				t.Errorf("Write: %d, %v", n, err)
			}
		})
	}
	wg.Wait()
	if err := p.CloseInput(); err != nil {
		t.Fatal(err)
	}
	wait(t, p)
	lines := strings.Split(strings.TrimSpace(text(p)), "\n")
	for _, line := range lines {
		if !strings.HasPrefix(strings.TrimSpace(line), "200000 ") {
			t.Errorf("a run of %q", line)
		}
	}
	if len(lines) != 4 {
		t.Errorf("%d runs of one letter, want 4", len(lines))
	}
}
