package recording

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/deskhand/deskhand/desktop"
)

// TestNoSpaceForTheEnd stops a recording whose last fragment does not fit on the disk.
func TestNoSpaceForTheEnd(t *testing.T) {
	t.Parallel()
	full, err := os.OpenFile("/dev/full", os.O_RDWR, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	d := startDesktop(t, desktop.Config{})
	s := openStore(t, StoreConfig{})
	r := start(t, s, d, Config{})
	grown(t, s, r.ID(), 100*time.Millisecond) // so that there is something to play
	r.mu.Lock()
	file := r.segment.video.file
	r.mu.Unlock()
	if err := unix.Dup3(int(full.Fd()), int(file.Fd()), unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	info := stop(t, r)
	plays(t, s, info, StatusRecovered, ReasonDiskFull)
	if !strings.Contains(info.Error, "no space left") {
		t.Errorf("the recording says %q", info.Error)
	}
}

// TestManifestOnFullDisk changes a manifest on a disk that has no room for another file.
func TestManifestOnFullDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	before := Info{ID: "rec_x", Status: StatusRecording, Title: strings.Repeat("long", 100)}
	if err := writeManifest(dir, before, false); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, manifestFile+partSuffix), 0o700); err != nil {
		t.Fatal(err)
	}
	after := Info{ID: "rec_x", Status: StatusCompleted, Reason: ReasonDiskFull}
	if err := writeManifest(dir, after, true); err != nil {
		t.Fatal(err)
	}
	if got, err := readManifest(dir); err != nil || got != after {
		t.Errorf("the manifest says %+v, %v", got, err)
	}
	after.Title = strings.Repeat("longer", 1000)
	if err := writeManifest(dir, after, true); err == nil {
		t.Error("a manifest of several blocks was written over another one")
	}
	if err := writeManifest(filepath.Join(dir, "nowhere"), after, true); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a folder: %v", err)
	}
}

// TestDirectoryRemoved starts a recording after the store's directory was removed.
func TestDirectoryRemoved(t *testing.T) {
	t.Parallel()
	d := startDesktop(t, desktop.Config{})
	s := openStore(t, StoreConfig{})
	stop(t, start(t, s, d, Config{}))
	if err := os.RemoveAll(s.cfg.Dir); err != nil {
		t.Fatal(err)
	}
	if list := s.List(); len(list) != 0 {
		t.Errorf("there still are %+v", list)
	}
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			if err := s.ready(); err != nil {
				t.Error(err)
			}
		})
	}
	both.Wait()
	plays(t, s, stop(t, start(t, s, d, Config{})), StatusCompleted, ReasonStopped)
	if other, err := Open(t.Context(), StoreConfig{Dir: s.cfg.Dir}); !errors.Is(err, ErrLocked) {
		t.Errorf("Open of the new directory: %v, %v", other, err)
	}
}

// TestVideoRemoved calls Video for a recording that lacks only the video file.
func TestVideoRemoved(t *testing.T) {
	t.Parallel()
	d := startDesktop(t, desktop.Config{})
	s := openStore(t, StoreConfig{})
	info := stop(t, start(t, s, d, Config{}))
	repaired(t, s, info.ID)
	if err := os.Remove(videoPath(t, s, info.ID)); err != nil {
		t.Fatal(err)
	}
	if f, _, err := s.Video(info.ID); !errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrNotFound) {
		t.Errorf("Video = %v, %v", f, err)
	}
	if err := os.Rename(filepath.Join(s.cfg.Dir, info.ID), filepath.Join(t.TempDir(), "away")); err != nil {
		t.Fatal(err)
	}
	if f, _, err := s.Video(info.ID); !errors.Is(err, ErrNotFound) {
		t.Errorf("Video of a removed folder = %v, %v", f, err)
	}
}

// TestListWhileStarting lists recordings while they start, for the race detector.
func TestListWhileStarting(t *testing.T) {
	t.Parallel()
	d := startDesktop(t, desktop.Config{})
	s := openStore(t, StoreConfig{})
	done := make(chan struct{})
	var looking sync.WaitGroup
	looking.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(100 * time.Microsecond):
				s.List()
			}
		}
	})
	for range 3 {
		start(t, s, d, Config{})
	}
	close(done)
	looking.Wait()
}

// TestDropped checks that drop wakes a reader that waits.
func TestDropped(t *testing.T) {
	t.Parallel()
	s := openStore(t, StoreConfig{})
	e, err := s.newEntry(Info{Status: StatusRecording})
	if err != nil {
		t.Fatal(err)
	}
	more, _ := s.growth(e.id)
	if err := s.drop(e); err != nil {
		t.Fatal(err)
	}
	select {
	case <-more:
	default:
		t.Error("the reader still waits")
	}
}

// TestReopenWhileStarting reopens a store while a program that is being started still has the
// open files of its parent.
func TestReopenWhileStarting(t *testing.T) {
	t.Parallel()
	s, err := Open(t.Context(), StoreConfig{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	held, err := unix.Dup(int(s.lock.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(held) }()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	openStore(t, StoreConfig{Dir: s.cfg.Dir})
}
