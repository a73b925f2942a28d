package filesystem

import (
	"os"
	"os/exec"
	"testing"
)

// TestGiveOwner: a link or special file that was just made gets its owner, but not another file that has
// its name meanwhile.
func TestGiveOwner(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root may change owners")
	}
	const owner, other = 65534, 1
	for _, test := range []struct {
		made, found string
		want        uint32
	}{
		{"ln -s x it", "true", owner},
		{"mkfifo it", "true", owner},
		{"ln -s x it", "rm it; echo >it", 0},
		{"ln -s x it", "rm it; mkfifo it", 0},
		{"ln -s x it", "ln it more", 0},
		{"ln -s x it", "chown -h 1 it", other},
	} {
		root := t.TempDir()
		do := func(command string) {
			t.Helper()
			c := exec.CommandContext(t.Context(), "sh", "-ec", command)
			c.Dir = root
			if out, err := c.CombinedOutput(); err != nil {
				t.Fatalf("%s: %v: %s", command, err, out)
			}
		}
		file, err := os.Open(root)
		if err != nil {
			t.Fatal(err)
		}
		dir := newFolder(file, root)
		t.Cleanup(dir.close)
		do(test.made)
		n, err := dir.stat("it")
		if err != nil {
			t.Fatal(err)
		}
		do(test.found)
		n.uid, n.gid = owner, owner
		giveOwner(dir, "it", n)
		if now, err := dir.stat("it"); err != nil || now.uid != test.want {
			t.Errorf("after %s and %s the owner is %d, not %d: %v", test.made, test.found, now.uid, test.want, err)
		}
	}
}
