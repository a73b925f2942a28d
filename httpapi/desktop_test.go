package httpapi

import (
	"bytes"
	"image"
	_ "image/png"
	"testing"

	"github.com/deskhand/deskhand/internal/testx11"
)

func TestDesktopLife(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "Xvfb", "openbox", "dbus-daemon")
	s := serve(t, Config{})
	if got := s.get(t, "/v1/desktop/status").want(t, 200).json(t)["state"]; got != "inactive" {
		t.Fatalf("state = %v, want inactive", got)
	}
	s.post(t, "/v1/desktop/mouse/move", `{"x":1,"y":1}`).problem(t, 409, "desktop_runtime_inactive")
	st := s.post(t, "/v1/desktop/start", `{"width":800,"height":600}`).want(t, 200).json(t)
	if st["state"] != "active" || st["display"] == nil {
		t.Fatalf("after start: %v", st)
	}
	shot := s.get(t, "/v1/desktop/screenshot").want(t, 200)
	img, _, err := image.Decode(bytes.NewReader(shot.body))
	if err != nil || img.Bounds().Dx() != 800 || img.Bounds().Dy() != 600 {
		t.Fatalf("screenshot: %v, %v", img.Bounds(), err)
	}
	if got := s.post(t, "/v1/desktop/mouse/move", `{"x":31,"y":41}`).want(t, 200).json(t); got["x"] != 31. || got["y"] != 41. {
		t.Fatalf("move = %v", got)
	}
	s.post(t, "/v1/desktop/mouse/click", `{"x":31,"y":41}`).want(t, 200)
	if got := s.post(t, "/v1/desktop/stop", "").want(t, 200).json(t)["state"]; got != "inactive" {
		t.Fatalf("state after stop = %v", got)
	}
}
