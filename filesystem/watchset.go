package filesystem

import (
	"errors"
	"io"
	"os"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sys/unix"
)

// watchSet is a set of watched directories.
//
// fsnotify takes paths, which may lead to another directory when it opens them. So each directory is
// opened and fsnotify gets the path of the descriptor in /proc, which leads to the open
// directory. The descriptor number differs for each directory. The descriptor is closed
// immediately after that: inotify keeps the directory itself, and an open descriptor would
// suppress the event for its removal.
type watchSet struct {
	watcher *fsnotify.Watcher
	events  <-chan fsnotify.Event
	// A goroutine receives the errors of the watcher, which holds a lock while it sends
	// some of them.
	overflow chan struct{} // the kernel's queue was full
	failed   chan error
	drained  sync.WaitGroup

	most   int
	bytes  int               // of the names in byName
	next   int               // descriptor to use
	byPath map[string]string // names by paths for fsnotify
	byName map[string]watched
}

// watched is a watched directory. Its name is relative to the top, which is empty.
type watched struct {
	path string // for fsnotify
	node node
}

func newWatchSet(most int) (*watchSet, error) {
	w, err := fsnotify.NewWatcher()
	if errors.Is(err, unix.EMFILE) {
		return nil, &Error{
			Reason: "no more watches are possible (fs.inotify.max_user_instances" + sysctl("max_user_instances") + ")",
			Remedy: "end others, or raise it with sysctl", Kind: ErrTooLarge, Err: err,
		}
	}
	if err != nil {
		return nil, err
	}
	s := &watchSet{
		watcher: w, events: w.Events, overflow: make(chan struct{}, 1), failed: make(chan error, 1), most: most,
		byPath: make(map[string]string), byName: make(map[string]watched),
	}
	s.drained.Go(func() {
		for err := range w.Errors {
			if errors.Is(err, fsnotify.ErrEventOverflow) {
				select {
				case s.overflow <- struct{}{}:
				default:
				}
				continue
			}
			if errno := unix.Errno(0); errors.As(err, &errno) && errno == unix.EINVAL {
				continue // a watch that had ended was removed
			}
			select {
			case s.failed <- err:
			default:
			}
		}
	})
	return s, nil
}

// sysctl returns a setting of inotify, as " = 128".
func sysctl(name string) string {
	b, err := os.ReadFile("/proc/sys/fs/inotify/" + name)
	if err != nil {
		return ""
	}
	return " = " + strings.TrimSpace(string(b))
}

func (s *watchSet) close() {
	_ = s.watcher.Close()
	s.drained.Wait()
}

// maxWatchedBytes bounds the names of the directories of a watch together.
const maxWatchedBytes = 8 << 20

// add watches a directory under a name, unless it is too deep: any program could make such a directory
// and so prevent the watch. It reports whether the directory is new.
func (s *watchSet) add(d folder, name string) (added bool, err error) {
	n, err := d.self()
	if err != nil {
		return false, err
	}
	if old, ok := s.byName[name]; ok {
		if old.node.is(n) {
			return false, nil
		}
		s.forget(name)
	}
	switch {
	case strings.Count(name, "/") >= maxLevels, len(d.path) > maxPath:
		return false, nil
	case s.most > 0 && len(s.byName) >= s.most:
		return false, tooLarge("more than " + strconv.Itoa(s.most) + " directories to watch (MaxWatches)")
	case s.bytes+len(name) > maxWatchedBytes:
		return false, tooLarge("directories to watch have more than 8 MiB of paths")
	}
	watchPath, err := s.register(d)
	if errors.Is(err, unix.ENOSPC) {
		return false, &Error{
			Reason: "no more directories can be watched (fs.inotify.max_user_watches" + sysctl("max_user_watches") + ")",
			Remedy: "watch fewer, or raise it with sysctl", Kind: ErrTooLarge, Err: err,
		}
	}
	if err != nil {
		return false, withPath(d.path, err)
	}
	s.byPath[watchPath] = name
	s.byName[name] = watched{path: watchPath, node: n}
	s.bytes += len(name)
	return true, nil
}

// firstDescriptor is the lowest descriptor whose path is used.
const firstDescriptor = 64

