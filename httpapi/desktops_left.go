package httpapi

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/deskhand/deskhand/desktop"
)

// generatedName is the file by which it is known of a desktop's directory, after
// its server was killed, that nobody chose the id, so that nobody will ask for
// what is in there, except for recordings.
const generatedName = "generated"

// note writes down whether somebody chose the id. A desktop for which that fails
// works as well; its files are not removed should the server be killed.
func (sl *slot) note() error {
	state, _, err := sl.all.places.of(sl.id)
	if err != nil || sl.id == mainDesktop {
		return err
	}
	mark := filepath.Join(state, generatedName)
	if !sl.generated {
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

// discardLeft removes what killed servers have left of desktops whose ids they
// chose: all but recordings. That some of it stays does no harm, so the log alone
// is told.
func (ds *desktops) discardLeft(dir string) {
	others := filepath.Join(dir, othersName)
	if info, err := os.Lstat(others); err != nil || !info.IsDir() {
		return // there was never another desktop, or somebody has put them elsewhere
	}
	entries, _ := os.ReadDir(others)
	for _, e := range entries {
		id := e.Name()
		state := filepath.Join(others, id)
		mark, err := os.Lstat(filepath.Join(state, generatedName))
		if err != nil || !e.IsDir() || !mark.Mode().IsRegular() || !desktopID.MatchString(id) || !ds.take(id) {
			continue
		}
		if err := ds.discardOne(state); err != nil {
			ds.cfg.Logger.Warn("files of a desktop that there is no more are left", "desktop", id, "error", err)
		}
		ds.give(id)
	}
}

// discardOne does so for one desktop. The mark goes last, so that what was left
// undone is done the next time.
func (ds *desktops) discardOne(state string) error {
	keep := []string{generatedName}
	if !vain(filepath.Join(state, recordingsName)) {
		keep = append(keep, recordingsName)
	}
	if err := desktop.Discard(state, ds.cfg.Logger, keep...); err != nil {
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

// vain tells whether a directory of recordings, which there may not be, surely has
// none: nothing but what its store keeps there for itself.
func vain(dir string) bool {
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

// take keeps others from making a desktop of an id that there is not, until give.
func (ds *desktops) take(id string) bool {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	known := func(sl *slot) bool { return sl.id == id }
	if ds.closed || ds.taken[id] || slices.ContainsFunc(ds.slots, known) || slices.ContainsFunc(ds.past, known) {
		return false
	}
	if ds.taken == nil {
		ds.taken = map[string]bool{}
	}
	ds.taken[id] = true
	return true
}

func (ds *desktops) give(id string) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	delete(ds.taken, id)
}
