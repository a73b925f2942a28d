package fleet

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/internal/testlog"
)

// under returns the paths below a directory, without following links.
func under(t *testing.T, dir string) (names []string) {
	t.Helper()
	if err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		names = append(names, strings.TrimPrefix(path, dir))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return names[1:]
}

// TestSweepRemovesWhatIsLeft: Sweep removes the files that killed servers have left, and keeps
// all others.
func TestSweepRemovesWhatIsLeft(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	dir := filepath.Join(base, "state")
	others := filepath.Join(dir, desktopsName)
	for _, file := range []string{
		"outside/generated", "outside/file",
		"state/desktops/bare/generated", "state/desktops/bare/home/file", "state/desktops/bare/recordings/.lock",
		"state/desktops/seen/generated", "state/desktops/seen/home/file", "state/desktops/seen/recordings/rec_1/video.mp4",
		"state/desktops/away/generated", "state/desktops/away/home/file",
		"state/desktops/named/home/file", "state/desktops/here/generated", "state/desktops/here/file",
		"state/desktops/No Desktop/generated",
	} {
		path := filepath.Join(base, file)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"link": "outside", "away/recordings": "outside", "bare/home/link": "outside"} {
		if err := os.Symlink(filepath.Join(base, to), filepath.Join(others, link)); err != nil {
			t.Fatal(err)
		}
	}
	var log testlog.Buffer
	f := open(t, Config{StateDir: dir, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if _, err := f.add("here", false); err != nil {
		t.Fatal(err)
	}
	if n, err := f.Sweep(); n != 0 || err != nil || strings.Contains(log.String(), "WARN") {
		t.Errorf("Sweep = %d, %v; %s", n, err, &log)
	}
	want := []string{
		"/No Desktop", "/No Desktop/generated", "/away", "/away/recordings", "/here", "/here/file", "/here/generated", "/link",
		"/named", "/named/home", "/named/home/file", "/seen", "/seen/recordings", "/seen/recordings/rec_1", "/seen/recordings/rec_1/video.mp4",
	}
	if got := under(t, others); !slices.Equal(got, want) {
		t.Errorf("left: %q, want %q", got, want)
	}
	if got := under(t, filepath.Join(base, "outside")); len(got) != 2 {
		t.Errorf("outside: %q", got)
	}
	if _, err := f.add("bare", false); err != nil {
		t.Errorf("an id whose files have gone: %v", err)
	}
}

// TestSweepLeavesLinkedDesktops keeps desktops behind a link to another directory.
func TestSweepLeavesLinkedDesktops(t *testing.T) {
	t.Parallel()
	dir, elsewhere := t.TempDir(), t.TempDir()
	file := filepath.Join(elsewhere, "bare", generatedName)
	if err := errors.Join(os.Mkdir(filepath.Dir(file), 0o755), os.WriteFile(file, nil, 0o600), os.Symlink(elsewhere, filepath.Join(dir, desktopsName))); err != nil {
		t.Fatal(err)
	}
	if _, err := open(t, Config{StateDir: dir}).Sweep(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(file); err != nil {
		t.Error(err)
	}
}

// TestMarkOfGeneratedIDs makes the mark before the desktop's files, and removes it when a
// caller chooses the id.
func TestMarkOfGeneratedIDs(t *testing.T) {
	t.Parallel()
	marked := map[string]bool{}
	dir := t.TempDir()
	f := open(t, Config{StateDir: dir, Start: func(_ context.Context, id string, cfg desktop.Config) (Desktop, error) {
		_, err := os.Lstat(filepath.Join(cfg.StateDir, generatedName))
		marked[id] = err == nil
		return nil, errors.New("it does not start")
	}})
	for range 2 { // started again, it still is
		in, err := f.Find("auto")
		if err != nil {
			if in, err = f.add("auto", true); err != nil {
				t.Fatal(err)
			}
		}
		if err := in.Start(t.Context(), StartOptions{}); err == nil || !marked["auto"] {
			t.Errorf("start: %v, marked: %v", err, marked)
		}
	}
	in, err := f.Find("auto")
	if err != nil {
		t.Fatal(err)
	}
	f.remove(in)
	if in, err = f.add("auto", false); err != nil {
		t.Fatal(err)
	}
	if err := in.Start(t.Context(), StartOptions{}); err == nil || marked["auto"] {
		t.Errorf("start under a chosen id: %v, marked: %v", err, marked)
	}
	if in, err = f.Find(Main); err != nil {
		t.Fatal(err)
	}
	if err := in.Start(t.Context(), StartOptions{}); err == nil || marked["main"] {
		t.Errorf("start of main: %v, marked: %v", err, marked)
	}
}
