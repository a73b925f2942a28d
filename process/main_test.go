package process_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/deskhand/deskhand/process"
)

// limit bounds the wait for events that normally take no time.
const limit = time.Minute

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newManager(t testing.TB, cfg process.Config) *process.Manager {
	t.Helper()
	m, err := process.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// script is a Spec of a shell script.
func script(text string) process.Spec {
	return process.Spec{Command: "sh", Args: []string{"-c", text}}
}

func start(t testing.TB, m *process.Manager, s process.Spec) *process.Process {
	t.Helper()
	p, err := m.Start(s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// wait waits for the end of a process.
func wait(t testing.TB, p *process.Process) process.Info {
	t.Helper()
	select {
	case <-p.Done():
	case <-time.After(limit):
		t.Fatalf("%s does not end; it wrote %q", p.ID(), text(p))
	}
	return p.Info()
}

// text returns all kept output of a process.
func text(p *process.Process) string {
	var b strings.Builder
	for _, e := range p.Log().Entries(process.Query{}) {
		b.Write(e.Data)
	}
	return b.String()
}

// await reads a process's log until it has a line with the prefix, and returns the rest of the
// line.
func await(t testing.TB, p *process.Process, prefix string) string {
	t.Helper()
	late := time.AfterFunc(limit, func() { p.Kill(t.Context(), -1) })
	defer late.Stop()
	r := p.Log().Follow(0)
	var b strings.Builder
	for {
		entries, _, err := r.Next(t.Context())
		for _, e := range entries {
			b.Write(e.Data)
		}
		for line := range strings.Lines(b.String()) {
			rest, ok := strings.CutPrefix(strings.TrimRight(line, "\r\n"), prefix)
			if ok && strings.HasSuffix(line, "\n") {
				return strings.TrimSpace(rest)
			}
		}
		if err != nil {
			t.Fatalf("no line %q in %q: %v", prefix, b.String(), err)
		}
	}
}

// readAll reads to the end.
func readAll(t testing.TB, r *process.Reader) (text string, gap process.Gap) {
	t.Helper()
	var b strings.Builder
	for {
		entries, g, err := r.Next(t.Context())
		gap.Bytes += g.Bytes
		gap.Entries += g.Entries
		for _, e := range entries {
			b.Write(e.Data)
		}
		if errors.Is(err, io.EOF) {
			return b.String(), gap
		}
		if err != nil {
			t.Errorf("after %d bytes: %v", b.Len(), err)
			return b.String(), gap
		}
	}
}

func number(t testing.TB, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func numbers(t testing.TB, s string) (all []int) {
	t.Helper()
	for f := range strings.FieldsSeq(s) {
		all = append(all, number(t, f))
	}
	return all
}

// alive reports whether a process runs. A zombie does not run.
func alive(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, after, _ := strings.Cut(string(b), ") ")
	return !strings.HasPrefix(after, "Z")
}

// poll calls f until it returns nil.
func poll(t testing.TB, f func() error) {
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

// gone waits until all of the processes have ended.
func gone(t testing.TB, pids ...int) {
	t.Helper()
	poll(t, func() error {
		for _, pid := range pids {
			if alive(pid) {
				return fmt.Errorf("process %d of %v is alive", pid, pids)
			}
		}
		return nil
	})
}

func openFiles(t testing.TB) int {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(fds)
}

func fifo(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// soak returns the factor by which the long tests run longer than usual: DESKHAND_SOAK, which
// make soak sets to 10.
func soak() int {
	n, err := strconv.Atoi(os.Getenv("DESKHAND_SOAK"))
	if err != nil || n < 1 {
		return 1
	}
	return n
}

func code(e process.Exit) string {
	if e.Code == nil {
		return e.Signal
	}
	return strconv.Itoa(*e.Code)
}
