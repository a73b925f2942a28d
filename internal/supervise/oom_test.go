package supervise

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

// TestOOMScore starts children of this user and of another one. The kernel must
// choose them before this program when memory runs out.
func TestOOMScore(t *testing.T) {
	t.Parallel()
	score := func(pid int) int {
		n, err := strconv.Atoi(strings.TrimSpace(procText(pid, oomFile)))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	own := score(os.Getpid())
	if own == oomMost {
		t.Skip("this program has the highest score itself")
	}
	specs := []Spec{{Path: "sleep", Args: []string{"60"}}}
	if os.Geteuid() == 0 {
		specs = append(specs, Spec{Path: "sleep", Args: []string{"60"}, Credential: otherUser(t).Credential})
	}
	g := newTestGroup(t, GroupConfig{})
	for _, s := range specs {
		if got, want := score(start(t, g, s).PID()), min(own+500, 1000); got != want {
			t.Errorf("%s of a child as %+v is %d, want %d; this program has %d", oomFile, s.Credential, got, want, own)
		}
	}
	if now := score(os.Getpid()); now != own {
		t.Errorf("%s of this program is %d, was %d", oomFile, now, own)
	}
}
