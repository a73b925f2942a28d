package httpapi

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Recordings outlive their desktop: that of an earlier server, which may have been
// killed, and that which was deleted. Until there is a desktop of that id again they
// have a slot of their own, by which nothing else can be had.

// findRecorded is find also for desktops that are no more, if they have recordings.
func (ds *desktops) findRecorded(id string) *slot {
	if sl := ds.find(id); sl != nil || !desktopID.MatchString(id) {
		return sl
	}
	found := ds.newSlot(id)
	if dir, err := found.recordingsDir(ds.places.look); err == nil && !hasRecordings(dir) {
		return nil
	} // else their store says what is wrong
	ds.mu.Lock()
	defer ds.mu.Unlock()
	for _, sl := range slices.Concat(ds.slots, ds.past) {
		if sl.id == id {
			return sl
		}
	}
	if ds.closed {
		return nil
	}
	ds.past = append(ds.past, found)
	return found
}

// recorded are the ids of the desktops that are no more and have recordings. Those
// of a server that has the state directory are not ours to tell of.
func (ds *desktops) recorded() []string {
	above, err := ds.othersRecordings()
	if err != nil {
		return nil // whoever wants to use the directory is told
	}
	all, _ := os.ReadDir(above) // none: there was never another desktop
	var ids []string
	for _, e := range all {
		if id := e.Name(); desktopID.MatchString(id) && ds.find(id) == nil {
			if dir, err := ds.newSlot(id).recordingsDir(ds.places.look); err == nil && hasRecordings(dir) {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// othersRecordings is the directory in which all desktops but main have theirs.
func (ds *desktops) othersRecordings() (string, error) {
	if base := ds.cfg.RecordingsDir; base != "" {
		return filepath.Abs(filepath.Join(expandHome(base), othersName))
	}
	dir, err := ds.places.look()
	return filepath.Join(dir, othersName), err
}

// hasRecordings tells whether a directory has any.
func hasRecordings(dir string) bool {
	names, _ := os.ReadDir(dir)
	return slices.ContainsFunc(names, func(e os.DirEntry) bool { return e.IsDir() && strings.HasPrefix(e.Name(), "rec_") })
}

// reclaim takes the slot of past recordings back, for a desktop of that id. The
// caller has ds.mu.
func (ds *desktops) reclaim(id string) *slot {
	i := slices.IndexFunc(ds.past, func(sl *slot) bool { return sl.id == id })
	if i < 0 {
		return ds.newSlot(id)
	}
	sl := ds.past[i]
	ds.past = slices.Delete(ds.past, i, i+1)
	return sl
}
