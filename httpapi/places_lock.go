package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// ErrInUse says that another server uses the state directory. Its error names
// that one's process: end it, or choose another StateDir.
var ErrInUse = errors.New("another server uses the state directory")

const (
	// settleTime is what a server gets to say that it ends, or to be gone once
	// it was killed.
	settleTime = time.Second
	// closeTime is more than a server takes to end: its calls, then its agents,
	// desktops and processes.
	closeTime = 30 * time.Second
	lockPoll  = 20 * time.Millisecond
)

// dirLock keeps a state directory for one server.
type dirLock struct {
	file *os.File
	is   holder
}

// holder is what the lock's file tells of who has the directory, and of those
// who had it.
type holder struct {
	PID    int      `json:"pid"`
	Ending bool     `json:"ending,omitempty"`
	Names  []string `json:"names,omitempty"` // Config.StateName of each, the latest last
}

// mostNames bounds the names that are kept of who had a directory.
const mostNames = 64

// lockDir locks a directory. The kernel lets go of the lock when this program
// dies.
func lockDir(dir, name string, log *slog.Logger) (*dirLock, error) {
	if err := makePrivate(dir, log); err != nil {
		return nil, fmt.Errorf("make state directory %s private: %w", dir, err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	l := &dirLock{f, holderOf(dir)}
	l.is.PID, l.is.Ending = os.Getpid(), false
	if name != "" {
		l.is.Names = append(slices.DeleteFunc(l.is.Names, func(s string) bool { return s == name }), name)
		l.is.Names = l.is.Names[max(0, len(l.is.Names)-mostNames):]
	}
	l.tell()
	return l, nil
}

// makePrivate makes a directory that only this user can enter. If the directory
// exists, it removes the permissions of other users. It refuses a directory that is
// meant for several users, such as /tmp.
func makePrivate(dir string, log *slog.Logger) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); ok && owner.Uid != 0 && int(owner.Uid) != os.Geteuid() {
		return fmt.Errorf("it belongs to user %d, who could change its files; choose another directory, or run chown as root", owner.Uid)
	}
	switch {
	case info.Mode().Perm()&0o077 == 0:
		return nil
	case info.Mode()&os.ModeSticky != 0:
		return fmt.Errorf("several users share it (mode %v); choose a directory in it, such as %s", info.Mode(), filepath.Join(dir, "deskhand"))
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return fmt.Errorf("it is open to other users (mode %v), and its mode cannot be changed: %w; run chmod 700 as its owner, or choose another directory",
			info.Mode(), err)
	}
	log.Warn("the state directory was open to other users; its mode is 0700 now", "directory", dir, "mode", info.Mode().String())
	return nil
}

// tell writes down who has the lock. That this fails, on a full disk for
// example, keeps nobody from working: others then know less.
func (l *dirLock) tell() {
	text, err := json.Marshal(l.is)
	if err != nil { // cannot be
		return
	}
	if n, err := l.file.WriteAt(append(text, '\n'), 0); err == nil {
		_ = l.file.Truncate(int64(n))
	}
}

// holderOf reads who has a directory; what is not known is zero.
func holderOf(dir string) (h holder) {
	f, err := os.Open(filepath.Join(dir, "lock"))
	if err != nil {
		return h
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 64<<10))
	if err != nil || json.Unmarshal(text, &h) != nil {
		return holder{} // it is being written, or of an earlier version
	}
	return h
}

// inUse tells whether a server has a directory. It asks by a lock that others may
// have at the same time, and keeps it for that moment only; who wants the
// directory just then tries again (lockSoon).
func inUse(dir string) bool {
	f, err := os.Open(filepath.Join(dir, "lock"))
	if err != nil {
		return false
	}
	defer f.Close()
	fd := int(f.Fd())
	if err := syscall.Flock(fd, syscall.LOCK_SH|syscall.LOCK_NB); err != nil {
		return errors.Is(err, syscall.EWOULDBLOCK)
	}
	_ = syscall.Flock(fd, syscall.LOCK_UN) // see release
	return false
}

// release gives the directory up.
func (l *dirLock) release() error {
	// Closing alone would not do: a program that is just being started has the
	// file open as well until its exec.
	return errors.Join(syscall.Flock(int(l.file.Fd()), syscall.LOCK_UN), l.file.Close())
}

// lockSoon is lockDir that waits for a server which is about to end.
func (p *places) lockSoon(dir string) (*dirLock, error) {
	ctx, cancel := context.WithTimeout(p.ctx, closeTime)
	defer cancel()
	begun, told := time.Now(), false
	for {
		l, err := lockDir(dir, p.name, p.log)
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return l, err
		}
		h := holderOf(dir)
		if h.Ending && !told {
			p.log.Info("waits until the server ends that uses the state directory", "directory", dir, "process", h.PID, "most", closeTime)
			told = true
		}
		if !h.Ending && time.Since(begun) > settleTime {
			return nil, &inUseError{dir, h}
		}
		select {
		case <-time.After(lockPoll):
		case <-ctx.Done():
			if p.ctx.Err() != nil {
				return nil, ErrClosed
			}
			return nil, &inUseError{dir, h}
		}
	}
}

// inUseError is ErrInUse with what is known.
type inUseError struct {
	dir  string
	held holder
}

func (e *inUseError) Error() string {
	who := ""
	if e.held.PID != 0 {
		who = fmt.Sprintf(", process %d", e.held.PID)
	}
	return fmt.Sprintf("%v: %s%s; end that one or choose another directory", ErrInUse, e.dir, who)
}

func (e *inUseError) Unwrap() error { return ErrInUse }

// lock makes a directory ours: the usual one, or, where another server has that
// and nobody chose it, the one of our name. Who has got the latter keeps it, and
// who has had the former gets no other: sessions would be lost from sight.
func (p *places) lock() (place, *dirLock, error) {
	at := p.where()
	l, err := p.lockSoon(at.dir)
	if at.dir != p.base {
		if err == nil {
			p.log.LogAttrs(p.ctx, slog.LevelWarn, "the state directory is this server's own, as it was before: another server had the usual one then",
				slog.String("directory", at.dir), slog.String("usual", p.base))
		}
		return at, l, err
	}
	used, ok := errors.AsType[*inUseError](err)
	if p.name == "" || !ok || used.held.Ending || slices.Contains(used.held.Names, p.name) {
		return at, l, err
	}
	at = p.named()
	if l, err = p.lockSoon(at.dir); err == nil {
		p.log.Warn("another server uses the usual state directory, so this one has its own from now on; its sessions and desktops are not the other's",
			"directory", at.dir, "usual", p.base, "process", used.held.PID)
	}
	return at, l, err
}
