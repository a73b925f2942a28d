package httpapi

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/internal/supervise"
)

// places are where a server keeps files. Two servers must not use the same, so
// the directory is locked from its first use until release.
type places struct {
	base     string // what was configured
	mainHome string // of the first server that uses base

	mu      sync.Mutex // guards what follows
	claimed string     // the directory that is ours; empty: none yet
	home    string     // of main
	lock    *os.File
}

func newPlaces(cfg Config) (*places, error) {
	if cfg.StateDir != "" {
		dir, err := filepath.Abs(expandHome(cfg.StateDir))
		if err != nil {
			return nil, fmt.Errorf("state directory: %w", err)
		}
		return &places{base: dir, mainHome: filepath.Join(dir, "home")}, nil
	}
	base, err := stateHome()
	if err != nil {
		return nil, err
	}
	return &places{
		base: filepath.Join(base, "deskhand"), mainHome: filepath.Join(base, "sandbox-agent", "desktop", "home"),
	}, nil
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
	dir, err := temporaryState()
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

// temporaryState makes this user's folder among the temporary files. Everybody
// can write to where it is, so it counts only if it is really ours.
func temporaryState() (string, error) {
	dir := filepath.Join(os.TempDir(), "deskhand-"+strconv.Itoa(os.Geteuid()))
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return "", err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.IsDir() || info.Mode().Perm() != 0o700 || int(owner.Uid) != os.Geteuid() {
		return "", fmt.Errorf("%s is not this user's own with mode 0700; remove it, or set HOME, XDG_STATE_HOME or TMPDIR", dir)
	}
	return dir, nil
}

// mostServers bounds how many servers share a state directory.
const mostServers = 100

// claim makes a directory ours.
func (p *places) claim() (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.claimed != "" {
		return p.claimed, nil
	}
	for n := 1; n <= mostServers; n++ {
		dir, home := p.base, p.mainHome
		if n > 1 {
			dir = filepath.Join(p.base, "server-"+strconv.Itoa(n))
			home = filepath.Join(dir, "home")
		}
		f, err := lockDir(dir)
		if errors.Is(err, syscall.EWOULDBLOCK) {
			continue
		}
		if err != nil {
			return "", fmt.Errorf("state directory: %w", err)
		}
		p.claimed, p.home, p.lock = dir, home, f
		return dir, nil
	}
	return "", fmt.Errorf("state directory %s: %d servers use it already", p.base, mostServers)
}

// lockDir locks a directory for as long as the file that it returns is open. The
// kernel lets go of the lock when this program dies.
func lockDir(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	return f, nil
}

// release gives the directory up.
func (p *places) release() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lock == nil {
		return nil
	}
	// Closing alone would not do: a program that is just being started has the
	// file open as well until its exec.
	err := errors.Join(syscall.Flock(int(p.lock.Fd()), syscall.LOCK_UN), p.lock.Close())
	p.claimed, p.lock = "", nil
	return err
}

// of are the directories of one desktop.
func (p *places) of(id string) (state, home string, err error) {
	dir, err := p.claim()
	if err != nil || id == mainDesktop {
		return dir, p.home, err
	}
	state = filepath.Join(dir, "desktops", id)
	return state, filepath.Join(state, "home"), nil
}

// sweep ends what killed servers left running: their clients' processes, and
// those of the desktops whose files are here.
func (p *places) sweep(cfg Config) (int, error) {
	dir, err := p.claim()
	if err != nil {
		return 0, err
	}
	others, err := filepath.Glob(filepath.Join(dir, "desktops", "*"))
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
