package fleet

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/deskhand/deskhand/desktop"
)

// generatedName is the file that marks the directory of a desktop whose id the Fleet
// chose. If this program is killed, the next one removes the files of such a desktop,
// except recordings, because no caller will use that id again.
const generatedName = "generated"

// markGenerated writes or removes the mark. A desktop whose mark could not be written works,
// but its files stay if this program is killed.
func (in *Instance) markGenerated() error {
	state, _, err := in.fleet.stateDir.claimFor(in.id)
	if err != nil || in.id == Main {
		return err
	}
	mark := filepath.Join(state, generatedName)
	if !in.generated {
		if err := os.Remove(mark); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	if err := os.MkdirAll(state, 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(mark, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) { // it was started before
		return nil
	}
	if err != nil {
		return err
	}
	return f.Close()
}

// Sweep ends the processes that killed programs left running on desktops in the same
// state directory, and returns their number. The start of a desktop does that for the
// desktop alone. Sweep also removes the files of desktops whose ids a Fleet chose, and
// keeps their recordings. Files that cannot be removed are logged.
//
// It claims the state directory and fails as StateDir.Claim does. It also returns the
// errors of ending processes, with the number of processes that it ended.
func (f *Fleet) Sweep() (int, error) {
	dir, err := f.stateDir.Claim()
	if err != nil {
		return 0, err
	}
	others, err := filepath.Glob(filepath.Join(dir, desktopsName, "*"))
	if err != nil {
		return 0, fmt.Errorf("sweep: %w", err)
	}
	total, errs := 0, []error(nil)
	for _, d := range append([]string{dir}, others...) {
		n, err := desktop.Sweep(d, f.cfg.Logger)
		total += n
		errs = append(errs, err)
	}
	f.removeLeftovers(dir)
	return total, errors.Join(errs...)
}

// removeLeftovers removes the files of marked desktops, other than recordings. Files
// that stay do no harm, so failures are only logged.
func (f *Fleet) removeLeftovers(dir string) {
	others := filepath.Join(dir, desktopsName)
	if info, err := os.Lstat(others); err != nil || !info.IsDir() {
		return // there was never another desktop, or a link leads elsewhere
	}
	entries, _ := os.ReadDir(others)
	for _, e := range entries {
		id := e.Name()
		state := filepath.Join(others, id)
		mark, err := os.Lstat(filepath.Join(state, generatedName))
		if err != nil || !e.IsDir() || !mark.Mode().IsRegular() || CheckID(id) != nil || !f.beginRemoving(id) {
			continue
		}
		if err := f.removeLeftover(state); err != nil {
			f.cfg.Logger.Warn("files of a desktop that there is no more are left", "desktop", id, "error", err)
		}
		f.endRemoving(id)
	}
}

// removeLeftover removes the files of one desktop. It removes the mark last, so that the next
// Sweep tries again if this one fails.
func (f *Fleet) removeLeftover(state string) error {
	keep := []string{generatedName}
	if !hasNoRecordings(filepath.Join(state, recordingsName)) {
		keep = append(keep, recordingsName)
	}
	if err := desktop.Discard(state, f.cfg.Logger, keep...); err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(state, generatedName)); err != nil {
		return err
	}
	if len(keep) == 1 {
		return os.Remove(state)
	}
	return nil
}

// hasNoRecordings reports whether a directory of recordings certainly has none: it does
// not exist, or has only the internal files of its store.
func hasNoRecordings(dir string) bool {
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() {
		return errors.Is(err, fs.ErrNotExist)
	}
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if !e.Type().IsRegular() || !strings.HasPrefix(e.Name(), ".") {
			return false
		}
	}
	return err == nil
}

// beginRemoving keeps Create from using an id until endRemoving. It returns false if a
// desktop has the id.
func (f *Fleet) beginRemoving(id string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed || f.removing[id] || slices.ContainsFunc(f.instances, hasID(id)) || slices.ContainsFunc(f.gone, hasID(id)) {
		return false
	}
	if f.removing == nil {
		f.removing = map[string]bool{}
	}
	f.removing[id] = true
	return true
}

func (f *Fleet) endRemoving(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.removing, id)
}
