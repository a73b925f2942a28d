package events

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/deskhand/deskhand/internal/plainjson"
)

// historySize is how many changes are kept for clients that resume, and historyBytes how many
// bytes of JSON they have together. The newest change is always kept.
const (
	historySize  = 256
	historyBytes = 4 << 20
)

// History keeps the newest changes of topics that nothing else stores. Its methods may be
// called from any goroutine.
type History struct {
	name string // differs after a restart of the server

	mu    sync.Mutex // guards the fields below
	ring  [historySize]change
	first uint64        // the number of the oldest change that is kept
	last  uint64        // the number of the newest change
	bytes int           // of the changes that are kept
	wake  chan struct{} // closed at the next change; nil: no stream waits
}

type change struct {
	topic string
	data  json.RawMessage
}

// NewHistory returns an empty history.
func NewHistory() *History { return &History{name: rand.Text()[:8], first: 1} }

// Publish adds a change of a topic. fields are the members of the event. It does not block.
func (h *History) Publish(topic, kind string, fields map[string]any) {
	data := map[string]any{"type": kind, "time": time.Now()}
	maps.Copy(data, fields)
	text, err := plainjson.Marshal(data)
	if err != nil {
		panic(fmt.Sprintf("events: a change of %s: %v", topic, err))
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for h.first <= h.last && (h.last-h.first+1 == historySize || h.bytes+len(text) > historyBytes) {
		oldest := &h.ring[h.first%historySize]
		h.bytes -= len(oldest.data)
		*oldest = change{}
		h.first++
	}
	h.last++
	h.bytes += len(text)
	h.ring[h.last%historySize] = change{topic, text}
	if h.wake != nil {
		close(h.wake)
		h.wake = nil
	}
}

// newest returns the number of the newest change.
func (h *History) newest() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last
}

// next returns the change after the one with a number, or a channel that is closed when
// there is one. lost reports that the history no longer has it.
func (h *History) next(after uint64) (c change, wait <-chan struct{}, lost bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case after > h.last, after+1 < h.first:
		return change{}, nil, true
	case after == h.last:
		if h.wake == nil {
			h.wake = make(chan struct{})
		}
		return change{}, h.wake, false
	}
	return h.ring[(after+1)%historySize], nil, false
}

// historySource has the changes of topics that only the server's memory has.
type historySource struct {
	history *History
	after   uint64
	lost    bool // the client may have missed changes
	topics  []string
}

const historyKey = "changes"

// Topics returns the topics of the history.
func (h *History) Topics(names ...string) Topics {
	return Topics{Names: names, Admin: true, Begin: func(_ context.Context, r Request, at Positions) ([]Source, error) {
		s := newHistorySource(h, r.From, r.Topics)
		at[historyKey] = PairOf(h.name, s.after)
		return []Source{s.run}, nil
	}}
}

func newHistorySource(h *History, from Positions, topics []string) *historySource {
	s := &historySource{history: h, topics: topics, after: h.newest()}
	if name, last, resumes := from.Pair(historyKey); resumes && name == h.name && last <= s.after {
		s.after = last
	} else {
		s.lost = len(from) > 0
	}
	return s
}

func (s *historySource) message(name string, data any) Message {
	return Message{name, data, historyKey, PairOf(s.history.name, s.after)}
}

// run is a source.
func (s *historySource) run(ctx context.Context, send func(Message) bool) error {
	for {
		if s.lost {
			for _, topic := range s.topics {
				if !send(s.message("reset", Reset(topic, nil).Data)) {
					return nil
				}
			}
			s.lost = false
		}
		c, wait, lost := s.history.next(s.after)
		switch {
		case lost:
			s.lost, s.after = true, s.history.newest()
		case wait == nil:
			s.after++
			m := s.message("", nil)
			for _, topic := range s.topics {
				if topic == c.topic {
					m.Name, m.Data = topic, c.data
				}
			}
			if !send(m) {
				return nil
			}
		default:
			select {
			case <-wait:
			case <-ctx.Done():
				return nil
			}
		}
	}
}
