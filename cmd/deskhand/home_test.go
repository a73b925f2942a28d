package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/deskhand/deskhand/internal/testx11"
)

// TestEmptyNames plants what another user could leave in the place of the file of names.
func TestEmptyNames(t *testing.T) {
	t.Parallel()
	const entry = "other::1000:65533::/:/bin/sh\n"
	kept := filepath.Join(t.TempDir(), "kept")
	if err := os.WriteFile(kept, []byte(entry), 0o600); err != nil {
		t.Fatal(err)
	}
	for what, plant := range map[string]func(path string) error{
		"nothing": func(string) error { return nil },
		"a file":  func(path string) error { return os.WriteFile(path, []byte(entry), 0o666) },
		"a link":  func(path string) error { return os.Symlink(kept, path) },
		"a pipe":  func(path string) error { return syscall.Mkfifo(path, 0o666) },
	} {
		path := filepath.Join(t.TempDir(), "passwd")
		if err := plant(path); err != nil {
			t.Fatal(err)
		}
		old, oldErr := os.Open(os.DevNull)
		if what == "a file" { // its writer may have it open still
			old, oldErr = os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
		}
		if oldErr != nil {
			t.Fatal(oldErr)
		}
		if err := emptyNames(path); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		_, _ = old.WriteString(entry)
		_ = old.Close()
		info, err := os.Lstat(path)
		if err != nil || info.Mode() != 0o644 || info.Size() != 0 {
			t.Errorf("in the place of %s is %v, %v, want an empty file of mode 0644", what, info, err)
		}
	}
	if data, err := os.ReadFile(kept); err != nil || string(data) != entry {
		t.Errorf("where the link led is %q, %v", data, err)
	}
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := emptyNames(full); err == nil || !strings.Contains(err.Error(), "remove "+full) {
		t.Errorf("a directory with files: %v, want an error that names it", err)
	}
}

// TestNamesOfAnotherUser starts a server that is root where another user has written the
// file of names before, as in deskhand's image.
func TestNamesOfAnotherUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root replaces the file")
	}
	testx11.Require(t, "unshare", "setpriv")
	if err := exec.Command("unshare", "-m", "true").Run(); err != nil {
		t.Skipf("no namespaces can be made here: %v", err)
	}
	dir := t.TempDir()
	script := `set -eu
mkdir -p lib/extrausers tmp && chmod 1777 tmp
file=$PWD/tmp/passwd
ln -s "$file" lib/extrausers/passwd
mount --bind lib /var/lib
other() { setpriv --reuid=1000 --regid=1000 --clear-groups "$@"; }
other sh -c "umask 0; echo other::1000:65533::/:/bin/sh >$file"
exec 3<>"$file"
"$1" server --port 0 --no-token >out 2>err & server=$!
trap 'kill $server; wait $server' EXIT
for i in $(seq 600); do grep -q ready out && break; sleep 0.1; done
cat err >&2
echo late >&3
stat -c '%u %a %s' "$file"
! other sh -c "echo other >>$file || rm -f $file" 2>/dev/null
`
	cmd := exec.Command("unshare", "-m", "--propagation", "private", "sh", "-c", script, "sh", binary)
	cmd.Dir, cmd.Env = dir, environ(t)
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil { // the other user goes through it
		t.Fatal(err)
	}
	if r := finish(t, cmd); r.status != 0 || r.stdout != "0 644 0\n" {
		t.Errorf("exit status %d, the file's owner, mode and size are %q\n%s", r.status, r.stdout, r.stderr)
	}
}

// TestImageWithoutSetuid wants no image where users can name users to have programs that
// believe those names and change the user.
func TestImageWithoutSetuid(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	stages := 0
	for stage := range strings.SplitSeq(string(text), "\nFROM ") {
		_, after, names := strings.Cut(stage, "extrausers/' /etc/nsswitch.conf")
		if !names {
			continue
		}
		stages++
		if !strings.Contains(after, "find / -xdev -type f -perm /6000 -exec chmod a-s {} +") || strings.Contains(after, "apt-get install") {
			t.Errorf("after the last package, setuid bits stay in the stage %.40q", stage)
		}
	}
	if stages != 2 {
		t.Errorf("%d stages use the file of names, want 2", stages)
	}
}
