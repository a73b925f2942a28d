package recording

import (
	"context"
	"errors"
	"os"
	"path/filepath"
)

// repair makes what it can of a recording that a crash cut short. Its file is a
// row of whole fragments, up to where a power cut may have left something else.
func (s *Store) repair(ctx context.Context, e *entry) {
	before := e.snapshot()
	err := cutOff(filepath.Join(e.dir, videoFile))
	if before.Error != "" {
		err = errors.Join(errors.New(before.Error), err)
	}
	s.conclude(ctx, e, before.Reason, false, err)
}

// cutOff removes from a file what comes after its last whole fragment.
func cutOff(path string) error {
	m, err := examine(path)
	if err != nil {
		return nil //nolint:nilerr // there is nothing to save; conclude says why
	}
	info, err := os.Stat(path)
	if err != nil || info.Size() == m.good || !m.fragmented { // one with its index in front plays up to where it was cut
		return err
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(m.good), f.Sync(), f.Close())
}
