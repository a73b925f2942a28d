package filesystem_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/deskhand/deskhand/filesystem"
)

// eventReader reads the events of a watch, one by one.
type eventReader struct {
	*filesystem.Watch

	tb  testing.TB
	dir string
}

func watch(tb testing.TB, f *filesystem.FS, name, dir string, options filesystem.WatchOptions) eventReader {
	tb.Helper()
	w, err := f.Watch(name, options)
	must(tb, err)
	tb.Cleanup(func() { must(tb, w.Close()) })
	return eventReader{w, tb, dir}
}

// next returns the next event as text: its type and its path below the directory, with a slash
// for a directory. It returns "end" after the last event.
func (r eventReader) next() string {
	r.tb.Helper()
	select {
	case e, ok := <-r.Events():
		if !ok {
			return "end"
		}
		return r.text(e)
	case <-time.After(time.Minute):
		r.tb.Fatal("no event")
		return ""
	}
}

func (r eventReader) text(e filesystem.Event) string {
	text := string(e.Type) + " " + strings.TrimPrefix(strings.TrimPrefix(e.Path, r.dir), "/")
	if e.Directory {
		text += "/"
	}
	if e.Dropped > 0 || e.Reason != "" {
		text += fmt.Sprintf(" %d (%s)", e.Dropped, e.Reason)
	}
	return text
}

func (r eventReader) want(events ...string) {
	r.tb.Helper()
	for _, want := range events {
		if got := r.next(); got != want {
			r.tb.Errorf("event %q, want %q", got, want)
		}
	}
}

// until reads events up to last, and returns them.
func (r eventReader) until(last string) []string {
	r.tb.Helper()
	var all []string
	for {
		all = append(all, r.next())
		switch got := all[len(all)-1]; got {
		case last:
			return all
		case "end":
			r.tb.Fatalf("the watch ended before %q: %q", last, all)
		}
	}
}

// within reports whether an event arrives within a time.
func (r eventReader) within(limit time.Duration, want string) bool {
	r.tb.Helper()
	for deadline := time.After(limit); ; {
		select {
		case e := <-r.Events():
			if r.text(e) == want {
				return true
			}
		case <-deadline:
			return false
		}
	}
}

func TestWatch(t *testing.T) {
	t.Parallel()
	both(t, func(b bed) {
		t, f, dir := b.t, b.fs, b.dir
		put(t, filepath.Join(dir, "old"), "old")
		must(t, os.Mkdir(filepath.Join(dir, "sub"), 0o755))
		r := watch(t, f, dir, dir, filesystem.WatchOptions{})
		put(t, filepath.Join(dir, "new"), "new")
		r.want("created new", "changed new")
		put(t, filepath.Join(dir, "sub", "not watched"), "x")
		must(t, os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, "name\nwith \xff")))
		r.want("renamed new", "created name\nwith \xff")
		must(t, os.Chmod(filepath.Join(dir, "old"), 0o600))
		r.want("changed old")
		must(t, os.Remove(filepath.Join(dir, "old")))
		r.want("removed old")
		must(t, os.Mkdir(filepath.Join(dir, "dir"), 0o755))
		r.want("created dir/")
		must(t, os.Rename(filepath.Join(dir, "dir"), filepath.Join(dir, "sub", "dir")))
		r.want("renamed dir")
		_, err := f.Write(t.Context(), filepath.Join(dir, "written"), strings.NewReader("x"), filesystem.WriteOptions{})
		must(t, err)
		r.want("created written")
		mustExtract(t, f, dir, makeTar(t, fileEntry("extracted/file", "x")))
		if got := r.until("created extracted/"); len(got) > 2 { // a change of what was written may come first
			t.Errorf("events of Extract: %q", got)
		}
		must(t, os.RemoveAll(dir))
		all := r.until("removed /")
		r.want("end")
		if err := r.Err(); err != nil {
			t.Errorf("Err() = %v", err)
		}
		for _, e := range all {
			if strings.Contains(e, ".deskhand-") {
				t.Errorf("event %q", e)
			}
		}
	})
}

