package supervise

import (
	"context"
	"sync"
	"testing"
	"time"
)

// A child has its whole grace even if the first search takes longer.
func TestGraceAfterSlowSearch(t *testing.T) {
	t.Parallel()
	g := newTestGroup(t, GroupConfig{})
	c, out := shell(t, g, "trap 'exit 5' TERM; echo ready; while :; do sleep 0.01; done")
	out.await(t, "ready")
	const grace = time.Second
	slow := sync.OnceFunc(func() { <-time.After(grace) })
	r := &roundup{tags: []tag{c.tag()}, leaders: map[int]*Child{c.PID(): c}, spare: func(process, map[int]process) bool {
		slow()
		return false
	}}
	if err := r.end(t.Context(), grace); err != nil {
		t.Fatal(err)
	}
	if e := wait(t, c); e.Code != 5 {
		t.Errorf("Exit() = %v, want 5, from its own handler", e)
	}
}

// A process is killed even if a slow search finds it after the time for SIGKILL.
func TestKillAfterSlowSearch(t *testing.T) {
	t.Parallel()
	token := newToken()
	first, second := foreign(t, GroupVariable+"="+token+".1"), foreign(t, GroupVariable+"="+token+".1")
	slow := sync.OnceFunc(func() { <-time.After(killWait) })
	r := &roundup{tags: []tag{{text: token}}, spare: func(p process, _ map[int]process) bool {
		if p.pid != second {
			return false
		}
		if alive(first) {
			return true // a later search finds it
		}
		slow()
		return false
	}}
	now, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.end(now, 0); err != nil {
		t.Error(err)
	}
	wantGone(t, first, second)
}