// register adds a directory to fsnotify, by a path that no other directory has, or had
// recently: events of that directory may still arrive.
func (s *watchSet) register(d folder) (string, error) {
	for range len(s.byPath) + 2 {
		fd, err := unix.FcntlInt(uintptr(d.fd), unix.F_DUPFD_CLOEXEC, max(s.next, firstDescriptor))
		if err != nil && s.next > firstDescriptor { // beyond the limit
			s.next = firstDescriptor
			continue
		}
		if err != nil {
			return "", err
		}
		s.next = fd + 1
		if s.next > 2*s.most+1024 {
			s.next = firstDescriptor
		}
		name := descriptors + "/" + strconv.Itoa(fd)
		if _, ok := s.byPath[name]; ok {
			unix.Close(fd)
			continue
		}
		err = s.watcher.Add(name)
		unix.Close(fd)
		return name, err
	}
	return "", unix.EMFILE
}

// forget stops watching a directory and the directories below it.
func (s *watchSet) forget(name string) {
	for other, w := range s.byName {
		if _, ok := below(name, other); ok || name == "" {
			_ = s.watcher.Remove(w.path) // fails when the directory is gone
			delete(s.byPath, w.path)
			delete(s.byName, other)
			s.bytes -= len(other)
		}
	}
}

// name returns the directory and the entry of an event. base is empty if the event is about the
// directory itself.
func (s *watchSet) name(e fsnotify.Event) (dir, base string, ok bool) {
	if dir, ok = s.byPath[e.Name]; ok {
		return dir, "", true
	}
	parent, base := path.Split(e.Name)
	dir, ok = s.byPath[strings.TrimSuffix(parent, "/")]
	return dir, base, ok
}

// begin watches with a new set.
func (r *watcher) begin() error {
	folders, err := newWatchSet(r.options.MaxWatches)
	if err != nil {
		return err
	}
	r.folders = folders
	return r.addTop()
}

// addTop watches the directory, or the directory that the file is in.
func (r *watcher) addTop() error {
	info, err := r.place.tree.Stat(r.place.name)
	if err != nil {
		return err
	}
	var top folder
	if info.IsDir() {
		top, err = openFolder(r.place, folderRead)
	} else {
		var t target
		t, err = r.fs.resolve(r.place, false)
		top, r.file = t.dir, t.name
	}
	if err != nil {
		return err
	}
	defer top.close()
	if r.top, err = top.self(); err != nil {
		return err
	}
	if _, err := r.folders.add(top, ""); err != nil || r.file != "" || !r.options.Recursive {
		return err
	}
	return r.addBelow(top, "", false)
}

