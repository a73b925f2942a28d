package desktop

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/deskhand/deskhand/internal/supervise"
)

// TestStateIsFreeAtOnce makes the folders of a desktop again while a program that
// is just being started still has what its parent had open.
func TestStateIsFreeAtOnce(t *testing.T) {
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
