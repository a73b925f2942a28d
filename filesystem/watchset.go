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

// watchSet is the directories that are watched.
//
// fsnotify takes paths, which may lead elsewhere by the time it follows them. So
// each directory is opened, its descriptor gets a number that no other directory
// of the set was watched by, and the path given to fsnotify is that of the
// descriptor in /proc, which leads to the open directory whatever happened to
// its name. The descriptor is closed at once: inotify holds on to the directory
// itself, and an open descriptor would keep a removed one from being told.
type watchSet struct {
	watcher *fsnotify.Watcher
	events  <-chan fsnotify.Event
	// Errors of the watcher are taken away from it at once, because it has a
	// lock while it sends some of them.
	overflow chan struct{} // the kernel's queue was full
	failed   chan error
	drained  sync.WaitGroup

	most   int
	next   int               // descriptor to use
	byPath map[string]string // what fsnotify calls a directory -> name
	byName map[string]watched
}

// watched is a directory that is watched. Names are relative to the top, which
// is empty.
type watched struct {
	path string // what fsnotify calls it
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

// sysctl is the value of a setting of inotify, as " = 128".
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

// add watches a directory under a name. It tells whether it did not already.
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
	if s.most > 0 && len(s.byName) >= s.most {
		return false, tooLarge("more than " + strconv.Itoa(s.most) + " directories to watch (MaxWatches)")
	}
	watchPath, err := s.register(d)
	if errors.Is(err, unix.ENOSPC) {
		return false, &Error{
			Reason: "no more directories can be watched (fs.inotify.max_user_watches" + sysctl("max_user_watches") + ")",
			Remedy: "watch fewer, or raise it with sysctl", Kind: ErrTooLarge, Err: err,
		}
	}
	if err != nil {
		return false, at(d.path, err)
	}
	s.byPath[watchPath] = name
	s.byName[name] = watched{path: watchPath, node: n}
	return true, nil
}

// firstDescriptor is the lowest number of a descriptor to watch by.
const firstDescriptor = 64

// register gives a directory to fsnotify by a path that no other one has, and no
// other one had recently: the events of that may still be on their way.
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

// forget no longer watches a directory and those below it.
func (s *watchSet) forget(name string) {
	for other, w := range s.byName {
		if _, ok := below(name, other); ok || name == "" {
			_ = s.watcher.Remove(w.path) // fails when the directory is gone
			delete(s.byPath, w.path)
			delete(s.byName, other)
		}
	}
}

// name tells what an event is about: an entry of a directory, or, when base is
// empty, a directory itself.
func (s *watchSet) name(e fsnotify.Event) (dir, base string, ok bool) {
	if dir, ok = s.byPath[e.Name]; ok {
		return dir, "", true
	}
	parent, base := path.Split(e.Name)
	dir, ok = s.byPath[strings.TrimSuffix(parent, "/")]
	return dir, base, ok
}

