package recording

import (
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
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
		var size int64
		if r.MaxBytes > 0 {
			size = info.Bytes + e.otherBytes(info)
		}
		kept.bytes += size
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
			kept.bytes -= size
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

// otherBytes returns the bytes of a recording's timeline and pictures. It counts them unless info
// has them, and keeps the number for a recording that has ended.
func (e *entry) otherBytes(info Info) int64 {
	if info.OtherBytes > 0 {
		return info.OtherBytes
	}
	total := otherBytes(e.dir)
	if !info.Active() {
		e.update(func() { e.info.OtherBytes = total })
	}
	return total
}

// otherBytes counts the bytes of the timeline and the pictures in a recording's folder.
func otherBytes(dir string) (total int64) {
	_ = filepath.WalkDir(dir, func(_ string, f fs.DirEntry, err error) error {
		if err != nil || f.IsDir() || f.Name() == videoFile || f.Name() == manifestFile || strings.HasSuffix(f.Name(), partSuffix) {
			return nil //nolint:nilerr // a file that is gone has no bytes
		}
		if info, err := f.Info(); err == nil {
			total += info.Size()
		}
		return nil
	})
	return total
}
