package httpapi

import (
	"encoding/json"
	"fmt"
	"image/jpeg"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/deskhand/deskhand/desktop/fleet"
	"github.com/deskhand/deskhand/internal/testx11"
	"github.com/deskhand/deskhand/recording"
)

// probed is what ffprobe sees of a video.
type probed struct {
	Streams []struct {
		Codec  string `json:"codec_name"`
		Width  int    `json:"width"`
		Height int    `json:"height"`
		Frames string `json:"nb_read_frames"`
	} `json:"streams"`
	Format struct {
		Duration string `json:"duration"`
	} `json:"format"`
}

// probe decodes a video to its end, and fails the test unless all of it can be.
// One that is not complete does not tell how long it is.
func probe(t *testing.T, video []byte) (p probed, seconds float64) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "video.mp4")
	if err := os.WriteFile(file, video, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("ffprobe", "-v", "error", "-count_frames", "-show_entries",
		"stream=codec_name,width,height,nb_read_frames:format=duration", "-of", "json", file)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil || stderr.String() != "" {
		t.Fatalf("ffprobe: %v: %s", err, stderr.String())
	}
	if err := json.Unmarshal(out, &p); err != nil {
		t.Fatal(err)
	}
	if len(p.Streams) == 0 || p.Streams[0].Codec != "h264" || p.Streams[0].Frames == "0" {
		t.Fatalf("ffprobe sees %s", out)
	}
	if p.Format.Duration == "" {
		return p, 0
	}
	if seconds, err = strconv.ParseFloat(p.Format.Duration, 64); err != nil {
		t.Fatal(err)
	}
	return p, seconds
}

// recordable runs a server whose main is on.
func recordable(t *testing.T, options string) *testServer {
	t.Helper()
	testx11.Require(t, "ffmpeg", "ffprobe")
	return startReal(t, Config{}, options)
}

// recordFor records for a while in which the pointer moves, and returns the
// recording.
func (s *testServer) recordFor(t *testing.T, base, options string, d time.Duration) map[string]any {
	t.Helper()
	id := s.post(t, base+"/recordings", options).want(t, 201).json(t)["id"].(string)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for end, x := time.Now().Add(d), 0; time.Now().Before(end); x++ {
		s.post(t, base+"/mouse/move", fmt.Sprintf(`{"x":%d,"y":50}`, 50+x%200)).want(t, 200)
		<-tick.C
	}
	return s.post(t, base+"/recordings/"+id+"/stop", "").want(t, 200).json(t)
}

// TestRecording is the contract, in both forms.
func TestRecording(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "Xvfb", "openbox", "dbus-daemon", "ffmpeg", "ffprobe")
	s := serve(t, Config{})
	if got := string(s.get(t, mainPath+"/recordings").want(t, 200).body); strings.TrimSpace(got) != `{"recordings":[]}` {
		t.Errorf("recordings = %s", got)
	}
	p := s.post(t, mainPath+"/recording/start", "{}").problem(t, 409, "conflict")
	if !strings.HasPrefix(p["detail"].(string), "conflict: Desktop runtime has not been started") {
		t.Errorf("detail = %v", p["detail"])
	}
	s.post(t, mainPath+"/start", `{"width":641,"height":403,"recordingFps":12}`).want(t, 200)
	for i, base := range []string{mainPath, "/v1/desktops/main"} {
		t.Run(base, func(t *testing.T) { s.testContract(t, base, []string{"", "{}"}[i]) })
	}
}

