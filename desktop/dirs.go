package desktop

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/deskhand/deskhand/internal/supervise"
)

// runDir is the folder below the state directory that records what runs.
const runDir = "run"

// dirs are the places on disk that belong to a desktop.
type dirs struct {
	state     string // everything below is inside, unless the Config says otherwise
	home      string
	log       string
	authority string
	run       string // records for a later sweep
	runtime   string // XDG_RUNTIME_DIR: sockets, so its path is short
	shims     string // browser wrappers; empty: none are needed
	temporary []string
}

// makeDirs creates a desktop's folders, and ends what a killed program left
// behind in them.
func makeDirs(cfg Config) (dirs, error) {
	d := dirs{state: cfg.StateDir, home: cfg.Home, log: cfg.LogPath}
	if d.state == "" {
		tmp, err := os.MkdirTemp("", "deskhand-")
		if err != nil {
			return d, fmt.Errorf("state directory: %w", err)
		}
		d.state = tmp
		d.temporary = append(d.temporary, tmp)
	}
	var err error
	if d.state, err = filepath.Abs(d.state); err != nil {
		return d, fmt.Errorf("state directory: %w", err)
	}
	if d.home == "" {
		d.home = filepath.Join(d.state, "home")
	}
	if d.log == "" {
		d.log = filepath.Join(d.state, "desktop-runtime.log")
	}
	d.authority = filepath.Join(d.state, "xauthority")
	d.run = filepath.Join(d.state, runDir)
	for _, dir := range []struct {
		path string
		mode os.FileMode
	}{{d.state, 0o755}, {d.home, 0o755}, {filepath.Dir(d.log), 0o755}, {d.run, 0o700}} {
		if err := os.MkdirAll(dir.path, dir.mode); err != nil {
			return d, fmt.Errorf("state directory: %w", err)
		}
	}
	// A socket's path has at most 107 bytes (unix(7)), which a state directory
	// may well use up.
	if d.runtime, err = os.MkdirTemp("", "deskhand-run-"); err != nil {
		return d, fmt.Errorf("runtime directory: %w", err)
	}
	d.temporary = append(d.temporary, d.runtime)
	return d, nil
}

// remove deletes what makeDirs made for this life alone.
func (d dirs) remove() error {
	for _, path := range d.temporary {
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("remove directory: %w", err)
		}
	}
	return nil
}

func newGroup(d dirs, log *slog.Logger) (*supervise.Group, error) {
	if n, err := supervise.Sweep(d.run, log); err != nil {
		log.Debug("sweep", "error", err)
	} else if n > 0 {
		log.Debug("ended what a killed program left running", "processes", n)
	}
	return supervise.NewGroup(supervise.GroupConfig{Dir: d.run, Owner: "desktop", Logger: log})
}
