package browser_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/browser"
	"github.com/deskhand/deskhand/internal/supervise"
)

// desktopOfUser returns a desktop whose programs run as another user.
func desktopOfUser(t *testing.T) (*desktop.Desktop, supervise.User) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root may run programs as another user")
	}
	u, err := supervise.LookupUser("www-data")
	if err != nil {
		t.Fatal(err)
	}
	return startDesktop(t, desktop.Config{RunAs: u.Name}), u
}

// TestProfileOfUser replaces the profile of a desktop's user by a link to a directory that only
// root can enter. Start does not tell what is there.
func TestProfileOfUser(t *testing.T) {
	t.Parallel()
	d, u := desktopOfUser(t)
	closed := t.TempDir()
	profiles := filepath.Join(d.Status().Home, ".config", "deskhand", "browser")
	if err := errors.Join(
		os.Chmod(closed, 0o700), os.Symlink("elsewhere-12", filepath.Join(closed, "SingletonLock")), //nolint:gosec // it is a directory
		u.Do(func() error {
			return errors.Join(os.MkdirAll(profiles, 0o700), os.Symlink(closed, filepath.Join(profiles, "linked")))
		}),
	); err != nil {
		t.Fatal(err)
	}
	if b, err := browser.Start(t.Context(), browser.Config{Desktop: d, Profile: "linked"}); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("%v, %v, want no permission", b, err)
	}
}

// TestUploadOfUser: an upload does not tell what is in a directory that only root can enter.
func TestUploadOfUser(t *testing.T) {
	t.Parallel()
	d, u := desktopOfUser(t)
	closed, home := t.TempDir(), d.Status().Home
	if err := errors.Join(
		os.Chmod(closed, 0o700), os.Mkdir(filepath.Join(closed, "dir"), 0o700), //nolint:gosec // it is a directory
		u.Do(func() error {
			return errors.Join(os.WriteFile(filepath.Join(home, "file"), nil, 0o600),
				os.Symlink(filepath.Join(closed, "dir")+strings.Repeat("/..", 20)+home+"/file", filepath.Join(home, "through")))
		}),
	); err != nil {
		t.Fatal(err)
	}
	b := start(t, browser.Config{Desktop: d, Headless: true})
	for _, file := range []string{"file", "through"} {
		err := b.Upload(t.Context(), browser.Upload{Element: css("#none"), Files: []string{file}})
		if refused := errors.Is(err, browser.ErrInvalid); refused != (file == "through") {
			t.Errorf("%s: %v", file, err)
		}
	}
}