func (s *testServer) testContract(t *testing.T, base, body string) {
	t.Helper()
	conflicts := func(a answer, text string) {
		t.Helper()
		p := a.problem(t, 409, "conflict")
		if p["detail"] != "conflict: "+text || p["details"].(map[string]any)["message"] != text {
			t.Errorf("problem = %v", p)
		}
	}
	conflicts(s.post(t, base+"/recording/stop", ""), "no desktop recording is active")
	begun := s.post(t, base+"/recording/start", body).want(t, 200).json(t)
	id := begun["id"].(string)
	if begun["status"] != "recording" || begun["fileName"] != id+".mp4" || !strings.HasPrefix(begun["processId"].(string), "proc_") || begun["fps"] != 12.0 {
		t.Errorf("begun = %v", begun)
	}
	if _, err := time.Parse(time.RFC3339Nano, begun["startedAt"].(string)); err != nil || begun["endedAt"] != nil {
		t.Errorf("times of %v: %v", begun, err)
	}
	at := base + "/recordings/" + id
	conflicts(s.post(t, base+"/recording/start", `{"fps":5}`), "a desktop recording is already active")
	conflicts(s.do(t, call{method: "DELETE", path: at}), "stop the active desktop recording before deleting it")
	eventually(t, "a video while it is recorded", func() bool {
		return s.get(t, at).want(t, 200).json(t)["durationMs"].(float64) > 500
	})
	probe(t, s.get(t, at+"/download").want(t, 200).body)
	ended := s.post(t, base+"/recording/stop", "").want(t, 200).json(t)
	if ended["status"] != "completed" || ended["id"] != id || ended["endedAt"] == nil || ended["reason"] != "stopped" || ended["processId"] != nil {
		t.Errorf("ended = %v", ended)
	}
	s.testDownload(t, at, id)
	list := s.get(t, base+"/recordings").want(t, 200).json(t)["recordings"].([]any)
	if len(list) != 1 || list[0].(map[string]any)["id"] != id {
		t.Errorf("list = %v", list)
	}
	s.do(t, call{method: "DELETE", path: at}).want(t, 204)
	for _, c := range []call{{path: at}, {path: at + "/download"}, {path: at + "/download?live=1"}, {method: "DELETE", path: at}, {path: at + "/timeline"}, {path: at + "/captions.vtt"}, {path: at + "/clip?from=0&to=10"}, {path: at + "/poster.jpg"}, {path: at + "/thumbnails"}, {method: "POST", path: at + "/stop"}} {
		p := s.do(t, c).problem(t, 404, "not_found")
		if !reflect.DeepEqual(p["details"], map[string]any{"id": id, "resource": "desktop_recording"}) {
			t.Errorf("%s: %v", c.path, p)
		}
	}
}

// testDownload downloads a recording that has ended, in all the ways.
func (s *testServer) testDownload(t *testing.T, at, id string) {
	t.Helper()
	// The index moves to the front in the background.
	eventually(t, "it is seekable", func() bool { return s.get(t, at).want(t, 200).json(t)["seekable"] == true })
	whole := s.do(t, call{path: at + "/download?access_token=" + s.Token(), header: map[string]string{"Authorization": ""}}).want(t, 200)
	if p, seconds := probe(t, whole.body); p.Streams[0].Width != 642 || p.Streams[0].Height != 404 || seconds < 0.4 || seconds > 30 {
		t.Errorf("the video is %+v", p)
	}
	etag := whole.Header.Get("ETag")
	for name, want := range map[string]string{
		"Content-Type": "video/mp4", "Content-Disposition": "attachment; filename=" + id + ".mp4",
		"Accept-Ranges": "bytes", "Content-Length": strconv.Itoa(len(whole.body)),
	} {
		if got := whole.Header.Get(name); got != want {
			t.Errorf("%s = %q, want %q", name, got, want)
		}
	}
	head := s.do(t, call{method: "HEAD", path: at + "/download"}).want(t, 200)
	if head.ContentLength != int64(len(whole.body)) || len(head.body) != 0 || head.Header.Get("ETag") != etag {
		t.Errorf("HEAD: %d, %v", head.ContentLength, head.Header)
	}
	for _, tt := range []struct {
		name, value string
		status      int
		body        string
	}{
		{"Range", "bytes=4-7", 206, "ftyp"},
		{"Range", "bytes=-10", 206, string(whole.body[len(whole.body)-10:])},
		{"Range", "bytes=999999999-", 416, ""},
		{"If-None-Match", etag, 304, ""},
		{"If-None-Match", `"other"`, 200, string(whole.body)},
		{"If-Match", `"other"`, 412, ""},
	} {
		a := s.do(t, call{path: at + "/download", header: map[string]string{tt.name: tt.value}})
		if a.StatusCode != tt.status || tt.status < 300 && string(a.body) != tt.body {
			t.Errorf("%s: %s: %d, %d bytes", tt.name, tt.value, a.StatusCode, len(a.body))
		}
	}
	a := s.do(t, call{path: at + "/download", header: map[string]string{"Range": "bytes=0-9", "If-Range": `"other"`}}).want(t, 200)
	if len(a.body) != len(whole.body) {
		t.Errorf("with another If-Range: %d bytes of %d", len(a.body), len(whole.body))
	}
}

