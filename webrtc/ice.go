package webrtc

import (
	"context"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/pion/webrtc/v4"
)

const (
	// tcpDelay is how long UDP is left to itself, after a viewer's answer, before
	// the viewer is told of TCP, which is slower but would do as well for the
	// agent that chooses.
	tcpDelay = 200 * time.Millisecond
	// gatherLimit is how long an answer that has to have all addresses in it
	// may wait for those that others have to be asked for.
	gatherLimit = 1500 * time.Millisecond
)

// reach is what decides by which addresses the viewer may reach this program.
func (l *link) reach() reach {
	r := reach{Announce: l.n.announce, TCP: l.tcp, TCPPort: int(l.n.cfg.TCPPort), Target: l.target}
	if l.udp != nil {
		r.UDP, r.Own = l.udp.port, l.udp.addresses()
	}
	return r
}

// findings are what takes time to find out.
type findings struct {
	target    <-chan target
	reflexive <-chan []netip.AddrPort
}

// find begins to find out what a name stands for, and how STUN servers see the
// port. It ends with ctx.
func (l *link) find(ctx context.Context, work *sync.WaitGroup) findings {
	t, r := make(chan target, 1), make(chan []netip.AddrPort, 1)
	work.Go(func() { t <- l.target.resolved(ctx) })
	work.Go(func() { r <- l.reflexive(ctx) })
	return findings{t, r}
}

// trickle has tell called with every address by which the viewer may reach this
// program, once each, as it becomes known (RFC 8838). It is to be called before
// the local description is set.
func (p *peer) trickle(tell func(webrtc.ICECandidateInit)) {
	begun := make(chan struct{}) // the agent knows its viewer's packets from now on
	var once sync.Once
	p.pc.OnICECandidate(func(c *webrtc.ICECandidate) {
		once.Do(func() { close(begun) })
		if c != nil && c.Typ != webrtc.ICECandidateTypeHost { // at a TURN server
			tell(c.ToJSON())
		}
	})
	mid := p.transceiver.Mid()
	told := map[string]int{}
	say := func(all []address) {
		for _, a := range all {
			if _, known := told[a.String()]; !known && a.accepted() {
				told[a.String()] = len(told)
				tell(a.asCandidate(told[a.String()], mid))
			}
		}
	}
	p.v.also(func() {
		select {
		case <-begun:
			p.sayAll(say)
		case <-p.v.ctx.Done():
		}
	})
}

// sayAll says all addresses, the better ones first. UDP has its time from the
// viewer's answer on: without that nothing can come of it.
func (p *peer) sayAll(say func([]address)) {
	r := p.link.reach()
	say(r.udp())
	found := p.link.find(p.v.ctx, &p.v.work)
	answered := p.answered
	later := time.NewTimer(time.Hour)
	defer later.Stop()
	slow := false // UDP does not seem to work
	for left := 3; left > 0; left-- {
		select {
		case <-answered:
			later.Reset(tcpDelay)
			answered = nil
			left++
			continue
		case r.Target = <-found.target:
		case r.Reflexive = <-found.reflexive:
		case <-later.C:
			slow = !p.hasWay()
		case <-p.v.ctx.Done():
			return
		}
		say(r.udp())
		say(r.reflexive())
		if slow {
			say(r.tcp())
			say(r.names())
		}
	}
}

// hasWay tells whether packets reach the viewer and come back. On a busy machine
// it takes a while until the connection is encrypted as well.
func (p *peer) hasWay() bool {
	state := p.pc.ICEConnectionState()
	return state == webrtc.ICEConnectionStateConnected || state == webrtc.ICEConnectionStateCompleted
}

// allAddresses are the addresses to put into an answer, as candidates. Names are
// not among them: an answer with what a player does not know may fail as a whole.
func (p *peer) allAddresses(ctx context.Context) []string {
	ctx, cancel := context.WithTimeout(ctx, gatherLimit)
	defer cancel()
	var work sync.WaitGroup
	defer work.Wait()
	found := p.link.find(ctx, &work)
	r := p.link.reach()
	r.Target, r.Reflexive = <-found.target, <-found.reflexive
	var all []string
	for _, list := range [][]address{r.udp(), r.reflexive(), r.tcp()} {
		for _, a := range list {
			if a.accepted() {
				all = append(all, a.candidate(len(all)))
			}
		}
	}
	return all
}

// described is the local description with all addresses in it, of which those
// that are not known in time are left out.
func (p *peer) described(ctx context.Context, gathered <-chan struct{}) string {
	all := p.allAddresses(ctx)
	limit := time.NewTimer(gatherLimit)
	defer limit.Stop()
	select {
	case <-gathered:
	case <-limit.C:
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
