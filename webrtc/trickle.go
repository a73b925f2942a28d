package webrtc

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/pion/webrtc/v4"
)

// gatherLimit bounds the time to get addresses of TURN servers for an answer that must have all
// addresses.
const gatherLimit = 1500 * time.Millisecond

// trickle calls send with every address by which the viewer may reach this program when the
// address becomes known (RFC 8838). It must be called before the local description is set.
func (p *peer) trickle(send func(webrtc.ICECandidateInit)) {
	begun := make(chan struct{}) // the agent accepts the viewer's packets
	var once sync.Once
	p.pc.OnICECandidate(func(c *webrtc.ICECandidate) {
		once.Do(func() { close(begun) })
		if c != nil && c.Typ != webrtc.ICECandidateTypeHost { // at a TURN server
			send(c.ToJSON())
		}
	})
	mid, line := p.transceiver.Mid(), uint16(0)
	p.v.also(func() {
		select {
		case <-begun:
			p.link.Trickle(p.v.ctx, p.answered, p.hasPath, func(candidate string) {
				send(webrtc.ICECandidateInit{Candidate: candidate, SDPMid: &mid, SDPMLineIndex: &line})
			})
		case <-p.v.ctx.Done():
		}
	})
}

// hasPath reports whether packets reach the viewer and come back. The connection may not be
// encrypted yet.
func (p *peer) hasPath() bool {
	state := p.pc.ICEConnectionState()
	return state == webrtc.ICEConnectionStateConnected || state == webrtc.ICEConnectionStateCompleted
}

// described returns the local description with all addresses that are known in time.
func (p *peer) described(ctx context.Context, gathered <-chan struct{}) string {
	all := p.link.Candidates(ctx)
	ctx, cancel := context.WithTimeout(ctx, gatherLimit)
	defer cancel()
	select {
	case <-gathered:
	case <-ctx.Done():
	}
	sdp := p.pc.LocalDescription().SDP
	for line := range strings.Lines(sdp) {
		// At a TURN server.
		if c, ok := strings.CutPrefix(line, "a=candidate:"); ok && !strings.Contains(c, " typ host") {
			all = append(all, "candidate:"+strings.TrimRight(c, "\r\n"))
		}
	}
	return withCandidates(sdp, all)
}

// withCandidates replaces the candidates of a session description. They belong to its first
// medium.
func withCandidates(sdp string, candidates []string) string {
	var out []string
	media, inserted := 0, false
	insert := func() {
		for _, c := range candidates {
			if !inserted {
				out = append(out, "a="+c+"\r\n")
			}
		}
		inserted = true
	}
	for line := range strings.Lines(sdp) {
		if strings.HasPrefix(line, "m=") {
			media++
		}
		if media == 2 || strings.HasPrefix(line, "a=end-of-candidates") {
			insert()
		}
		if !strings.HasPrefix(line, "a=candidate:") {
			out = append(out, line)
		}
	}
	insert()
	return strings.Join(out, "")
}

// hurries are the times after a viewer's answer when hurry triggers Pion's checks.
var hurries = [...]time.Duration{20 * time.Millisecond, 50 * time.Millisecond, 90 * time.Millisecond, 140 * time.Millisecond}

// hurry makes Pion select a working path soon. Pion selects one every 200 ms, or when it
// learns of another address. So hurry adds addresses of the discard prefix (RFC 6666).
func (p *peer) hurry() {
	for i, after := range hurries {
		time.AfterFunc(after, func() {
			if p.v.ctx.Err() == nil && !p.connected.Load() {
				_ = p.pc.AddICECandidate(webrtc.ICECandidateInit{ // an error means that it is closed
					Candidate: fmt.Sprintf("candidate:%d 1 udp 1 100::1 %d typ host", i+1, i+9),
				})
			}
		})
	}
}