// begin watches what is to be watched.
func (r *watcher) begin() error {
	folders, err := newWatchSet(r.options.MaxWatches)
	if err != nil {
		return err
	}
	r.folders = folders
	if err := r.addTop(); err != nil {
		folders.close()
		return err
	}
	return nil
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

// addBelow watches the directories below one. If it is to tell, the entries that
// are found are told as created.
func (r *watcher) addBelow(d folder, name string, tell bool) error {
	if _, err := d.file.Seek(0, io.SeekStart); err != nil {
		return at(d.path, err)
	}
	inSystem := pseudo(d.file)
	for more := true; more; {
		entries, err := d.file.ReadDir(256)
		more = err == nil // else it is the end, or it is gone
		for _, e := range entries {
			if isTemporary(e.Name()) {
				continue
			}
			child := path.Join(name, e.Name())
			if tell {
				r.know(child)
				r.emit(Event{Type: EventCreated, Path: r.path(child), Directory: e.IsDir()})
			}
			if e.IsDir() {
				if err := r.addFolder(d, e.Name(), child, inSystem, tell); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// addFolder watches a directory in another one, and those below it.
func (r *watcher) addFolder(d folder, base, name string, inSystem, tell bool) error {
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
	return r.addBelow(sub, name, tell)
}

// know notes an entry that was found, whose event may come later. There is a
// bound, beyond which such an entry may be told as created twice.
func (r *watcher) know(name string) {
	const most = 4096
	if len(r.known) >= most {
		clear(r.known)
	}
	r.known[name] = struct{}{}
}

// handle tells an event of fsnotify.
func (r *watcher) handle(e fsnotify.Event) error {
	dir, base, ok := r.folders.name(e)
	switch {
	case !ok:
		return nil // of a directory that is no longer watched
	case base == "":
		return r.handleSelf(dir, e)
	case r.file != "" && base != r.file, isTemporary(base):
		return nil
	case r.file != "":
		return r.handleFile(e)
	}
	name := path.Join(dir, base)
	switch {
	case e.Has(fsnotify.Create):
		return r.created(dir, base, name)
	case e.Has(fsnotify.Remove):
		r.gone(name, EventRemoved)
	case e.Has(fsnotify.Rename):
		r.gone(name, EventRenamed)
	case e.Has(fsnotify.Write), e.Has(fsnotify.Chmod):
		r.changed(name)
	}
	return nil
}

// handleSelf is for events of a watched directory itself. Of those below the top
// the directory that they are in tells the same.
func (r *watcher) handleSelf(dir string, e fsnotify.Event) error {
	if dir != "" {
		return nil
	}
	last := Event{Path: r.place.path, Directory: r.file == ""}
	switch {
	case e.Has(fsnotify.Remove):
		last.Type = EventRemoved
		return r.emitLast(last)
	case e.Has(fsnotify.Rename):
		last.Type = EventRenamed
		return r.emitLast(last)
	case r.file == "" && e.Has(fsnotify.Chmod):
		r.changed("")
	}
	return nil
}

// handleFile is for events of the one file that is watched.
func (r *watcher) handleFile(e fsnotify.Event) error {
	switch {
	case e.Has(fsnotify.Remove):
		return r.emitLast(Event{Type: EventRemoved, Path: r.place.path})
	case e.Has(fsnotify.Rename):
		return r.emitLast(Event{Type: EventRenamed, Path: r.place.path})
	}
	r.changed("")
	return nil
}

// created tells of a new entry, and watches it if it is a directory.
func (r *watcher) created(dir, base, name string) error {
	n, err := r.stat(name)
	directory := err == nil && n.isDir()
	if _, ok := r.known[name]; ok { // told when it was found
		delete(r.known, name)
		r.changed(name)
	} else {
		r.emit(Event{Type: EventCreated, Path: r.path(name), Directory: directory})
	}
	if !directory || !r.options.Recursive {
		return nil
	}
	d, err := openFolder(r.child(dir), folderRead)
	if err != nil {
		return nil // it is gone
	}
	defer d.close()
	err = r.addFolder(d, base, name, pseudo(d.file), true)
	if errors.Is(err, ErrTooLarge) {
		r.emit(Event{Type: EventOverflow, Path: r.path(name), Directory: true, Reason: r.fs.reason(err)})
		return nil
	}
	return err
}

// gone tells of an entry that is no longer there.
func (r *watcher) gone(name string, as EventType) {
	_, directory := r.folders.byName[name]
	if directory {
		r.folders.forget(name)
	}
	delete(r.known, name)
	delete(r.pending, name)
	r.emit(Event{Type: as, Path: r.path(name), Directory: directory})
}

// child is the place of a name in the watched directory.
func (r *watcher) child(name string) place {
	p := r.place
	p.name, p.path = path.Join(p.name, name), path.Join(p.path, name)
	return p
}

// stat looks at what is called name in the directory, not following it; at what
// is watched itself if that is empty.
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

// startOver tells that the kernel had more events than room for them, and looks
// for the directories of which it did not tell.
func (r *watcher) startOver() error {
	r.emit(Event{
		Type: EventOverflow, Path: r.place.path, Directory: r.file == "",
		Reason: "more happened than the system could note (fs.inotify.max_queued_events" + sysctl("max_queued_events") + ")",
	})
	r.folders.close()
	folders, err := newWatchSet(r.options.MaxWatches)
	if err != nil {
		return err
	}
	r.folders = folders
	clear(r.known)
	if err := r.check(); err != nil {
		return err
	}
	if err = r.addTop(); errors.Is(err, ErrTooLarge) {
		r.emit(Event{Type: EventOverflow, Path: r.place.path, Directory: true, Reason: r.fs.reason(err)})
		return nil
	}
	return err
}

// checkInterval is how often a watch looks whether its path leads where it did.
// The kernel does not tell of moves above a directory, nor of its removal while
// it is some process's working directory.
const checkInterval = 2 * time.Second

// check ends the watch when its path leads elsewhere by now, or nowhere.
func (r *watcher) check() error {
	n, err := r.stat("")
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
	case err == nil && r.file == "" && (!n.is(r.top) || n.links == 0): // a root that was removed is open still
	default:
		return nil
	}
	return r.emitLast(Event{Type: EventRemoved, Path: r.place.path, Directory: r.file == ""})
}
