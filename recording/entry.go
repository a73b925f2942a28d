package recording

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// entry is a recording in the index of a store.
type entry struct {
	id, dir string

	mu      sync.Mutex // guards the fields below
	info    Info
	epoch   time.Time     // of an active recording: when its video begins
	writing bool          // the video grows
	more    chan struct{} // closed when the video has grown; nil if no reader waits
	gone    bool          // it is being deleted, or was
	removed bool          // it was removed from the index

	deleted bool // Notify was called with StatusDeleted; guarded by Store.notifying

	stopJob context.CancelFunc // ends the background job; nil if there is none
	idle    chan struct{}      // closed when the job has ended
}

// update calls f with the lock of the entry.
func (e *entry) update(f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f()
}

func (e *entry) snapshot() Info {
	e.mu.Lock()
	defer e.mu.Unlock()
	info := e.info
	if info.Active() && !e.epoch.IsZero() {
		info.Duration = time.Since(e.epoch)
	}
	return info
}

// grow stores the size of the video and wakes its readers.
func (e *entry) grow(size int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.info.Bytes = size
	e.wake()
}

// end records that the video does not grow any more, and wakes its readers.
func (e *entry) end() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.writing = false
	e.wake()
}

// wake wakes the readers that wait for the video to grow. The caller holds mu.
func (e *entry) wake() {
	if e.more != nil {
		close(e.more)
		e.more = nil
	}
}

// growth reports whether a recording's video still grows, and returns a channel that is
// closed when it has grown or does not grow any more.
func (x *index) growth(id string) (more <-chan struct{}, writing bool) {
	e, err := x.entry(id)
	if err != nil {
		return nil, false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.writing {
		return nil, false
	}
	if e.more == nil {
		e.more = make(chan struct{})
	}
	return e.more, true
}

// entry returns the recording that has an id, or ErrNotFound.
func (x *index) entry(id string) (*entry, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	e, ok := x.entries[id]
	if !ok {
		return nil, ErrNotFound
	}
	return e, nil
}

// openEntry is like entry but returns ErrClosed after Close.
func (x *index) openEntry(id string) (*entry, error) {
	x.mu.Lock()
	closed := x.closed
	x.mu.Unlock()
	if closed {
		return nil, ErrClosed
	}
	return x.entry(id)
}

// change changes the description of a recording, writes its manifest and notifies.
func (x *index) change(e *entry, f func(*Info)) error {
	e.mu.Lock()
	if e.gone {
		e.mu.Unlock()
		return ErrNotFound
	}
	f(&e.info)
	info := e.info
	e.mu.Unlock()
	err := writeManifest(e.dir, info, true)
	x.notify(e)
	return err
}

// notify calls Notify with the state of a recording. Calls are in the order of changes, and
// StatusDeleted is the last one.
func (x *index) notify(e *entry) {
	x.notifying.Lock()
	defer x.notifying.Unlock()
	if e.deleted {
		return
	}
	info := e.snapshot()
	e.update(func() { e.deleted = e.removed })
	if e.deleted {
		info.Status = StatusDeleted
	}
	x.cfg.Notify(info)
}

// List describes all recordings, the oldest first. It leaves out recordings whose folders
// another program has removed.
func (s *Store) List() []Info {
	infos := []Info{}
	for _, e := range s.sorted() {
		info := e.snapshot()
		if info.Active() || !s.vanished(e) {
			infos = append(infos, info)
		}
	}
	return infos
}

// Get describes a recording. The error is ErrNotFound, also if another program has removed
// the folder of a recording that has ended.
func (s *Store) Get(id string) (Info, error) {
	e, err := s.entry(id)
	if err != nil {
		return Info{}, fmt.Errorf("recording %.40q: %w", id, err)
	}
	info := e.snapshot()
	if !info.Active() && s.vanished(e) {
		return Info{}, fmt.Errorf("recording %.40q: %w", id, ErrNotFound)
	}
	return info, nil
}

// vanished reports whether a recording's folder does not exist any more, and removes such a
// recording from the index.
func (x *index) vanished(e *entry) bool {
	if _, err := os.Lstat(e.dir); !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	x.forget(e)
	return true
}

// forget removes a recording from the index.
func (x *index) forget(e *entry) {
	e.mu.Lock()
	e.gone, e.removed = true, true
	e.wake()
	e.mu.Unlock()
	x.mu.Lock()
	known := x.entries[e.id] == e
	delete(x.entries, e.id)
	x.mu.Unlock()
	if known {
		x.notify(e)
	}
}

// Video opens the file of a recording, which the caller closes. The file of an active
// recording grows, and can be played at any moment. An open file does not change if the
// recording is deleted, or if its file is replaced by one with its index at the start. The
// error is ErrNotFound, fs.ErrNotExist if only the file is gone, or another error of the file
// system.
func (s *Store) Video(id string) (*os.File, Info, error) {
	e, err := s.entry(id)
	if err != nil {
		return nil, Info{}, fmt.Errorf("recording %.40q: %w", id, err)
	}
	f, err := os.OpenFile(filepath.Join(e.dir, videoFile), os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) && s.vanished(e) {
		err = ErrNotFound
	}
	if err != nil {
		return nil, Info{}, fmt.Errorf("recording %s: %w", id, err)
	}
	return f, e.snapshot(), nil
}

// Delete deletes a recording with all its files. It ends background work on the recording,
// such as a repair, and waits for its end. The error is ErrNotFound, ErrActive, ErrClosed, or an
// error of the file system.
func (s *Store) Delete(id string) error {
	e, err := s.openEntry(id)
	if err == nil {
		err = s.delete(e)
	}
	if err != nil {
		return fmt.Errorf("delete recording %.40q: %w", id, err)
	}
	return nil
}

func (x *index) delete(e *entry) error {
	e.mu.Lock()
	switch {
	case e.gone:
		e.mu.Unlock()
		return ErrNotFound
	case e.info.Active():
		e.mu.Unlock()
		return ErrActive
	}
	e.gone = true
	stopJob, idle := e.stopJob, e.idle
	e.mu.Unlock()
	if stopJob != nil {
		stopJob()
		<-idle
	}
	// If the folder cannot be removed now, the next Open removes it.
	trash := filepath.Join(x.cfg.Dir, trashPrefix+e.id)
	if err := os.Rename(e.dir, trash); err != nil && !errors.Is(err, fs.ErrNotExist) {
		e.update(func() { e.gone = false })
		return err
	}
	x.forget(e)
	return os.RemoveAll(trash)
}
