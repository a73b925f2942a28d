package webrtc

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	pion "github.com/pion/webrtc/v4"

	"github.com/deskhand/deskhand/desktop"
)

// TestManyCandidates checks the bound of a client's addresses. Each of them costs memory, and
// packets to the address.
func TestManyCandidates(t *testing.T) {
	t.Parallel()
	d := startDesktop(t, desktop.Config{})
	s := stream(t, d, Config{})
	c := watch(t, s, ViewerOptions{})
	c.next("the first one", picture.key)
	for i := range 10_000 {
		c.send("signal/candidate", map[string]any{"candidate": fmt.Sprintf("candidate:1 1 udp 1 192.0.2.%d %d typ host", i%250, 1024+i), "sdpMid": "0"})
	}
	c.send("control/move", map[string]int{"x": 11, "y": 22})
	until(t, "all candidates are read", func() bool {
		p, err := d.Pointer(t.Context())
		return err == nil && p.Point == desktop.Point{X: 11, Y: 22}
	})
	s.mu.Lock()
	p := s.viewers[0].peer.Load()
	s.mu.Unlock()
	known := func() (n int) {
		for _, stat := range p.pc.GetStats() {
			if c, ok := stat.(pion.ICECandidateStats); ok && c.Type == pion.StatsTypeRemoteCandidate {
				n++
			}
		}
		return n
	}
	// The addresses from which its packets came are added.
	const own = 10
	if n := known(); n > maxCandidates+own || n < maxCandidates/2 {
		t.Errorf("%d candidates are known, want up to %d", n, maxCandidates)
	}
	if n := int(p.offered.Load()); n > maxCandidates {
		t.Errorf("%d candidates are counted, want up to %d", n, maxCandidates)
	}
}

// TestHeldCandidates checks that a client cannot make the server keep large candidates by
// sending them before its answer.
func TestHeldCandidates(t *testing.T) {
	t.Parallel()
	large, mid := strings.Repeat("u", candidateMost), "0"
	g := &signaling{peer: &peer{}}
	for name, c := range map[string]pion.ICECandidateInit{
		"candidate":          {Candidate: large + "u"},
		"medium":             {Candidate: "a", SDPMid: &large},
		"user name fragment": {Candidate: "a", SDPMid: &mid, UsernameFragment: &large},
	} {
		if err := g.candidate(c); !errors.Is(err, errLongCandidate) || len(g.held) > 0 {
			t.Errorf("large %s: %v, %d kept", name, err, len(g.held))
		}
	}
}