// TestRecordingRefusals has requests that are wrong in themselves.
func TestRecordingRefusals(t *testing.T) {
	t.Parallel()
	s := recordable(t, `{"width":320,"height":240}`)
	for _, path := range []string{"/recording/start", "/recordings"} {
		for body, field := range map[string]string{
			`{"fps":0}`: "fps", `{"fps":61}`: "fps", `{"fps":-1}`: "fps",
			`{"scale":0.01}`: "scale", `{"scale":2}`: "scale",
			`{"region":{"x":-1,"y":0,"width":10,"height":10}}`:   "x",
			`{"region":{"x":0,"y":0,"width":0,"height":10}}`:     "width",
			`{"region":{"x":0,"y":0,"width":15,"height":15}}`:    "region",
			`{"region":{"x":900,"y":0,"width":100,"height":20}}`: "region",
			`{"maxDurationMs":0}`:                                "maxDurationMs", `{"maxBytes":5}`: "maxBytes", `{"segmentMs":10}`: "segmentMs", `{"thumbnailMs":-5}`: "thumbnailMs",
		} {
			if p := s.post(t, mainPath+path, body).problem(t, 400, "desktop_invalid_action"); p["field"] != field {
				t.Errorf("%s: %v", body, p)
			}
		}
		for body, status := range map[string]int{
			`{"fps":NaN}`: 400, `{"fps":`: 400, `{"fps":"30"}`: 422, `{"fps":1.5}`: 422, `{"quality":"best"}`: 422, `[]`: 422,
		} {
			s.post(t, mainPath+path, body).problem(t, status, "invalid_request")
		}
		s.do(t, call{method: "POST", path: mainPath + path, body: "fps=3", kind: "text/plain"}).problem(t, 415, "unsupported_media_type")
	}
	for _, id := range []string{"rec_1", "..", "%2e%2e", "..%2f..%2ftokens.json", "rec_%00", "%2fetc%2fpasswd", strings.Repeat("x", 300)} {
		for _, rest := range []string{"/download", "/timeline", "/poster.jpg"} {
			a := s.get(t, mainPath+"/recordings/"+id+rest)
			if a.StatusCode != 404 {
				t.Errorf("%s%s: %d %s", id, rest, a.StatusCode, a.body)
			}
		}
	}
	if list := s.get(t, mainPath+"/recordings").want(t, 200).json(t)["recordings"].([]any); len(list) != 0 {
		t.Errorf("what was refused left %v", list)
	}
}

