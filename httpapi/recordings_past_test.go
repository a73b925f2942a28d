package httpapi

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/fleet"
)

// TestListingLeavesTheStateDirectoryAlone: who only looks neither makes the
// directory nor keeps it from another server, and sees what was recorded there.
func TestListingLeavesTheStateDirectoryAlone(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state")
	s := serve(t, Config{StateDir: dir})
	recorded := func() any { return s.get(t, "/v1/desktops").want(t, 200).json(t)["recorded"] }
	status := s.get(t, "/v1/desktop/status").want(t, 200).json(t)
	if got, want := status["runtimeLogPath"], filepath.Join(dir, desktop.LogName); got != want {
		t.Errorf("log of main = %v, want %s", got, want)
	}
	if got := recorded(); got != nil {
		t.Errorf("recorded = %v in a directory that there is not", got)
	}
	s.get(t, "/v1/desktops/old/recordings").problem(t, 404, "not_found")
	s.get(t, "/v1/tokens").want(t, 200)
	s.do(t, call{path: "/v1/desktops", header: map[string]string{"Authorization": "Bearer wrong"}}).problem(t, 401, "token_invalid")
	s.do(t, call{method: http.MethodDelete, path: "/v1/tokens/tok_x"}).problem(t, 404, "not_found")
	if _, err := os.Lstat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the state directory was made: %v", err)
	}
	// What an earlier server has left is told of.
	if err := os.MkdirAll(filepath.Join(dir, "desktops", "old", "recordings", "rec_1"), 0o755); err != nil {
		t.Fatal(err)
	}
	if got := recorded(); !reflect.DeepEqual(got, []any{"old"}) {
		t.Errorf("recorded = %v, want old", got)
	}
	two, _ := claimed(t, Config{StateDir: dir})
	if got := recorded(); got != nil {
		t.Errorf("recorded = %v, of another server's directory", got)
	}
	if err := two.Close(); err != nil {
		t.Fatal(err)
	}
	if got := recorded(); !reflect.DeepEqual(got, []any{"old"}) {
		t.Errorf("recorded = %v after the other server, want old", got)
	}
	if _, err := s.Sweep(); err != nil { // it becomes the server's own
		t.Fatal(err)
	}
	if got := recorded(); !reflect.DeepEqual(got, []any{"old"}) {
		t.Errorf("recorded = %v in its own directory, want old", got)
	}
}

// TestDesktopElsewhere: one with a directory of its own leaves the server's alone,
// also when it goes.
func TestDesktopElsewhere(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state")
	s := serve(t, Config{StateDir: dir, Start: func(context.Context, string, desktop.Config) (fleet.Desktop, error) {
		return nil, errors.New("it does not start")
	}})
	if got := s.post(t, "/v1/desktops", `{"stateDir":"`+t.TempDir()+`"}`); got.StatusCode < 500 {
		t.Errorf("create: %d %s", got.StatusCode, got.body)
	}
	if _, err := os.Lstat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the state directory was made: %v", err)
	}
}
