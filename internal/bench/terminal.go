package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/deskhand/deskhand/internal/benchkit"
)

const (
	newLines = 5 // that a terminal prints before a call

	// drawTime lets the terminal and the X server draw what the terminal has read.
	drawTime = 20 * time.Millisecond

	// answerTime is how long a terminal may take to answer.
	answerTime = 10 * time.Second
)

// place is where a terminal is.
type place struct {
	title         string
	columns, rows int
	x, y          int
}

// places of the terminals, in xterm's default font of 6x13 pixels.
var places = []place{
	{"upper left", 115, 31, 10, 10},
	{"upper right", 115, 31, 730, 10},
	{"bottom", 234, 30, 10, 470},
}

// terminal is an xterm that prints what is written to one FIFO, and writes what
// is typed into it to another.
type terminal struct {
	place   place
	in, out *os.File
}

// shell runs in the terminal. The raw mode without echo passes each byte
// immediately and unchanged.
const shell = `stty raw -echo; cat < "$1" & exec cat > "$2"`

func openTerminal(ctx context.Context, b *bed, p place) (*terminal, error) {
	base := filepath.Join(b.server.Home, strings.ReplaceAll(p.title, " ", "-"))
	t := &terminal{place: p}
	var err error
	if t.in, err = fifo(base + ".in"); err != nil {
		return nil, err
	}
	if t.out, err = fifo(base + ".out"); err != nil {
		t.close()
		return nil, err
	}
	_, err = b.call(ctx, http.MethodPost, "/v1/desktop/launch", map[string]any{
		"app": "xterm", "wait": true,
		"args": []string{
			"-T", p.title, "-geometry", fmt.Sprintf("%dx%d+%d+%d", p.columns, p.rows, p.x, p.y),
			"-e", "sh", "-c", shell, "sh", base + ".in", base + ".out",
		},
	})
	if err == nil {
		err = t.print("")
	}
	if err == nil {
		err = t.await()
	}
	if err != nil {
		t.close()
		return nil, fmt.Errorf("terminal %s: %w", p.title, err)
	}
	return t, nil
}

// fifo makes a FIFO and opens both of its ends. So neither this program nor the
// terminal waits for the other to open it, or reads an end of file.
func fifo(path string) (*os.File, error) {
	if err := unix.Mkfifo(path, 0o600); err != nil {
		return nil, fmt.Errorf("make fifo %s: %w", path, err)
	}
	return os.OpenFile(path, os.O_RDWR, 0)
}

// print writes text and a request for the terminal's status (DSR 5, ECMA-48,
// 8.3.35), which it answers after it has processed the text.
func (t *terminal) print(text string) error {
	if err := t.in.SetWriteDeadline(time.Now().Add(answerTime)); err != nil {
		return err
	}
	_, err := io.WriteString(t.in, text+"\x1b[5n")
	return err
}

// await reads the answer to the request of print.
func (t *terminal) await() error {
	_, err := t.read("\x1b[0n", answerTime)
	return err
}

// read reads as many bytes as want has, and fails if they differ. After a timeout
// it returns the bytes that have come and an error.
func (t *terminal) read(want string, timeout time.Duration) ([]byte, error) {
	if err := t.out.SetReadDeadline(time.Now().Add(timeout)); err != nil {
		return nil, err
	}
	var got []byte
	for buf := make([]byte, 4096); len(got) < len(want); {
		n, err := t.out.Read(buf)
		got = append(got, buf[:n]...)
		if err != nil {
			return got, err
		}
	}
	if !bytes.Equal(got, []byte(want)) {
		return got, fmt.Errorf("terminal gave %q, want %q", got, want)
	}
	return got, nil
}

// typed reads text that was typed and returns how many characters are missing.
func (t *terminal) typed(text string) (lost int, err error) {
	got, err := t.read(text, 3*time.Second)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return len(text) - len(got), nil
	}
	return 0, err
}

func (t *terminal) close() {
	_ = t.in.Close()
	if t.out != nil {
		_ = t.out.Close()
	}
}

// script generates lines of text that look like the output of a program, the same
// lines for each bed.
type script struct{ random *rand.Rand }

func newScript() *script { return &script{rand.New(rand.NewPCG(1, 2))} }

func (s *script) lines(columns int) string {
	var b strings.Builder
	for range newLines {
		b.WriteString("\r\n" + benchkit.Line(s.random, columns))
	}
	return b.String()
}