func TestWatchCoalesces(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put(t, filepath.Join(dir, "file"), "")
	r := watch(t, openFS(t), dir, dir, filesystem.WatchOptions{Interval: 200 * time.Millisecond})
	start := time.Now()
	file, err := os.OpenFile(filepath.Join(dir, "file"), os.O_WRONLY, 0)
	must(t, err)
	defer file.Close()
	for range 10_000 {
		_, err := file.Write([]byte("x"))
		must(t, err)
	}
	put(t, filepath.Join(dir, "last"), "")
	if got, most := len(r.until("created last")), 2+int(time.Since(start)/(200*time.Millisecond)); got > most {
		t.Errorf("10000 changes are %d events, want at most %d", got, most)
	}
	r.until("changed file")
}

func TestWatchRecursive(t *testing.T) {
	t.Parallel()
	both(t, func(b bed) {
		t, f, dir := b.t, b.fs, b.dir
		outside := t.TempDir()
		put(t, filepath.Join(dir, "a", "b", "old"), "x")
		symlink(t, outside, filepath.Join(dir, "a", "out"))
		symlink(t, "b", filepath.Join(dir, "a", "in"))
		r := watch(t, f, dir, dir, filesystem.WatchOptions{Recursive: true})
		put(t, filepath.Join(dir, "a", "b", "new"), "")
		r.want("created a/b/new")
		put(t, filepath.Join(outside, "not watched"), "x")

		// Directories that are made and filled immediately.
		put(t, filepath.Join(dir, "c", "d", "e", "file"), "")
		seen := map[string]int{}
		for _, e := range r.until("created c/d/e/file") {
			seen[e]++
		}
		want := map[string]int{"created c/": 1, "created c/d/": 1, "created c/d/e/": 1, "created c/d/e/file": 1}
		for e := range seen {
			if strings.HasPrefix(e, "changed ") {
				delete(seen, e) // addBelow has found the entry before its event arrived
			}
		}
		if diff := cmp.Diff(want, seen); diff != "" {
			t.Error(diff)
		}

		// A directory that moves is watched under its new name.
		must(t, os.Rename(filepath.Join(dir, "a"), filepath.Join(dir, "moved")))
		r.until("created moved/b/old")
		put(t, filepath.Join(dir, "moved", "b", "newer"), "")
		r.until("created moved/b/newer")
		must(t, os.Rename(filepath.Join(dir, "moved"), filepath.Join(outside, "moved")))
		r.until("renamed moved/")
		put(t, filepath.Join(outside, "moved", "b", "secret"), "x")
		must(t, os.Rename(filepath.Join(outside, "moved", "b"), filepath.Join(dir, "b")))
		r.want("created b/")
		for _, e := range r.until("created b/secret") {
			if !strings.HasPrefix(e, "created b/") {
				t.Errorf("event %q", e)
			}
		}
		must(t, os.RemoveAll(filepath.Join(dir, "b")))
		r.until("removed b/")
		put(t, filepath.Join(dir, "b", "again"), "")
		r.until("created b/again")
	})
}

func TestWatchFile(t *testing.T) {
	t.Parallel()
	both(t, func(b bed) {
		t, f, dir := b.t, b.fs, b.dir
		name := filepath.Join(dir, "sub", "file")
		put(t, name, "x")
		symlink(t, "sub/file", filepath.Join(dir, "link"))
		direct := watch(t, f, name, dir, filesystem.WatchOptions{Recursive: true})
		linked := watch(t, f, filepath.Join(dir, "link"), dir, filesystem.WatchOptions{})
		put(t, name, "xx")
		put(t, name+"2", "x")
		direct.want("changed sub/file")
		linked.want("changed link")
		_, err := f.Write(t.Context(), name, strings.NewReader("replaced"), filesystem.WriteOptions{})
		must(t, err)
		direct.want("changed sub/file")
		linked.want("changed link")
		must(t, os.Remove(name))
		direct.want("removed sub/file", "end")
		linked.want("removed link", "end")

		put(t, name, "x")
		moved := watch(t, f, name, dir, filesystem.WatchOptions{})
		must(t, os.Rename(name, name+"3"))
		moved.want("renamed sub/file", "end")
	})
}

