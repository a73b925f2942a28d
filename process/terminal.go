package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/deskhand/deskhand/internal/supervise"
)

// eofWait is how long a terminal may take to accept one character.
const eofWait = 2 * time.Second

// startTerminal starts a program in a new terminal.
func (p *Process) startTerminal(s Spec, sup supervise.Spec) error {
	master, tty, err := openTerminal(s.Cols, s.Rows)
	if err != nil {
		return fmt.Errorf("open a terminal: %w", err)
	}
	defer tty.Close()
	if c := sup.Credential; c != nil {
		// The user may open the terminal by its name.
		if err := tty.Chown(int(c.Uid), -1); err != nil {
			_ = master.Close()
			return fmt.Errorf("give the terminal to %s: %w", s.User, err)
		}
	}
	p.input.open(master)
	sup.TTY, sup.Master = tty, master
	sup.Output = &intake{log: p.log, stream: terminal}
	p.child, err = p.m.group.Start(sup)
	return err
}

// openTerminal returns the two sides of a new terminal. The master is in non-blocking
// mode.
func openTerminal(cols, rows uint16) (master, tty *os.File, err error) {
	m, tty, err := pty.Open()
	if err != nil {
		return nil, nil, err
	}
	defer m.Close()
	if err := pty.Setsize(tty, &pty.Winsize{Cols: cols, Rows: rows}); err != nil {
		_ = tty.Close()
		return nil, nil, err
	}
	// pty.Open leaves it in blocking mode, in which reads and writes cannot be
	// interrupted and need a thread each.
	fd, err := unix.FcntlInt(m.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err == nil {
		err = unix.SetNonblock(fd, true)
	}
	if err != nil {
		_ = tty.Close()
		return nil, nil, os.NewSyscallError("fcntl", err)
	}
	return os.NewFile(uintptr(fd), "/dev/ptmx"), tty, nil
}

// control calls f with the descriptor of the terminal's master.
func (p *Process) control(f func(fd int) error) error {
	if !p.info.Terminal {
		return ErrNotTerminal
	}
	if !p.Running() {
		return ErrNotRunning
	}
	conn, err := p.input.f.SyscallConn()
	if err != nil {
		return ErrNotRunning // the terminal was closed with its program
	}
	var inner error
	if conn.Control(func(fd uintptr) { inner = f(int(fd)) }) != nil || errors.Is(inner, unix.EIO) {
		return ErrNotRunning
	}
	return inner
}

// Resize sets the size of the process's terminal in characters. Zero is allowed. It
// returns [ErrNotTerminal] if the process has no terminal, and [ErrNotRunning] if it has
// ended.
func (p *Process) Resize(cols, rows uint16) error {
	return p.control(func(fd int) error {
		return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Col: cols, Row: rows})
	})
}

// typeEOF types the character that ends the input.
func (p *Process) typeEOF() error {
	var eof byte
	err := p.control(func(fd int) error {
		t, err := unix.IoctlGetTermios(fd, unix.TCGETS)
		if err == nil {
			eof = t.Cc[unix.VEOF]
		}
		return err
	})
	if err != nil {
		return err
	}
	if eof == 0 { // _POSIX_VDISABLE
		return &InvalidError{Field: "Terminal", Reason: "has no character for the end of input"}
	}
	ctx, cancel := context.WithTimeout(context.Background(), eofWait)
	defer cancel()
	_, err = p.Write(ctx, []byte{eof})
	return err
}