// TestRecordingLive follows a recording while it is made.
func TestRecordingLive(t *testing.T) {
	t.Parallel()
	s := recordable(t, `{"width":320,"height":240}`)
	id := s.post(t, mainPath+"/recordings", `{"fps":20,"title":"live"}`).want(t, 201).json(t)["id"].(string)
	at := mainPath + "/recordings/" + id
	if head := s.do(t, call{method: "HEAD", path: at + "/download?live=1"}).want(t, 200); head.Header.Get("Content-Type") != "video/mp4" {
		t.Errorf("HEAD: %v", head.Header)
	}
	live := later(t, s, call{path: at + "/download?live=1&access_token=" + s.Token(), header: map[string]string{"Authorization": ""}})
	eventually(t, "some seconds", func() bool {
		s.post(t, mainPath+"/mouse/move", fmt.Sprintf(`{"x":%d,"y":9}`, time.Now().UnixMilli()%300)).want(t, 200)
		return s.get(t, at).want(t, 200).json(t)["durationMs"].(float64) > 1500
	})
	select {
	case a := <-live:
		t.Fatalf("it ended before the recording: %d %v %s", a.StatusCode, a.err, a.body)
	default:
	}
	ended := s.post(t, at+"/stop", "").want(t, 200).json(t)
	s.post(t, at+"/stop", "").problem(t, 409, "conflict")
	a := (<-live).want(t, 200)
	if a.ContentLength != -1 || a.Header.Get("ETag") != "" {
		t.Errorf("live: %d, %v", a.ContentLength, a.Header)
	}
	if _, seconds := probe(t, a.body); seconds < 1.2 || seconds > ended["durationMs"].(float64)/1000+0.1 {
		t.Errorf("live has %v s of %v", seconds, ended)
	}
	// One that has ended is sent whole.
	probe(t, s.get(t, at+"/download?live=true").want(t, 200).body)
}

// TestRecordingsOfDesktops records two desktops at once, each several times, and
// stops one of them.
func TestRecordingsOfDesktops(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "ffmpeg", "ffprobe")
	dir := t.TempDir()
	s := startReal(t, Config{StateDir: dir}, `{"width":320,"height":240}`)
	const other = "/v1/desktops/other"
	s.post(t, "/v1/desktops", `{"id":"other","width":200,"height":100}`).want(t, 201)
	first := s.post(t, mainPath+"/recording/start", "").want(t, 200).json(t)
	beside := s.post(t, mainPath+"/recordings", `{"scale":0.5,"cursor":false,"fps":5,"title":"half"}`).want(t, 201)
	if got, want := beside.Header.Get("Location"), mainPath+"/recordings/"+beside.json(t)["id"].(string); got != want {
		t.Errorf("Location = %s, want %s", got, want)
	}
	s.post(t, other+"/recording/start", "").want(t, 200)
	s.post(t, other+"/stop", "").want(t, 200)
	ended := s.get(t, other+"/recordings").want(t, 200).json(t)["recordings"].([]any)
	if len(ended) != 1 || ended[0].(map[string]any)["status"] != "completed" || ended[0].(map[string]any)["reason"] != "desktop_closed" || ended[0].(map[string]any)["desktop"] != "other" {
		t.Errorf("recordings of other = %v", ended)
	}
	id := ended[0].(map[string]any)["id"].(string)
	s.get(t, mainPath+"/recordings/"+id).problem(t, 404, "not_found")
	if p, _ := probe(t, s.get(t, other+"/recordings/"+id+"/download").want(t, 200).body); p.Streams[0].Width != 200 {
		t.Errorf("video of other: %+v", p)
	}
	var active []string
	for _, r := range s.get(t, mainPath+"/recordings").want(t, 200).json(t)["recordings"].([]any) {
		if r := r.(map[string]any); r["status"] == "recording" {
			active = append(active, r["id"].(string))
		}
	}
	if want := []string{first["id"].(string), beside.json(t)["id"].(string)}; !slices.Equal(active, want) {
		t.Errorf("active = %v, want %v", active, want)
	}
	if got := s.post(t, mainPath+"/recording/stop", "").want(t, 200).json(t); got["id"] != first["id"] {
		t.Errorf("stop ended %v, not %v", got, first)
	}
	s.post(t, mainPath+"/stop", "").want(t, 200)
	if p, _ := probe(t, s.get(t, mainPath+"/recordings/"+active[1]+"/download").want(t, 200).body); p.Streams[0].Width != 160 || p.Streams[0].Height != 120 {
		t.Errorf("video at half the size: %+v", p)
	}
	// A desktop without a name takes its files with it, and the files of other desktops stay.
	s.do(t, call{method: http.MethodDelete, path: other}).want(t, 204)
	if _, err := os.Stat(filepath.Join(dir, "desktops", "other", "recordings", id, "video.mp4")); err != nil {
		t.Error(err)
	}
	// They are to be had without the desktop, and nothing else of it is.
	if got := s.get(t, "/v1/desktops").want(t, 200).json(t)["recorded"]; !reflect.DeepEqual(got, []any{"other"}) {
		t.Errorf("recorded = %v", got)
	}
	probe(t, s.get(t, other+"/recordings/"+id+"/download").want(t, 200).body)
	if got := s.get(t, other+"/recordings").want(t, 200).json(t)["recordings"].([]any); len(got) != 1 {
		t.Errorf("recordings of other = %v", got)
	}
	s.post(t, other+"/recordings/"+id+"/stop", "").problem(t, 409, "conflict")
	s.post(t, other+"/recordings", "").problem(t, 404, "not_found")
	for _, path := range []string{other, other + "/status", "/v1/desktops/another/recordings", "/v1/desktops/..%2fother/recordings"} {
		s.get(t, path).problem(t, 404, "not_found")
	}
	s.post(t, "/v1/desktops", `{"id":"other","width":200,"height":100}`).want(t, 201)
	if got := s.get(t, "/v1/desktops").want(t, 200).json(t)["recorded"]; got != nil {
		t.Errorf("recorded = %v", got)
	}
	s.post(t, other+"/recordings", "").want(t, 201)
	s.get(t, other+"/recordings/"+id).want(t, 200)
	unnamed := s.post(t, "/v1/desktops", `{"width":64,"height":64}`).want(t, 201).json(t)["id"].(string)
	s.post(t, "/v1/desktops/"+unnamed+"/recordings", "").want(t, 201)
	s.do(t, call{method: http.MethodDelete, path: "/v1/desktops/" + unnamed}).want(t, 204)
	if _, err := os.Stat(filepath.Join(dir, "desktops", unnamed)); !os.IsNotExist(err) {
		t.Errorf("files of %s: %v", unnamed, err)
	}
	s.get(t, "/v1/desktops/"+unnamed+"/recordings").problem(t, 404, "not_found")
}