// TestWatchedIsMoved checks the end of watches whose path no longer leads to the watched file.
func TestWatchedIsMoved(t *testing.T) {
	t.Parallel()
	f := openFS(t)
	parent := t.TempDir()
	dir := filepath.Join(parent, "a", "b")
	must(t, os.MkdirAll(dir, 0o755))
	r := watch(t, f, dir, parent, filesystem.WatchOptions{})
	must(t, os.Rename(dir, filepath.Join(parent, "b")))
	r.want("renamed a/b/", "end")

	must(t, os.MkdirAll(dir, 0o755))
	above := watch(t, f, dir, parent, filesystem.WatchOptions{})
	must(t, os.Rename(filepath.Join(parent, "a"), filepath.Join(parent, "c")))
	above.want("removed a/b/", "end")

	// The kernel has no event for the removal of a working directory.
	must(t, os.MkdirAll(dir, 0o755))
	held, err := os.Open(dir)
	must(t, err)
	defer held.Close()
	removed := watch(t, f, dir, parent, filesystem.WatchOptions{})
	must(t, os.Remove(dir))
	removed.want("removed a/b/", "end")
}

func TestWatchOverflow(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := watch(t, openFS(t), dir, dir, filesystem.WatchOptions{Queue: 10})
	for i := range 1000 {
		must(t, os.Mkdir(filepath.Join(dir, strconv.Itoa(i)), 0o755))
	}
	// Later events arrive when the queue has room, after an overflow with the number of lost ones.
	for i := range 10 {
		r.want(fmt.Sprintf("created %d/", i))
	}
	counted := 10
	for counted < 1000 {
		e := r.next()
		n := 0
		switch {
		case strings.HasPrefix(e, "created "):
			counted++
		default:
			if _, err := fmt.Sscanf(e, "overflow / %d (events were not read in time)", &n); err != nil || n == 0 {
				t.Fatalf("event %q", e)
			}
			counted += n
		}
	}
	if counted != 1000 {
		t.Errorf("%d events were received or counted as dropped, want 1000", counted)
	}
	must(t, os.RemoveAll(dir))
	r.until("removed /") // the last one is never dropped
	r.want("end")
}

// TestWatchKernelOverflow makes more events than the kernel keeps, while no goroutine can
// receive them.
func TestWatchKernelOverflow(t *testing.T) {
	b, err := os.ReadFile("/proc/sys/fs/inotify/max_queued_events")
	must(t, err)
	most, err := strconv.Atoi(string(bytes.TrimSpace(b)))
	must(t, err)
	if most > 100_000 {
		t.Skipf("max_queued_events = %d", most)
	}
	dir := t.TempDir()
	r := watch(t, openFS(t), dir, dir, filesystem.WatchOptions{Recursive: true, Queue: 10})
	names := []string{filepath.Join(dir, "a"), filepath.Join(dir, "b")}
	for _, n := range names {
		put(t, n, "x")
	}
	deadline := time.Now().Add(20 * time.Second)
	for overflowed := false; !overflowed; {
		if time.Now().After(deadline) {
			t.Skip("the events were received as fast as they were made")
		}
		for i := range most { // two names, because the kernel merges equal consecutive events
			must(t, os.Chmod(names[i%2], 0o600))
		}
		for more := true; more; {
			select {
			case e := <-r.Events():
				overflowed = overflowed || strings.Contains(e.Reason, "max_queued_events")
			default:
				more = false
			}
		}
	}
	// The events in the queues may still displace the next ones.
	for _, name := range []string{"sub", "sub0/x"} {
		for i := 0; ; i++ {
			next := name + strconv.Itoa(i)
			must(t, os.MkdirAll(filepath.Join(dir, next), 0o755))
			if r.within(time.Second, "created "+next+"/") {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("no event for %s", next)
			}
		}
	}
}

