package recording

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"
	"golang.org/x/sync/semaphore"

	"github.com/deskhand/deskhand/internal/supervise"
)

// childGrace is the time between SIGTERM and SIGKILL for ffmpeg and ffprobe.
const childGrace = 500 * time.Millisecond

// Store keeps recordings in a directory. All methods may be called from any goroutine.
type Store struct {
	index
	group *supervise.Group

	ctx        context.Context //nolint:containedctx // ends background work, at Close
	cancel     context.CancelFunc
	work       sync.WaitGroup      // all goroutines; Add is called with mu, before closed is set
	clipping   *semaphore.Weighted // of the clips that are being made
	clips      atomic.Int32        // clips that are being made or are not closed yet
	marking    sync.Mutex          // held while a marker is added to a recording that has ended
	cues       sync.Mutex          // held while cues are made, which takes memory for a whole timeline
	patience   time.Duration       // for ffmpeg to accept a picture
	mostGuests int                 // guest recordings to keep

	closing  sync.Once
	closeErr error

	// index.mu guards the fields below.
	active  map[*Recording]struct{}
	count   int // recordings that start or are active
	guests  int // part of count with Config.Guest
	expiry  *time.Timer
	repairs []*entry // recordings to repair; the first one is being repaired
}

// index keeps the descriptions of the recordings in a directory.
type index struct {
	cfg       StoreConfig
	log       *slog.Logger
	free      func(dir string) (int64, error) // returns the free bytes of a disk
	notifying sync.Mutex                      // held during Notify

	mu      sync.Mutex // guards the fields below
	lock    *os.File
	closed  bool
	entries map[string]*entry
	newest  ulid.ULID
}

// Open opens a directory and reads the recordings in it. Recordings that were active when
// this program ended are repaired in the background, and have StatusRecovering until then.
// ctx is checked once, at the beginning. ffmpeg need not be installed.
//
// The error is an *InvalidError, ErrLocked, the error of ctx, or an error of the operating
// system.
func Open(ctx context.Context, cfg StoreConfig) (*Store, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("open recording store: %w", err)
	}
	if cfg.Dir, err = filepath.Abs(cfg.Dir); err != nil {
		return nil, fmt.Errorf("open recording store: %w", err)
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("open recording store: %w", err)
	}
	lock, err := lockDir(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("open recording store %s: %w", cfg.Dir, err)
	}
	group, err := supervise.NewGroup(supervise.GroupConfig{Owner: "desktop", Grace: childGrace, Logger: cfg.Logger})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open recording store: %w", err), unlockDir(lock))
	}
	s := &Store{
		index: index{cfg: cfg, log: cfg.Logger, lock: lock, entries: map[string]*entry{}, free: freeBytes},
		group: group, clipping: semaphore.NewWeighted(maxClipping), active: map[*Recording]struct{}{}, patience: stuckLimit,
		mostGuests: maxGuests,
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if err := s.load(); err != nil {
		return nil, errors.Join(fmt.Errorf("open recording store %s: %w", cfg.Dir, err), s.Close())
	}
	s.retain()
	return s, nil
}

func (s *Store) load() error {
	names, err := os.ReadDir(s.cfg.Dir)
	if err != nil {
		return err
	}
	var unfinished []*entry
	for _, n := range names {
		path := filepath.Join(s.cfg.Dir, n.Name())
		if strings.HasPrefix(n.Name(), trashPrefix) {
			if err := os.RemoveAll(path); err != nil {
				s.log.Debug("remove a deleted recording", "path", path, "error", err)
			}
			continue
		}
		id, ok := parseID(n.Name())
		if !ok || !n.IsDir() {
			continue // not a recording
		}
		if id.Compare(s.newest) > 0 {
			s.newest = id
		}
		e := s.find(n.Name(), path)
		if e == nil {
			continue
		}
		s.entries[e.id] = e
		if e.info.Status == StatusRecovering || e.wantsIndex() {
			unfinished = append(unfinished, e)
		}
	}
	for _, e := range unfinished { // after the loop, because a repair may delete old recordings
		s.repairLater(e)
	}
	return nil
}

// find reads a recording. If the recording did not end properly, its status becomes
// StatusRecovering. find returns nil if the folder has neither a manifest nor a video.
func (x *index) find(id, dir string) *entry {
	parts, _ := filepath.Glob(filepath.Join(dir, "*"+partSuffix))
	for _, p := range parts { // half-written files of a crash
		_ = os.Remove(p)
	}
	info, err := readManifest(dir)
	video, statErr := os.Stat(filepath.Join(dir, videoFile))
	if errors.Is(err, fs.ErrNotExist) && errors.Is(statErr, fs.ErrNotExist) {
		if err := os.RemoveAll(dir); err != nil {
			x.log.Debug("remove an empty recording", "path", dir, "error", err)
		}
		return nil
	}
	e := &entry{id: id, dir: dir, info: info}
	if err != nil || info.ID != id {
		x.log.Debug("a recording's manifest is lost", "path", dir, "error", err)
		u, _ := parseID(id)
		e.info = Info{ID: id, Status: StatusRecording, Started: ulid.Time(u.Time())}
	}
	e.info.FileName = id + ".mp4"
	e.info.ProcessID = ""
	written := e.info.Bytes
	if statErr == nil {
		e.info.Bytes = video.Size()
	}
	switch {
	case e.info.Status == StatusRecording:
		e.info.Status, e.info.Reason = StatusRecovering, ReasonCrashed
	case e.info.Status == StatusFailed || e.info.Status == StatusRecovering:
	case statErr != nil:
		e.info.Status, e.info.Reason, e.info.Bytes = StatusFailed, ReasonFilesRemoved, 0
		e.info.Error = "its video file is gone"
	case e.info.Bytes != written && !e.whole():
		e.info.Status = StatusRecovering
		e.info.Error = fmt.Sprintf("its file has %d of %d bytes", e.info.Bytes, written)
	}
	return e
}

