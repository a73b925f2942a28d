package fleet

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/deskhand/deskhand/internal/userhome"
)

// StateDir is the directory in which a Fleet keeps the files of its desktops. One
// program at a time can use it: a lock holds it from the first Claim until the Fleet is
// closed. The program may keep files of its own in it.
type StateDir struct {
	base     string // the configured directory, or the usual one
	mainHome string // home of Main in base
	ownName  string // of the folder in base to use if another program has base; empty: none
	log      *slog.Logger
	closing  chan struct{} // closed by BeginClose
	begin    sync.Once     // closes closing

	claimed atomic.Pointer[location] // nil: not claimed; set with mu held

	mu   sync.Mutex // guards the fields below; held while Claim waits
	held *dirLock
}

// location is a state directory and the home of Main.
type location struct{ dir, home string }

func newStateDir(cfg Config) (*StateDir, error) {
	d := &StateDir{log: cfg.Logger, closing: make(chan struct{})}
	if cfg.StateDir != "" {
		dir, err := filepath.Abs(cfg.StateDir)
		if err != nil {
			return nil, fmt.Errorf("state directory: %w", err)
		}
		d.base, d.mainHome = dir, filepath.Join(dir, "home")
		return d, nil
	}
	base, err := stateHome()
	if err != nil {
		return nil, err
	}
	d.base, d.mainHome = filepath.Join(base, "deskhand"), filepath.Join(base, "sandbox-agent", "desktop", "home")
	d.ownName = cfg.StateName
	if !userhome.Writable(d.mainHome) { // d.base may be the only directory of a read-only system that can be written to
		d.mainHome = filepath.Join(d.base, "home")
	}
	return d, nil
}

// stateHome returns the directory in which programs of this user keep state (XDG Base
// Directory specification). It is a temporary directory if the user has no home, as in
// some containers.
func stateHome() (string, error) {
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return dir, nil
	}
	if home := userhome.Dir(); home != "" {
		return filepath.Join(home, ".local", "state"), nil
	}
	dir, err := userhome.Temporary()
	if err != nil {
		return "", fmt.Errorf("state directory: %w", err)
	}
	return dir, nil
}

// Claim makes the directory this program's own until the Fleet is closed, and returns
// its path. The first call creates and locks it, with permissions for this user only.
// It blocks for up to 30 s while the program that has the directory is closing. It
// returns ErrInUse if another program uses the directory, ErrClosed if BeginClose was
// called before the directory was claimed, and another error if the directory cannot be
// created or locked.
func (d *StateDir) Claim() (string, error) {
	at, err := d.claim()
	return at.dir, err
}

func (d *StateDir) claim() (location, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if at := d.claimed.Load(); at != nil {
		return *at, nil
	}
	if d.isClosing() {
		return location{}, ErrClosed
	}
	at, held, err := d.lock()
	switch {
	case errors.Is(err, ErrInUse), errors.Is(err, ErrClosed):
		return location{}, err
	case err != nil:
		return location{}, fmt.Errorf("state directory: %w", err)
	}
	d.held = held
	d.claimed.Store(&at)
	return at, nil
}

// Path returns the directory that Claim claims. It neither waits nor creates anything.
// With Config.StateName, the first Claim may choose another directory.
func (d *StateDir) Path() string { return d.location().dir }

// Claimed reports whether this program has the directory.
func (d *StateDir) Claimed() bool { return d.claimed.Load() != nil }

// BeginClose announces that this program is about to close, so that programs that want
// the directory wait for it. A Claim that is waiting returns ErrClosed.
func (d *StateDir) BeginClose() {
	d.begin.Do(func() { close(d.closing) }) // before mu, which a waiting Claim holds
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.held != nil {
		d.held.holder.Ending = true
		d.held.write()
	}
}

func (d *StateDir) isClosing() bool {
	select {
	case <-d.closing:
		return true
	default:
		return false
	}
}

// release unlocks the directory.
func (d *StateDir) release() error {
	d.BeginClose()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.held == nil {
		return nil
	}
	err := d.held.release()
	d.held = nil
	d.claimed.Store(nil)
	return err
}

// location returns the claimed directory, or the one that Claim tries first.
func (d *StateDir) location() location {
	if at := d.claimed.Load(); at != nil {
		return *at
	}
	at := d.own()
	if _, err := os.Lstat(at.dir); at.dir != d.base && !errors.Is(err, fs.ErrNotExist) {
		return at
	}
	return location{d.base, d.mainHome}
}

// readable returns the directory for reading only: it need not exist, and stays free
// for other programs. The error is ErrInUse if another program has it.
func (d *StateDir) readable() (string, error) {
	dir := d.Path()
	if !d.Claimed() && inUse(dir) && !d.Claimed() {
		return "", &inUseError{dir, readHolder(dir)}
	}
	return dir, nil
}

// own returns the directory of Config.StateName, or the usual one if that is empty.
func (d *StateDir) own() location {
	dir := filepath.Join(d.base, d.ownName)
	return location{dir, filepath.Join(dir, "home")}
}

// desktopsName is the folder with a folder for each desktop other than Main.
const desktopsName = "desktops"

// claimFor claims the directory and returns the state directory and the home of a
// desktop.
func (d *StateDir) claimFor(id string) (state, home string, err error) {
	at, err := d.claim()
	if err != nil {
		return "", "", err
	}
	state = desktopDir(at.dir, id)
	if id == Main {
		return state, at.home, nil
	}
	return state, filepath.Join(state, "home"), nil
}

// desktopDir returns the directory of a desktop in a state directory.
func desktopDir(dir, id string) string {
	if id == Main {
		return dir
	}
	return filepath.Join(dir, desktopsName, id)
}
