package skills

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/deskhand/deskhand/agents/folders"
)

// TestFoldersDoNotWait stops the work in one folder after its first skill. Sessions in another folder
// get their skills, copies of repositories are found and replaced, and a second session of the folder waits
// no longer than its context.
func TestFoldersDoNotWait(t *testing.T) {
	t.Parallel()
	cwd, other, records := t.TempDir(), t.TempDir(), t.TempDir()
	held, resume := make(chan struct{}), make(chan struct{})
	var stopped atomic.Bool
	store := manySkills(t, 2, cwd, folders.Config{Locate: func(bool) (string, error) {
		if _, err := os.Stat(filepath.Join(cwd, otherAgentFolder, "000")); err == nil && stopped.CompareAndSwap(false, true) {
			close(held)
			<-resume
		}
		return records, nil
	}})
	entries, err := store.cfg.Folders.Entries(t.Context(), cwd, folders.Skills)
	if err == nil {
		err = store.cfg.Folders.Put(t.Context(), other, folders.Skills, "many", entries["many"].Content)
	}
	if err != nil {
		t.Fatal(err)
	}
	var first, others sync.WaitGroup
	first.Go(func() {
		if problems := store.Place(t.Context(), cwd, "other"); len(problems) > 0 {
			t.Errorf("the folder that is held: %q", problems)
		}
	})
	<-held
	others.Go(func() {
		if problems := store.Place(t.Context(), other, "other"); len(problems) > 0 {
			t.Errorf("another folder: %q", problems)
		}
		if placed, err := os.ReadDir(filepath.Join(other, otherAgentFolder)); err != nil || len(placed) != 2 {
			t.Errorf("another folder has %d skills, %v", len(placed), err)
		}
	})
	others.Go(func() {
		ended, end := context.WithCancel(t.Context())
		end()
		if problems := store.Place(ended, cwd, "other"); len(problems) != 1 || !strings.Contains(problems[0], "context canceled") {
			t.Errorf("a second session of the folder: %q", problems)
		}
	})
	others.Go(func() {
		if _, err := store.folder(); err != nil {
			t.Error(err)
		}
		if err := store.copies.Acquire(t.Context(), maxReaders); err != nil {
			t.Error(err)
		}
		store.copies.Release(maxReaders)
	})
	ready := make(chan struct{})
	go func() {
		others.Wait()
		close(ready)
	}()
	select {
	case <-ready:
	case <-time.After(10 * time.Second):
		t.Error("others wait for the folder")
	}
	close(resume)
	first.Wait()
	<-ready
	if err := store.Close(); err != nil {
		t.Error(err)
	}
}

// TestReadersOfCopies: skills are read from a copy only while no copy is replaced. The wait ends with
// the context.
func TestReadersOfCopies(t *testing.T) {
	t.Parallel()
	store := New(Config{Dir: t.TempDir()})
	at := location{dir: t.TempDir(), name: ".", copies: store.copies}
	read := func(ctx context.Context) error { return at.use(ctx, func() error { return nil }) }
	if err := store.copies.Acquire(t.Context(), maxReaders); err != nil {
		t.Fatal(err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := read(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("while a copy is replaced: %v", err)
	}
	store.copies.Release(maxReaders)
	err := at.use(t.Context(), func() error {
		if store.copies.TryAcquire(maxReaders) {
			t.Error("a copy can be replaced while it is read")
		}
		return read(t.Context())
	})
	if err != nil {
		t.Errorf("two readers: %v", err)
	}
}

// TestFailedCopyIsRepeated replaces the folder of placed skills by a file while a source changes. When
// the folder is back, the changed skill is copied.
func TestFailedCopyIsRepeated(t *testing.T) {
	t.Parallel()
	cwd, source := t.TempDir(), t.TempDir()
	store := manySkills(t, 0, cwd, folders.Config{})
	from := filepath.Join(source, "skill", skillFile)
	to := filepath.Join(cwd, otherAgentFolder)
	entry := json.RawMessage(fmt.Sprintf(`{"sources":[{"type":"local","source":%q}]}`, source))
	err := errors.Join(os.Mkdir(filepath.Dir(from), 0o700), os.WriteFile(from, []byte("old"), 0o600),
		store.cfg.Folders.Put(t.Context(), cwd, folders.Skills, "many", entry))
	if err != nil {
		t.Fatal(err)
	}
	if problems := store.Place(t.Context(), cwd, "other"); len(problems) > 0 {
		t.Fatalf("problems %q", problems)
	}
	err = errors.Join(os.Rename(to, to+"-aside"), os.WriteFile(to, nil, 0o600), os.WriteFile(from, []byte("changed"), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	if problems := store.Place(t.Context(), cwd, "other"); len(problems) != 1 || !strings.Contains(problems[0], "not a directory") {
		t.Errorf("with a file in place of the folder: %q", problems)
	}
	if err := errors.Join(os.Remove(to), os.Rename(to+"-aside", to)); err != nil {
		t.Fatal(err)
	}
	problems := store.Place(t.Context(), cwd, "other")
	if text, err := os.ReadFile(filepath.Join(to, "skill", skillFile)); err != nil || string(text) != "changed" || len(problems) > 0 {
		t.Errorf("the copy is %q, %v, %q", text, err, problems)
	}
}

// TestOtherSessionsSkillsStay: a session that read the configuration of its folder before another one
// added a skill leaves that skill there.
func TestOtherSessionsSkillsStay(t *testing.T) {
	t.Parallel()
	for call := range 2 { // of Locate, before Place waits for other sessions of the folder
		cwd, records := t.TempDir(), t.TempDir()
		var calls atomic.Int32
		calls.Store(100)
		var other func()
		store := manySkills(t, 1, cwd, folders.Config{Locate: func(bool) (string, error) {
			if calls.Add(1) == int32(call) {
				other()
			}
			return records, nil
		}})
		if problems := store.Place(t.Context(), cwd, "other"); len(problems) > 0 {
			t.Fatal(problems)
		}
		source := filepath.Join(t.TempDir(), "added")
		if err := errors.Join(os.Mkdir(source, 0o700), os.WriteFile(filepath.Join(source, skillFile), nil, 0o600)); err != nil {
			t.Fatal(err)
		}
		entry := fmt.Sprintf(`{"sources":[{"type":"local","source":%q}]}`, source)
		other = func() {
			calls.Store(100)
			if err := store.cfg.Folders.Put(t.Context(), cwd, folders.Skills, "added", json.RawMessage(entry)); err != nil {
				t.Error(err)
			}
			if problems := store.Place(t.Context(), cwd, "other"); len(problems) > 0 {
				t.Error(problems)
			}
		}
		calls.Store(-1)
		if problems := store.Place(t.Context(), cwd, "other"); len(problems) > 0 {
			t.Error(problems)
		}
		if placed, err := os.ReadDir(filepath.Join(cwd, otherAgentFolder)); calls.Load() >= 100 && len(placed) != 2 {
			t.Errorf("after call %d the skills are %v, %v", call, placed, err)
		}
	}
}
