package network

import (
	"cmp"
	"context"
	"fmt"
	"hash/crc32"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// address is an address by which a viewer may reach this program: a host candidate of ICE,
// or the address that a NAT gave this program.
type address struct {
	TCP  bool
	IP   netip.Addr
	Name string // instead of IP; not all viewers resolve names
	Port int
	NAT  bool // the address was found by a STUN server
}

func (a address) host() string {
	if a.Name != "" {
		return a.Name
	}
	return a.IP.String()
}

func (a address) String() string {
	network := "udp"
	if a.TCP {
		network = "tcp"
	}
	return network + " " + net.JoinHostPort(a.host(), strconv.Itoa(a.Port))
}

// Preferences of candidates (RFC 8445, section 5.1.2; RFC 6544, section 4.2). Of two paths
// that work, a viewer uses the one with the higher number.
const (
	preferHost      = 126
	preferReflexive = 100
	lessTCP         = 27
	preferPassive   = 4 << 13
	preferMost      = 8191
	component       = 1
)

// candidate returns the value of an SDP attribute (RFC 8839, section 5.1). nth is the
// address's place in the list, from 0. It makes the priorities differ.
func (a address) candidate(nth int) string {
	network, kind, prefer, local, tail := "udp", "host", preferHost, 65535-nth, ""
	if a.NAT {
		kind, prefer, tail = "srflx", preferReflexive, " raddr 0.0.0.0 rport 0"
		if a.IP.Is6() {
			tail = " raddr :: rport 0"
		}
	}
	if a.TCP {
		network, prefer, local, tail = "tcp", prefer-lessTCP, preferPassive+preferMost-nth, " tcptype passive"
	}
	priority := prefer<<24 | local<<8 | (256 - component)
	foundation := crc32.ChecksumIEEE([]byte(network + kind + a.host()))
	return fmt.Sprintf("candidate:%d %d %s %d %s %d typ %s%s", foundation, component, network, priority, a.host(), a.Port, kind, tail)
}

// accepted reports whether browsers accept an address. Chromium rejects ports below 1024,
// except 80 and 443 of public addresses, with an error that ends the viewer.
func (a address) accepted() bool {
	switch {
	case a.Port < 1 || a.Port > 65535:
		return false
	case a.Port >= 1024:
		return true
	case a.Port != 80 && a.Port != 443:
		return false
	}
	return a.Name != "" || a.IP.IsGlobalUnicast() && !a.IP.IsPrivate()
}

// target is the host and port by which a viewer reached this program.
type target struct {
	Host string // a name or an address, without brackets
	Port int
	IPs  []netip.Addr // of Host, if known
	Err  error        // why IPs is empty
}

// defaultPort is the port of a Host header without one.
const defaultPort = 80

// parseTarget parses a Host header. It returns the zero target if the header is malformed.
func parseTarget(hostPort string) target {
	t := target{Host: hostPort, Port: defaultPort}
	if host, port, err := net.SplitHostPort(hostPort); err == nil {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil {
			return target{}
		}
		t.Host, t.Port = host, int(n)
	}
	t.Host = strings.TrimSuffix(strings.ToLower(strings.Trim(t.Host, "[]")), ".")
	if ip, err := netip.ParseAddr(t.Host); err == nil {
		if ip = ip.Unmap(); ip.Zone() != "" {
			return target{} // a zone has a meaning on one machine only
		}
		t.Host, t.IPs = ip.String(), []netip.Addr{ip}
		return t
	}
	if !isHostName(t.Host) {
		return target{}
	}
	if isLocalhost(t.Host) { // name servers are not asked (RFC 6761, section 6.3)
		t.IPs = []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}
	}
	return t
}

func isLocalhost(name string) bool {
	return name == "localhost" || strings.HasSuffix(name, ".localhost")
}

// isHostName reports whether a text can be the name of a machine. Other characters could
// add words or lines to a candidate.
func isHostName(s string) bool {
	const most = 253
	return s != "" && len(s) <= most && strings.IndexFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '.' && r != '_'
	}) < 0
}

func (t target) named() bool {
	return t.Host != "" && !isLocalhost(t.Host) && (len(t.IPs) == 0 || t.IPs[0].String() != t.Host)
}

const (
	// resolveTime bounds the resolution of a name.
	resolveTime = 2 * time.Second
	// mostIPs bounds the addresses of a name that are sent to viewers.
	mostIPs = 4
)