// TestRecordingsStay are listed by the next server, which goes on with other ids.
func TestRecordingsStay(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "Xvfb", "openbox", "dbus-daemon", "ffmpeg", "ffprobe")
	dir := t.TempDir()
	cfg := Config{StateDir: filepath.Join(dir, "state"), RecordingsDir: filepath.Join(dir, "elsewhere")}
	s := newServer(t, cfg)
	if _, err := s.StartDesktop(t.Context()); err != nil {
		t.Fatal(err)
	}
	inst, err := s.fleet.Find(fleet.Main)
	if err != nil {
		t.Fatal(err)
	}
	rec, err := inst.RecordExclusive(t.Context(), recording.Config{})
	if err != nil {
		t.Fatal(err)
	}
	info := rec.Info()
	if err := s.Close(); err != nil { // in the middle of it
		t.Fatal(err)
	}
	next := serve(t, cfg)
	if err := next.OpenRecordings(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := next.get(t, mainPath+"/recordings/"+info.ID).want(t, 200).json(t)
	if got["status"] != "completed" || got["startedAt"] != info.Started.UTC().Format("2006-01-02T15:04:05.000000000-07:00") {
		t.Errorf("after the restart: %v", got)
	}
	probe(t, next.get(t, mainPath+"/recordings/"+info.ID+"/download").want(t, 200).body)
	next.post(t, mainPath+"/start", "").want(t, 200)
	if again := next.post(t, mainPath+"/recording/start", "").want(t, 200).json(t)["id"].(string); again <= info.ID {
		t.Errorf("the next id is %s, after %s", again, info.ID)
	}
	// Two servers cannot keep theirs in the same place.
	third := newServer(t, Config{StateDir: filepath.Join(dir, "third"), RecordingsDir: cfg.RecordingsDir})
	if err := third.OpenRecordings(t.Context()); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("OpenRecordings of what another server has: %v", err)
	}
	if err := third.Close(); err != nil {
		t.Error(err)
	}
}

