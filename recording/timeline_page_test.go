package recording

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
)

// TestTimelinePageBytes reads 12 MiB of entries in pages.
func TestTimelinePageBytes(t *testing.T) {
	t.Parallel()
	dir, id := t.TempDir(), formatID(ulid.ULID{5: 1})
	folder := filepath.Join(dir, id)
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := writeManifest(folder, Info{ID: id, Status: StatusFailed, Ended: time.Now()}, false); err != nil {
		t.Fatal(err)
	}
	const count = 200
	var lines strings.Builder
	for i := range count {
		line, err := json.Marshal(Entry{Seq: uint64(i + 1), Type: "marker", Marker: &Marker{Title: strings.Repeat("x", 60<<10)}})
		if err != nil {
			t.Fatal(err)
		}
		lines.Write(append(line, '\n'))
	}
	if err := os.WriteFile(filepath.Join(folder, timelineFile), []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	s := openStore(t, StoreConfig{Dir: dir})
	var read, pages int
	for after := uint64(0); ; pages++ {
		page, next, err := s.Timeline(id, TimelineQuery{After: after, Limit: MaxEntries})
		if err != nil {
			t.Fatal(err)
		}
		if text, _ := json.Marshal(page); len(text) > 5<<20 {
			t.Errorf("a page has %d bytes", len(text))
		}
		read += len(page)
		if next == 0 {
			break
		}
		after = next
	}
	if read != count || pages != 2 {
		t.Errorf("%d entries in %d full pages, want %d in 2", read, pages, count)
	}
}
