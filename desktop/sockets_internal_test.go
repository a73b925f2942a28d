package desktop

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestSecureSockets runs without the directory of X sockets, and with one that another user
// has made.
func TestSecureSockets(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("this takes root")
	}
	for name, before := range map[string]func(dir string) error{
		"missing": func(string) error { return nil },
		"another user's": func(dir string) error {
			if err := os.Mkdir(dir, 0o700); err != nil {
				return err
			}
			return os.Chown(dir, 12345, 12345)
		},
	} {
		dir := filepath.Join(t.TempDir(), "sockets")
		if err := before(dir); err != nil {
			t.Fatal(err)
		}
		if err := secureSockets(dir); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		info, err := os.Lstat(dir)
		if err != nil || info.Mode() != os.ModeDir|os.ModeSticky|0o777 || info.Sys().(*syscall.Stat_t).Uid != 0 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	target := t.TempDir()
	link := filepath.Join(t.TempDir(), "sockets")
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	if err := secureSockets(link); err == nil {
		t.Error("a link was followed")
	}
	if info, err := os.Stat(target); err != nil || info.Mode()&os.ModeSticky != 0 {
		t.Errorf("where the link leads: %v, %v", info, err)
	}
}
