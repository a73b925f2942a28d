package recording

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/deskhand/deskhand/internal/supervise"
	"github.com/deskhand/deskhand/recording/timeline"
)

const (
	// defaultBefore and defaultAfter are the parts of a clip before and after an entry.
	defaultBefore = 2 * time.Second
	defaultAfter  = 3 * time.Second

	// maxClipLength bounds the length of a clip.
	maxClipLength = time.Hour

	// maxClipping bounds the clips that are made at the same time. Further ones wait.
	maxClipping = 2

	// maxClips bounds the clips that are being made or are not closed yet. Each has a
	// file.
	maxClips = 8

	// writtenPatience is how long a clip waits for a part of the video that was recorded
	// but is not in the file yet.
	writtenPatience = 5 * time.Second
)

// ClipRequest names a part of a recording: From and To, or Around.
type ClipRequest struct {
	// From and To are positions in the recording. If To is zero or after the end, the
	// clip ends with what has been recorded.
	From, To time.Duration

	// Around is the Seq of an entry in the timeline. The clip begins Before the entry,
	// two seconds if that is zero, and ends After it, three seconds if that is zero.
	Around        uint64
	Before, After time.Duration
}

// Clip is a part of a recording as an MP4 file. It must be closed.
type Clip struct {
	// File is open for reading, at its beginning. It has no name, so it is gone when it
	// is closed or the program ends.
	File *os.File

	Bytes    int64
	From, To time.Duration // the part of the recording, which may differ from the request

	// Copied reports that the pictures were copied. Otherwise they were
	// encoded again, because the clip begins between two key pictures.
	Copied bool

	release func() // called once
}

// Close closes the file.
func (c *Clip) Close() error {
	c.release()
	return c.File.Close()
}

// Clip makes a clip of a recording, which may be active, with its sound. The clip ends exactly
// at To. It begins with the picture that is visible at From or, if a key picture follows
// within the time of one picture, with the key picture. Pictures are copied without encoding
// if the clip begins with a key picture.
//
// Clip blocks until the clip is complete. Two clips are made at the same time, and further
// calls wait. Clip also waits up to 5 seconds for a part of an active recording that is not
// in the file yet. A clip has at most an hour.
//
// The error is or wraps
//   - ErrNotFound, or an *InvalidError for a wrong request;
//   - ErrTooManyClips while 8 clips are being made or are not closed;
//   - ErrNoSpace if the disk has no room for the clip, or has none left while it is made;
//   - a *MissingError or ErrEncoder;
//   - ErrClosed, or the cause of the end of ctx;
//   - an error of the file system.
//
// Store.WriteWebVTT with the From and To of the Clip writes its captions.
func (s *Store) Clip(ctx context.Context, id string, req ClipRequest) (*Clip, error) {
	e, err := s.entry(id)
	if err != nil {
		return nil, err
	}
	info := e.snapshot()
	if req.Around != 0 {
		if req, err = req.around(s.Entries(id, req.Around-1)); err != nil {
			return nil, err
		}
	}
	span, err := req.span(info.Duration)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.ctx, func() { cancel(ErrClosed) })()
	go s.endWithoutRoom(ctx, cancel)
	release := sync.OnceFunc(func() { s.clips.Add(-1) })
	if s.clips.Add(1) > maxClips {
		release()
		return nil, ErrTooManyClips
	}
	clip, err := s.clip(ctx, e, info, span)
	if err != nil {
		release()
		return nil, cmp.Or(context.Cause(ctx), err)
	}
	clip.release = release
	return clip, nil
}

// clip waits for its turn and makes a clip.
func (s *Store) clip(ctx context.Context, e *entry, info Info, span timeline.Span) (*Clip, error) {
	if err := s.clipping.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	defer s.clipping.Release(1)
	var err error
	if span.To, err = s.written(ctx, e, span); err != nil {
		return nil, err
	}
	video, _, err := s.Video(e.id)
	if err != nil {
		return nil, err
	}
	defer video.Close()
	return s.makeClip(ctx, video, info, span)
}

