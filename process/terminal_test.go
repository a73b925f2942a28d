package process_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/deskhand/deskhand/process"
)

func inTerminal(text string) process.Spec {
	s := script(text)
	s.Terminal = true
	return s
}

func TestTerminal(t *testing.T) {
	t.Parallel()
	m := newManager(t, process.Config{Environ: []string{"PATH=" + os.Getenv("PATH"), "TERM=dumb", "LINES=5", "COLUMNS=5"}})
	p := start(t, m, inTerminal(`test -t 0 && test -t 1 && test -t 2 && echo all; stty size; echo "[$TERM $LINES $COLUMNS]"; ps -o tpgid=,pid= -p $$; exit 5`))
	i := wait(t, p)
	if !i.Terminal || code(*i.Exit) != "5" {
		t.Errorf("%+v", i)
	}
	got := text(p)
	if !strings.HasPrefix(got, "all\r\n24 80\r\n[xterm-256color  ]\r\n") {
		t.Errorf("it shows %q", got)
	}
	if f := strings.Fields(got); f[len(f)-1] != f[len(f)-2] {
		t.Errorf("it is not the foreground of its terminal: %q", got)
	}
	for _, e := range p.Log().Entries(process.Query{}) {
		if e.Stream != process.Terminal {
			t.Errorf("an entry of stream %s", e.Stream)
		}
	}
	if strings.Contains(got, "rror") {
		t.Errorf("the end of the terminal became output: %q", got)
	}
	s := inTerminal("stty size; echo $TERM")
	s.Cols, s.Rows, s.Env = 132, 43, map[string]string{"TERM": "vt100"}
	p = start(t, m, s)
	wait(t, p)
	if got := text(p); got != "43 132\r\nvt100\r\n" {
		t.Errorf("it shows %q", got)
	}
}

func TestResize(t *testing.T) {
	t.Parallel()
	m := newManager(t, process.Config{})
	p := start(t, m, inTerminal("trap 'stty size' WINCH; echo ready; while :; do sleep 0.01; done"))
	await(t, p, "ready")
	for _, size := range [][2]uint16{{100, 30}, {0, 0}, {65535, 65535}} {
		if err := p.Resize(size[0], size[1]); err != nil {
			t.Fatal(err)
		}
		await(t, p, fmt.Sprintf("%d %d", size[1], size[0]))
	}
	p.Kill(t.Context(), limit)
	if err := p.Resize(1, 1); !errors.Is(err, process.ErrNotRunning) {
		t.Errorf("Resize after the end: %v", err)
	}
	if err := start(t, m, script("sleep 1000")).Resize(1, 1); !errors.Is(err, process.ErrNotTerminal) {
		t.Errorf("Resize without a terminal: %v", err)
	}
}

func TestTerminalInput(t *testing.T) {
	t.Parallel()
	m := newManager(t, process.Config{})
	p := start(t, m, inTerminal("stty -echo eof ^G; echo ready; cat; echo ended; sleep 1000"))
	await(t, p, "ready")
	if n, err := p.Write(t.Context(), []byte("one\n")); n != 4 || err != nil {
		t.Fatalf("Write: %d, %v", n, err)
	}
	await(t, p, "one")
	if err := p.CloseInput(); err != nil { // types the terminal's end-of-file character
		t.Fatal(err)
	}
	await(t, p, "ended")
	poll(t, func() error {
		// A shell that is about to start a program loses a ctrl-c.
		if _, err := p.Write(t.Context(), []byte{3}); errors.Is(err, process.ErrNotRunning) {
			return nil
		}
		return errors.New("it runs")
	})
	if i := wait(t, p); i.Exit.Code != nil && *i.Exit.Code == 0 {
		t.Errorf("ended by ctrl-c: %+v", i)
	}
	if err := p.CloseInput(); !errors.Is(err, process.ErrNotRunning) {
		t.Errorf("CloseInput after the end: %v", err)
	}

	p = start(t, m, inTerminal("stty eof undef; echo ready; sleep 1000"))
	await(t, p, "ready")
	if err := p.CloseInput(); !isInvalid(err, "Terminal") {
		t.Errorf("CloseInput of a terminal without such a character: %v", err)
	}
}

// A terminal takes only a bounded amount of unread input.
func TestTerminalInputBlocked(t *testing.T) {
	t.Parallel()
	m := newManager(t, process.Config{Limits: process.Limits{MaxInput: 1 << 20}})
	p := start(t, m, inTerminal("stty raw -echo; echo ready; sleep 1000"))
	await(t, p, "ready")
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	big := make([]byte, 1<<20)
	n, err := p.Write(ctx, big)
	var input *process.InputError
	if !errors.As(err, &input) || !errors.Is(err, context.DeadlineExceeded) || n == 0 || n >= len(big) {
		t.Errorf("Write: %d, %v", n, err)
	}
}

// When Done is closed, all output to the terminal is in the log, however soon the process
// ended, and even if another process holds the terminal.
func TestTerminalIsComplete(t *testing.T) {
	t.Parallel()
	m := newManager(t, process.Config{})
	path := filepath.Join(t.TempDir(), "text")
	want := bytes.Repeat([]byte("0123456789abcde\n"), 3750)
	if err := os.WriteFile(path, want, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, holder := range map[string]string{
		"none":      "",
		"deaf":      "(trap '' HUP; exec sleep 1000) & ",
		"elsewhere": "setsid sleep 1000 & ",
	} {
		for range 20 {
			p := start(t, m, inTerminal("stty raw; "+holder+"cat "+path))
			wait(t, p)
			if got := text(p); got != string(want) {
				t.Fatalf("held by %s: %d bytes of %d when it was done", name, len(got), len(want))
			}
			p.Kill(t.Context(), 0)
		}
	}
}

// The terminal is read at full speed even if a reader of the log stops. The reader gets a gap.
func TestTerminalReaderStops(t *testing.T) {
	t.Parallel()
	m := newManager(t, process.Config{Limits: process.Limits{MaxLog: 100_000}})
	p := start(t, m, inTerminal("stty raw; seq 1 500000; echo end"))
	r := p.Log().Follow(0)
	first, before, err := r.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	size := int(before.Bytes) // on a busy machine, even this output may be dropped
	for _, e := range first {
		size += len(e.Data)
	}
	if i := wait(t, p); code(*i.Exit) != "0" {
		t.Fatalf("%+v", i)
	}
	rest, gap := readAll(t, r)
	total := len("end\n")
	for n, lines := 1, 500000; n <= lines; n++ {
		total += len(fmt.Sprintln(n))
	}
	if got := size + int(gap.Bytes) + len(rest); got != total || gap.Bytes == 0 || gap.Entries == 0 {
		t.Errorf("%d bytes read, %d lost, %d read: %d, want %d", size, gap.Bytes, len(rest), got, total)
	}
	if !strings.HasSuffix(rest, "499999\n500000\nend\n") || len(rest) > 100_000 || len(rest) < 50_000 {
		t.Errorf("%d bytes at the end: %q", len(rest), rest[max(0, len(rest)-50):])
	}
}
