package webrtc

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
	"time"

	"github.com/pion/webrtc/v4"
)

// address is one by which a viewer may reach this program: a host candidate of
// ICE, or one that a NAT gave us.
type address struct {
	TCP  bool
	IP   netip.Addr
	Name string // instead of IP; not all viewers know what to do with one
	Port int
	Base netip.AddrPort // behind the NAT; zero: there is none
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

// Preferences of candidates (RFC 8445, section 5.1.2; RFC 6544, section 4.2):
// of two ways that both work a viewer takes the one with the higher number.
const (
	preferHost      = 126
	preferReflexive = 100
	lessTCP         = 27
	preferPassive   = 4 << 13
	preferMost      = 8191
	component       = 1
)

// candidate is the address as the value of an SDP attribute (RFC 8839,
// section 5.1). nth is its place in the list, from 0: each needs a priority of
// its own.
func (a address) candidate(nth int) string {
	network, kind, prefer, local, tail := "udp", "host", preferHost, 65535-nth, ""
	if a.Base.IsValid() {
		kind, prefer = "srflx", preferReflexive
		tail = fmt.Sprintf(" raddr %s rport %d", a.Base.Addr(), a.Base.Port())
	}
	if a.TCP {
		network, prefer, local, tail = "tcp", prefer-lessTCP, preferPassive+preferMost-nth, " tcptype passive"
	}
	priority := prefer<<24 | local<<8 | (256 - component)
	foundation := crc32.ChecksumIEEE([]byte(network + kind + a.host()))
	return fmt.Sprintf("candidate:%d %d %s %d %s %d typ %s%s", foundation, component, network, priority, a.host(), a.Port, kind, tail)
}

// accepted says whether browsers take an address. Chromium refuses ports below
// 1024, but 80 and 443 of public addresses, with an error that ends the viewer.
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
	IPs  []netip.Addr // what it stands for, as far as is known here
	Err  error        // why it is not known
}

// defaultPort is that of a host without one.
const defaultPort = 80

// parseTarget takes a Host header apart. Anything that is none is the zero
// target.
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
			return target{} // it means something on one machine only
		}
		t.Host, t.IPs = ip.String(), []netip.Addr{ip}
		return t
	}
	if !isHostName(t.Host) {
		return target{}
	}
	if isLocalhost(t.Host) { // never asked of a name server (RFC 6761, section 6.3)
		t.IPs = []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}
	}
	return t
}

func isLocalhost(name string) bool {
	return name == "localhost" || strings.HasSuffix(name, ".localhost")
}

// isHostName says whether a text can be the name of a machine. A candidate is a
// line of words, into which nothing else may get.
func isHostName(s string) bool {
	const most = 253
	return s != "" && len(s) <= most && strings.IndexFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '.' && r != '_'
	}) < 0
}

// named says whether viewers can be told the name itself.
func (t target) named() bool {
	return t.Host != "" && !isLocalhost(t.Host) && (len(t.IPs) == 0 || t.IPs[0].String() != t.Host)
}

const (
	// resolveTime is how long it may take to find out what a name stands for.
	resolveTime = 2 * time.Second
	// mostIPs is how many addresses of a name are told.
	mostIPs = 4
)

// resolved is the target with the addresses that its name stands for here. They
// may be others where the viewer is.
func (t target) resolved(ctx context.Context) target {
	if t.Host == "" || len(t.IPs) > 0 {
		return t
	}
	ctx, cancel := context.WithTimeout(ctx, resolveTime)
	defer cancel()
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", t.Host)
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

// local says whether a viewer with this target may be on this machine, so that
// loopback addresses mean the same to both.
func (t target) local() bool {
	return t.Host == "" || slices.ContainsFunc(t.IPs, netip.Addr.IsLoopback)
}

// reach is all that decides by which addresses a viewer is told to reach this
// program.
type reach struct {
	Announce  []netip.Addr     // instead of those of interfaces; empty: those
	UDP       int              // port; 0: none
	Own       []netip.Addr     // those on which the port is open
	Reflexive []netip.AddrPort // how STUN servers see it
	TCP       bool             // what comes to the target arrives at a shared listener
	TCPPort   int              // at this port; 0: at the target's
	Target    target
}

// udp lists the addresses of the UDP port, without those that STUN servers see.
// An address that others use to reach the HTTP port is among them: whoever
// forwards that port to this machine may forward the other one as well.
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

// reflexive lists how STUN servers see the UDP port, unless it is reached there
// anyway.
func (r reach) reflexive() []address {
	var all []address
	for _, at := range r.Reflexive {
		if r.UDP == 0 || slices.Contains(r.Own, at.Addr()) {
			continue
		}
		base := netip.AddrPortFrom(netip.IPv4Unspecified(), 0)
		if at.Addr().Is6() {
			base = netip.AddrPortFrom(netip.IPv6Unspecified(), 0)
		}
		all = append(all, address{IP: at.Addr(), Port: int(at.Port()), Base: base})
	}
	return all
}

func (r reach) tcpPort() int { return cmp.Or(r.TCPPort, r.Target.Port) }

// tcp lists the addresses of the HTTP port, if viewers may come to it.
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

// names lists the target by its name, which stands for the right address where
// the viewer is, even if it is another one here or unknown.
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

// asCandidate is an address as it is signalled for the first medium.
func (a address) asCandidate(nth int, mid string) webrtc.ICECandidateInit {
	line := uint16(0)
	return webrtc.ICECandidateInit{Candidate: a.candidate(nth), SDPMid: &mid, SDPMLineIndex: &line}
}

// withCandidates puts addresses into a session description, in place of those
// that Pion knows of.
func withCandidates(sdp string, candidates []string) string {
	const line, end = "a=candidate:", "a=end-of-candidates"
	lines := strings.SplitAfter(sdp, "\r\n")
	var out []string
	put := false
	insert := func() {
		if put {
			return
		}
		put = true
		for _, c := range candidates {
			out = append(out, "a="+c+"\r\n")
		}
	}
	media := 0
	for _, l := range lines {
		if strings.HasPrefix(l, "m=") {
			if media++; media == 2 {
				insert()
			}
		}
		if strings.HasPrefix(l, end) {
			insert()
		}
		if !strings.HasPrefix(l, line) {
			out = append(out, l)
		}
	}
	insert()
	return strings.Join(out, "")
}