// TestRecordingRetention removes the oldest.
func TestRecordingRetention(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "ffmpeg", "ffprobe")
	cfg := Config{}
	cfg.Retention.MaxCount = 2
	s := startReal(t, cfg, `{"width":64,"height":64}`)
	var ids []string
	for range 4 {
		ids = append(ids, s.post(t, mainPath+"/recording/start", "").want(t, 200).json(t)["id"].(string))
		s.post(t, mainPath+"/recording/stop", "").want(t, 200)
	}
	eventually(t, "the two newest are left", func() bool {
		var left []string
		for _, r := range s.get(t, mainPath+"/recordings").want(t, 200).json(t)["recordings"].([]any) {
			left = append(left, r.(map[string]any)["id"].(string))
		}
		return slices.Equal(left, ids[2:])
	})
}

// TestGuestRecordings starts recordings with a control token. They do not replace
// recordings of the server's token, and their number is bounded.
func TestGuestRecordings(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "ffmpeg", "ffprobe")
	cfg := Config{}
	cfg.Retention.MaxCount = 1
	s := startReal(t, cfg, `{"width":64,"height":64}`)
	record := func() (at string) {
		at = mainPath + "/recordings/" + s.post(t, mainPath+"/recordings", "").want(t, 201).json(t)["id"].(string)
		s.post(t, at+"/stop", "").want(t, 200)
		return at
	}
	own := record()
	_, value := s.token(t, `{"scope":"control"}`)
	with := map[string]string{"Authorization": "Bearer " + value}
	begin := func() answer {
		return s.do(t, call{method: "POST", path: mainPath + "/recordings", header: with})
	}
	var guests []string
	for range 4 {
		guests = append(guests, mainPath+"/recordings/"+begin().want(t, 201).json(t)["id"].(string))
	}
	begin().problem(t, 409, "conflict")
	for _, at := range guests {
		s.do(t, call{method: "POST", path: at + "/stop", header: with}).want(t, 200)
	}
	eventually(t, "the newest of the token's is left", func() bool {
		return s.get(t, guests[2]).StatusCode == 404 && s.get(t, guests[3]).StatusCode == 200
	})
	s.get(t, own).want(t, 200)
	next := record()
	eventually(t, "the server's own is replaced by its next", func() bool { return s.get(t, own).StatusCode == 404 })
	s.get(t, next).want(t, 200)
	s.get(t, guests[3]).want(t, 200)
}

// TestRecordingPictures has a poster and thumbnails.
func TestRecordingPictures(t *testing.T) {
	t.Parallel()
	s := recordable(t, `{"width":640,"height":480}`)
	id := s.recordFor(t, mainPath, `{"thumbnailMs":1000}`, 2500*time.Millisecond)["id"].(string)
	at := mainPath + "/recordings/" + id
	picture := func(path string) {
		t.Helper()
		a := s.do(t, call{path: at + path + "?access_token=" + s.Token(), header: map[string]string{"Authorization": ""}}).want(t, 200)
		img, err := jpeg.Decode(strings.NewReader(string(a.body)))
		if err != nil || a.Header.Get("Content-Type") != "image/jpeg" || a.Header.Get("ETag") == "" {
			t.Fatalf("%s: %v, %v", path, err, a.Header)
		}
		if size := img.Bounds().Size(); size.X > 640 || size.X*3 != size.Y*4 {
			t.Errorf("%s is %v large", path, size)
		}
	}
	eventually(t, "there are thumbnails", func() bool {
		return len(s.get(t, at+"/thumbnails").want(t, 200).json(t)["thumbnails"].([]any)) >= 2
	})
	picture("/poster.jpg")
	for _, one := range s.get(t, at+"/thumbnails").json(t)["thumbnails"].([]any) {
		picture("/" + one.(map[string]any)["path"].(string))
	}
	picture("/thumbnails/1700.jpg")
	s.get(t, at+"/thumbnails/x.jpg").problem(t, 400, "invalid_request")
}
