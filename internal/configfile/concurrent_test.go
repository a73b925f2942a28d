package configfile_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/deskhand/deskhand/internal/configfile"
)

// TestManyWriters makes 1000 changes concurrently, from two Stores and from two programs. Half
// of them set different entries, which must all exist afterwards. The other half set the same
// entry, which must have one of the values.
func TestManyWriters(t *testing.T) {
	t.Parallel()
	const writers = 4
	each := 1000 * soak() / writers / 2
	file := configfile.Path(t.TempDir(), "mcp")
	var all sync.WaitGroup
	for who := range writers {
		for _, names := range []string{fmt.Sprintf("%d/#", who), "same"} {
			all.Go(func() {
				if who < writers/2 { // each with its own Store
					if err := putMany(file, names, strconv.Itoa(each)); err != nil {
						t.Errorf("writer %d: %v", who, err)
					}
					return
				}
				cmd := other(t, "put", file, names, strconv.Itoa(each))
				if err := cmd.Run(); err != nil {
					t.Errorf("program %d: %v: %s", who, err, cmd.Stderr)
				}
			})
		}
	}
	all.Wait()
	var s configfile.Store
	entries, err := s.Entries(file)
	if err != nil {
		t.Fatal(err)
	}
	for who := range writers {
		for i := range each {
			name := fmt.Sprintf("%d/%d", who, i)
			if got := compact(t, entries[name]); got != string(entry(i)) {
				t.Errorf("%s = %s, want %s", name, got, entry(i))
			}
		}
	}
	var same struct{ N int }
	if err := json.Unmarshal(entries["same"], &same); err != nil || compact(t, entries["same"]) != string(entry(same.N)) {
		t.Errorf("same = %s, which no writer has set", entries["same"])
	}
	if len(entries) != writers*each+1 {
		t.Errorf("%d entries, want %d", len(entries), writers*each+1)
	}
	if got := names(t, filepath.Dir(file)); len(got) != 1 {
		t.Errorf("left beside the file: %q", got)
	}
}

// soak returns the factor by which the long tests run longer than usual: DESKHAND_SOAK, which
// make soak sets to 10.
func soak() int {
	n, err := strconv.Atoi(os.Getenv("DESKHAND_SOAK"))
	if err != nil || n < 1 {
		return 1
	}
	return n
}

// lockedByAnother starts a program that locks a directory until unlock is called.
func lockedByAnother(t *testing.T, dir string) (unlock func()) {
	t.Helper()
	holder := other(t, "holder", dir)
	in, err := holder.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, len("locked\n"))); err != nil {
		t.Fatalf("%v: %s", err, holder.Stderr)
	}
	return func() {
		_ = in.Close()
		if err := holder.Wait(); err != nil {
			t.Errorf("%v: %s", err, holder.Stderr)
		}
	}
}

// TestLockedByAnother waits for a program that holds the lock. The end of the context ends
// the wait, and goroutines that wait use no threads.
func TestLockedByAnother(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "mcp.json")
	unlock := lockedByAnother(t, dir)
	var s configfile.Store
	early := errors.New("no longer wanted")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, early)
	defer cancel()
	waiting := make(chan error, 100)
	for range cap(waiting) {
		go func() { waiting <- s.Put(ctx, file, "a", json.RawMessage(`1`)) }()
	}
	for range cap(waiting) {
		if err := <-waiting; !errors.Is(err, early) {
			t.Errorf("Put = %v, want %v", err, early)
		}
	}
	if n, _ := runtime.ThreadCreateProfile(nil); n > 90 {
		t.Errorf("%d threads", n)
	}
	if _, err := s.Get(file, "a"); !errors.Is(err, configfile.ErrNotFound) {
		t.Errorf("Get while it is locked = %v, want %v", err, configfile.ErrNotFound)
	}
	go func() { waiting <- s.Put(t.Context(), file, "a", json.RawMessage(`1`)) }()
	unlock()
	if err := <-waiting; err != nil {
		t.Errorf("Put after the lock was released = %v", err)
	}
}

func TestLockTimeout(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	unlock := lockedByAnother(t, dir)
	var s configfile.Store
	begun := time.Now()
	if err := s.Put(t.Context(), filepath.Join(dir, "mcp.json"), "a", json.RawMessage(`1`)); !errors.Is(err, configfile.ErrLocked) {
		t.Errorf("Put = %v, want %v", err, configfile.ErrLocked)
	}
	if took := time.Since(begun); took < 9*time.Second || took > 15*time.Second {
		t.Errorf("gave up after %v", took)
	}
	unlock()
}
