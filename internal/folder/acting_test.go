package folder_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/deskhand/deskhand/internal/folder"
	"github.com/deskhand/deskhand/internal/supervise"
)

// TestActing works as root in a folder of another user, which contains folders of root and links
// to them.
func TestActing(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root may work as another user")
	}
	u, err := supervise.LookupUser("www-data")
	if err != nil {
		t.Fatal(err)
	}
	files := folder.Acting(u.Do)
	top, err := os.MkdirTemp("", "acting") //nolint:usetesting // others may enter it
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(top)
	mine, theirs := filepath.Join(top, "root"), filepath.Join(top, "theirs")
	write(t, filepath.Join(mine, "keep", "file"), "kept")
	write(t, filepath.Join(theirs, "folder", "keep", "file"), "kept")
	link(t, mine, filepath.Join(theirs, "way"))
	err = errors.Join(os.Chmod(top, 0o755), os.Chmod(mine, 0o700), os.Chmod(filepath.Join(theirs, "folder"), 0o700), //nolint:gosec // others may enter it
		os.Chown(theirs, int(u.Credential.Uid), int(u.Credential.Gid)))
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{mine, filepath.Join(theirs, "folder"), filepath.Join(theirs, "way")} {
		_, read := files.Read(dir, "keep/file", 100)
		_, list := files.List(dir, "keep", 3, 100)
		for what, err := range map[string]error{
			"Read": read, "List": list,
			"Update":                          files.Update(t.Context(), dir, "keep/new", 100, func([]byte) ([]byte, error) { return []byte("x"), nil }),
			"WriteTree":                       files.WriteTree(t.Context(), dir, "keep", []folder.File{{Name: "planted", Mode: 0o644}}),
			"RemoveAll":                       files.RemoveAll(t.Context(), dir, "keep"),
			"RemoveAll of a folder of root's": files.RemoveAll(t.Context(), theirs, "folder"),
		} {
			if !errors.Is(err, fs.ErrPermission) {
				t.Errorf("%s in %s: %v", what, dir, err)
			}
		}
	}
	for _, dir := range []string{filepath.Join(mine, "keep"), filepath.Join(theirs, "folder", "keep")} {
		if left, err := os.ReadDir(dir); err != nil || len(left) != 1 || left[0].Name() != "file" {
			t.Errorf("%s has %v, %v", dir, left, err)
		}
	}
	err = errors.Join(files.WriteTree(t.Context(), theirs, "a/b", []folder.File{{Name: "c", Mode: 0o644}}),
		files.Update(t.Context(), filepath.Join(theirs, "new"), "d", 100, func([]byte) ([]byte, error) { return []byte("x"), nil }))
	if err != nil {
		t.Error(err)
	}
	if text, err := files.Read(theirs, "new/d", 10); err != nil || string(text) != "x" {
		t.Errorf("new/d = %q, %v", text, err)
	}
	if info, err := os.Stat(filepath.Join(theirs, "a", "b", "c")); err != nil || info.Sys().(*syscall.Stat_t).Uid != u.Credential.Uid {
		t.Errorf("a/b/c = %+v, %v", info, err)
	}
}

// Magic links of /proc are refused: they would bypass the permissions of the directories above
// their targets.
func TestMagicLinks(t *testing.T) {
	t.Parallel()
	at := t.TempDir()
	write(t, filepath.Join(at, "file"), "hidden")
	open, err := os.Open(at)
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	way := filepath.Join(t.TempDir(), "way")
	link(t, "/proc/self/fd/"+strconv.Itoa(int(open.Fd())), way)
	for what, err := range all(t, way, "file") {
		if !errors.Is(err, syscall.ELOOP) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if text, err := local.Read(at, "file", 10); err != nil || string(text) != "hidden" {
		t.Errorf("the file is %q, %v", text, err)
	}
}
