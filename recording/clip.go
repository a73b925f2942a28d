package recording

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/deskhand/deskhand/internal/supervise"
	"github.com/deskhand/deskhand/recording/timeline"
)

const (
	// DefaultBefore is how much a clip around an entry shows before it.
	DefaultBefore = 2 * time.Second

	// DefaultAfter is how much it shows after it.
	DefaultAfter = 3 * time.Second

	// MaxClip is how long a clip may be.
	MaxClip = time.Hour

	// clipsAtOnce is how many clips are made at a time. Others wait.
	clipsAtOnce = 2

	// mostClips is how many clips there may be that are made or not closed yet. Each
	// has a file of its own.
	mostClips = 8

	// writtenPatience is how long a clip waits for a part of the video that was
	// recorded, but is not in the file yet.
	writtenPatience = 5 * time.Second
)

// ClipRequest says which part of a recording to cut out: From and To, or Around.
type ClipRequest struct {
	// From and To are positions in the recording. To zero, or after its end: to
	// its end, or as far as it has been recorded.
	From, To time.Duration

	// Around is the Seq of an entry in the timeline: an action, a marker or
	// any other. The clip begins Before it, two seconds if that is zero, and
	// ends After it, three seconds if that is zero.
	Around        uint64
	Before, After time.Duration
}

// Clip is a part of a recording as an MP4 file.
type Clip struct {
	// File is open for reading, at its beginning, and has no name: it is gone
	// when it is closed, however the program ends.
	File *os.File

	Bytes    int64
	From, To time.Duration // what it shows of the recording

	// Copied says that the pictures are those of the recording. Otherwise they
	// were decoded and encoded again, since they begin between two key pictures.
	Copied bool

	freed func() // called once
}

// Close frees the clip.
func (c *Clip) Close() error {
	c.freed()
	return c.File.Close()
}

// extras is what a store needs to make clips.
type extras struct {
	once  sync.Once
	slots chan struct{} // holds one for each clip that is being made
	clips atomic.Int32  // those that are made or not closed yet
}

// enter waits for its turn, and returns how to end it.
func (x *extras) enter(ctx context.Context) (leave func(), err error) {
	x.once.Do(func() { x.slots = make(chan struct{}, clipsAtOnce) })
	if ctx.Err() == nil {
		select {
		case x.slots <- struct{}{}:
			return func() { <-x.slots }, nil
		case <-ctx.Done():
		}
	}
	return nil, context.Cause(ctx)
}

// close waits until no clip is being made. The store's context has ended, so
// that none begins any more.
func (x *extras) close() {
	for range clipsAtOnce {
		_, _ = x.enter(context.Background())
	}
}

// Clip cuts a part out of a recording, which may still run, with its sound. It
// begins with the picture that is seen at From and lasts exactly until To. Where
// that picture is a key picture, or the next one is and comes within one
// picture's time, nothing is encoded again.
//
// Two clips are made at a time; others wait. The end of ctx ends the work. The
// clip must be closed. Clip returns ErrTooManyClips while there are 8 that are not. Its
// captions are those of WriteWebVTT for the same span.
func (s *Store) Clip(ctx context.Context, id string, req ClipRequest) (*Clip, error) {
	dir, info, err := s.locate(id)
	if err != nil {
		return nil, err
	}
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
	freed := sync.OnceFunc(func() { s.extras.clips.Add(-1) })
	if s.extras.clips.Add(1) > mostClips {
		freed()
		return nil, ErrTooManyClips
	}
	clip, err := s.clip(ctx, id, dir, info, span)
	if err != nil {
		freed()
		if why := context.Cause(ctx); why != nil {
			err = why
		}
		return nil, err
	}
	clip.freed = freed
	return clip, nil
}

// clip makes a clip when it is its turn.
func (s *Store) clip(ctx context.Context, id, dir string, info Info, span timeline.Span) (*Clip, error) {
	leave, err := s.extras.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	if span.To, err = s.written(ctx, id, filepath.Join(dir, videoFile), span); err != nil {
		return nil, err
	}
	video, _, err := s.Video(id)
	if err != nil {
		return nil, err
	}
	defer video.Close()
	return s.makeClip(ctx, video, info, span)
}

// around makes positions of an entry's number.
func (q ClipRequest) around(entries iter.Seq2[timeline.Entry, error]) (ClipRequest, error) {
	switch {
	case q.From != 0 || q.To != 0:
		return q, invalid("around", "cannot be combined with from and to")
	case q.Before < 0:
		return q, invalid("before", "must not be negative")
	case q.After < 0:
		return q, invalid("after", "must not be negative")
	}
	if q.Before == 0 {
		q.Before = DefaultBefore
	}
	if q.After == 0 {
		q.After = DefaultAfter
	}
	for e, err := range entries {
		if err != nil {
			return q, err
		}
		if e.Seq == q.Around {
			q.From, q.To = max(0, e.At.Duration()-q.Before), e.At.Duration()+q.After
			return q, nil
		}
	}
	return q, invalid("around", "must be the number of an entry in the timeline; there is no %d", q.Around)
}

// span is what of a recording of that length is to be shown.
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
	if span.To-span.From > MaxClip {
		return span, invalid("to", "must be at most %v after from", MaxClip)
	}
	return span, nil
}

// written returns how far the file has a span. If the recording runs, it waits for
// what was recorded but not written yet.
func (s *Store) written(ctx context.Context, id, path string, span timeline.Span) (time.Duration, error) {
	patience := time.NewTimer(writtenPatience)
	defer patience.Stop()
	late := false
	for {
		_, more, writing := s.growth(id)
		late = late || !writing
		length, err := writtenLength(path)
		switch {
		case err == nil && length >= span.To:
			return span.To, nil
		case err == nil && late && length > span.From:
			return length, nil
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

// writtenLength is how much video is in a file.
func writtenLength(path string) (time.Duration, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	m, err := readMovie(f, info.Size())
	return m.duration, err
}

// makeClip makes a clip of a span of a file.
func (s *Store) makeClip(ctx context.Context, video *os.File, info Info, span timeline.Span) (*Clip, error) {
	programs, err := findPrograms(ctx, s.group)
	if err != nil {
		return nil, err
	}
	frame := time.Second / time.Duration(max(1, info.FrameRate))
	plan, err := s.plan(ctx, programs.ffprobe, video, span, frame)
	if err != nil {
		return nil, err
	}
	out, err := unnamed(s.cfg.Dir)
	if err != nil {
		return nil, err
	}
	spec := supervise.Spec{Path: programs.ffmpeg, Args: plan.arguments(programs.timing), ExtraFiles: []*os.File{video, out}}
	if _, err := runSpec(ctx, s.group, spec); err != nil {
		return nil, errors.Join(fmt.Errorf("clip: %w", err), out.Close())
	}
	made, err := out.Stat()
	if err != nil {
		return nil, errors.Join(err, out.Close())
	}
	return &Clip{File: out, Bytes: made.Size(), From: plan.From, To: plan.To, Copied: plan.copies}, nil
}

// unnamed makes a file without a name, so that nothing is left behind whatever
// happens.
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
