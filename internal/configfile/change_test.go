package configfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// TestConcurrentChanges changes one file concurrently. Only the change that would make the file
// too large fails.
func TestConcurrentChanges(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "mcp.json")
	var s Store
	var all sync.WaitGroup
	put := func(name, value string, want error) {
		all.Go(func() {
			if err := s.Put(t.Context(), file, name, json.RawMessage(value)); !errors.Is(err, want) {
				t.Errorf("Put(%q) = %v, want %v", name, err, want)
			}
		})
	}
	const count = 20
	put("large", `"`+strings.Repeat("x", MaxSize)+`"`, ErrTooLarge)
	for i := range count {
		put(fmt.Sprint(i), "1", nil)
	}
	all.Wait()
	entries, err := s.Entries(file)
	if err != nil || len(entries) != count {
		t.Errorf("Entries = %d entries, %v, want %d", len(entries), err, count)
	}
	if len(s.locks) != 0 {
		t.Errorf("locks are left: %v", s.locks)
	}
}
