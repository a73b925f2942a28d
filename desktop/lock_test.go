package desktop

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/deskhand/deskhand/internal/supervise"
)

// TestStateIsFreeAfterClose makes the folders of a desktop again while a new process, before
// its exec, still has the files open that its parent had open.
func TestStateIsFreeAfterClose(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	for range 2 {
		d := dirs{state: state, home: state, log: state + "/log", run: state, runtime: state}
		if err := d.create(supervise.User{}); err != nil {
			t.Fatal(err)
		}
		held, err := unix.Dup(int(d.locks[0].Fd()))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = unix.Close(held) }()
		if err := d.remove(); err != nil {
			t.Fatal(err)
		}
	}
}
