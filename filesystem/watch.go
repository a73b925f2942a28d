package filesystem

import (
	"cmp"
	"errors"
	"path"
	"sync"
	"time"
)

// WatchOptions say what to watch. The zero value watches what is directly in a
// directory, or a single file.
type WatchOptions struct {
	// Recursive watches all directories below as well, also those that are
	// made later. Symbolic links are not followed, and directories that may
	// not be read are left out.
	Recursive bool
	// MaxWatches bounds the directories that are watched. Zero means 8192.
	MaxWatches int
	// Queue is how many events wait for a slow reader. Zero means 1024.
	Queue int
	// Interval is how often one file is told to have changed, at most. Zero
	// means 50 ms.
	Interval time.Duration
}

func (o WatchOptions) withDefaults() WatchOptions {
	o.MaxWatches = cmp.Or(o.MaxWatches, 8192)
	o.Queue = cmp.Or(o.Queue, 1024)
	o.Interval = cmp.Or(o.Interval, 50*time.Millisecond)
	return o
}

// EventType is what happened to a path.
type EventType string

// The types of events.
const (
	// EventCreated tells of a new entry, one that was moved here, or one that
	// was replaced as a whole.
	EventCreated EventType = "created"
	// EventChanged tells of changed content or attributes. Many changes in a
	// short time are one event.
	EventChanged EventType = "changed"
	// EventRemoved tells of an entry that is gone.
	EventRemoved EventType = "removed"
	// EventRenamed tells of an entry that was moved away. Where it went, if
	// that is watched as well, is told as created.
	EventRenamed EventType = "renamed"
	// EventOverflow tells that something was not told. Whoever has to know
	// everything must look at the files again.
	EventOverflow EventType = "overflow"
)

// Event is something that happened to a path.
type Event struct {
	Type      EventType
	Path      string // absolute; for an overflow, the directory that it is about
	Directory bool   // what is at Path is known to be a directory, or to have been one
	Dropped   int    // of an overflow: how many events, as far as that is known
	Reason    string // of an overflow: what happened, for people
}

// Watch tells what happens to files. It ends with Close, with the FS, or when
// what it watches is removed or moved away, after telling so.
type Watch struct {
	events  chan Event
	stop    chan struct{}
	stopped sync.Once
	done    chan struct{}
	err     error // why it ended; read after done
}

// Watch begins to watch a directory or file. It returns when everything that
// happens from then on will be told.
//
// A file is watched by its name, so it may be replaced. What Write and Extract
// have in the works is not told. When name leads elsewhere because something
// above it was moved, the watch ends within two seconds, as after a removal.
//
// Of more directories than MaxWatches the error is ErrTooLarge, as it is when
// the system's own limit (fs.inotify.max_user_watches) is reached. Directories
// for which there is no room later are told as overflow.
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

// Events are what happened, in order. A reader that is too slow gets an
// EventOverflow in the place of what it missed. The channel is closed when the
// watch has ended.
func (w *Watch) Events() <-chan Event { return w.events }

// Err tells why a watch has ended by itself, once Events is closed. It is nil
// after Close, and when what was watched is gone.
func (w *Watch) Err() error {
	select {
	case <-w.done:
		return w.err
	default:
		return nil
	}
}

// Close ends the watch and waits until it has ended.
func (w *Watch) Close() error {
	w.stopped.Do(func() { close(w.stop) })
	<-w.done
	return nil
}

// watcher is the goroutine behind a Watch. It owns everything here.
type watcher struct {
	fs      *FS
	place   place
	options WatchOptions
	out     chan<- Event
	stop    <-chan struct{}

	file    string // its name when a file is watched by way of its directory
	folders *watchSet
	top     node // the directory that is watched

	dropped int                  // events that there was no room for
	pending map[string]time.Time // changed paths, and when they are told
	order   []string             // of pending
	known   map[string]struct{}  // entries told because they were found, not because of an event
}

// errGone ends a watch whose directory or file is gone.
var errGone = errors.New("what was watched is gone")

// run tells events until the watch ends.
func (r *watcher) run() error {
	defer func() { r.folders.close() }()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	look := time.NewTicker(checkInterval)
	defer look.Stop()
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
		case <-look.C:
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

// emit gives an event to the reader, or counts it if the reader has too many.
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

// emitLast gives the last event to the reader, who may take the time it needs.
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

// path is the absolute path of what is called name in the directory.
func (r *watcher) path(name string) string {
	if r.file != "" {
		return r.place.path
	}
	return path.Join(r.place.path, name)
}

// changed notes that a path has changed, to be told soon.
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

// flush tells what has changed and is due.
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
			continue // it was removed meanwhile
		}
		delete(r.pending, name)
		if n, err := r.stat(name); err == nil {
			r.emit(Event{Type: EventChanged, Path: r.path(name), Directory: n.isDir()})
		}
	}
}
