package apiclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"

	"github.com/coder/websocket"
	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

const (
	// detachKey is Ctrl-], as in telnet.
	detachKey = 0x1d
	// mostFrame bounds a message of the server.
	mostFrame = 4 << 20
	// inputChunk bounds the input in one message. In base64 it is less than any
	// server's limit.
	inputChunk = 16 << 10
)

// usualModes resets the modes of this terminal that the program may have set and
// would have reset at its end: colours, a hidden cursor, mouse reports, bracketed
// paste. The cursor moves to a new line.
const usualModes = "\x1b[0m\x1b[?25h\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?2004l\r\n"

// frame is a text message of the terminal's protocol in either direction.
type frame struct {
	Type      string `json:"type"`
	Data      []byte `json:"data,omitempty"` // base64 on the wire
	Encoding  string `json:"encoding,omitempty"`
	Cols      int    `json:"cols,omitempty"`
	Rows      int    `json:"rows,omitempty"`
	ExitCode  *int   `json:"exitCode,omitempty"`
	Signal    string `json:"signal,omitempty"`
	Bytes     int64  `json:"bytes,omitempty"`
	Message   string `json:"message,omitempty"`
	ProcessID string `json:"processId,omitempty"`
}

// errDetached ends an attachment by the detach key.
var errDetached = errors.New("detached")

// attach connects this terminal with the terminal of a process.
func (r *run) attach(ctx context.Context, t *target) error {
	if !strings.HasSuffix(t.op.path, "/terminal/ws") {
		return usagef(t.command(), "%s is a WebSocket that this command does not support", t.op.path)
	}
	req, err := r.build(t)
	if err != nil {
		return err
	}
	conn, err := r.dial(ctx, req)
	if err != nil {
		return r.interrupted(ctx, err)
	}
	defer func() { _ = conn.CloseNow() }()
	a := &attachment{run: r, conn: conn}
	restore, err := a.rawMode()
	if err != nil {
		return err
	}
	err = a.serve(ctx)
	restore()
	return r.interrupted(ctx, err)
}

// dial opens the WebSocket.
func (r *run) dial(ctx context.Context, req *request) (*websocket.Conn, error) {
	server, err := r.Connect()
	if err != nil {
		return nil, err
	}
	server.authorize(req.header)
	opts := &websocket.DialOptions{HTTPClient: NewHTTPClient(), HTTPHeader: req.header}
	conn, res, err := websocket.Dial(ctx, server.base()+req.path, opts) //nolint:bodyclose // the library has closed it, and kept how it begins
	switch {
	case err == nil:
		conn.SetReadLimit(mostFrame)
		return conn, nil
	case res != nil && res.StatusCode != http.StatusSwitchingProtocols:
		text, readErr := io.ReadAll(res.Body)
		if readErr != nil {
			return nil, readErr
		}
		return nil, problemOf(res, text)
	}
	return nil, unreachable(server.base(), err)
}

// attachment is a connection with a remote terminal.
type attachment struct {
	*run
	conn *websocket.Conn
	tty  *os.File // the terminal in raw mode, or nil
}

// rawMode puts the terminal into raw mode, so that the program gets all keys. It
// does nothing if standard input or output is not a terminal.
func (a *attachment) rawMode() (restore func(), err error) {
	f, ok := a.Stdin.(*os.File)
	if !ok || !isTerminal(f) || !isTerminal(a.Stdout) {
		return func() {}, nil
	}
	before, err := term.MakeRaw(int(f.Fd()))
	if err != nil {
		return nil, fmt.Errorf("terminal: %w", err)
	}
	a.tty = f
	a.note("Ctrl-] detaches; the program goes on")
	return func() {
		fmt.Fprint(a.Stdout, usualModes)
		_ = term.Restore(int(f.Fd()), before)
	}, nil
}

// note prints a message of this command on standard error.
func (a *attachment) note(format string, args ...any) {
	end := "\n"
	if a.tty != nil {
		end = "\r\n" // raw mode does not add the return
	}
	fmt.Fprintf(a.Stderr, "["+format+"]"+end, args...)
}

