package httpapi

import (
	"context"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/deskhand/deskhand/internal/testx11"
)

// TestClipEndsWithClient: ffmpeg, which can take minutes for a clip, ends when the client
// leaves.
func TestClipEndsWithClient(t *testing.T) { //nolint:paralleltest // it sets PATH
	testx11.Require(t, "ffmpeg", "ffprobe")
	real, err := exec.LookPath("ffmpeg")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	begun := filepath.Join(dir, "begun") // a FIFO: its reader gets the end of the file when ffmpeg has ended
	if err := syscall.Mkfifo(begun, 0o600); err != nil {
		t.Fatal(err)
	}
	script := `#!/bin/sh
case "$*" in *" file:"*) ;; *+faststart*) exec >"` + begun + `"; echo; exec sleep 600;; esac
exec "` + real + `" "$@"
`
	if err := os.WriteFile(filepath.Join(dir, "ffmpeg"), []byte(script), 0o755); err != nil { //nolint:gosec // it is a program
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	s := recordable(t, `{"width":320,"height":240}`)
	id := s.recordFor(t, mainPath, `{"fps":20}`, time.Second)["id"].(string)
	ctx, leave := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+mainPath+"/recordings/"+id+"/clip?from=0&to=500", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+s.Token())
	answered := make(chan error, 1)
	go func() {
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			err = errors.Join(errors.New("answered "+resp.Status), resp.Body.Close())
		}
		answered <- err
	}()
	fifo, err := os.Open(begun)
	if err != nil {
		t.Fatal(err)
	}
	defer fifo.Close()
	if _, err := fifo.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	leave()
	if err := <-answered; !errors.Is(err, context.Canceled) {
		t.Errorf("the clip: %v", err)
	}
	if err := fifo.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if n, err := fifo.Read(make([]byte, 1)); n != 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("ffmpeg goes on after its client has left: %v", err)
	}
}
