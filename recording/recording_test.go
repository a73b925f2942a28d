package recording

import (
	"context"
	"testing"
	"time"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/internal/testx11"
)

// patience bounds each wait of a test.
const patience = 30 * time.Second

// startDesktop runs a desktop until the test ends.
func startDesktop(t testing.TB, cfg desktop.Config) *desktop.Desktop {
	t.Helper()
	testx11.Require(t, "Xvfb", "openbox", "dbus-daemon", "ffmpeg", "ffprobe")
	if cfg.Size == (desktop.Size{}) {
		cfg.Size = desktop.Size{Width: 640, Height: 480}
	}
	d, err := desktop.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// openStore opens a store until the test ends.
func openStore(t testing.TB, cfg StoreConfig) *Store {
	t.Helper()
	if cfg.Dir == "" {
		cfg.Dir = t.TempDir()
	}
	s, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestStopAtOnce(t *testing.T) {
	t.Parallel()
	d := startDesktop(t, desktop.Config{})
	s := openStore(t, StoreConfig{})
	r, err := s.Start(t.Context(), d, Config{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	info, err := r.Stop(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if info.Status != StatusCompleted || info.Reason != ReasonStopped || info.Frames < 1 || info.Bytes == 0 {
		t.Errorf("Stop = %+v", info)
	}
}
