package recording

import (
	"time"
)

// retain deletes what Retention says, and sees to it that this is done again when
// the next recording becomes too old.
func (s *Store) retain() {
	r := s.cfg.Retention
	if r == (Retention{}) {
		return
	}
	s.mu.Lock()
	all := s.sorted()
	s.mu.Unlock()
	kept := map[bool]*struct { // by Info.Guest
		count int
		bytes int64
	}{false: {}, true: {}}
	now := time.Now()
	var next time.Duration
	for i := len(all) - 1; i >= 0; i-- { // the newest first
		info := all[i].snapshot()
		kept := kept[info.Guest]
		kept.count++
		kept.bytes += info.Bytes
		if info.Active() || info.Status == StatusRecovering {
			continue
		}
		age := now.Sub(info.Ended)
		old := r.MaxAge > 0 && age >= r.MaxAge
		if old || r.MaxCount > 0 && kept.count > r.MaxCount || r.MaxBytes > 0 && kept.bytes > r.MaxBytes {
			if err := s.delete(s.ctx, all[i]); err != nil {
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
	s.expire(next)
}

// expire has retain called after that time. Zero: not.
func (s *Store) expire(after time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.expiry != nil {
		s.expiry.Stop()
		s.expiry = nil
	}
	if after > 0 && !s.closed {
		s.expiry = time.AfterFunc(after, func() { s.spawn(s.retain) })
	}
}
