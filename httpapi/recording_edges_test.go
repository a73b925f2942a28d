package httpapi

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/deskhand/deskhand/internal/testx11"
)

// TestRecordingEdges asks for what a recording has not.
func TestRecordingEdges(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "ffmpeg", "ffprobe")
	dir := t.TempDir()
	s := startReal(t, Config{RecordingsDir: dir}, `{"width":320,"height":240}`)
	p := s.post(t, mainPath+"/recordings", `{"thumbnailMs":999}`).problem(t, 400, "desktop_invalid_action")
	if p["field"] != "thumbnailMs" || !strings.Contains(p["detail"].(string), "at least 1000") {
		t.Errorf("thumbnails that are too near: %v", p)
	}
	id := s.recordFor(t, mainPath, `{}`, 300*time.Millisecond)["id"].(string)
	at := mainPath + "/recordings/" + id
	clip := s.do(t, call{method: "GET", path: at + "/clip", header: map[string]string{"Range": "bytes=0-9"}}).want(t, 200)
	if got := clip.Header.Get("Accept-Ranges"); got != "none" {
		t.Errorf("Accept-Ranges of a clip: %q", got)
	}
	eventually(t, "the index is in front", func() bool { return s.get(t, at).want(t, 200).json(t)["seekable"] == true })
	if err := os.Remove(filepath.Join(dir, id, "video.mp4")); err != nil {
		t.Fatal(err)
	}
	p = s.get(t, at+"/download").problem(t, 404, "not_found")
	if d := p["details"].(map[string]any); d["resource"] != "desktop_recording_file" || d["id"] != id {
		t.Errorf("without its file: %v", p)
	}
}
