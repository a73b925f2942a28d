package network

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"time"
)

const (
	// tcpDelay is how long only UDP is tried, after a viewer's answer. TCP is slower, but
	// the agent would choose it as well.
	tcpDelay = 200 * time.Millisecond
	// gatherLimit bounds the time to find the addresses of an answer that has to have all.
	gatherLimit = 1500 * time.Millisecond
)

// reach returns what decides by which addresses the viewer may reach this program.
func (l *Link) reach() reach {
	r := reach{Announce: l.n.announce, TCP: l.tcp, TCPPort: int(l.n.cfg.TCPPort), Target: l.target}
	if l.udp != nil {
		r.UDP, r.Own = l.udp.port, l.udp.addresses()
	}
	return r
}

// lookup resolves the target's name and asks STUN servers for the addresses of the port,
// concurrently. Both channels receive one value.
func (l *Link) lookup(ctx context.Context, work *sync.WaitGroup) (<-chan target, <-chan []netip.AddrPort) {
	resolved, reflexive := make(chan target, 1), make(chan []netip.AddrPort, 1)
	work.Go(func() { resolved <- l.target.resolved(ctx) })
	work.Go(func() {
		var all []netip.AddrPort
		for _, a := range l.askServers(ctx) {
			if a.Err == nil && !slices.Contains(all, a.Seen) {
				all = append(all, a.Seen)
			}
		}
		reflexive <- all
	})
	return resolved, reflexive
}

// Trickle calls tell with each candidate by which the viewer may reach this program, as it
// becomes known (RFC 8838), until ctx is done. UDP comes first. TCP and names follow if
// connected reports false some time after answered is closed.
func (l *Link) Trickle(ctx context.Context, answered <-chan struct{}, connected func() bool, tell func(candidate string)) {
	told := map[string]bool{}
	announce := func(all []address) {
		for _, a := range all {
			if a.accepted() && !told[a.String()] {
				tell(a.candidate(len(told)))
				told[a.String()] = true
			}
		}
	}
	r := l.reach()
	announce(r.udp())
	var work sync.WaitGroup
	defer work.Wait()
	resolved, reflexive := l.lookup(ctx, &work)
	var late <-chan time.Time
	slow := false
	for left := 3; left > 0; left-- {
		select {
		case <-answered:
			late, answered = time.After(tcpDelay), nil
			left++
			continue
		case r.Target = <-resolved:
		case r.Reflexive = <-reflexive:
		case <-late:
			slow = !connected()
		case <-ctx.Done():
			return
		}
		announce(r.udp())
		announce(r.reflexive())
		if slow {
			announce(r.tcp())
			announce(r.names())
		}
	}
}

// Candidates returns all candidates but names. A player may reject an answer that has one
// that it does not understand.
func (l *Link) Candidates(ctx context.Context) []string {
	ctx, cancel := context.WithTimeout(ctx, gatherLimit)
	defer cancel()
	var work sync.WaitGroup
	defer work.Wait()
	resolved, reflexive := l.lookup(ctx, &work)
	r := l.reach()
	r.Target, r.Reflexive = <-resolved, <-reflexive
	var all []string
	for _, a := range unique(r.udp(), r.reflexive(), r.tcp()) {
		all = append(all, a.candidate(len(all)))
	}
	return all
}

// unique returns the addresses that browsers accept, each once.
func unique(lists ...[]address) (all []address) {
	known := func(a address) bool {
		return slices.ContainsFunc(all, func(b address) bool { return a.String() == b.String() })
	}
	for _, a := range slices.Concat(lists...) {
		if a.accepted() && !known(a) {
			all = append(all, a)
		}
	}
	return all
}
