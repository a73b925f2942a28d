package filesystem

import (
	"cmp"
	"errors"
	"path"
	"sync"
	"time"
)

// WatchOptions configure Watch. The zero value watches the entries of a directory, or a single
// file.
type WatchOptions struct {
	// Recursive also watches all directories below, including new ones. Symbolic links are
	// not followed, and directories that are not readable are left out.
	Recursive bool

	MaxWatches int           // limit of directories; zero means 8192
	Queue      int           // limit of events that wait for a slow reader; zero means 1024
	Interval   time.Duration // least time between two EventChanged of a file; zero means 50 ms
}

func (o WatchOptions) withDefaults() WatchOptions {
	o.MaxWatches = cmp.Or(o.MaxWatches, 8192)
	o.Queue = cmp.Or(o.Queue, 1024)
	o.Interval = cmp.Or(o.Interval, 50*time.Millisecond)
	return o
}

// EventType is the type of an event.
type EventType string

// The types of events.
const (
	// EventCreated means that an entry was made, moved here, or replaced.
	EventCreated EventType = "created"
	// EventChanged means that content or attributes changed. Many changes in a short time
	// are one event.
	EventChanged EventType = "changed"
	// EventRemoved means that an entry was removed.
	EventRemoved EventType = "removed"
	// EventRenamed means that an entry was moved away. If its new path is watched, that
	// path has an EventCreated.
	EventRenamed EventType = "renamed"
	// EventOverflow means that events were lost. A reader that needs all changes must read
	// the files again.
	EventOverflow EventType = "overflow"
)

// Event is a change of a path.
type Event struct {
	Type      EventType
	Path      string // absolute; of an overflow, the directory
	Directory bool   // Path is or was a directory
	Dropped   int    // of an overflow: the number of events, if it is known
	Reason    string // of an overflow: the reason, for people
}

// Watch watches files. It ends with Close, with the FS, or after the event for the removal or
// renaming of the watched path.
type Watch struct {
	events  chan Event
	stop    chan struct{}
	stopped sync.Once
	done    chan struct{}
	err     error // why it ended; read after done
}

// Watch watches a directory or file. An empty path is where relative paths begin. All changes
// after it returns have events.
//
// A file is watched by its name, so it may be replaced. Temporary files of Write and Extract
// have no events. If the path leads elsewhere because a directory above it was moved, the
// watch ends within two seconds, as after a removal.
//
// Watch returns when the directories are watched. The caller must close the result. The error
// is ErrTooLarge if there are more directories than MaxWatches or than the limit of the
// system (fs.inotify.max_user_watches), or more than 8 MiB of paths below the directory. New
// directories beyond a limit are an overflow. Directories more than 255 levels below it, or with a
// path of more than 4096 bytes, are not watched.
func (f *FS) Watch(name string, options WatchOptions) (*Watch, error) {
	const op = "watch"
	if err := f.enter(); err != nil {
		return nil, f.fail(op, name, err)
	}
	p, err := f.locate(name)
	if err != nil {
		f.leave()
		return nil, f.fail(op, name, err)
	}
	options = options.withDefaults()
	w := &Watch{events: make(chan Event, max(options.Queue, 1)), stop: make(chan struct{}), done: make(chan struct{})}
	r := &watcher{
		fs: f, place: p, options: options, out: w.events, stop: w.stop,
		pending: make(map[string]time.Time), known: make(map[string]struct{}),
	}
	if err := r.begin(); err != nil {
		if r.folders != nil {
			r.folders.close()
		}
		f.leave()
		return nil, f.fail(op, p.path, err)
	}
	go func() {
		defer f.leave()
		w.err = f.fail(op, p.path, r.run())
		close(w.events)
		close(w.done)
	}()
	return w, nil
}

// Events returns the channel of events, in order. A reader that is too slow gets an
// EventOverflow in the place of lost events. The channel is closed when the watch has ended.
func (w *Watch) Events() <-chan Event { return w.events }

