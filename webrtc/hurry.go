package webrtc

import (
	"fmt"
	"time"

	"github.com/pion/webrtc/v4"
)

// hurries are when, after its answer, a viewer's connection is looked at beside
// the usual times.
var hurries = [...]time.Duration{20 * time.Millisecond, 50 * time.Millisecond, 90 * time.Millisecond, 140 * time.Millisecond}

// hurry has the way that works taken soon. Pion takes it at the next of its
// looks, which are 200 ms apart and cannot be closer, or when it hears of
// another address. So it is told of some that lead nowhere: those of the discard
// prefix (RFC 6666).
func (p *peer) hurry() {
	for i, after := range hurries {
		time.AfterFunc(after, func() {
			if p.v.ctx.Err() == nil && !p.connected.Load() {
				_ = p.pc.AddICECandidate(webrtc.ICECandidateInit{ // it has been closed, if it says anything
					Candidate: fmt.Sprintf("candidate:%d 1 udp 1 100::1 %d typ host", i+1, i+9),
				})
			}
		})
	}
}
