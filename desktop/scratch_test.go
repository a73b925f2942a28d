package desktop

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/deskhand/deskhand/internal/testspace"
)

// TestScratch makes and removes temporary directories in several goroutines. Each also removes
// the directories that it considers abandoned.
func TestScratch(t *testing.T) {
	t.Parallel()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				d := &dirs{logger: slog.New(slog.DiscardHandler)}
				if err := d.makeScratch(); err != nil {
					t.Error(err)
					return
				}
				if err := os.MkdirAll(filepath.Join(d.scratch, "home", "folder"), 0o700); err != nil {
					t.Error("swept while it was in use:", err)
				}
				if err := d.remove(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// TestScratchOfAnotherUser: a folder that another user made first does not stop root's desktops.
func TestScratchOfAnotherUser(t *testing.T) { //nolint:paralleltest // it sets a variable
	if os.Geteuid() != 0 {
		t.Skip("only root can make another user's folder")
	}
	t.Setenv("TMPDIR", t.TempDir())
	base, err := scratchBase(openMode)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(base, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	if again, err := scratchBase(openMode); err != nil || again != base {
		t.Fatalf("%s, %v", again, err)
	}
	info, err := os.Stat(base)
	if err != nil || info.Sys().(*syscall.Stat_t).Uid != 0 {
		t.Errorf("%v, %v, want root's own folder", info, err)
	}
}

// TestSweepOfScratchWithMount keeps files that a program of a killed desktop mounts in the
// runtime directory, as gvfsd-fuse does.
func TestSweepOfScratchWithMount(t *testing.T) { //nolint:paralleltest // it sets a variable
	disk := testspace.Disk(t, "1m")
	if disk == "" {
		return // the test has run
	}
	remote := createFile(t, disk, "remote")
	t.Setenv("TMPDIR", t.TempDir())
	base, err := scratchBase(privateMode)
	if err != nil {
		t.Fatal(err)
	}
	old, point := filepath.Join(base, scratchPrefix+"old"), filepath.Join(base, scratchPrefix+"killed", "gvfs")
	if err := errors.Join(os.Mkdir(old, 0o700), os.MkdirAll(point, 0o700), unix.Mount(disk, point, "", unix.MS_BIND, "")); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Unmount(point, unix.MNT_DETACH) }()
	d := &dirs{logger: slog.New(slog.DiscardHandler)}
	if err := d.makeScratch(); err != nil {
		t.Fatal(err)
	}
	if !exists(remote) || exists(old) {
		t.Errorf("what is mounted: %v, what is not: %v, want the first alone", exists(remote), exists(old))
	}
	if err := d.remove(); err != nil {
		t.Error(err)
	}
}

// TestSweepOfScratchWithoutLock: desktops start and stop while a program adds files to a directory that
// is being removed.
func TestSweepOfScratchWithoutLock(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	old := filepath.Join(base, scratchPrefix+"old")
	full := filepath.Join(old, "full")
	if err := os.MkdirAll(full, 0o700); err != nil {
		t.Fatal(err)
	}
	first := createFile(t, old, "a")
	for i := range 5000 {
		createFile(t, full, strconv.Itoa(i))
	}
	ctx, cancel := context.WithCancel(t.Context())
	var adding sync.WaitGroup
	for range 2 {
		adding.Go(func() {
			for ctx.Err() == nil {
				if f, err := os.CreateTemp(full, ""); err == nil {
					f.Close()
				}
			}
		})
	}
	swept := make(chan error, 1)
	go func() { swept <- sweepScratch(base, time.Now().Add(time.Minute)) }()
	for exists(first) {
		runtime.Gosched()
	}
	lock, err := acquire(filepath.Join(base, lockName), unix.LOCK_EX|unix.LOCK_NB)
	if err != nil {
		t.Error(err)
	} else if err := release(lock); err != nil {
		t.Error(err)
	}
	cancel()
	adding.Wait()
	if err := <-swept; err != nil || exists(old) {
		t.Errorf("the directory is there: %v, %v", exists(old), err)
	}
}
