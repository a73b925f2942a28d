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
)

// entry is a recording in the index of a store.
type entry struct {
	id, dir string

	mu      sync.Mutex // guards what follows
	info    Info
	epoch   time.Time     // of a recording that runs: when its video begins
	writing bool          // the video grows
	more    chan struct{} // closed when it has grown; nil: nobody waits
	gone    bool          // it is being deleted, or was
	out     bool          // it was taken out of the index

	last bool // that it was deleted has been told; guarded by Store.telling

	job  context.CancelFunc // ends what is done to it in the background; nil: nothing is
	idle chan struct{}      // closed when that has ended
}

// snapshot is the recording as it is now.
func (e *entry) snapshot() Info {
	e.mu.Lock()
	defer e.mu.Unlock()
	info := e.info
	if info.Active() && !e.epoch.IsZero() {
		info.Duration = time.Since(e.epoch)
	}
	return info
}

// began notes when the video begins.
func (e *entry) began(epoch time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.epoch = epoch
}

// grew notes the size of the video.
func (e *entry) grew(size int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.info.Bytes = size
	e.wake()
}

// picture counts a picture, and drop one for which there was no room.
func (e *entry) picture() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.info.Frames++
}

func (e *entry) drop() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.info.Dropped++
}

// dropEntries counts entries that the timeline leaves out.
func (e *entry) dropEntries(n uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.info.TimelineDropped += n
}

// ended notes that the video does not grow any more.
func (e *entry) ended() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.writing = false
	e.wake()
}

// wake tells who waits for the video to grow.
func (e *entry) wake() {
	if e.more != nil {
		close(e.more)
		e.more = nil
	}
}

// growth tells how much of a recording's video there is, and gives a channel that
// is closed when there is more, or when there will not be. writing is false when
// there will be no more.
func (s *Store) growth(id string) (size int64, more <-chan struct{}, writing bool) {
	e, err := s.entry(id)
	if err != nil {
		return 0, nil, false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.writing {
		return e.info.Bytes, nil, false
	}
	if e.more == nil {
		e.more = make(chan struct{})
	}
	return e.info.Bytes, e.more, true
}

// entry finds a recording.
func (s *Store) entry(id string) (*entry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.entries[id]
	if !ok {
		return nil, ErrNotFound
	}
	return e, nil
}

// locate finds a recording's folder.
func (s *Store) locate(id string) (dir string, info Info, err error) {
	e, err := s.entry(id)
	if err != nil {
		return "", Info{}, err
	}
	return e.dir, e.snapshot(), nil
}

// change changes what is known of a recording, writes that down, and tells it.
func (s *Store) change(e *entry, f func(*Info)) error {
	e.mu.Lock()
	if e.gone {
		e.mu.Unlock()
		return ErrNotFound
	}
	f(&e.info)
	info := e.info
	e.mu.Unlock()
	err := writeManifest(e.dir, info, true)
	s.tell(e)
	return err
}

// tell tells Notify how a recording is. Each state is told in its turn, and
// nothing after that it was deleted.
func (s *Store) tell(e *entry) {
	s.telling.Lock()
	defer s.telling.Unlock()
	if e.last {
		return
	}
	info := e.snapshot()
	e.mu.Lock()
	e.last = e.out
	e.mu.Unlock()
	if e.last {
		info.Status = StatusDeleted
	}
	s.cfg.Notify(info)
}

// List describes all recordings, the oldest first. Those whose files somebody
// removed are left out.
func (s *Store) List() []Info {
	s.mu.Lock()
	all := s.sorted()
	s.mu.Unlock()
	infos := make([]Info, 0, len(all))
	for _, e := range all {
		info := e.snapshot()
		if !info.Active() && s.vanished(e) {
			continue
		}
		infos = append(infos, info)
	}
	return infos
}

// Get describes a recording. The error is ErrNotFound.
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

// vanished says whether a recording's folder is not there any more. Then it is
// taken out of the index.
func (s *Store) vanished(e *entry) bool {
	if _, err := os.Lstat(e.dir); !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	s.forget(e)
	return true
}

// forget takes a recording out of the index.
func (s *Store) forget(e *entry) {
	e.mu.Lock()
	e.gone, e.out = true, true
	e.wake()
	e.mu.Unlock()
	s.mu.Lock()
	known := s.entries[e.id] == e
	delete(s.entries, e.id)
	s.mu.Unlock()
	if known {
		s.tell(e)
	}
}

// Video opens a recording's file, which the caller closes. The errors are
// ErrNotFound and, when it alone is gone, fs.ErrNotExist. While the recording
// runs the file grows; it is playable as it is at any moment. That the recording
// is deleted, or the file replaced by one with its index in front, does not
// disturb who reads it.
func (s *Store) Video(id string) (*os.File, Info, error) {
	e, err := s.entry(id)
	if err != nil {
		return nil, Info{}, fmt.Errorf("recording %.40q: %w", id, err)
	}
	f, err := os.Open(filepath.Join(e.dir, videoFile))
	if errors.Is(err, fs.ErrNotExist) && s.vanished(e) {
		err = ErrNotFound
	}
	if err != nil {
		return nil, Info{}, fmt.Errorf("recording %s: %w", id, err)
	}
	return f, e.snapshot(), nil
}

// Delete deletes a recording and everything about it. The errors are ErrNotFound,
// ErrActive and ctx's.
func (s *Store) Delete(ctx context.Context, id string) error {
	e, err := s.entry(id)
	if err != nil {
		return fmt.Errorf("delete recording %.40q: %w", id, err)
	}
	if err := s.delete(ctx, e); err != nil {
		return fmt.Errorf("delete recording %s: %w", id, err)
	}
	return nil
}

func (s *Store) delete(ctx context.Context, e *entry) error {
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
	job, idle := e.job, e.idle
	e.mu.Unlock()
	if job != nil {
		job()
		<-idle
	}
	// A folder that cannot be removed at once is so at the next Open.
	trash := filepath.Join(s.cfg.Dir, trashPrefix+e.id)
	err := os.Rename(e.dir, trash)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil {
		e.mu.Lock()
		e.gone = false
		e.mu.Unlock()
		return err
	}
	s.forget(e)
	_ = ctx // what follows is short, and must not be left half done
	return os.RemoveAll(trash)
}
