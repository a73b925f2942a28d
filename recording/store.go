package recording

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/deskhand/deskhand/internal/supervise"
)

// childGrace is how long ffmpeg and ffprobe have to end by themselves.
const childGrace = 500 * time.Millisecond

// Store keeps recordings in a directory. Its methods may be called from any
// goroutine.
type Store struct {
	cfg   StoreConfig
	log   *slog.Logger
	lock  *os.File
	group *supervise.Group

	ctx      context.Context //nolint:containedctx // ends background work, at Close
	cancel   context.CancelFunc
	work     sync.WaitGroup // all goroutines, added to under mu while not closed
	caring   sync.WaitGroup // for who looks after recordings, the same way
	extras   extras
	marking  sync.Mutex // held while a marker is added to a recording that has ended
	telling  sync.Mutex
	cues     sync.Mutex                      // held while the cues of a timeline are made, which holds much of it
	free     func(dir string) (int64, error) // bytes that the disk has left
	patience time.Duration                   // how long ffmpeg may take to accept a picture

	closing sync.Once
	err     error // of Close

	mu      sync.Mutex // guards what follows
	closed  bool
	entries map[string]*entry
	newest  ulid.ULID
	active  map[*Recording]struct{}
	places  int      // recordings that start or run
	guests  int      // of them those with Config.Guest
	jobs    []*entry // to be looked after in the background
	working bool     // somebody does
	expiry  *time.Timer
}

// Open makes a store of a directory, with the recordings in it. Those that a crash
// cut short are repaired in the background; until then they are listed as
// recovering. ctx bounds the opening alone.
//
// The errors are an *InvalidError, ErrLocked and those of the file system.
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
		cfg: cfg, log: cfg.Logger, lock: lock, group: group,
		entries: map[string]*entry{}, active: map[*Recording]struct{}{}, free: freeBytes, patience: stuckLimit,
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if err := s.load(); err != nil {
		return nil, errors.Join(fmt.Errorf("open recording store %s: %w", cfg.Dir, err), s.Close())
	}
	s.retain()
	return s, nil
}

// load makes the index of what is in the directory.
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
			continue // somebody else's
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
	for _, e := range unfinished { // a repair may delete old recordings, and must know of all
		s.later(e)
	}
	return nil
}

// find reads what there is of a recording, and makes it ready to be repaired if
// it was not finished. It returns nil when there is nothing at all.
func (s *Store) find(id, dir string) *entry {
	sweepParts(dir)
	info, err := readManifest(dir)
	video, statErr := os.Stat(filepath.Join(dir, videoFile))
	if errors.Is(err, fs.ErrNotExist) && errors.Is(statErr, fs.ErrNotExist) {
		// It did not even begin.
		if err := os.RemoveAll(dir); err != nil {
			s.log.Debug("remove an empty recording", "path", dir, "error", err)
		}
		return nil
	}
	e := &entry{id: id, dir: dir, info: info}
	if err != nil || info.ID != id {
		s.log.Debug("a recording's manifest is lost", "path", dir, "error", err)
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

// whole says whether the video file has all pictures. Its size may differ from the
// manifest's after a crash right behind the move of the index.
func (e *entry) whole() bool {
	m, err := examine(filepath.Join(e.dir, videoFile))
	return err == nil && m.good == e.info.Bytes && m.frames == e.info.Frames
}

// sweepParts removes what a crash left half written.
func sweepParts(dir string) {
	parts, err := filepath.Glob(filepath.Join(dir, "*"+partSuffix))
	if err != nil {
		return
	}
	for _, p := range parts {
		_ = os.Remove(p) // it is in nobody's way
	}
}

// sorted lists the index, the oldest first. The caller holds mu.
func (s *Store) sorted() []*entry {
	all := make([]*entry, 0, len(s.entries))
	for _, e := range s.entries {
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b *entry) int { return strings.Compare(a.id, b.id) })
	return all
}

// newEntry makes the folder of a new recording.
func (s *Store) newEntry(info Info) (*entry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ErrClosed
	}
	// Later than all that there are, also when the clock was set back.
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
	s.work.Go(func() { // whoever records does not wait for the disk
		_ = syncFile(filepath.Join(e.dir, manifestFile))
		_ = syncDir(e.dir)
		_ = syncDir(s.cfg.Dir)
	})
	return e, nil
}

// reserve counts a recording that is about to start, or returns ErrTooMany.
func (s *Store) reserve(guest bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.places >= s.cfg.MaxActive || guest && s.guests >= max(1, s.cfg.MaxActive/2) {
		return ErrTooMany
	}
	s.places++
	if guest {
		s.guests++
	}
	return nil
}

// release undoes reserve when the recording has ended.
func (s *Store) release(guest bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.places--
	if guest {
		s.guests--
	}
}

// drop undoes newEntry.
func (s *Store) drop(e *entry) error {
	s.mu.Lock()
	delete(s.entries, e.id)
	s.mu.Unlock()
	e.ended() // for whoever found it meanwhile
	return os.RemoveAll(e.dir)
}

// spawn runs f in a goroutine that Close waits for, unless the store is closed.
func (s *Store) spawn(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.work.Go(f)
	return true
}

// Recording finds a recording that runs. The error is ErrNotFound, or
// ErrNotActive when it has ended.
func (s *Store) Recording(id string) (*Recording, error) {
	if r := s.running(id); r != nil {
		return r, nil
	}
	if _, err := s.entry(id); err != nil {
		return nil, fmt.Errorf("recording %.40q: %w", id, err)
	}
	return nil, fmt.Errorf("recording %s: %w", id, ErrNotActive)
}

// running finds the recording that is writing this file, or returns nil.
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

// StopAll stops all recordings, for that reason, and waits until they are
// finished.
func (s *Store) StopAll(ctx context.Context, reason Reason) error {
	s.mu.Lock()
	all := make([]*Recording, 0, len(s.active))
	for r := range s.active {
		all = append(all, r)
	}
	s.mu.Unlock()
	for _, r := range all {
		r.finishFor(reason)
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

// Close stops what records, which is finished as by Stop, and ends what is done in
// the background; what of that is left undone is done after the next Open. It may
// be called more than once.
func (s *Store) Close() error {
	s.closing.Do(func() { s.err = s.close() })
	return s.err
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
	s.extras.close()
	s.work.Wait()
	s.caring.Wait()
	err = errors.Join(err, s.group.Close(), unlockDir(s.lock))
	if err != nil {
		return fmt.Errorf("close recording store: %w", err)
	}
	return nil
}