// serve passes on input and output until the program ends or the user detaches.
func (a *attachment) serve(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	var typing error
	wg.Go(func() {
		typing = a.sendKeys(ctx)
		switch {
		case errors.Is(typing, errDetached):
			_ = a.conn.Close(websocket.StatusNormalClosure, "")
		case typing != nil:
			cancel()
		}
	})
	if a.tty != nil {
		wg.Go(func() { a.followSize(ctx) })
	}
	err := a.show(ctx)
	cancel()
	wg.Wait()
	switch {
	case errors.Is(typing, errDetached):
		return nil
	case err != nil && typing != nil:
		return typing // the cause of err
	}
	return err
}

// sendKeys sends standard input until it ends, or until the connection takes no more.
// Show then reports why.
func (a *attachment) sendKeys(ctx context.Context) error {
	buf := make([]byte, inputChunk)
	for {
		n, err := a.readKeys(ctx, buf)
		data, leave := buf[:n], false
		if a.tty != nil {
			data, leave = cutDetach(data)
		}
		if len(data) > 0 && a.send(ctx, frame{Type: "input", Data: data, Encoding: "base64"}) != nil {
			return nil //nolint:nilerr // Show reports why
		}
		switch {
		case leave:
			return errDetached
		case errors.Is(err, io.EOF):
			return nil // show goes on
		case err != nil:
			return err
		}
	}
}

// readKeys reads standard input. It returns io.EOF if the context has ended, which it
// looks at ten times a second: Go has no deadlines for a terminal that this process
// did not open.
func (a *attachment) readKeys(ctx context.Context, p []byte) (int, error) {
	f, ok := a.Stdin.(*os.File)
	for ok {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(f.Fd()), Events: unix.POLLIN}}, 100)
		switch {
		case ctx.Err() != nil:
			return 0, io.EOF
		case err != nil && !errors.Is(err, unix.EINTR):
			return 0, fmt.Errorf("standard input: %w", err)
		case n > 0:
			return f.Read(p)
		}
	}
	return a.Stdin.Read(p)
}

// cutDetach returns the input before the detach key.
func cutDetach(data []byte) (before []byte, found bool) {
	before, _, found = bytes.Cut(data, []byte{detachKey})
	return before, found
}

func (a *attachment) send(ctx context.Context, f frame) error {
	text, err := json.Marshal(f)
	if err != nil {
		return err
	}
	return a.conn.Write(ctx, websocket.MessageText, text)
}

// followSize keeps the remote terminal at the size of this terminal.
func (a *attachment) followSize(ctx context.Context) {
	changes := make(chan os.Signal, 1)
	signal.Notify(changes, syscall.SIGWINCH)
	defer signal.Stop(changes)
	for {
		if cols, rows, err := term.GetSize(int(a.tty.Fd())); err == nil && cols > 0 && rows > 0 {
			if a.send(ctx, frame{Type: "resize", Cols: cols, Rows: rows}) != nil {
				return
			}
		}
		select {
		case <-changes:
		case <-ctx.Done():
			return
		}
	}
}

// show prints the program's output until it has ended.
func (a *attachment) show(ctx context.Context) error {
	for {
		kind, data, err := a.conn.Read(ctx)
		if err != nil {
			if websocket.CloseStatus(err) == websocket.StatusNormalClosure || websocket.CloseStatus(err) == websocket.StatusNoStatusRcvd {
				return nil
			}
			return err
		}
		if kind == websocket.MessageBinary {
			if _, err := a.Stdout.Write(data); err != nil {
				return err
			}
			continue
		}
		var f frame
		if err := json.Unmarshal(data, &f); err != nil {
			return fmt.Errorf("read the terminal's message: %w", err)
		}
		switch f.Type {
		case "gap":
			a.note("%s of output are missing, because this connection was too slow", ByteCount(f.Bytes))
		case "error":
			a.note("%s", printable(f.Message))
		case "exit":
			a.note("%s", f.ending())
			return nil
		}
	}
}

// ending returns how the process ended.
func (f frame) ending() string {
	switch {
	case f.ExitCode != nil:
		return fmt.Sprintf("ended with status %d", *f.ExitCode)
	case f.Signal != "":
		return "ended by " + printable(f.Signal)
	}
	return "ended by a signal"
}
