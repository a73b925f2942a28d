package configfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestChangesThatWaitedAreMadeTogether locks the file until several changes wait
// for it. One that cannot be made fails alone.
func TestChangesThatWaitedAreMadeTogether(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "mcp.json")
	d, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(d.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	var s Store
	results := map[string]chan error{}
	put := func(name, value string) {
		result := make(chan error, 1)
		results[name] = result
		go func() { result <- s.Put(t.Context(), file, name, json.RawMessage(value)) }()
	}
	const count = 20
	put("large", `"`+strings.Repeat("x", MaxSize)+`"`)
	for i := range count {
		put(fmt.Sprint(i), "1")
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); ; <-tick.C {
		s.mu.Lock()
		q, n := s.queues[file], 0
		if q != nil {
			n = len(q.waiting)
		}
		s.mu.Unlock()
		if n == count+1 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d changes wait", n)
		}
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	for name, result := range results {
		err := <-result
		if large := errors.Is(err, ErrTooLarge); large != (name == "large") || !large && err != nil {
			t.Errorf("Put(%q) = %v", name, err)
		}
	}
	entries, err := s.Entries(file)
	if err != nil || len(entries) != count {
		t.Errorf("%d entries, %v", len(entries), err)
	}
	if len(s.queues) != 0 {
		t.Errorf("queues are left: %v", s.queues)
	}
}