// addBelow watches the directories below a directory. If emit is set, it sends an EventCreated
// for each entry.
func (r *watcher) addBelow(d folder, name string, emit bool) error {
	if _, err := d.file.Seek(0, io.SeekStart); err != nil {
		return withPath(d.path, err)
	}
	inSystem := pseudo(d.file)
	for more := true; more; {
		entries, err := d.file.ReadDir(256)
		more = err == nil // otherwise the end, or the directory was removed
		for _, e := range entries {
			if isTemporary(e.Name()) {
				continue
			}
			child := path.Join(name, e.Name())
			if emit {
				r.remember(child)
				r.emit(Event{Type: EventCreated, Path: r.path(child), Directory: e.IsDir()})
			}
			if e.IsDir() {
				if err := r.addFolder(d, e.Name(), child, inSystem, emit); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// addFolder watches a directory in another one, and the directories below it.
func (r *watcher) addFolder(d folder, base, name string, inSystem, emit bool) error {
	sub, err := d.folder(base, folderRead)
	if err != nil {
		r.fs.logger.Debug("directory is not watched", "path", r.path(name), "err", err)
		return nil
	}
	defer sub.close()
	if !inSystem && pseudo(sub.file) {
		return nil
	}
	added, err := r.folders.add(sub, name)
	if err != nil || !added {
		return err
	}
	return r.addBelow(sub, name, emit)
}

// remember records an entry that was found before its event arrived. Beyond a limit, such an
// entry may have two EventCreated.
func (r *watcher) remember(name string) {
	const most, mostBytes = 4096, 1 << 20
	if len(r.known) >= most || r.knownBytes+len(name) > mostBytes {
		clear(r.known)
		r.knownBytes = 0
	}
	if _, ok := r.known[name]; !ok {
		r.known[name] = struct{}{}
		r.knownBytes += len(name)
	}
}

// recall forgets an entry that remember has recorded, and reports whether there was one.
func (r *watcher) recall(name string) bool {
	_, ok := r.known[name]
	if ok {
		delete(r.known, name)
		r.knownBytes -= len(name)
	}
	return ok
}

func (r *watcher) handle(e fsnotify.Event) error {
	dir, base, ok := r.folders.name(e)
	switch {
	case !ok:
		return nil // the directory is no longer watched
	case base == "" && dir != "":
		return nil // the directory above has an event, too
	case base == "":
		return r.handleTop(e, r.file == "" && e.Has(fsnotify.Chmod))
	case r.file != "" && base != r.file, isTemporary(base):
		return nil
	case r.file != "":
		return r.handleTop(e, true)
	}
	name := path.Join(dir, base)
	switch {
	case e.Has(fsnotify.Create):
		return r.created(dir, base, name)
	case e.Has(fsnotify.Remove):
		r.removed(name, EventRemoved)
	case e.Has(fsnotify.Rename):
		r.removed(name, EventRenamed)
	case e.Has(fsnotify.Write), e.Has(fsnotify.Chmod):
		r.changed(name)
	}
	return nil
}

// handleTop handles an event of the watched path itself, or of the directory of a watched file.
func (r *watcher) handleTop(e fsnotify.Event, changed bool) error {
	last := Event{Path: r.place.path, Directory: r.file == ""}
	switch {
	case e.Has(fsnotify.Remove):
		last.Type = EventRemoved
		return r.emitLast(last)
	case e.Has(fsnotify.Rename):
		last.Type = EventRenamed
		return r.emitLast(last)
	case changed:
		r.changed("")
	}
	return nil
}

// created handles a new entry, and watches it if it is a directory.
func (r *watcher) created(dir, base, name string) error {
	n, err := r.stat(name)
	directory := err == nil && n.isDir()
	if r.recall(name) { // addBelow has sent its EventCreated
		r.changed(name)
	} else {
		r.emit(Event{Type: EventCreated, Path: r.path(name), Directory: directory})
	}
	if !directory || !r.options.Recursive {
		return nil
	}
	d, err := openFolder(r.child(dir), folderRead)
	if err != nil {
		return nil // it was removed
	}
	defer d.close()
	err = r.addFolder(d, base, name, pseudo(d.file), true)
	if errors.Is(err, ErrTooLarge) {
		r.emit(Event{Type: EventOverflow, Path: r.path(name), Directory: true, Reason: r.fs.reason(err)})
		return nil
	}
	return err
}

// removed handles the removal or renaming of an entry.
func (r *watcher) removed(name string, as EventType) {
	_, directory := r.folders.byName[name]
	if directory {
		r.folders.forget(name)
	}
	r.recall(name)
	delete(r.pending, name)
	r.emit(Event{Type: as, Path: r.path(name), Directory: directory})
}

// child returns the place of a name in the watched directory.
func (r *watcher) child(name string) place {
	p := r.place
	p.name, p.path = path.Join(p.name, name), path.Join(p.path, name)
	return p
}

// stat describes an entry of the watched directory without following a link, or the watched
// path if the name is empty.
func (r *watcher) stat(name string) (node, error) {
	lstat := r.place.tree.Lstat
	if name == "" {
		lstat = r.place.tree.Stat
	}
	info, err := lstat(r.child(name).name)
	if err != nil {
		return node{}, err
	}
	return nodeOfInfo(info), nil
}

// startOver handles an overflow of the kernel's queue: it watches all directories again.
func (r *watcher) startOver() error {
	r.emit(Event{
		Type: EventOverflow, Path: r.place.path, Directory: r.file == "",
		Reason: "more happened than the system could note (fs.inotify.max_queued_events" + sysctl("max_queued_events") + ")",
	})
	r.folders.close()
	clear(r.known)
	r.knownBytes = 0
	if err := r.check(); err != nil {
		return err
	}
	err := r.begin()
	if errors.Is(err, ErrTooLarge) {
		r.emit(Event{Type: EventOverflow, Path: r.place.path, Directory: true, Reason: r.fs.reason(err)})
		return nil
	}
	return err
}

// checkInterval is the time between two checks of the watched path. The kernel has no events
// for moves above a directory, and for its removal while it is the working directory of a
// process.
const checkInterval = 2 * time.Second

// check ends the watch if its path leads elsewhere or nowhere.
func (r *watcher) check() error {
	n, err := r.stat("")
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
	case err == nil && r.file == "" && (!n.is(r.top) || n.links == 0): // a removed root stays open
	default:
		return nil
	}
	return r.emitLast(Event{Type: EventRemoved, Path: r.place.path, Directory: r.file == ""})
}
