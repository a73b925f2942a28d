package recording

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"sync"
	"time"
)

// Bounds of what Timeline returns.
const (
	DefaultEntries = 1000
	MaxEntries     = 10000
)

// pageBytes ends a page of Timeline, whatever its limit is: entries may be large.
const pageBytes = 4 << 20

// TimelineQuery chooses entries.
type TimelineQuery struct {
	After uint64 // only entries with a higher Seq: the last one of the page before
	Limit int    // zero: DefaultEntries; at most MaxEntries; Timeline may return fewer

	// From and To bound Entry.At. To zero: to the end.
	From, To time.Duration
}

func (q TimelineQuery) check() error {
	if q.Limit < 0 || q.Limit > MaxEntries {
		return &InvalidError{"limit", fmt.Sprintf("must be between 1 and %d", MaxEntries)}
	}
	return Span{q.From, q.To}.check()
}

// Span is a part of a video. The zero value is all of it.
type Span struct {
	From, To time.Duration // To zero: to the end
}

func (s Span) check() error {
	switch {
	case s.From < 0:
		return &InvalidError{"from", "must not be negative"}
	case s.To < 0:
		return &InvalidError{"to", "must not be negative"}
	case s.To != 0 && s.To <= s.From:
		return &InvalidError{"to", "must be after from"}
	}
	return nil
}

// has says whether a moment is within the span.
func (s Span) has(at Milliseconds) bool {
	return at >= millis(s.From) && (s.To == 0 || at.Duration() < s.To)
}

// annotator serialises what is added to recordings that have ended.
type annotator struct {
	mu sync.Mutex
}

// Timeline returns a page of the entries of a recording that the query chooses, by
// Seq, which is the order in which they became known: an action that took a while
// comes after what it caused, with an earlier At. While the recording runs they
// include the latest ones. A page ends at the query's limit or with the entry that
// brings its JSON to 4 MiB, whichever comes first. There may be further entries if next is not zero: it is the
// After of the next page's query.
func (s *Store) Timeline(id string, q TimelineQuery) (page []Entry, next uint64, err error) {
	if err := q.check(); err != nil {
		return nil, 0, err
	}
	if q.Limit == 0 {
		q.Limit = DefaultEntries
	}
	page = make([]Entry, 0, min(q.Limit, 64))
	bytes := 0
	for e, err := range s.Entries(id, q.After) {
		if err != nil {
			return nil, 0, err
		}
		if !(Span{q.From, q.To}).has(e.At) {
			continue
		}
		line, err := json.Marshal(e)
		if err != nil {
			return nil, 0, err
		}
		page = append(page, e)
		bytes += len(line)
		if len(page) == q.Limit || bytes >= pageBytes {
			return page, e.Seq, nil
		}
	}
	return page, 0, nil
}

// Entries goes through the entries of a recording that have a higher Seq than
// after, by Seq, without holding them in memory. An error ends it.
func (s *Store) Entries(id string, after uint64) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		dir, _, err := s.locate(id)
		if err == nil {
			err = s.flushTimeline(id)
		}
		if err != nil {
			yield(Entry{}, err)
			return
		}
		for e, err := range fileEntries(filepath.Join(dir, timelineFile), after) {
			if !yield(e, err) {
				return
			}
		}
	}
}

// flushTimeline writes what a recording that runs has in memory.
func (s *Store) flushTimeline(id string) error {
	if r := s.running(id); r != nil {
		return r.line().flush()
	}
	return nil
}

// Mark sets a marker, in a recording that runs or that has ended. It returns the
// entry that it became.
func (s *Store) Mark(id string, m Marker) (Entry, error) {
	if r := s.running(id); r != nil {
		e, err := r.Mark(m)
		if !errors.Is(err, ErrNotActive) {
			return e, err
		}
	}
	dir, info, err := s.locate(id)
	if err != nil {
		return Entry{}, err
	}
	if err := m.check(); err != nil {
		return Entry{}, err
	}
	if m.At == nil {
		return Entry{}, &InvalidError{"at", "must be given, because the recording has ended"}
	}
	at := *m.At
	if most := millis(info.Duration); at > most {
		return Entry{}, &InvalidError{"at", fmt.Sprintf("must be at most %d, the recording's length in milliseconds", most)}
	}
	m.At = nil
	s.annotator.mu.Lock()
	defer s.annotator.mu.Unlock()
	return appendEntry(filepath.Join(dir, timelineFile), Entry{
		At: at, Time: info.Started.Add(at.Duration()).UTC(), Type: EntryMarker, Marker: &m,
	})
}

// AddEvent adds something that the desktop does not know of to the timeline of a
// recording that runs.
func (s *Store) AddEvent(id string, e Event) (Entry, error) {
	if r := s.running(id); r != nil {
		return r.Add(e)
	}
	if _, _, err := s.locate(id); err != nil {
		return Entry{}, err
	}
	return Entry{}, ErrNotActive
}

// Mark sets a marker. It returns the entry that it became, or ErrNotActive when
// the recording has ended: then the Store's Mark sets it.
func (r *Recording) Mark(m Marker) (Entry, error) {
	if err := m.check(); err != nil {
		return Entry{}, err
	}
	return r.line().mark(m, time.Now())
}

// Add adds something that the desktop does not know of to the timeline.
func (r *Recording) Add(e Event) (Entry, error) {
	if err := e.check(); err != nil {
		return Entry{}, err
	}
	return r.line().add(Entry{Type: e.Type, Title: e.Title, Data: e.Data, Time: e.Time})
}

// mark writes a marker that was checked.
func (t *timeline) mark(m Marker, now time.Time) (Entry, error) {
	if m.At != nil {
		if latest := t.at(now); *m.At > latest {
			return Entry{}, &InvalidError{"at", fmt.Sprintf("must be at most %d: the recording is not longer yet", latest)}
		}
		now = t.epoch.Add(m.At.Duration())
		m.At = nil
	}
	return t.add(Entry{Type: EntryMarker, Marker: &m, Time: now})
}
