package recording

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/deskhand/deskhand/desktop"
)

// cutInHalf truncates a recording's file to half of its size.
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

// TestTruncatedIsNotCompleted truncates the files of an active recording and of a recording that
// has ended.
func TestTruncatedIsNotCompleted(t *testing.T) {
	t.Parallel()
	d := startDesktop(t, desktop.Config{})
	cfg := StoreConfig{Dir: t.TempDir()}
	s := openStore(t, cfg)
	r := start(t, s, d, Config{})
	running := func() { until(t, "the file has video", func() bool { return r.Info().Bytes > 0 }) }
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
	if err := s.Close(); err != nil { // after Close the manifests are complete
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
	if info := repaired(t, again, ids[0]); info.Status == StatusCompleted || info.Error == "" {
		t.Errorf("cut short after the end: %+v", info)
	}
	if info := repaired(t, again, ids[1]); info.Status != StatusCompleted {
		t.Errorf("with another size in the manifest: %+v", info)
	}
}
