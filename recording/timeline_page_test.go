package recording

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/deskhand/deskhand/internal/testx11"
	"github.com/deskhand/deskhand/recording/timeline"
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
		line, err := json.Marshal(timeline.Entry{Seq: uint64(i + 1), Type: "marker", Marker: &timeline.Marker{Title: strings.Repeat("x", 60<<10)}})
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
		page, next, err := s.Timeline(id, timeline.Query{After: after, Limit: timeline.MaxLimit})
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

// TestFFMetadata checks that ffmpeg reads chapters with special characters in titles.
func TestFFMetadata(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "ffprobe")
	dir := t.TempDir()
	titles := []string{`a=b;c#d\e`, "[CHAPTER]", "--> <é漢>", `end\`}
	for i, title := range titles {
		at := timeline.Milliseconds(i * 1000)
		if _, err := timeline.AddMarker(filepath.Join(dir, timelineFile), timeline.Marker{Title: title, At: &at}, time.Now(), time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	data, err := ffmetadata(dir, Info{Duration: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "chapters")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "ffprobe", "-v", "error", "-f", "ffmetadata", "-show_entries", "chapter=start,end:chapter_tags=title", "-of", "compact=p=0:nk=1:e=none", path).CombinedOutput()
	want := fmt.Sprintf("0|1000|%s\n1000|2000|%s\n2000|3000|%s\n3000|10000|%s\n", titles[0], titles[1], titles[2], titles[3])
	if err != nil || strings.TrimSpace(string(out)) != strings.TrimSpace(want) {
		t.Errorf("ffprobe says %v\n%s", err, out)
	}
	if data, err := ffmetadata(t.TempDir(), Info{Duration: time.Second}); err != nil || data != nil {
		t.Errorf("without a timeline: %q, %v", data, err)
	}
}
