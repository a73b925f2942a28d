package recording

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

const (
	// probeLimit is how long it may take to decode one picture.
	probeLimit = 30 * time.Second

	// remuxLimit is how long it may take to copy a file.
	remuxLimit = 30 * time.Minute
)

// conclude finds out what a recording that is not written any more has become.
// whole says that all was written that should be.
func (s *Store) conclude(ctx context.Context, e *entry, reason Reason, whole bool, problem error) {
	written := e.snapshot().Bytes
	m, err := examine(filepath.Join(e.dir, videoFile))
	if err == nil && whole && m.good != written {
		whole, problem = false, errors.Join(problem, fmt.Errorf("its file has %d of %d bytes that can be read", m.good, written))
	}
	if err == nil {
		err = s.probe(ctx, filepath.Join(e.dir, videoFile))
	}
	if ctx.Err() != nil {
		return // the next Open goes on
	}
	var missing *MissingError
	unknown := errors.As(err, &missing)
	saved := s.change(e, func(info *Info) {
		info.Reason, info.ProcessID = reason, ""
		info.Bytes, info.Frames, info.Duration = m.good, m.frames, m.duration
		info.Ended = info.Started.Add(m.duration)
		switch {
		case unknown: // whether it plays; it will be when there is an ffprobe
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
		s.log.Debug("write down how a recording ended", "id", e.id, "error", saved)
	}
	if err == nil {
		s.later(e)
	}
}

// examine reads how much there is of a video.
func examine(path string) (movie, error) {
	f, err := os.Open(path)
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

// probe decodes a video's first picture.
func (s *Store) probe(ctx context.Context, path string) error {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	tools, err := findPrograms(ctx, s.group)
	if err != nil {
		return err
	}
	out, err := run(ctx, s.group, tools.ffprobe, probeArguments(path)...)
	if err != nil {
		return err
	}
	var answer struct {
		Frames []struct {
			Width, Height int
		} `json:"frames"`
	}
	if err := json.Unmarshal([]byte(out), &answer); err != nil {
		return fmt.Errorf("ffprobe: %w", err)
	}
	if len(answer.Frames) == 0 || answer.Frames[0].Width <= 0 || answer.Frames[0].Height <= 0 {
		return errors.New("ffprobe found no picture that can be decoded")
	}
	return nil
}

// later has a recording repaired, or its index moved to the front, in the
// background: one at a time, in the order in which they came.
func (s *Store) later(e *entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.jobs = append(s.jobs, e)
	if !s.working {
		s.working = true
		s.caring.Go(s.lookAfter)
	}
}

// lookAfter does what is to be done in the background, until nothing is.
func (s *Store) lookAfter() {
	for {
		s.mu.Lock()
		if len(s.jobs) == 0 || s.ctx.Err() != nil {
			s.jobs, s.working = nil, false
			s.mu.Unlock()
			return
		}
		e := s.jobs[0]
		s.jobs = s.jobs[1:]
		s.mu.Unlock()
		s.care(e)
	}
}

// care repairs a recording if that is needed, and moves its index to the front.
func (s *Store) care(e *entry) {
	ctx, cancel := context.WithTimeout(s.ctx, remuxLimit)
	defer cancel()
	idle := make(chan struct{})
	defer close(idle)
	e.mu.Lock()
	if e.gone {
		e.mu.Unlock()
		return
	}
	e.job, e.idle = cancel, idle
	status := e.info.Status
	e.mu.Unlock()
	if status == StatusRecovering {
		s.repair(ctx, e)
	} else if err := s.moveIndex(ctx, e); err != nil && ctx.Err() == nil {
		s.log.Debug("move a recording's index to the front", "id", e.id, "error", err)
	}
	e.mu.Lock()
	e.job, e.idle = nil, nil
	e.mu.Unlock()
	if status == StatusRecovering {
		s.retain() // now that nobody waits for this one any more
	}
}

// wantsIndex says whether the file is as it was recorded.
func (e *entry) wantsIndex() bool {
	switch e.info.Status {
	case StatusCompleted, StatusRecovered:
		return !e.info.Seekable
	case StatusRecording, StatusRecovering, StatusFailed, StatusDeleted:
	}
	return false
}

// moveIndex replaces a recording's file by one with its index in front, and with
// chapters.
func (s *Store) moveIndex(ctx context.Context, e *entry) (err error) {
	tools, err := findPrograms(ctx, s.group)
	if err != nil {
		return err
	}
	info := e.snapshot()
	if left, err := s.room(); err != nil || left < info.Bytes {
		return errors.Join(ErrNoSpace, err) // the file plays as it is
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
	switch {
	case err != nil:
		s.log.Debug("chapters", "id", e.id, "error", err)
		list = ""
	case len(chapters) == 0:
		list = ""
	default:
		if err := os.WriteFile(list, chapters, 0o600); err != nil {
			return err
		}
	}
	from := filepath.Join(e.dir, videoFile)
	if _, err := run(ctx, s.group, tools.ffmpeg, remuxArguments(from, list, part, info.Duration)...); err != nil {
		return err
	}
	return s.swap(e, part, info)
}

// swap puts the file part in the place of a recording's video, if it is as good.
func (s *Store) swap(e *entry, part string, before Info) error {
	m, err := examine(part)
	if err != nil {
		return err
	}
	if m.frames != before.Frames {
		return fmt.Errorf("%w: the copy has %d pictures, not %d", ErrEncoder, m.frames, before.Frames)
	}
	if err := syncFile(part); err != nil {
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

func syncFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
