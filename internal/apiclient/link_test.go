package apiclient

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestLinksOfOthers gives links and parts to another user. Each could lead to a file that the
// other user may not write.
func TestLinksOfOthers(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	const nobody = 65534
	at := serve(t, content(`"a"`, []byte("new")))
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(
		os.WriteFile(in("file"), []byte("old"), 0o600),
		os.Symlink(in("file"), in("theirs")), os.Lchown(in("theirs"), nobody, nobody),
		os.Symlink("theirs", in("mine")),
	); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"theirs", "mine"} {
		out := do(t, at, "GET", "/x", "-o", in(name))
		if out.err == nil || !strings.Contains(out.err.Error(), in("theirs")+" is a link of another user") || read(t, in("file")) != "old" {
			t.Errorf("%s: %v; the file has %q", name, out.err, read(t, in("file")))
		}
	}

	// Opening the named pipe would wait for a reader. YQ is "a" in base64.
	theirs, pipe := in(".theirs.YQ.part"), in(".pipe.YQ.part")
	if err := errors.Join(
		os.WriteFile(theirs, []byte("n"), 0o600), os.Chown(theirs, nobody, nobody),
		unix.Mkfifo(pipe, 0o600),
		os.Remove(in("theirs")),
	); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"theirs", "pipe"} {
		out := do(t, at, "GET", "/x", "--resume", "-o", in(name))
		if out.err == nil || !strings.Contains(out.err.Error(), "."+name+".YQ.part is not a file of this user") {
			t.Errorf("--resume with %s: %v", name, out.err)
		}
	}
	if read(t, theirs) != "n" {
		t.Errorf("the part of another user has %q", read(t, theirs))
	}
}
