package fleet

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// recordingPrefix begins the ids of recordings, which are the names of their directories.
const recordingPrefix = "rec_"

// Recordings outlive their desktop: it may have been deleted, or belong to an earlier
// program. An Instance in Fleet.gone gives access to them until there is a desktop of
// that id again.

// FindRecorded is like Find. It also finds a desktop that no longer exists and has recordings,
// for Instance.Recordings.
func (f *Fleet) FindRecorded(id string) (*Instance, error) {
	if in, err := f.Find(id); err == nil {
		return in, nil
	}
	missing := &Error{id, ErrNotFound}
	if CheckID(id) != nil {
		return nil, missing
	}
	found := f.newInstance(id)
	if dir, err := found.recordings.dir(f.stateDir.readable); err == nil && !hasRecordings(dir) {
		return nil, missing
	} // after an error, Recordings returns it
	f.mu.Lock()
	defer f.mu.Unlock()
	if all := slices.Concat(f.instances, f.gone); slices.ContainsFunc(all, hasID(id)) {
		return all[slices.IndexFunc(all, hasID(id))], nil
	}
	if f.closed {
		return nil, missing
	}
	f.gone = append(f.gone, found)
	return found, nil
}

// Recorded returns the ids of desktops that no longer exist and have recordings. It neither
// claims nor creates the state directory, and returns nil if another program has it.
func (f *Fleet) Recorded() []string {
	above, err := f.otherRecordings()
	if err != nil {
		return nil // callers that need the directory get the error
	}
	all, _ := os.ReadDir(above) // none: there was never another desktop
	var ids []string
	for _, e := range all {
		id := e.Name()
		if _, err := f.Find(id); err == nil || CheckID(id) != nil {
			continue
		}
		if dir, err := f.newInstance(id).recordings.dir(f.stateDir.readable); err == nil && hasRecordings(dir) {
			ids = append(ids, id)
		}
	}
	return ids
}

// otherRecordings returns the directory above the recordings of all desktops other than
// Main.
func (f *Fleet) otherRecordings() (string, error) {
	if base := f.cfg.RecordingsDir; base != "" {
		return filepath.Abs(filepath.Join(base, desktopsName))
	}
	dir, err := f.stateDir.readable()
	return filepath.Join(dir, desktopsName), err
}

// recordingIDs returns the ids of the recordings in a directory in order. It returns none if
// there is no such directory.
func recordingIDs(dir string) ([]string, error) {
	files, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var ids []string
	for _, file := range files {
		if file.IsDir() && strings.HasPrefix(file.Name(), recordingPrefix) {
			ids = append(ids, file.Name())
		}
	}
	return ids, nil
}

// hasRecordings reports whether a directory has any.
func hasRecordings(dir string) bool {
	ids, _ := recordingIDs(dir)
	return len(ids) > 0
}

// NewestRecording returns the greatest id of the recordings of a desktop, or of all
// desktops if id is empty, including those that are gone. Every recording of that
// desktop that starts later has a greater id, even if the system's clock was set back.
// It returns "rec_", which is less than every id, if there is none.
func (f *Fleet) NewestRecording(id string) (string, error) {
	ids := []string{id}
	if id == "" {
		ids = f.Recorded()
		for _, in := range f.List() {
			ids = append(ids, in.ID())
		}
	}
	newest := recordingPrefix
	for _, id := range ids {
		dir, err := f.newInstance(id).recordings.dir(f.stateDir.readable)
		if err != nil {
			return "", err
		}
		recorded, err := recordingIDs(dir)
		if err != nil {
			return "", err
		}
		if len(recorded) > 0 {
			newest = max(newest, recorded[len(recorded)-1])
		}
	}
	return newest, nil
}
