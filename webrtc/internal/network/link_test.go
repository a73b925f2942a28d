package network

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/pion/webrtc/v4"
)

// pair is two ends of a connection: the agent of a link, and its viewer.
type pair struct{ ours, viewer *webrtc.PeerConnection }

// connect connects a viewer over a link until the test ends. settings changes the settings of
// the viewer's agent and may be nil.
func connect(t *testing.T, l *Link, settings func(*webrtc.SettingEngine)) pair {
	t.Helper()
	var engines [2]webrtc.SettingEngine
	if err := l.Configure(&engines[0], nil); err != nil {
		t.Fatal(err)
	}
	engines[1].SetIncludeLoopbackCandidate(true)
	if settings != nil {
		settings(&engines[1])
	}
	var ends [2]*webrtc.PeerConnection
	for i, e := range engines {
		pc, err := webrtc.NewAPI(webrtc.WithSettingEngine(e)).NewPeerConnection(webrtc.Configuration{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = pc.GracefulClose() })
		ends[i] = pc
	}
	p := pair{ends[0], ends[1]}
	channel, err := p.ours.CreateDataChannel("data", nil)
	if err != nil {
		t.Fatal(err)
	}
	opened := make(chan struct{})
	channel.OnOpen(func() { close(opened) })
	describe(t, p.ours, p.viewer, p.ours.CreateOffer)
	describe(t, p.viewer, p.ours, func(*webrtc.OfferOptions) (webrtc.SessionDescription, error) { return p.viewer.CreateAnswer(nil) })
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	answered := make(chan struct{})
	close(answered)
	l.Trickle(ctx, answered, func() bool { return false }, func(candidate string) {
		_ = p.viewer.AddICECandidate(webrtc.ICECandidateInit{Candidate: candidate}) // fails for names
	})
	select {
	case <-opened:
	case <-ctx.Done():
		t.Fatal("the viewer is not connected")
	}
	return p
}

// describe passes a description with all candidates from one end to the other.
func describe(t *testing.T, from, to *webrtc.PeerConnection, create func(*webrtc.OfferOptions) (webrtc.SessionDescription, error)) {
	t.Helper()
	d, err := create(nil)
	if err != nil {
		t.Fatal(err)
	}
	gathered := webrtc.GatheringCompletePromise(from)
	if err := from.SetLocalDescription(d); err != nil {
		t.Fatal(err)
	}
	<-gathered
	if err := to.SetRemoteDescription(*from.LocalDescription()); err != nil {
		t.Fatal(err)
	}
}

// remote returns the end of the link that the viewer uses.
func (p pair) remote(t *testing.T) *webrtc.ICECandidate {
	t.Helper()
	used, err := p.viewer.SCTP().Transport().ICETransport().GetSelectedCandidatePair()
	if err != nil || used == nil {
		t.Fatalf("no selected pair: %v", err)
	}
	return used.Remote
}

// TestLinkTransports connects a viewer by UDP and by TCP, and checks that its candidates and
// sources are removed afterwards.
func TestLinkTransports(t *testing.T) {
	t.Parallel()
	for name, udp := range map[string]int{"udp": 0, "tcp": -1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var tcp TCP
			ln := serve(t, &tcp, "127.0.0.1:0")
			n := open(t, Config{UDPPort: udp, TCP: &tcp})
			p := connect(t, n.link(t, Options{Host: ln.Addr().String(), TCP: true}), func(s *webrtc.SettingEngine) {
				if udp < 0 {
					s.SetNetworkTypes([]webrtc.NetworkType{webrtc.NetworkTypeTCP4})
				}
			})
			if got := p.remote(t).Protocol.String(); got != name {
				t.Errorf("connected by %s, want %s", got, name)
			}
			if err := p.ours.GracefulClose(); err != nil {
				t.Error(err)
			}
			tcp.mu.Lock()
			defer tcp.mu.Unlock()
			if len(tcp.viewers) != 0 {
				t.Errorf("%d TCP candidates are left", len(tcp.viewers))
			}
			if n.udp == nil {
				return
			}
			for _, s := range n.udp.sockets() {
				s.mu.Lock()
				if len(s.viewers)+len(s.sources) != 0 {
					t.Errorf("%d UDP candidates and %d sources are left", len(s.viewers), len(s.sources))
				}
				s.mu.Unlock()
			}
		})
	}
}