// around replaces the number of an entry by positions. The entry is the first of entries.
func (q ClipRequest) around(entries iter.Seq2[timeline.Entry, error]) (ClipRequest, error) {
	switch {
	case q.From != 0 || q.To != 0:
		return q, invalid("around", "cannot be combined with from and to")
	case q.Before < 0:
		return q, invalid("before", "must not be negative")
	case q.After < 0:
		return q, invalid("after", "must not be negative")
	}
	for e, err := range entries {
		if err != nil {
			return q, err
		}
		if e.Seq == q.Around {
			at := e.At.Duration()
			q.From, q.To = max(0, at-cmp.Or(q.Before, defaultBefore)), at+cmp.Or(q.After, defaultAfter)
			return q, nil
		}
	}
	return q, invalid("around", "must be the number of an entry in the timeline; there is no %d", q.Around)
}

// span returns the requested part of a recording of a length.
func (q ClipRequest) span(length time.Duration) (timeline.Span, error) {
	span := timeline.Span{From: q.From, To: q.To}
	if err := span.Check(); err != nil {
		return span, err
	}
	switch {
	case span.From >= length && q.Around != 0:
		return span, invalid("around", "is of an entry after the end of the video")
	case span.From >= length:
		return span, invalid("from", "must be before the end of the video, which is %v long", length)
	case span.To == 0 || span.To > length:
		span.To = length
	}
	if span.To-span.From > maxClipLength {
		return span, invalid("to", "must be at most %v after from", maxClipLength)
	}
	return span, nil
}

// written returns the end of a span in the file. If the recording is active, it waits for
// the part that was recorded but is not in the file yet.
func (s *Store) written(ctx context.Context, e *entry, span timeline.Span) (time.Duration, error) {
	patience := time.NewTimer(writtenPatience)
	defer patience.Stop()
	late := false
	for {
		more, writing := s.growth(e.id)
		late = late || !writing
		m, err := readMovieFile(filepath.Join(e.dir, videoFile))
		switch {
		case err == nil && m.duration >= span.To:
			return span.To, nil
		case err == nil && late && m.duration > span.From:
			return m.duration, nil
		case late:
			return 0, errors.Join(invalid("from", "must be before the end of what has been recorded"), err)
		}
		select {
		case <-more:
		case <-patience.C:
			late = true
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}

// makeClip makes a clip of a file.
func (s *Store) makeClip(ctx context.Context, video *os.File, info Info, span timeline.Span) (*Clip, error) {
	tools, err := findPrograms(ctx, s.group)
	if err != nil {
		return nil, err
	}
	frame := time.Second / time.Duration(max(1, info.FrameRate))
	plan, err := s.plan(ctx, tools.ffprobe, video, span, frame)
	if err != nil {
		return nil, err
	}
	if err := s.checkClipRoom(video, info, span); err != nil {
		return nil, err
	}
	out, err := unnamed(s.cfg.Dir)
	if err != nil {
		return nil, err
	}
	spec := supervise.Spec{Path: tools.ffmpeg, Args: plan.arguments(tools.timing), ExtraFiles: []*os.File{video, out}}
	if _, err := run(ctx, s.group, spec); err != nil {
		return nil, errors.Join(fmt.Errorf("clip: %w: %w", ErrEncoder, err), out.Close())
	}
	made, err := out.Stat()
	if err != nil {
		return nil, errors.Join(err, out.Close())
	}
	return &Clip{File: out, Bytes: made.Size(), From: plan.From, To: plan.To, Copied: plan.copies}, nil
}

// checkClipRoom returns ErrNoSpace if there is no room for a span of a video.
func (s *Store) checkClipRoom(video *os.File, info Info, span timeline.Span) error {
	whole, err := video.Stat()
	if err != nil {
		return err
	}
	part := min(1, float64(span.To-span.From)/float64(max(1, info.Duration)))
	return s.checkRoom(max(1, int64(part*float64(whole.Size()))))
}

// unnamed makes a file without a name.
func unnamed(dir string) (*os.File, error) {
	f, err := os.CreateTemp(dir, "clip-*.part")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
