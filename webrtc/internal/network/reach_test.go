package network

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pion/ice/v4"
)

func ips(all ...string) (list []netip.Addr) {
	for _, s := range all {
		list = append(list, netip.MustParseAddr(s))
	}
	return list
}

func TestParseTarget(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		host, name string
		port       int
		ips        []netip.Addr
		named      bool
	}{
		{"", "", 0, nil, false},
		{"localhost:2468", "localhost", 2468, ips("127.0.0.1", "::1"), false},
		{"Desk.Localhost", "desk.localhost", 80, ips("127.0.0.1", "::1"), false},
		{"192.168.1.5", "192.168.1.5", 80, ips("192.168.1.5"), false},
		{"192.168.1.5:99", "192.168.1.5", 99, ips("192.168.1.5"), false},
		{"[::1]:99", "::1", 99, ips("::1"), false},
		{"[2001:DB8::1]", "2001:db8::1", 80, ips("2001:db8::1"), false},
		{"[fe80::1%25eth0]:1", "", 0, nil, false},
		{"[::ffff:1.2.3.4]:1", "1.2.3.4", 1, ips("1.2.3.4"), false},
		{"My-Desk.Example.COM.:8080", "my-desk.example.com", 8080, nil, true},
		{"desk:70000", "", 0, nil, false},
		{"desk:http", "", 0, nil, false},
		{"a b:80", "", 0, nil, false},
		{"a\r\na=b:80", "", 0, nil, false},
		{strings.Repeat("a", 300), "", 0, nil, false},
	} {
		got := parseTarget(c.host)
		if got.Host != c.name || got.Host != "" && got.Port != c.port || !slices.Equal(got.IPs, c.ips) || got.named() != c.named {
			t.Errorf("parseTarget(%q) = %+v, named %v; want %q %d %v, named %v", c.host, got, got.named(), c.name, c.port, c.ips, c.named)
		}
	}
}

func TestResolveTarget(t *testing.T) {
	t.Parallel()
	n := open(t, Config{UDPPort: -1})
	r := n.newLink(Options{Host: "name-that-is-not-there.invalid:1"}).resolved(t.Context())
	if r.Err == nil || len(r.IPs) > 0 || !r.named() {
		t.Errorf("resolved to %+v; want an error and the name", r)
	}
	if r := n.newLink(Options{Host: "192.0.2.1:1"}).resolved(t.Context()); r.Err != nil || len(r.IPs) != 1 {
		t.Errorf("an address is resolved to %+v", r)
	}
}

// TestNoLookup: with NoLookup no name is resolved, for candidates and for Inspect.
func TestNoLookup(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	n := open(t, Config{Resolve: func(context.Context, string, string) ([]netip.Addr, error) {
		asked.Add(1)
		return ips("192.0.2.9"), nil
	}})
	for noLookup, want := range map[bool]int32{true: 0, false: 3} {
		asked.Store(0)
		o := Options{Host: "desk.example.com", NoLookup: noLookup}
		l := n.link(t, o)
		answered := make(chan struct{})
		close(answered)
		all := l.Candidates(t.Context())
		l.Trickle(t.Context(), answered, func() bool { return false }, func(c string) { all = append(all, c) })
		all = append(all, n.Inspect(t.Context(), o).Announced...)
		if has := strings.Contains(strings.Join(all, " "), "192.0.2.9"); has == noLookup || asked.Load() != want {
			t.Errorf("NoLookup %v: %d names were resolved, want %d; candidates %q", noLookup, asked.Load(), want, all)
		}
	}
}

