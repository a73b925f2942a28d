//go:build !race

package filesystem_test

// The race detector makes these ten times slower. Each does its work in one goroutine.

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/deskhand/deskhand/filesystem"
)

// TestExtractDirectoryPaths checks that the paths of directories need a bounded amount of memory.
func TestExtractDirectoryPaths(t *testing.T) {
	// Not parallel, because it measures the memory of the whole process.
	f := openFS(t)
	before := liveHeap()
	same := &directoryTar{entries: 20_000, names: 2}
	done, err := f.Extract(t.Context(), memoryDir(t), same, filesystem.ExtractOptions{NoSync: true})
	must(t, err)
	if grown := int64(same.heap) - int64(before); done.Entries != 20_000 || grown > 16<<20 {
		t.Errorf("%d entries of two directories need %d bytes of memory", done.Entries, grown)
	}
	dir := memoryDir(t)
	_, err = f.Extract(t.Context(), dir, &directoryTar{entries: 20_000, names: 20_000}, filesystem.ExtractOptions{NoSync: true})
	wantError(t, err, filesystem.ErrTooLarge, "more than 64 MiB of paths of directories")
	if got := names(t, dir); len(got) != 0 {
		t.Errorf("left %q", got)
	}
}

// TestListLongNames checks that a page ends after 8 MiB of names, paths and targets.
func TestListLongNames(t *testing.T) {
	t.Parallel()
	both(t, func(b bed) {
		t, f := b.t, b.fs
		deep := filepath.Join("deep", strings.Repeat(strings.Repeat("d", 250)+"/", 14))
		must(t, os.MkdirAll(filepath.Join(b.dir, deep), 0o777))
		must(t, os.Mkdir(filepath.Join(b.dir, "links"), 0o777))
		target := strings.Repeat("t", 4000)
		const count = 5000
		for i := range count {
			name := fmt.Sprintf("%0100d", i)
			must(t, os.Symlink("x", filepath.Join(b.dir, deep, name)))
			must(t, os.Symlink(target, filepath.Join(b.dir, "links", name)))
		}
		for _, options := range []filesystem.ListOptions{{}, {Recursive: true}} {
			for _, dir := range []string{deep, "links"} {
				seen, pages := 0, 0
				for more := true; more; pages++ {
					l, err := f.List(t.Context(), dir, options)
					must(t, err)
					size := 0
					for _, e := range l.Entries {
						if e.Name != fmt.Sprintf("%0100d", seen) {
							t.Fatalf("%.5s: entry %d is %s", dir, seen, e.Name)
						}
						seen++
						size += len(e.Name) + len(e.Path) + len(e.Target)
					}
					if size > 8<<20 {
						t.Errorf("%.5s: names, paths and targets of a page have %d bytes", dir, size)
					}
					options.After, more = l.Next, l.Next != ""
				}
				if seen != count || pages != 3 {
					t.Errorf("%.5s: %d entries in %d pages, want %d in 3", dir, seen, pages, count)
				}
			}
		}
	})
}

// TestSearchSystem checks that files without an end are not read, and that the
// file systems which have them are not entered.
func TestSearchSystem(t *testing.T) {
	t.Parallel()
	f := openFS(t)
	result := search(t, f, "/proc/self", filesystem.SearchOptions{Text: "Name", Glob: "*"})
	if len(result.Matches) != 0 || result.Files != 0 {
		t.Errorf("%+v", result)
	}
	result = search(t, f, "/", filesystem.SearchOptions{Glob: "{proc,sys}/**", MaxResults: 10, Timeout: time.Minute})
	wantFound(t, "", result, "proc/", "sys/")
}

// TestWatchLongNames checks that a watch keeps few long names of entries that it finds in a directory
// which was moved to where it watches.
func TestWatchLongNames(t *testing.T) {
	// Not parallel, because it measures the memory of the whole process.
	dir, outside := memoryDir(t), memoryDir(t)
	f := openFS(t)
	deep := filepath.Join(outside, "deep", strings.Repeat(strings.Repeat("d", 250)+"/", 14))
	must(t, os.MkdirAll(deep, 0o777))
	for i := range 4000 {
		must(t, os.WriteFile(filepath.Join(deep, fmt.Sprintf("%0250d", i)), nil, 0o600))
	}
	r := watch(t, f, dir, dir, filesystem.WatchOptions{Recursive: true, Queue: 8192})
	before := liveHeap()
	must(t, os.Rename(filepath.Join(outside, "deep"), filepath.Join(dir, "deep")))
	must(t, os.WriteFile(filepath.Join(dir, "last"), nil, 0o600))
	for r.next() != "created last" {
	}
	if grown := int64(liveHeap()) - int64(before); grown > 4<<20 {
		t.Errorf("the watch has %d bytes", grown)
	}
}