// Err returns the error that ended the watch, after the channel of Events was closed. It wraps
// ErrClosed after Close of the FS. It is nil while the watch runs, after Close of the Watch, and
// after the watched path was removed.
func (w *Watch) Err() error {
	select {
	case <-w.done:
		return w.err
	default:
		return nil
	}
}

// Close ends the watch and waits until it has ended. It returns nil.
func (w *Watch) Close() error {
	w.stopped.Do(func() { close(w.stop) })
	<-w.done
	return nil
}

// watcher is the state of a Watch. Only its goroutine uses it.
type watcher struct {
	fs      *FS
	place   place
	options WatchOptions
	out     chan<- Event
	stop    <-chan struct{}

	file    string // name of a file that is watched in its directory
	folders *watchSet
	top     node // the watched directory

	dropped int                  // events that were lost
	pending map[string]time.Time // changed paths, and when their events are due
	order   []string             // of pending
	known   map[string]struct{}  // entries that were found before their event arrived

	knownBytes int // of the names in known
}

// errGone ends a watch whose directory or file was removed.
var errGone = errors.New("the watched path is gone")

// run handles events until the watch ends.
func (r *watcher) run() error {
	defer func() { r.folders.close() }()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	checks := time.NewTicker(checkInterval)
	defer checks.Stop()
	for {
		var notice chan<- Event
		if r.dropped > 0 {
			notice = r.out
		}
		if len(r.order) > 0 {
			timer.Reset(time.Until(r.pending[r.order[0]]))
		}
		var err error
		select {
		case e := <-r.folders.events:
			err = r.handle(e)
		case <-r.folders.overflow:
			err = r.startOver()
		case err = <-r.folders.failed:
		case <-timer.C:
			r.flush(time.Now())
		case <-checks.C:
			err = r.check()
		case notice <- r.droppedEvent():
			r.dropped = 0
		case <-r.stop:
			return nil
		case <-r.fs.closing:
			return &Error{Reason: ErrClosed.Error(), Kind: ErrClosed}
		}
		switch {
		case errors.Is(err, errGone):
			return nil
		case err != nil:
			return err
		}
	}
}

func (r *watcher) droppedEvent() Event {
	return Event{
		Type: EventOverflow, Path: r.place.path, Directory: r.file == "", Dropped: r.dropped,
		Reason: "events were not read in time",
	}
}

// emit sends an event to the reader, or counts it as lost if the queue is full.
func (r *watcher) emit(e Event) {
	if r.dropped > 0 {
		select {
		case r.out <- r.droppedEvent():
			r.dropped = 0
		default:
		}
	}
	if r.dropped == 0 {
		select {
		case r.out <- e:
			return
		default:
		}
	}
	r.dropped++
}

// emitLast sends the last event and waits for the reader.
func (r *watcher) emitLast(e Event) error {
	events := []Event{e}
	if r.dropped > 0 {
		events = []Event{r.droppedEvent(), e}
	}
	for _, e := range events {
		select {
		case r.out <- e:
		case <-r.stop:
		case <-r.fs.closing:
		}
	}
	return errGone
}

// path returns the absolute path of a name in the directory.
func (r *watcher) path(name string) string {
	if r.file != "" {
		return r.place.path
	}
	return path.Join(r.place.path, name)
}

// changed schedules the event for a changed path.
func (r *watcher) changed(name string) {
	if _, ok := r.pending[name]; ok {
		return
	}
	if len(r.order) >= max(r.options.Queue, 1) {
		r.flush(r.pending[r.order[0]])
	}
	r.pending[name] = time.Now().Add(r.options.Interval)
	r.order = append(r.order, name)
}

// flush sends the events of changed paths that are due.
func (r *watcher) flush(now time.Time) {
	for len(r.order) > 0 {
		name := r.order[0]
		due, ok := r.pending[name]
		if ok && due.After(now) {
			return
		}
		r.order[0] = ""
		r.order = r.order[1:]
		if !ok {
			continue // it was removed
		}
		delete(r.pending, name)
		if n, err := r.stat(name); err == nil {
			r.emit(Event{Type: EventChanged, Path: r.path(name), Directory: n.isDir()})
		}
	}
}
