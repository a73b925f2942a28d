package supervise

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

func TestFamily(t *testing.T) {
	t.Parallel()
	g := newTestGroup(t, GroupConfig{Owner: "user"})
	other, _ := shell(t, g, "sleep 1000")
	c, out := shell(t, g, "setsid -f sh -c 'echo daemon $$; exec sleep 1000'; echo first $$; read line < /dev/null")
	daemon := number(t, out.await(t, "daemon"))
	out.await(t, "first")
	wait(t, c)
	if got := c.Family(); !slices.Equal(got, []int{daemon}) {
		t.Errorf("Family() of an ended child = %v, want its daemon %d", got, daemon)
	}
	if got := other.Family(); !slices.Contains(got, other.PID()) || slices.Contains(got, daemon) {
		t.Errorf("Family() = %v, want %d and not %d", got, other.PID(), daemon)
	}
	if err := c.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := poll(time.Minute, func() error {
		if len(c.Family()) > 0 {
			return errors.New("processes are left")
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// The environment of a process that is executing another program is empty or incomplete for a
// moment. If the process has left its tree, only the environment shows that it belongs.
func TestStopFindsExecutingProcess(t *testing.T) {
	t.Parallel()
	g := newTestGroup(t, GroupConfig{})
	chain := filepath.Join(t.TempDir(), "chain")
	if err := os.WriteFile(chain, []byte("#!/bin/sh\n[ $1 = 0 ] && exec sleep 1000\nexec $0 $(($1-1))\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for range 30 {
		c, out := shell(t, g, "setsid "+chain+" 1000 & echo daemon $!; read line </dev/null")
		wait(t, c)
		daemon := number(t, out.await(t, "daemon"))
		if err := c.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantGone(t, daemon)
	}
}