// resolved returns the target with the addresses to which this machine resolves its name.
// The viewer may resolve it to others. With Options.NoLookup, it returns the target unchanged.
func (l *Link) resolved(ctx context.Context) target {
	t := l.target
	if t.Host == "" || len(t.IPs) > 0 || !l.lookups {
		return t
	}
	ctx, cancel := context.WithTimeout(ctx, resolveTime)
	defer cancel()
	ips, err := l.n.cfg.Resolve(ctx, "ip", t.Host)
	if err != nil {
		t.Err = err
		return t
	}
	for _, ip := range ips {
		if ip = ip.Unmap().WithZone(""); !slices.Contains(t.IPs, ip) && len(t.IPs) < mostIPs {
			t.IPs = append(t.IPs, ip)
		}
	}
	return t
}

// local reports whether a viewer with this target may be on this machine, where loopback
// addresses work.
func (t target) local() bool {
	return t.Host == "" || slices.ContainsFunc(t.IPs, netip.Addr.IsLoopback)
}

// reach has the data from which the addresses for a viewer are made.
type reach struct {
	Announce  []netip.Addr     // replace the addresses of interfaces, unless empty
	UDP       int              // port; 0: none
	Own       []netip.Addr     // addresses of this machine on which the port is open
	Reflexive []netip.AddrPort // of the port, as STUN servers see it
	TCP       bool             // connections to the target reach a shared listener
	TCPPort   int              // of the target; 0: its own
	Target    target
}

// udp returns the addresses of the UDP port that are known without STUN servers. The
// addresses of the target are among them: a router or container host that forwards the
// HTTP port may forward the UDP port as well.
func (r reach) udp() []address {
	if r.UDP == 0 {
		return nil
	}
	var ips []netip.Addr
	add := func(more ...netip.Addr) {
		for _, ip := range more {
			if !slices.Contains(ips, ip) {
				ips = append(ips, ip)
			}
		}
	}
	add(r.Announce...)
	for _, ip := range r.Own {
		switch {
		case ip.IsLoopback() && r.Target.local(), !ip.IsLoopback() && len(r.Announce) == 0:
			add(ip)
		}
	}
	add(r.Target.IPs...)
	var all []address
	for _, ip := range ips {
		all = append(all, address{IP: ip, Port: r.UDP})
	}
	return all
}

// reflexive returns the addresses of the UDP port that STUN servers see, without addresses of
// this machine.
func (r reach) reflexive() []address {
	var all []address
	for _, at := range r.Reflexive {
		if r.UDP != 0 && !slices.Contains(r.Own, at.Addr()) {
			all = append(all, address{IP: at.Addr(), Port: int(at.Port()), NAT: true})
		}
	}
	return all
}

func (r reach) tcpPort() int { return cmp.Or(r.TCPPort, r.Target.Port) }

// tcp returns the addresses of the HTTP port, if viewers may connect to it.
func (r reach) tcp() []address {
	if !r.TCP {
		return nil
	}
	ips := r.Target.IPs
	if r.TCPPort != 0 {
		ips = slices.Concat(r.Announce, ips)
	}
	var all []address
	for _, ip := range ips {
		all = append(all, address{TCP: true, IP: ip, Port: r.tcpPort()})
	}
	return all
}

// names returns the target by its name, which the viewer resolves to the right address even
// if this machine does not.
func (r reach) names() []address {
	if !r.Target.named() {
		return nil
	}
	var all []address
	if r.UDP != 0 {
		all = append(all, address{Name: r.Target.Host, Port: r.UDP})
	}
	if r.TCP {
		all = append(all, address{TCP: true, Name: r.Target.Host, Port: r.tcpPort()})
	}
	return all
}

const (
	// tcpDelay is the time after a viewer's answer in which only UDP is tried. TCP is slower,
	// but the agent would choose it if it connected first.
	tcpDelay = 200 * time.Millisecond
	// gatherLimit bounds the time to find the addresses for Candidates.
	gatherLimit = 1500 * time.Millisecond
)

// reach returns the reach of the viewer, without the addresses that lookup finds.
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
	work.Go(func() { resolved <- l.resolved(ctx) })
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

// Trickle calls send with each candidate by which the viewer may reach this program when the
// candidate becomes known (RFC 8838), until ctx is done. UDP candidates come first. Candidates
// for TCP and names follow if connected returns false tcpDelay after answered is closed.
func (l *Link) Trickle(ctx context.Context, answered <-chan struct{}, connected func() bool, send func(candidate string)) {
	sent := map[string]bool{}
	announce := func(all []address) {
		for _, a := range all {
			if a.accepted() && !sent[a.String()] {
				send(a.candidate(len(sent)))
				sent[a.String()] = true
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

// Candidates returns all candidates except names. A player may reject an answer with a name.
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
