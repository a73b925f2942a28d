package recording

import (
	"slices"
	"time"
)

// retain deletes recordings as Retention says, and schedules itself for when the next one
// becomes too old.
func (s *Store) retain() {
	r := s.cfg.Retention
	if r == (Retention{}) {
		return
	}
	type total struct {
		count int
		bytes int64
	}
	kept := map[bool]*total{false: {}, true: {}} // by Info.Guest
	now := time.Now()
	var next time.Duration
	for _, e := range slices.Backward(s.sorted()) {
		info := e.snapshot()
		kept := kept[info.Guest]
		kept.count++
		kept.bytes += info.Bytes
		if info.Active() || info.Status == StatusRecovering {
			continue
		}
		age := now.Sub(info.Ended)
		old := r.MaxAge > 0 && age >= r.MaxAge
		if old || r.MaxCount > 0 && kept.count > r.MaxCount || r.MaxBytes > 0 && kept.bytes > r.MaxBytes {
			if err := s.delete(e); err != nil {
				s.log.Debug("delete an old recording", "id", info.ID, "error", err)
			}
			kept.count--
			kept.bytes -= info.Bytes
			continue
		}
		if left := r.MaxAge - age; r.MaxAge > 0 && (next == 0 || left < next) {
			next = left
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.expiry != nil {
		s.expiry.Stop()
		s.expiry = nil
	}
	if next > 0 && !s.closed {
		s.expiry = time.AfterFunc(next, func() { s.spawn(s.retain) })
	}
}