// whole reports whether the video file has all pictures. After a crash during swap the file
// may have another size than the manifest says.
func (e *entry) whole() bool {
	m, err := readMovieFile(filepath.Join(e.dir, videoFile))
	return err == nil && m.good == e.info.Bytes && m.frames == e.info.Frames
}

// sorted returns all recordings, the oldest first.
func (x *index) sorted() []*entry {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.SortedFunc(maps.Values(x.entries), func(a, b *entry) int { return strings.Compare(a.id, b.id) })
}

// full reports whether no further guest recording may be kept. The caller holds mu.
func (s *Store) full() bool {
	guests := 0
	for _, e := range s.entries {
		if e.snapshot().Guest {
			guests++
		}
	}
	return guests >= s.mostGuests
}

// newEntry makes the folder of a new recording. It returns ErrFull if it is a guest recording and too
// many of these are kept.
func (s *Store) newEntry(info Info) (*entry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, ErrClosed
	case info.Guest && s.full():
		return nil, ErrFull
	}
	// The id is higher than all others, even if the clock was set back.
	id := ulid.Make()
	if id.Compare(s.newest) <= 0 {
		id = s.newest
		for i := len(id) - 1; i >= 0; i-- {
			if id[i]++; id[i] != 0 {
				break
			}
		}
	}
	info.ID = formatID(id)
	info.FileName = info.ID + ".mp4"
	e := &entry{id: info.ID, dir: filepath.Join(s.cfg.Dir, info.ID), info: info, writing: true}
	if err := os.Mkdir(e.dir, 0o700); err != nil {
		return nil, err
	}
	if err := writeManifest(e.dir, info, false); err != nil {
		return nil, errors.Join(err, os.RemoveAll(e.dir))
	}
	s.newest = id
	s.entries[e.id] = e
	s.work.Go(func() { // the recording does not wait for the disk
		_ = errors.Join(syncPath(filepath.Join(e.dir, manifestFile)), syncPath(e.dir), syncPath(s.cfg.Dir))
	})
	return e, nil
}

// drop undoes newEntry.
func (x *index) drop(e *entry) error {
	x.mu.Lock()
	delete(x.entries, e.id)
	x.mu.Unlock()
	e.end() // for readers that have found it
	return os.RemoveAll(e.dir)
}

// reserve counts a recording that is about to start, or returns ErrTooMany.
func (s *Store) reserve(guest bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.count >= s.cfg.MaxActive || guest && s.guests >= max(1, s.cfg.MaxActive/2) {
		return ErrTooMany
	}
	s.count++
	if guest {
		s.guests++
	}
	return nil
}

// release undoes reserve.
func (s *Store) release(guest bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count--
	if guest {
		s.guests--
	}
}

// spawn runs f in a goroutine that Close waits for. It does nothing after Close.
func (s *Store) spawn(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.work.Go(f)
	}
}

// Recording returns the active recording whose newest segment has the id. The error is
// ErrNotFound, or ErrNotActive if the segment has ended.
func (s *Store) Recording(id string) (*Recording, error) {
	if r := s.running(id); r != nil {
		return r, nil
	}
	if _, err := s.entry(id); err != nil {
		return nil, fmt.Errorf("recording %.40q: %w", id, err)
	}
	return nil, fmt.Errorf("recording %s: %w", id, ErrNotActive)
}

// running returns the active recording whose newest segment has an id, or nil.
func (s *Store) running(id string) *Recording {
	s.mu.Lock()
	defer s.mu.Unlock()
	for r := range s.active {
		if r.ID() == id {
			return r
		}
	}
	return nil
}

// StopAll stops all active recordings, with a reason, and waits until they are
// finished. It does not stop a recording for which Start has not returned yet. If ctx ends
// first, the error wraps the error of ctx, and the recordings finish in the background. A
// recording that fails is not an error of StopAll.
func (s *Store) StopAll(ctx context.Context, reason Reason) error {
	s.mu.Lock()
	all := slices.Collect(maps.Keys(s.active))
	s.mu.Unlock()
	for _, r := range all {
		r.stopFor(reason)
	}
	for _, r := range all {
		select {
		case <-r.Done():
		case <-ctx.Done():
			return fmt.Errorf("stop recordings: %w", ctx.Err())
		}
	}
	return nil
}

// Close stops all active recordings, waits until they are finished, ends background work and
// unlocks the directory. The next Open continues the background work. Close returns errors of
// the lock and of child processes only. It may be called more than once, and then returns the
// same error.
func (s *Store) Close() error {
	s.closing.Do(func() { s.closeErr = s.close() })
	return s.closeErr
}

func (s *Store) close() error {
	s.mu.Lock()
	s.closed = true
	if s.expiry != nil {
		s.expiry.Stop()
	}
	s.mu.Unlock()
	err := s.StopAll(context.Background(), ReasonStoreClosed)
	s.cancel()
	_ = s.clipping.Acquire(context.Background(), maxClipping) // never released: no further clip is made
	s.work.Wait()
	err = errors.Join(err, s.group.Close(), unlockDir(s.lock))
	if err != nil {
		return fmt.Errorf("close recording store: %w", err)
	}
	return nil
}