func TestWatchLimits(t *testing.T) {
	t.Parallel()
	f := openFS(t)
	dir := t.TempDir()
	for i := range 5 {
		must(t, os.Mkdir(filepath.Join(dir, strconv.Itoa(i)), 0o755))
	}
	_, err := f.Watch(dir, filesystem.WatchOptions{Recursive: true, MaxWatches: 5})
	wantError(t, err, filesystem.ErrTooLarge, "more than 5 directories to watch (MaxWatches)", dir)
	r := watch(t, f, dir, dir, filesystem.WatchOptions{Recursive: true, MaxWatches: 6})
	must(t, os.Mkdir(filepath.Join(dir, "more"), 0o755))
	r.want("created more/", "overflow more/ 0 (more than 6 directories to watch (MaxWatches))")
	for i := range 200 { // watches of removed directories are released
		must(t, os.Remove(filepath.Join(dir, "4")))
		must(t, os.Mkdir(filepath.Join(dir, "4"), 0o755))
		if got := r.next(); strings.TrimSuffix(got, "/") != "removed 4" { // the watch may not have examined the directory yet
			t.Errorf("event %q", got)
		}
		r.want("created 4/")
		if i == 199 {
			put(t, filepath.Join(dir, "4", "file"), "")
			r.want("created 4/file")
		}
	}
	_, err = f.Watch(filepath.Join(dir, "missing"), filesystem.WatchOptions{})
	wantError(t, err, os.ErrNotExist, "path not found")
}

// TestWatchSystemLimit checks the errors for the limits of the system, which the test sets in
// its own user namespace.
func TestWatchSystemLimit(t *testing.T) {
	t.Parallel()
	if !isChild() {
		again(t, &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}},
		})
		return
	}
	f := openFS(t)
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "sub"), 0o755))
	if err := os.WriteFile("/proc/sys/user/max_inotify_watches", []byte("1"), 0); err != nil {
		t.Skip(err)
	}
	_, err := f.Watch(dir, filesystem.WatchOptions{Recursive: true})
	wantError(t, err, filesystem.ErrTooLarge, "fs.inotify.max_user_watches = ")
	must(t, os.WriteFile("/proc/sys/user/max_inotify_instances", []byte("0"), 0))
	_, err = f.Watch(dir, filesystem.WatchOptions{})
	wantError(t, err, filesystem.ErrTooLarge, "fs.inotify.max_user_instances = ")
}

func TestWatchEndsWithFS(t *testing.T) {
	t.Parallel()
	f, err := filesystem.Open(filesystem.Config{})
	must(t, err)
	dir := t.TempDir()
	w, err := f.Watch(dir, filesystem.WatchOptions{Queue: 1})
	must(t, err)
	for i := range 10 {
		put(t, filepath.Join(dir, strconv.Itoa(i)), "x")
	}
	must(t, f.Close())
	for range w.Events() { // ends
	}
	wantError(t, w.Err(), filesystem.ErrClosed)
	must(t, w.Close())
	_, err = f.Watch(dir, filesystem.WatchOptions{})
	wantError(t, err, filesystem.ErrClosed)
}

// TestWatchRace makes and moves directories while they are being added.
func TestWatchRace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := watch(t, openFS(t), dir, dir, filesystem.WatchOptions{Recursive: true, Queue: 100_000})
	const rounds = 200
	for i := range rounds {
		deep := filepath.Join(dir, "work", strconv.Itoa(i), "x", "y")
		put(t, filepath.Join(deep, "file"), "x")
		must(t, os.Rename(filepath.Join(dir, "work"), filepath.Join(dir, "other")))
		put(t, filepath.Join(dir, "other", strconv.Itoa(i), "x", "z"), "x")
		must(t, os.RemoveAll(filepath.Join(dir, "other")))
	}
	put(t, filepath.Join(dir, "final", "a", "b"), "")
	r.until("created final/a/b")
	put(t, filepath.Join(dir, "final", "a", "c"), "")
	r.until("created final/a/c")
}