// TestTrickle checks when a viewer gets candidates for TCP and for names.
func TestTrickle(t *testing.T) {
	t.Parallel()
	n := open(t, Config{TCP: new(TCP)})
	for name, c := range map[string]struct {
		answered, connected bool
		want                []string
	}{
		"before the answer":          {want: []string{" udp "}},
		"after the answer":           {answered: true, want: []string{" udp ", " tcp ", " desk.invalid "}},
		"after the answer, with UDP": {answered: true, connected: true, want: []string{" udp "}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// The name is resolved to an address, so that there is a TCP candidate.
			l := n.link(t, Options{Host: "desk.invalid:2468", TCP: true})
			l.target.IPs = []netip.Addr{netip.MustParseAddr("192.0.2.1")}
			ctx, cancel := context.WithTimeout(t.Context(), 3*tcpDelay)
			defer cancel()
			answered := make(chan struct{})
			if c.answered {
				close(answered)
			}
			var told string
			l.Trickle(ctx, answered, func() bool { return c.connected }, func(candidate string) {
				if strings.Contains(told, candidate) {
					t.Errorf("%q is sent twice", candidate)
				}
				told += candidate + "\n"
			})
			for _, word := range []string{" udp ", " tcp ", " desk.invalid "} {
				want := strings.Contains(strings.Join(c.want, ""), word)
				if got := strings.Contains(told, word); got != want {
					t.Errorf("sent%s: %v, want %v; all:\n%s", word, got, want, told)
				}
			}
		})
	}
}

// TestCandidates checks that an answer has every address except names.
func TestCandidates(t *testing.T) {
	t.Parallel()
	n := open(t, Config{Announce: []string{"203.0.113.7"}, TCP: new(TCP), TCPPort: 2468})
	got := n.link(t, Options{Host: "desk.invalid:80"}).Candidates(t.Context())
	want := []string{"203.0.113.7 " + strconv.Itoa(n.udp.port) + " typ host", "203.0.113.7 2468 typ host tcptype passive"}
	if len(got) != len(want) {
		t.Fatalf("candidates %q, want %q", got, want)
	}
	for i, c := range got {
		if !strings.HasSuffix(c, want[i]) {
			t.Errorf("candidate %q, want ... %s", c, want[i])
		}
	}
}

// TestRange opens one port for each link.
func TestRange(t *testing.T) {
	t.Parallel()
	n := open(t, Config{PortMin: 65535, PortMax: 65535})
	first, err := n.Link(Options{})
	if err != nil {
		t.Skip("port 65535 is in use")
	}
	_, err = n.Link(Options{})
	if !errors.Is(err, ErrNoPort) || !strings.Contains(err.Error(), "65535-65535") {
		t.Errorf("a second link: %v, want ErrNoPort", err)
	}
	if r := n.Inspect(t.Context(), Options{}); !errors.Is(r.UDPErr, ErrNoPort) || r.UDPPort != 0 || len(r.Announced) != 0 {
		t.Errorf("Inspect = %+v, want ErrNoPort and no port", r)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if r := n.Inspect(t.Context(), Options{}); r.UDPErr != nil || r.UDPPort != 65535 {
		t.Errorf("after Close: Inspect = %+v, want port 65535", r)
	}
	if n.next != 65535 {
		t.Errorf("the next port is %d, want 65535", n.next)
	}
}

// TestWithoutUDP checks that an agent opens no port if UDP is switched off.
func TestWithoutUDP(t *testing.T) {
	t.Parallel()
	n := open(t, Config{UDPPort: -1})
	mux := udpMux{&udpPort{closed: true}, new(bounds)}
	if got := mux.GetListenAddresses(); len(got) != 0 {
		t.Errorf("listens on %v", got)
	}
	if _, err := mux.GetConn("me", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)}); !errors.Is(err, net.ErrClosed) {
		t.Errorf("GetConn: %v, want net.ErrClosed", err)
	}
	if _, err := mux.GetConn("me", &net.TCPAddr{}); err == nil {
		t.Error("GetConn accepts a TCP address")
	}
	if got := n.link(t, Options{}).STUN(); got != "stun:127.0.0.1:"+strconv.Itoa(DefaultUDPPort+1) {
		t.Errorf("STUN() = %s", got)
	}
}

// TestConcurrentClose closes a network while links are made.
func TestConcurrentClose(t *testing.T) {
	t.Parallel()
	n := open(t, Config{})
	var work sync.WaitGroup
	for range 8 {
		work.Go(func() {
			for range 20 {
				_ = udpMux{n.udp, new(bounds)}.GetListenAddresses()
				_, _ = udpMux{n.udp, new(bounds)}.GetConn("me", net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), 1)))
			}
		})
		work.Go(func() {
			if err := n.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	work.Wait()
	if _, err := (udpMux{n.udp, new(bounds)}).GetConn("me", net.UDPAddrFromAddrPort(n.udp.addrPort(netip.MustParseAddr("127.0.0.1")))); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a candidate after Close: %v, want net.ErrClosed", err)
	}
}
