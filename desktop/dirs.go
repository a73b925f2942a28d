package desktop

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/deskhand/deskhand/internal/supervise"
)

const (
	// runDir is the folder below the state directory that records the running processes.
	runDir = "run"
	// stateLock is the file in the state directory that a desktop has locked.
	stateLock = "desktop.lock"
)

// dirs are the directories and files of a desktop.
type dirs struct {
	state     string
	shared    string // files that the desktop's programs read; state, unless they run as another user
	home      string
	log       string
	authority string
	run       string // records for Sweep
	runtime   string // XDG_RUNTIME_DIR
	shims     string // browser wrappers; empty: none are needed
	scratch   string // temporary directory; empty: none
	open      string // temporary directory that another user enters; empty: none
	locks     []*os.File
	logger    *slog.Logger
}

// maxRuntime is the longest path of the runtime directory. The path of a socket has at
// most 107 bytes (unix(7)), and programs make theirs in folders below.
const maxRuntime = 50

// makeDirs creates a desktop's folders. Programs on an attached display use the home of
// the user.
func makeDirs(cfg Config, attached bool, user supervise.User) (dirs, error) {
	d := dirs{state: cfg.StateDir, home: cfg.Home, log: cfg.LogPath, logger: cfg.Logger}
	err := d.choose(attached, user)
	if err == nil {
		err = d.create(user)
	}
	if err != nil {
		_ = d.remove()
		return dirs{}, err
	}
	return d, nil
}

func (d *dirs) choose(attached bool, user supervise.User) (err error) {
	if d.state == "" {
		if err := d.makeScratch(); err != nil {
			return err
		}
		d.state = d.scratch
		d.run = filepath.Join(filepath.Dir(d.scratch), runDir)
	} else {
		if d.state, err = filepath.Abs(d.state); err != nil {
			return fmt.Errorf("state directory: %w", err)
		}
		d.run = filepath.Join(d.state, runDir)
	}
	d.shared = d.state
	if user.Credential != nil {
		if err := d.makeOpen(user); err != nil {
			return err
		}
	}
	if d.home == "" && attached {
		d.home, _ = os.UserHomeDir() // there may be none
	}
	if d.home == "" {
		d.home = filepath.Join(d.shared, "home")
	}
	if d.home, err = filepath.Abs(d.home); err != nil { // programs have other working directories
		return fmt.Errorf("home: %w", err)
	}
	if d.log == "" {
		d.log = filepath.Join(d.state, LogName)
	}
	d.runtime = filepath.Join(d.shared, "runtime")
	d.authority = filepath.Join(d.shared, "xauthority")
	if d.open != "" {
		d.authority = filepath.Join(d.runtime, "xauthority") // a file of the user's
	}
	if len(d.runtime) > maxRuntime && d.scratch == "" && d.open == "" {
		if err := d.makeScratch(); err != nil {
			return err
		}
		d.runtime = d.scratch
	}
	return nil
}

// create makes the folders and locks the state directory. Only the user can enter the
// home and the runtime directory.
func (d *dirs) create(user supervise.User) error {
	for _, dir := range []struct {
		path string
		mode os.FileMode
	}{{d.state, 0o755}, {filepath.Dir(d.log), 0o755}, {d.run, 0o700}} {
		if err := os.MkdirAll(dir.path, dir.mode); err != nil {
			return fmt.Errorf("make directory: %w", err)
		}
	}
	for _, dir := range []string{d.home, d.runtime} {
		if err := d.createPrivate(dir, user); err != nil {
			return fmt.Errorf("make directory: %w", err)
		}
	}
	if d.state == d.scratch {
		return nil // newScratch has locked it
	}
	lock, err := acquire(filepath.Join(d.state, stateLock), unix.LOCK_EX|unix.LOCK_NB)
	if err != nil {
		return fmt.Errorf("state directory: %w", err)
	}
	d.locks = append(d.locks, lock)
	return nil
}

// createPrivate makes a directory of the user. It sets the mode of an existing directory
// in the shared one to 0700.
func (d *dirs) createPrivate(dir string, user supervise.User) error {
	if filepath.Dir(dir) != d.shared {
		return user.Do(func() error { return os.MkdirAll(dir, 0o700) })
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if d.open == "" {
		return os.Chmod(dir, 0o700)
	}
	return os.Lchown(dir, int(user.Credential.Uid), int(user.Credential.Gid))
}

// makeReadable lets all users read the files in a folder and run its programs, whatever
// the umask was.
func makeReadable(dir string) error {
	return filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		mode := info.Mode().Perm() | 0o444
		if mode&0o100 != 0 {
			mode |= 0o111
		}
		return os.Chmod(path, mode)
	})
}

// makeOpen makes the temporary directory that another user enters.
func (d *dirs) makeOpen(user supervise.User) error {
	dir, lock, err := d.newScratch(openMode)
	if err != nil {
		return err
	}
	d.open, d.shared, d.locks = dir, dir, append(d.locks, lock)
	if err := user.Reach(dir); err != nil {
		return fmt.Errorf("%w; set TMPDIR to a directory that this user can enter", err)
	}
	return nil
}

// newScratch makes a temporary directory, and removes directories of the same mode whose owners have
// ended.
func (d *dirs) newScratch(mode fs.FileMode) (dir string, lock *os.File, err error) {
	if dir, lock, err = newScratch(mode); err != nil {
		return "", nil, err
	}
	if err := sweepScratch(filepath.Dir(dir), time.Now().Add(sweepLimit)); err != nil {
		d.logger.Warn("temporary directories of ended desktops stay", "error", err)
	}
	return dir, lock, nil
}

func (d *dirs) makeScratch() error {
	dir, lock, err := d.newScratch(privateMode)
	if err != nil {
		return err
	}
	d.scratch, d.locks = dir, append(d.locks, lock)
	return nil
}

// remove deletes temporary directories and unlocks the state directory.
func (d *dirs) remove() error {
	var errs []error
	deadline := time.Now().Add(removeLimit)
	for _, dir := range []string{d.scratch, d.open} {
		if dir != "" {
			errs = append(errs, removeScratch(dir, deadline))
		}
	}
	for _, lock := range d.locks {
		errs = append(errs, release(lock))
	}
	d.locks, d.scratch, d.open = nil, "", ""
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("remove temporary directory: %w", err)
	}
	return nil
}

// sweep ends the processes that a killed program has left running.
func (p *programs) sweep() {
	if n, err := supervise.Sweep(p.dirs.run, p.log); err != nil {
		p.log.Debug("sweep", "error", err)
	} else if n > 0 {
		p.log.Debug("ended what a killed program left running", "processes", n)
	}
}

func (p *programs) newGroup() (*supervise.Group, error) {
	return supervise.NewGroup(supervise.GroupConfig{Dir: p.dirs.run, Owner: "desktop", Logger: p.log})
}
