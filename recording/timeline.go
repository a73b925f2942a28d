package recording

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"path/filepath"
	"strings"
	"time"

	"github.com/deskhand/deskhand/recording/timeline"
)

// timelineFile is the name of a timeline in a recording's folder.
const timelineFile = "timeline.jsonl"

// timeline returns the path of a recording's timeline, after writing the entries of an
// active recording that wait.
func (s *Store) timeline(id string) (path string, info Info, err error) {
	e, err := s.entry(id)
	if err != nil {
		return "", Info{}, err
	}
	if r := s.running(id); r != nil {
		err = r.line().Flush()
	}
	return filepath.Join(e.dir, timelineFile), e.snapshot(), err
}

// Timeline returns a page of the timeline of a recording, as timeline.ReadPage does. It first
// writes the latest entries of an active recording. The error is ErrNotFound, an
// *InvalidError, or an error of the file system.
func (s *Store) Timeline(id string, q timeline.Query) (page []timeline.Entry, next uint64, err error) {
	path, _, err := s.timeline(id)
	if err != nil {
		return nil, 0, err
	}
	return timeline.ReadPage(path, q)
}

// Entries yields the entries of a recording that have a higher Seq than after, in the
// order of Seq, without holding them in memory. An error ends the sequence: ErrNotFound, or an
// error of the file system.
func (s *Store) Entries(id string, after uint64) iter.Seq2[timeline.Entry, error] {
	return func(yield func(timeline.Entry, error) bool) {
		path, _, err := s.timeline(id)
		if err != nil {
			yield(timeline.Entry{}, err)
			return
		}
		timeline.Read(path, after)(yield)
	}
}

// Mark sets a marker in a recording and returns its entry. If the recording has ended, the
// marker must have a position, and Mark waits for the disk. The error is ErrNotFound, ErrClosed,
// ErrNoSpace, timeline.ErrFull, an *InvalidError, or an error of the file system.
func (s *Store) Mark(id string, m timeline.Marker) (timeline.Entry, error) {
	if _, err := s.openEntry(id); err != nil {
		return timeline.Entry{}, err
	}
	if r := s.running(id); r != nil {
		e, err := r.add(id, func(t *timeline.Timeline) (timeline.Entry, error) { return t.Mark(m) })
		if !errors.Is(err, ErrNotActive) {
			return e, err
		}
	}
	path, info, err := s.timeline(id)
	if err != nil {
		return timeline.Entry{}, err
	}
	if err := s.checkRoom(1); err != nil {
		return timeline.Entry{}, err
	}
	s.marking.Lock()
	defer s.marking.Unlock()
	return timeline.AddMarker(path, m, info.Started, info.Duration)
}

// AddEvent adds an event to the timeline of an active recording and returns its entry. The
// error is ErrNotFound, ErrNotActive if the recording has ended, timeline.ErrFull or an
// *InvalidError. AddEvent waits as [Recording.Add] does.
func (s *Store) AddEvent(id string, e timeline.Event) (timeline.Entry, error) {
	r, err := s.Recording(id)
	if err != nil {
		return timeline.Entry{}, err
	}
	return r.add(id, func(t *timeline.Timeline) (timeline.Entry, error) { return t.Add(e) })
}

// Mark sets a marker in the newest segment and returns its entry. The error is ErrNotActive
// if the recording has ended, timeline.ErrFull or an *InvalidError. Store.Mark also marks
// recordings that have ended. Mark waits as [Recording.Add] does.
func (r *Recording) Mark(m timeline.Marker) (timeline.Entry, error) {
	return r.add("", func(t *timeline.Timeline) (timeline.Entry, error) { return t.Mark(m) })
}

// Add adds an event to the timeline of the newest segment and returns its entry. The error is
// ErrNotActive if the recording has ended, timeline.ErrFull or an *InvalidError. Add waits for
// the disk only when a segment begins, until the timeline of the segment before is written.
func (r *Recording) Add(e timeline.Event) (timeline.Entry, error) {
	return r.add("", func(t *timeline.Timeline) (timeline.Entry, error) { return t.Add(e) })
}

// add calls f with the timeline of the newest segment. It returns ErrNotActive if id is not
// empty and the segment with that id has ended.
func (r *Recording) add(id string, f func(*timeline.Timeline) (timeline.Entry, error)) (timeline.Entry, error) {
	r.switching.Lock() // the next segment must not close the timeline before the call
	defer r.switching.Unlock()
	if id != "" && r.ID() != id {
		return timeline.Entry{}, fmt.Errorf("recording %s: %w", id, ErrNotActive)
	}
	return f(r.timeline)
}

// WriteWebVTT writes the captions or chapters of a recording. If span is not zero, it writes
// only that part, with times from the beginning of the span, as in a clip. The error is
// ErrNotFound, an *InvalidError, an error of the file system, or the error of w. Nothing is
// written to w before the whole text is ready.
func (s *Store) WriteWebVTT(w io.Writer, id string, kind timeline.VTTKind, span timeline.Span) error {
	path, info, err := s.timeline(id)
	if err != nil {
		return err
	}
	var length time.Duration
	if !info.Active() {
		length = info.Duration
	}
	var text bytes.Buffer
	s.cues.Lock()
	err = timeline.WriteWebVTT(&text, kind, timeline.Read(path, 0), length, span)
	s.cues.Unlock()
	if err != nil {
		return err
	}
	_, err = text.WriteTo(w)
	return err
}

// maxChapters is the number of chapters that an MP4 file can have.
const maxChapters = 255

// ffmetadata returns the chapters of a recording that has ended in the format of ffmpeg
// (https://ffmpeg.org/ffmpeg-formats.html#Metadata-1), or nil if there are none.
func ffmetadata(dir string, info Info) ([]byte, error) {
	list, err := timeline.Chapters(timeline.Read(filepath.Join(dir, timelineFile), 0), info.Duration)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	var b strings.Builder
	b.WriteString(";FFMETADATA1\n")
	for _, c := range list[:min(len(list), maxChapters)] {
		fmt.Fprintf(&b, "[CHAPTER]\nTIMEBASE=1/1000\nSTART=%d\nEND=%d\ntitle=%s\n", c.From, c.To, ffmetadataEscapes.Replace(c.Title))
	}
	return []byte(b.String()), nil
}

var ffmetadataEscapes = strings.NewReplacer(`\`, `\\`, "=", `\=`, ";", `\;`, "#", `\#`, "\n", "\\\n")