// TestReach checks the addresses for viewers in typical networks.
func TestReach(t *testing.T) {
	t.Parallel()
	own := ips("10.0.0.2", "127.0.0.1", "::1")
	docker := parseTarget("192.168.1.5:2468") // the host of a container
	for name, c := range map[string]struct {
		r    reach
		want []string
	}{
		"without a target":          {reach{UDP: 5, Own: own}, []string{"udp 10.0.0.2:5", "udp 127.0.0.1:5", "udp [::1]:5"}},
		"on this machine":           {reach{UDP: 5, Own: own, Target: parseTarget("localhost:1")}, []string{"udp 10.0.0.2:5", "udp 127.0.0.1:5", "udp [::1]:5"}},
		"by the address of another": {reach{UDP: 5, Own: own, Target: docker}, []string{"udp 10.0.0.2:5", "udp 192.168.1.5:5"}},
		"published by Docker":       {reach{UDP: 5, Own: own, Target: docker, TCP: true}, []string{"udp 10.0.0.2:5", "udp 192.168.1.5:5", "tcp 192.168.1.5:2468"}},
		"through ssh -L": {
			reach{UDP: 5, Own: own, Target: parseTarget("localhost:8080"), TCP: true},
			[]string{"udp 10.0.0.2:5", "udp 127.0.0.1:5", "udp [::1]:5", "tcp 127.0.0.1:8080", "tcp [::1]:8080"},
		},
		"announced": {
			reach{UDP: 5, Own: own, Announce: ips("203.0.113.7"), Target: docker},
			[]string{"udp 203.0.113.7:5", "udp 192.168.1.5:5"},
		},
		"past a proxy": {
			reach{UDP: 5, Own: own, Announce: ips("203.0.113.7"), Target: parseTarget("desk.example"), TCP: true, TCPPort: 2468},
			[]string{"udp 203.0.113.7:5", "tcp 203.0.113.7:2468", "udp desk.example:5", "tcp desk.example:2468"},
		},
		"by a name": {
			reach{UDP: 5, Own: own, Target: parseTarget("desk.example:2468"), TCP: true},
			[]string{"udp 10.0.0.2:5", "udp desk.example:5", "tcp desk.example:2468"},
		},
		"without UDP": {
			reach{Own: own, Target: docker, TCP: true, Reflexive: []netip.AddrPort{netip.MustParseAddrPort("203.0.113.7:9")}},
			[]string{"tcp 192.168.1.5:2468"},
		},
		"behind a NAT": {
			reach{UDP: 5, Own: own, Target: docker, Reflexive: []netip.AddrPort{netip.MustParseAddrPort("203.0.113.7:9")}},
			[]string{"udp 10.0.0.2:5", "udp 192.168.1.5:5", "udp 203.0.113.7:9"},
		},
	} {
		var got []string
		for _, list := range [][]address{c.r.udp(), c.r.reflexive(), c.r.tcp(), c.r.names()} {
			for _, a := range list {
				got = append(got, a.String())
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestCandidate(t *testing.T) {
	t.Parallel()
	reflexive := address{IP: netip.MustParseAddr("203.0.113.7"), Port: 9, NAT: true}
	list := []address{
		{IP: netip.MustParseAddr("10.0.0.2"), Port: 5},
		{IP: netip.MustParseAddr("2001:db8::1"), Port: 5},
		reflexive,
		{TCP: true, IP: netip.MustParseAddr("10.0.0.2"), Port: 2468},
		{TCP: true, IP: netip.MustParseAddr("2001:db8::1"), Port: 2468},
	}
	var last uint32
	foundations := map[string]bool{}
	for nth, a := range list {
		// Pion must parse the candidate.
		c, err := ice.UnmarshalCandidate(a.candidate(nth))
		if err != nil {
			t.Errorf("%s: %v", a.candidate(nth), err)
			continue
		}
		if c.Address() != a.IP.String() || c.Port() != a.Port || c.NetworkType().IsTCP() != a.TCP || (c.TCPType() == ice.TCPTypePassive) != a.TCP {
			t.Errorf("%s is read as %v", a.candidate(nth), c)
		}
		if (c.Type() == ice.CandidateTypeServerReflexive) != (a == reflexive) {
			t.Errorf("%s is of type %v", a.candidate(nth), c.Type())
		}
		if c.Priority() >= last && nth > 0 && a.TCP == list[nth-1].TCP {
			t.Errorf("the priority of %s is not lower than the previous one", a.candidate(nth))
		}
		if a.TCP && c.Priority() >= 100<<24 {
			t.Errorf("%s is preferred to UDP", a.candidate(nth))
		}
		last = c.Priority()
		foundations[c.Foundation()] = true
	}
	if len(foundations) != len(list) {
		t.Errorf("%d foundations for %d addresses", len(foundations), len(list))
	}
	const want = "candidate:%d 1 udp 2130706431 desk.example 5 typ host"
	name := address{Name: "desk.example", Port: 5}.candidate(0)
	if _, rest, _ := strings.Cut(name, " "); rest != want[len("candidate:%d "):] {
		t.Errorf("the candidate of a name is %q", name)
	}
}

// TestAccepted checks that viewers get no address that browsers refuse. The browser would end
// the connection.
func TestAccepted(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		host string
		port int
		want bool
	}{
		{"203.0.113.7", 2468, true},
		{"203.0.113.7", 443, true},
		{"203.0.113.7", 80, true},
		{"203.0.113.7", 81, false},
		{"192.168.1.5", 80, false},
		{"127.0.0.1", 443, false},
		{"fd00::1", 80, false},
		{"10.0.0.1", 1024, true},
		{"10.0.0.1", 1023, false},
		{"10.0.0.1", 0, false},
	} {
		if got := (address{IP: netip.MustParseAddr(c.host), Port: c.port}).accepted(); got != c.want {
			t.Errorf("%s port %d is accepted: %v, want %v", c.host, c.port, got, c.want)
		}
	}
	for port, want := range map[int]bool{80: true, 443: true, 22: false, 8080: true} {
		if got := (address{Name: "desk.example", Port: port}).accepted(); got != want {
			t.Errorf("a name with port %d is accepted: %v, want %v", port, got, want)
		}
	}
}

func FuzzParseTarget(f *testing.F) {
	for _, s := range []string{"localhost:1", "[::1]:2", "a.b", "1.2.3.4"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		target := parseTarget(s)
		if target.Host == "" {
			return
		}
		a := address{Name: target.Host, Port: target.Port}
		if line := a.candidate(0); strings.ContainsAny(line, "\r\n") || len(strings.Fields(line)) != 8 {
			t.Errorf("%q makes the candidate %q", s, line)
		}
	})
}
