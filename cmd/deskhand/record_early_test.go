package main

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/deskhand/deskhand/internal/testx11"
)

// TestRecordEndsEarly stops the desktop that is being recorded.
func TestRecordEndsEarly(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "Xvfb", "openbox", "dbus-daemon", "ffmpeg", "ffprobe")
	s := serve(t, environ(t))
	s.ask(t, "/v1/desktop/start", `{"width":320,"height":240}`, nil)
	cmd := exec.CommandContext(t.Context(), binary, "record", "-d", "1h")
	cmd.Env = s.recordEnviron(t)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	poll(t, callLimit, "the recording goes on", func() string {
		var list struct {
			Recordings []struct {
				Status string
				Bytes  int64
			}
		}
		s.ask(t, "/v1/desktop/recordings", "", &list)
		if len(list.Recordings) != 1 || list.Recordings[0].Status != "recording" || list.Recordings[0].Bytes == 0 {
			return "there is none"
		}
		return ""
	})
	s.ask(t, "/v1/desktop/stop", `{}`, nil)
	late := time.AfterFunc(callLimit, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	err := cmd.Wait()
	if got := stderr.String(); err != nil || !strings.Contains(got, s.recorded(t)) || !strings.Contains(got, "ended early: desktop_closed") {
		t.Errorf("record: %v, %q", err, got)
	}
}

// recorded returns what the record command prints about the only recording.
func (s *server) recorded(t *testing.T) string {
	t.Helper()
	var list struct {
		Recordings []struct {
			Duration int64 `json:"durationMs"`
		}
	}
	s.ask(t, "/v1/desktop/recordings", "", &list)
	if len(list.Recordings) != 1 || list.Recordings[0].Duration <= 0 {
		t.Fatalf("recordings = %+v", list)
	}
	return "Recorded " + elapsed(time.Duration(list.Recordings[0].Duration)*time.Millisecond) + ", "
}
