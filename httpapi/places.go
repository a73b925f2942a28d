package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/internal/supervise"
	"github.com/deskhand/deskhand/internal/userhome"
)

// places are where a server keeps files. Two servers must not use the same, so
// the directory is locked from its first use until release.
type places struct {
	base     string // what was configured, or the usual one
	mainHome string // of the server that uses base
	name     string // of the directory in base for when another one does; empty: none
	log      *slog.Logger
	ctx      context.Context //nolint:containedctx // of no call: until the server ends
	cancel   context.CancelFunc

	claimed atomic.Pointer[place] // what is ours; nil: nothing yet. Set with mu held

	mu   sync.Mutex // guards what follows; held while claim waits
	held *dirLock
}

// place is a state directory.
type place struct {
	dir  string
	home string // of main
}

func newPlaces(cfg Config) (*places, error) {
	p := &places{log: cfg.Logger}
	if cfg.StateDir != "" {
		dir, err := filepath.Abs(expandHome(cfg.StateDir))
		if err != nil {
			return nil, fmt.Errorf("state directory: %w", err)
		}
		p.base, p.mainHome = dir, filepath.Join(dir, "home")
	} else {
		base, err := stateHome()
		if err != nil {
			return nil, err
		}
		p.base, p.mainHome = filepath.Join(base, "deskhand"), filepath.Join(base, "sandbox-agent", "desktop", "home")
		p.name = cfg.StateName
		if !userhome.Writable(p.mainHome) { // as where p.base is all of a read-only system that can be written to
			p.mainHome = filepath.Join(p.base, "home")
		}
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p, nil
}

// stateHome is where this user's programs keep state (XDG Base Directory
// specification). A container may run its programs as a user who has no home:
// then it is a temporary directory.
func stateHome() (string, error) {
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return dir, nil
	}
	if home := userHome(); home != "" {
		return filepath.Join(home, ".local", "state"), nil
	}
	dir, err := userhome.Temporary()
	if err != nil {
		return "", fmt.Errorf("state directory: %w", err)
	}
	return dir, nil
}

// userHome is $HOME or, without one, what the user database says, if it can be
// written to. Empty: there is none.
func userHome() string {
	if home, err := os.UserHomeDir(); err == nil {
		return home
	}
	u, err := user.LookupId(strconv.Itoa(os.Geteuid()))
	if err != nil || !filepath.IsAbs(u.HomeDir) || unix.Access(u.HomeDir, unix.W_OK|unix.X_OK) != nil {
		return ""
	}
	return u.HomeDir
}

// claim makes a directory ours. The error is [ErrInUse] when another server has
// it, and [ErrClosed] when this one ends.
func (p *places) claim() (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.claimed.Load() != nil:
		return p.claimed.Load().dir, nil
	case p.ctx.Err() != nil:
		return "", ErrClosed
	}
	at, held, err := p.lock()
	switch {
	case errors.Is(err, ErrInUse), errors.Is(err, ErrClosed): // which say it all
		return "", err
	case err != nil:
		return "", fmt.Errorf("state directory: %w", err)
	}
	p.held = held
	p.claimed.Store(&at)
	return at.dir, nil
}

// where is what claim makes ours, as far as that can be told before: with a name
// it may turn out to be the directory of that one. It neither waits nor makes
// anything.
func (p *places) where() place {
	if at := p.claimed.Load(); at != nil {
		return *at
	}
	if at := p.named(); at.dir != p.base && present(at.dir) {
		return at
	}
	return place{p.base, p.mainHome}
}

// look is claim for who only reads: the directory need not exist, and stays free
// for other servers. The error is [ErrInUse] when one has it.
func (p *places) look() (string, error) {
	dir := p.where().dir
	if p.claimed.Load() == nil && inUse(dir) && p.claimed.Load() == nil {
		return "", &inUseError{dir, holderOf(dir)}
	}
	return dir, nil
}

// named is the directory of our name, or, without one, the usual one.
func (p *places) named() place {
	dir := filepath.Join(p.base, p.name)
	return place{dir, filepath.Join(dir, "home")}
}

// present is true also of what cannot be looked at.
func present(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// ending tells other servers that the directory is given up soon.
func (p *places) ending() {
	p.cancel() // who waits for it has p.mu
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held != nil {
		p.held.is.Ending = true
		p.held.tell()
	}
}

// release gives the directory up.
func (p *places) release() error {
	p.cancel()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held == nil {
		return nil
	}
	err := p.held.release()
	p.held = nil
	p.claimed.Store(nil)
	return err
}

// othersName is the folder with a folder for each desktop but main.
const othersName = "desktops"

// of are the directories of one desktop.
func (p *places) of(id string) (state, home string, err error) {
	dir, err := p.claim()
	if err != nil {
		return "", "", err
	}
	state = stateOf(dir, id)
	if id == mainDesktop {
		return state, p.where().home, nil
	}
	return state, filepath.Join(state, "home"), nil
}

// stateOf is the directory of one desktop in a state directory.
func stateOf(dir, id string) string {
	if id == mainDesktop {
		return dir
	}
	return filepath.Join(dir, othersName, id)
}

// sweep ends what killed servers left running: their clients' processes, and
// those of the desktops whose files are here.
func (p *places) sweep(cfg Config) (int, error) {
	dir, err := p.claim()
	if err != nil {
		return 0, err
	}
	others, err := filepath.Glob(filepath.Join(dir, othersName, "*"))
	if err != nil {
		return 0, fmt.Errorf("sweep: %w", err)
	}
	total, errs := 0, []error(nil)
	for _, d := range []string{processDir(dir), agentProcesses(dir)} {
		n, err := supervise.Sweep(d, cfg.Logger)
		total += n
		errs = append(errs, err)
	}
	for _, d := range append([]string{dir}, others...) {
		n, err := desktop.Sweep(d, cfg.Logger)
		total += n
		errs = append(errs, err)
	}
	return total, errors.Join(errs...)
}

// expandHome replaces a leading ~ by the user's home directory.
func expandHome(path string) string {
	if path != "~" && !strings.HasPrefix(path, "~/") {
		return path
	}
	home := userHome()
	if home == "" {
		return path
	}
	return home + path[1:]
}
