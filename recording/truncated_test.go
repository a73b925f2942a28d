package recording

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/deskhand/deskhand/desktop"
)

// cutInHalf cuts a recording's file short.
func cutInHalf(t *testing.T, s *Store, id string) string {
	t.Helper()
	e, err := s.entry(id)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(e.dir, videoFile), e.snapshot().Bytes/2); err != nil {
		t.Fatal(err)
	}
	return e.dir
}

// TestTruncatedIsNotCompleted cuts files of recordings short: one while it is
// recorded, one that has ended.
func TestTruncatedIsNotCompleted(t *testing.T) {
	t.Parallel()
	d := startDesktop(t, desktop.Config{})
	cfg := StoreConfig{Dir: t.TempDir()}
	s := openStore(t, cfg)
	r := start(t, s, d, Config{})
	running := func() { until(t, "some video", func() bool { return r.Info().Bytes > 0 }) }
	running()
	cutInHalf(t, s, r.ID())
	if info := stop(t, r); info.Status == StatusCompleted || info.Error == "" {
		t.Errorf("cut short while it is recorded: %+v", info)
	}
	var ids []string
	for range 2 {
		r = start(t, s, d, Config{})
		running()
		stop(t, r)
		ids = append(ids, r.ID())
	}
	for _, id := range ids {
		until(t, "the index is moved", func() bool {
			info, err := s.Get(id)
			return err == nil && info.Seekable
		})
	}
	if err := s.Close(); err != nil { // the manifests are written
		t.Fatal(err)
	}
	cutInHalf(t, s, ids[0])
	e, err := s.entry(ids[1])
	if err != nil {
		t.Fatal(err)
	}
	info := e.snapshot()
	info.Bytes++ // as after a crash directly after the index was moved
	if err := writeManifest(e.dir, info, false); err != nil {
		t.Fatal(err)
	}
	again := openStore(t, cfg)
	if info := settled(t, again, ids[0]); info.Status == StatusCompleted || info.Error == "" {
		t.Errorf("cut short after the end: %+v", info)
	}
	if info := settled(t, again, ids[1]); info.Status != StatusCompleted {
		t.Errorf("with another size in the manifest: %+v", info)
	}
}
