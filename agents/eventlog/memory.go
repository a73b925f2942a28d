package eventlog

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	tailEvents = 4096        // of one stream in memory, at most
	idleAfter  = time.Minute // without use, a stream leaves memory
)

// streams holds the parts of streams that are in memory: the position and the newest events
// of each stream.
type streams struct {
	limit int // bytes of all tails

	mu    sync.Mutex
	all   map[string]*stream
	timer *time.Timer // for sweep; nil: there are no streams

	bytes atomic.Int64
	done  chan struct{} // closed by close
}

// stream is the part of one stream that is in memory. It stays in streams.all while it has
// users.
type stream struct {
	name  string
	users int       // callIsolated by streams.mu
	used  time.Time // the end of the last use; guarded by streams.mu

	mu      sync.Mutex
	known   bool          // pos is the position in the database
	pos     position      // of the newest committed event
	changes int           // counts changes by other servers and forget
	tail    []Event       // all up to pos.last
	before  int64         // the sequence before the tail
	size    int           // of the tail
	changed chan struct{} // closed when the next event is appended; nil while no follower waits
}

func newStreams(limit int) *streams {
	return &streams{limit: limit, all: map[string]*stream{}, done: make(chan struct{})}
}

// acquire returns a stream, which the caller releases.
func (m *streams) acquire(name string) *stream {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.all[name]
	if s == nil {
		s = &stream{name: name}
		m.all[name] = s
		if m.timer == nil {
			m.timer = time.AfterFunc(idleAfter, m.sweep)
		}
	}
	s.users++
	return s
}

func (m *streams) release(s *stream) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s.users--
	s.used = time.Now()
}

// sweep drops the streams that were not used for idleAfter.
func (m *streams) sweep() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.all {
		if s.users == 0 && time.Since(s.used) > idleAfter {
			m.drop(s)
		}
	}
	if m.timer = nil; len(m.all) > 0 {
		m.timer = time.AfterFunc(idleAfter, m.sweep)
	}
}

// drop drops a stream without users. The caller holds m.mu.
func (m *streams) drop(s *stream) {
	m.clear(s)
	delete(m.all, s.name)
}

// clear drops the events of a stream.
func (m *streams) clear(s *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m.bytes.Add(-int64(s.size))
	s.tail, s.size = nil, 0
}

func (m *streams) close() {
	close(m.done)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.timer != nil {
		m.timer.Stop()
	}
}

// publish adds committed events, which come after the sequence before, and wakes the
// stream's followers.
func (m *streams) publish(name string, id, before int64, events []Event) {
	s := m.acquire(name)
	defer m.release(s)
	s.mu.Lock()
	size := s.size
	s.append(id, before, events, m.limit/4)
	grown := s.size - size
	s.wake()
	s.mu.Unlock()
	if m.bytes.Add(int64(grown)) > int64(m.limit) {
		m.evict()
	}
}

// evict drops the tails of the least recently used streams, until a quarter of the memory is
// free again.
func (m *streams) evict() {
	m.mu.Lock()
	defer m.mu.Unlock()
	byUse := slices.SortedFunc(maps.Values(m.all), func(a, b *stream) int {
		// Streams with users come last, because they are being read.
		return cmp.Or(cmp.Compare(min(a.users, 1), min(b.users, 1)), a.used.Compare(b.used))
	})
	for _, s := range byUse {
		if m.bytes.Load() <= int64(m.limit)*3/4 {
			return
		}
		m.clear(s)
	}
}

// forget drops a stream's position and events, so that they are read from the database
// again, and wakes its followers.
func (m *streams) forget(name string) {
	s := m.acquire(name)
	defer m.release(s)
	s.mu.Lock()
	defer s.mu.Unlock()
	m.bytes.Add(-int64(s.size))
	s.changes++ // a position that load is reading may be outdated
	s.known, s.pos, s.tail, s.size = false, position{}, nil, 0
	s.wake()
}

// followed returns the stream of that name, or all streams if name is "". It drops streams
// without users instead of returning them. The caller releases the streams.
func (m *streams) followed(name string) (all []*stream) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, s := range m.all {
		if name != "" && name != key {
			continue
		}
		if s.users > 0 {
			s.users++
			all = append(all, s)
			continue
		}
		m.drop(s)
	}
	return all
}

// position returns a stream's position, if it is in memory.
func (m *streams) position(name string) (position, bool) {
	m.mu.Lock()
	s := m.all[name]
	m.mu.Unlock()
	if s == nil {
		return position{}, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pos, s.known && s.pos.id != 0
}

// append adds events to the tail, and drops the oldest ones beyond the limit. The caller
// holds s.mu.
func (s *stream) append(id, before int64, events []Event, limit int) {
	for len(events) > 0 && s.known && events[0].Seq <= s.pos.last {
		before, events = events[0].Seq, events[1:] // load has read them
	}
	if len(events) == 0 {
		return
	}
	if before != s.pos.last || !s.known {
		s.tail, s.size = nil, 0
	}
	if len(s.tail) == 0 {
		s.before = before
	}
	s.known = true
	s.pos = position{id, events[len(events)-1].Seq}
	s.tail = append(s.tail, events...)
	for i := range events {
		s.size += cost(&events[i])
	}
	drop := 0
	for drop < len(s.tail)-1 && (len(s.tail)-drop > tailEvents || s.size > limit) {
		s.size -= cost(&s.tail[drop])
		drop++
	}
	if drop > 0 {
		s.before = s.tail[drop-1].Seq
	}
	clear(s.tail[:drop])
	s.tail = s.tail[drop:]
}

// wake wakes all followers that wait. The caller holds s.mu.
func (s *stream) wake() {
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// after returns the events after a sequence, if they are in memory. If they are only in the
// database, behind is true. If there are none, changed is closed when the next one is appended.
func (s *stream) after(seq int64, limit int) (events []Event, behind bool, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.pos.last <= seq:
		if s.changed == nil {
			s.changed = make(chan struct{})
		}
		return nil, false, s.changed
	case len(s.tail) == 0 || s.before > seq:
		return nil, true, nil
	}
	from, _ := slices.BinarySearchFunc(s.tail, seq+1, func(e Event, seq int64) int { return cmp.Compare(e.Seq, seq) })
	to, bytes := from, 0
	for to < len(s.tail) && to-from < limit && bytes < pageBytes {
		bytes += len(s.tail[to].Payload)
		to++
	}
	return append(make([]Event, 0, to-from), s.tail[from:to]...), false, nil
}

// cost returns about how many bytes of memory an event takes.
func cost(e *Event) int {
	return 200 + len(e.Payload) + len(e.ID) + len(e.Kind)
}
