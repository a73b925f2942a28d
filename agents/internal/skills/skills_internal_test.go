package skills

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/deskhand/deskhand/internal/supervise"
	"github.com/deskhand/deskhand/internal/testx11"
)

// A session that has an older copy does not wait for a server that does not
// answer; what that says in the end is known to the next.
func TestSkillsPatience(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "git")
	group, err := supervise.NewGroup(supervise.GroupConfig{})
	if err != nil {
		t.Fatal(err)
	}
	var tasks sync.WaitGroup
	store := New(Config{
		Dir: t.TempDir(), Age: time.Minute, Group: group, Environ: os.Environ,
		Go: func(f func(context.Context)) error { tasks.Go(func() { f(context.Background()) }); return nil },
	})
	t.Cleanup(func() {
		tasks.Wait()
		if err := errors.Join(store.Close(), group.Close()); err != nil {
			t.Error(err)
		}
	})
	answer := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		<-answer
		http.NotFound(w, r)
	}))
	t.Cleanup(s.Close)
	store.patience = 50 * time.Millisecond
	folder, err := store.folder()
	if err != nil {
		t.Fatal(err)
	}
	old := filepath.Join(folder, shortHash(s.URL+"\x00HEAD"))
	if err := os.Mkdir(old, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(old, time.Unix(1e9, 0), time.Unix(1e9, 0)); err != nil {
		t.Fatal(err)
	}
	dir, stale, err := store.fetchGit(t.Context(), s.URL, "")
	if err != nil || dir != old || stale != "it takes longer than 50ms; what was fetched at 2001-09-09T01:46:40Z is used" {
		t.Errorf("while it hangs: %q, %q, %v", dir, stale, err)
	}
	close(answer)
	store.patience = time.Minute
	for range 2 { // by the attempt of before, and without another
		dir, stale, err = store.fetchGit(t.Context(), s.URL, "")
		if err != nil || dir != old || !strings.HasPrefix(stale, "git fetch: exit status 128") {
			t.Errorf("when it was refused: %q, %q, %v", dir, stale, err)
		}
	}
}

// A copy that is younger than now is none that is young: the clock was set back.
func TestSkillsClock(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, c := range []struct {
		age  time.Duration
		want bool
	}{{time.Minute, true}, {2 * time.Hour, false}, {-24 * time.Hour, false}} {
		at := time.Now().Add(-c.age)
		if err := os.Chtimes(dir, at, at); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(dir)
		if err != nil {
			t.Fatal(err)
		}
		if _, got := new(Store).isFresh("key", "main", info, time.Hour); got != c.want {
			t.Errorf("a copy of %v ago is young: %v", c.age, got)
		}
	}
}
