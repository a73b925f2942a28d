package fleet

import (
	"context"
	"os"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/internal/testx11"
)

func TestMain(m *testing.M) {
	testx11.SkipExamples("Xvfb", "openbox", "dbus-daemon", "ffmpeg", "ffprobe")
	state, err := os.MkdirTemp("", "fleet") // for examples, which use the usual directory
	if err != nil {
		panic(err)
	}
	if err := os.Setenv("XDG_STATE_HOME", state); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(state)
		os.Exit(code)
	}))
}

// open returns a fleet that the test closes. Its files are in a directory of the test.
func open(t *testing.T, cfg Config) *Fleet {
	t.Helper()
	if cfg.StateDir == "" {
		cfg.StateDir = t.TempDir()
	}
	return openUsual(t, cfg)
}

// openUsual is like open but does not set Config.StateDir.
func openUsual(t *testing.T, cfg Config) *Fleet {
	t.Helper()
	f, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// fakeDesktop is a desktop that does nothing.
type fakeDesktop struct{ open *atomic.Int32 }

func (d *fakeDesktop) Status() desktop.Status { return desktop.Status{State: desktop.StateActive} }

func (d *fakeDesktop) Close() error {
	d.open.Add(-1)
	return nil
}

// faker starts fakeDesktops.
type faker struct {
	open   atomic.Int32 // the number of desktops that are not closed
	result chan error   // of each start; nil: all succeed immediately
	cfg    atomic.Pointer[desktop.Config]
}

func (f *faker) start(ctx context.Context, _ string, cfg desktop.Config) (Desktop, error) {
	f.cfg.Store(&cfg)
	if f.result != nil {
		select {
		case err := <-f.result:
			if err != nil {
				return nil, err
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	f.open.Add(1)
	return &fakeDesktop{&f.open}, nil
}
