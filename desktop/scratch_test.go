package desktop

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// TestScratch makes and removes temporary directories from several goroutines,
// each of which sweeps what it takes for left over.
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
