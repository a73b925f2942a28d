package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/deskhand/deskhand/internal/testx11"
)

// recordEnviron is what finds the server and its token.
func (s *server) recordEnviron(t *testing.T) []string {
	t.Helper()
	return append(environ(t), "DESKHAND_ENDPOINT="+s.base, "DESKHAND_TOKEN="+s.token)
}

// wantVideo fails the test unless a file is a video that can be decoded.
func wantVideo(t *testing.T, file string) {
	t.Helper()
	out, err := exec.Command("ffprobe", "-v", "error", "-count_frames", "-show_entries", "stream=codec_name,nb_read_frames", "-of", "csv=p=0", file).CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "h264,") || strings.HasPrefix(string(out), "h264,0") {
		t.Errorf("ffprobe %s: %v: %s", file, err, out)
	}
}

// TestRecord records for a while and downloads that, with and without a file.
func TestRecord(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "Xvfb", "openbox", "dbus-daemon", "ffmpeg", "ffprobe")
	s := serve(t, environ(t), "--recordings-dir", filepath.Join(t.TempDir(), "films"))
	env := s.recordEnviron(t)
	if got := runCommandLine(t, env, "record", "-d", "1s"); got.status != exitFailure || got.stdout != "" || !strings.Contains(got.stderr, "(status 409)") {
		t.Errorf("without a desktop: %+v", got)
	}
	s.ask(t, "/v1/desktop/start", `{"width":320,"height":240}`, nil)
	file := filepath.Join(t.TempDir(), "film.mp4")
	got := runCommandLine(t, env, "record", "-d", "700ms", "-o", file, "--fps", "10", "--title", "A film", "--quality", "low", "--no-cursor")
	if got.status != exitOK || got.stdout != file+"\n" || !strings.HasPrefix(got.stderr, "Recorded 0:") || strings.Contains(got.stderr, "\x1b") {
		t.Errorf("record: %+v", got)
	}
	wantVideo(t, file)
	var list struct {
		Recordings []struct {
			ID, Title, Reason string
			FPS               int
			Duration          int64 `json:"durationMs"`
		}
	}
	s.ask(t, "/v1/desktop/recordings", "", &list)
	if len(list.Recordings) != 1 || list.Recordings[0].Title != "A film" || list.Recordings[0].FPS != 10 || list.Recordings[0].Reason != "max_duration" || !strings.Contains(got.stderr, list.Recordings[0].ID) {
		t.Fatalf("recordings = %+v", list)
	}
	lasted := time.Duration(list.Recordings[0].Duration) * time.Millisecond
	if want := "Recorded " + elapsed(lasted) + ", "; lasted < 700*time.Millisecond || !strings.HasPrefix(got.stderr, want) {
		t.Errorf("it lasted %v; record: %+v", lasted, got)
	}
	// To standard output, and gone from the server.
	got = runCommandLine(t, env, "record", "-d", "300ms", "-o", "-", "--delete")
	if got.status != exitOK || !strings.Contains(got.stdout[:min(len(got.stdout), 12)], "ftyp") {
		t.Errorf("to standard output: %d, %.40q, %s", got.status, got.stdout, got.stderr)
	}
	s.ask(t, "/v1/desktop/recordings", "", &list)
	if len(list.Recordings) != 1 {
		t.Errorf("after --delete: %+v", list)
	}
	for name, c := range map[string]struct {
		args   []string
		status int
		stderr string
	}{
		"argument":     {[]string{"film.mp4"}, exitUsage, "--output names a file"},
		"duration":     {[]string{"-d", "soon"}, exitUsage, `--duration must be a time such as 90s or 1h30m, not "soon"`},
		"no duration":  {[]string{"-d", "0"}, exitUsage, "--duration must be longer"},
		"a directory":  {[]string{"-o", t.TempDir()}, exitUsage, "is a directory"},
		"no directory": {[]string{"-o", filepath.Join(t.TempDir(), "no", "film.mp4")}, exitUsage, "there is no directory"},
		"delete":       {[]string{"--delete"}, exitUsage, "--delete needs --output"},
		"rate":         {[]string{"--fps", "61"}, exitFailure, "fps must be between 1 and 60"},
		"desktop":      {[]string{"--desktop", "other"}, exitFailure, "(status 404)"},
		"token":        {[]string{"-t", "wrong"}, exitFailure, "(status 401)"},
	} {
		if got := runCommandLine(t, env, append([]string{"record"}, c.args...)...); got.status != c.status || !strings.Contains(got.stderr, c.stderr) || got.stdout != "" {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestRecordInterrupted ends a recording by Ctrl-C, in front of a terminal.
func TestRecordInterrupted(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "Xvfb", "openbox", "dbus-daemon", "ffmpeg", "ffprobe")
	s := serve(t, environ(t))
	s.ask(t, "/v1/desktop/start", `{"width":320,"height":240}`, nil)
	file := filepath.Join(t.TempDir(), "film.mp4")
	cmd := exec.CommandContext(t.Context(), binary, "record", "-o", file)
	cmd.Env = s.recordEnviron(t)
	screen, err := pty.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	defer screen.Close()
	if err := screen.SetReadDeadline(time.Now().Add(callLimit)); err != nil {
		t.Fatal(err)
	}
	var shown bytes.Buffer
	goesOn := regexp.MustCompile(`recording  0:(0[1-9]|[1-5]\d)  `) // whether or not it was looked at each second
	for buf := make([]byte, 4096); !goesOn.MatchString(shown.String()); {
		n, err := screen.Read(buf)
		shown.Write(buf[:n])
		if err != nil {
			t.Fatalf("%v: %q", err, shown.String())
		}
	}
	if !strings.Contains(shown.String(), "frames/s") {
		t.Errorf("the line is %q", shown.String())
	}
	if _, err := screen.Write([]byte{3}); err != nil { // Ctrl-C
		t.Fatal(err)
	}
	_, _ = shown.ReadFrom(screen)
	if err := cmd.Wait(); err != nil || !strings.Contains(shown.String(), s.recorded(t)) || !strings.HasSuffix(shown.String(), file+"\r\n") {
		t.Errorf("after Ctrl-C: %v, %q", err, shown.String())
	}
	wantVideo(t, file)
}

// TestRecordingsOutliveServer kills the server in the middle of recordings, of main
// and of a desktop whose id it chose.
func TestRecordingsOutliveServer(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "Xvfb", "openbox", "dbus-daemon", "ffmpeg", "ffprobe")
	env := environ(t)
	s := serve(t, env)
	s.ask(t, "/v1/desktop/start", `{"width":320,"height":240}`, nil)
	var info struct {
		ID, Status, Reason string
		Duration           int64 `json:"durationMs"`
		Bytes              int64
	}
	main := "/v1/desktop/recordings/"
	_, created := s.call(t, "/v1/desktops", `{"width":320,"height":240}`)
	if err := json.Unmarshal(created, &info); err != nil || info.ID == "" {
		t.Fatalf("%v: %s", err, created)
	}
	chosen, other := info.ID, "/v1/desktops/"+info.ID+"/recordings/"
	s.ask(t, "/v1/desktops/"+chosen+"/recording/start", `{}`, &info)
	ofOther := info.ID
	s.ask(t, "/v1/desktop/recording/start", `{}`, &info)
	ofMain := info.ID
	awaitRecording := func(s *server, path string, ok func() bool) {
		t.Helper()
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for deadline := time.Now().Add(callLimit); ; <-tick.C {
			info.Status, info.Reason = "", ""
			s.ask(t, path, "", &info)
			if ok() {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("recording: %+v", info)
			}
		}
	}
	for _, path := range []string{main + ofMain, other + ofOther} {
		awaitRecording(s, path, func() bool { return info.Bytes > 0 && info.Duration > 1500 })
	}
	s.signal(t, syscall.SIGKILL)
	next := serve(t, env)
	var list struct{ Recorded []string }
	if next.ask(t, "/v1/desktops", "", &list); !slices.Equal(list.Recorded, []string{chosen}) {
		t.Errorf("desktops that there were = %q, want %s", list.Recorded, chosen)
	}
	if got := left(t, env); !slices.Equal(got, []string{chosen, chosen + "/recordings"}) {
		t.Errorf("of that one there is %q, want its recordings alone", got)
	}
	for _, path := range []string{main + ofMain, other + ofOther} {
		awaitRecording(next, path, func() bool { return info.Status != "recovering" })
		if info.Status != "recovered" || info.Duration < 500 || info.Reason == "" {
			t.Errorf("after the end of the server: %+v", info)
		}
		_, video := next.call(t, path+"/download", "")
		file := filepath.Join(t.TempDir(), "video.mp4")
		if err := os.WriteFile(file, video, 0o600); err != nil {
			t.Fatal(err)
		}
		wantVideo(t, file)
	}
	var second struct{ ID string }
	next.ask(t, "/v1/desktop/start", `{"width":320,"height":240}`, nil)
	next.ask(t, "/v1/desktop/recording/start", `{}`, &second)
	if second.ID <= ofMain {
		t.Errorf("the next id is %s, after %s", second.ID, ofMain)
	}
}
