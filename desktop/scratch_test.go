package desktop

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

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
				d := &dirs{}
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
	d := &dirs{}
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
