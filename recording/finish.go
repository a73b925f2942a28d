package recording

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/deskhand/deskhand/internal/supervise"
)

const (
	// probeLimit bounds the time to decode one picture.
	probeLimit = 30 * time.Second

	// remuxLimit bounds the time to copy a file.
	remuxLimit = 30 * time.Minute
)

// conclude determines the status of a recording that has ended. whole reports that all
// data was written.
func (s *Store) conclude(ctx context.Context, e *entry, reason Reason, whole bool, problem error) {
	written := e.snapshot().Bytes
	m, err := readMovieFile(filepath.Join(e.dir, videoFile))
	if err == nil && whole && m.good != written {
		whole, problem = false, errors.Join(problem, fmt.Errorf("its file has %d of %d bytes that can be read", m.good, written))
	}
	if err == nil {
		err = s.probe(ctx, filepath.Join(e.dir, videoFile))
	}
	if ctx.Err() != nil {
		return // the next Open does the rest
	}
	_, unknown := errors.AsType[*MissingError](err)
	other := otherBytes(e.dir)
	saved := s.change(e, func(info *Info) {
		info.Reason, info.ProcessID = reason, ""
		info.Bytes, info.OtherBytes, info.Frames, info.Duration = m.good, other, m.frames, m.duration
		info.Ended = info.Started.Add(m.duration)
		switch {
		case unknown: // there is no ffprobe; the next Open tries again
			info.Status = StatusRecovering
		case err != nil:
			info.Status = StatusFailed
		case whole:
			info.Status = StatusCompleted
		default:
			info.Status = StatusRecovered
		}
		info.Error = ""
		if err := errors.Join(problem, err); err != nil {
			info.Error = err.Error()
		}
	})
	if saved != nil && !errors.Is(saved, ErrNotFound) {
		s.log.Debug("write a recording's manifest", "id", e.id, "error", saved)
	}
	if err == nil {
		s.repairLater(e)
	}
}

// readMovieFile reads the boxes of a file. A file without pictures is an error.
func readMovieFile(path string) (movie, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return movie{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return movie{}, err
	}
	m, err := readMovie(f, info.Size())
	if err == nil && m.frames == 0 {
		err = errors.New("it has no picture")
	}
	return m, err
}

// probe decodes the first picture of a video.
func (s *Store) probe(ctx context.Context, path string) error {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	tools, err := findPrograms(ctx, s.group)
	if err != nil {
		return err
	}
	out, err := run(ctx, s.group, supervise.Spec{Path: tools.ffprobe, Args: probeArguments(path)})
	if err != nil {
		return err
	}
	var width, height int
	if _, err := fmt.Sscanf(out, "%d,%d", &width, &height); err != nil || width <= 0 || height <= 0 {
		return errors.New("ffprobe found no picture that can be decoded")
	}
	return nil
}

// repairLater repairs a recording, or moves its index to the start, in the background and
// one recording at a time.
func (s *Store) repairLater(e *entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.repairs = append(s.repairs, e)
	if len(s.repairs) == 1 && !s.closed {
		s.work.Go(s.repairAll)
	}
}

// repairAll repairs recordings until none is left in repairs, or until Close.
func (s *Store) repairAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.repairs) > 0 && s.ctx.Err() == nil {
		e := s.repairs[0]
		s.mu.Unlock()
		s.improve(e)
		s.mu.Lock()
		s.repairs = s.repairs[1:]
	}
}

func (s *Store) improve(e *entry) {
	ctx, cancel := context.WithTimeout(s.ctx, remuxLimit)
	defer cancel()
	idle := make(chan struct{})
	defer close(idle)
	e.mu.Lock()
	if e.gone {
		e.mu.Unlock()
		return
	}
	e.stopJob, e.idle = cancel, idle
	info := e.info
	e.mu.Unlock()
	repair := info.Status == StatusRecovering
	if repair {
		s.repair(ctx, e, info)
	} else if err := s.moveIndex(ctx, e, info); err != nil && ctx.Err() == nil {
		s.log.Debug("move a recording's index to the start", "id", e.id, "error", err)
	}
	e.update(func() { e.stopJob, e.idle = nil, nil })
	if repair {
		s.retain() // again, because it leaves out recordings that are being repaired
	}
}

// repair restores a recording that ended with a crash. Its file consists of whole fragments,
// except for its end after a power failure.
func (s *Store) repair(ctx context.Context, e *entry, before Info) {
	err := cutOff(filepath.Join(e.dir, videoFile))
	if before.Error != "" {
		err = errors.Join(errors.New(before.Error), err)
	}
	s.conclude(ctx, e, before.Reason, false, err)
}

// cutOff removes the data after the last whole fragment of a file. A file with its index at
// the start does not change: it can be played up to where it was cut.
func cutOff(path string) error {
	m, err := readMovieFile(path)
	if err != nil {
		return nil //nolint:nilerr // there is nothing to save; conclude returns the error
	}
	info, err := os.Stat(path)
	if err != nil || info.Size() == m.good || !m.fragmented {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(m.good), f.Sync(), f.Close())
}

// wantsIndex reports whether the file still has its index at the end.
func (e *entry) wantsIndex() bool {
	return (e.info.Status == StatusCompleted || e.info.Status == StatusRecovered) && !e.info.Seekable
}

// moveIndex replaces a recording's file by one with its index at the start, and with
// chapters.
func (s *Store) moveIndex(ctx context.Context, e *entry, info Info) (err error) {
	tools, err := findPrograms(ctx, s.group)
	if err != nil {
		return err
	}
	if left, err := s.room(); err != nil || left < info.Bytes {
		return errors.Join(ErrNoSpace, err) // the file remains as it was recorded
	}
	part := filepath.Join(e.dir, videoFile+partSuffix)
	list := filepath.Join(e.dir, "chapters.txt"+partSuffix)
	defer func() {
		for _, path := range []string{part, list} {
			if gone := os.Remove(path); gone != nil && !errors.Is(gone, fs.ErrNotExist) {
				err = errors.Join(err, gone)
			}
		}
	}()
	chapters, err := ffmetadata(e.dir, info)
	if err != nil {
		s.log.Debug("chapters", "id", e.id, "error", err)
	}
	from := filepath.Join(e.dir, videoFile)
	args := remuxArguments(from, "", part, info.Duration)
	if len(chapters) > 0 {
		if err := os.WriteFile(list, chapters, 0o600); err != nil {
			return err
		}
		args = remuxArguments(from, list, part, info.Duration)
	}
	if _, err := run(ctx, s.group, supervise.Spec{Path: tools.ffmpeg, Args: args}); err != nil {
		return err
	}
	return s.swap(e, part, info)
}

// swap replaces a recording's video by a copy that has all its pictures.
func (s *Store) swap(e *entry, part string, before Info) error {
	m, err := readMovieFile(part)
	if err != nil {
		return err
	}
	if m.frames != before.Frames {
		return fmt.Errorf("%w: the copy has %d pictures, not %d", ErrEncoder, m.frames, before.Frames)
	}
	if err := syncPath(part); err != nil {
		return err
	}
	e.mu.Lock()
	if e.gone {
		e.mu.Unlock()
		return ErrNotFound
	}
	err = replace(part, filepath.Join(e.dir, videoFile))
	e.mu.Unlock()
	if err != nil {
		return err
	}
	return s.change(e, func(info *Info) { info.Bytes, info.Seekable = m.good, true })
}
