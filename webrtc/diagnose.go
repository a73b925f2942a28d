package webrtc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/pion/webrtc/v4"

	"github.com/deskhand/deskhand/webrtc/internal/network"
)

// Inquiry asks how a viewer can be reached, or why it is not connected. Its ViewerOptions
// describe the request of the inquiry, which should come from the viewer's browser.
type Inquiry struct {
	// If it has an Owner, the diagnosis covers only viewers of that owner.
	ViewerOptions

	// Proxies lists what showed that the request came through HTTP proxies, such as the
	// names of headers that they add.
	Proxies []string
}

// Diagnosis describes every hop between a viewer and this program.
type Diagnosis struct {
	Verdict   string       // one sentence: what works, or what fails
	Remedy    string       // what to do about it; empty: nothing
	Request   RequestPath  // how the inquiry came
	UDP       UDPPath      // the port for media
	TCP       TCPPath      // the port of HTTP
	Servers   []ServerPath // the STUN and TURN servers of viewers
	Announced []string     // the addresses that viewers try, such as "udp 192.0.2.1:59050"
	Viewers   []ViewerPath // connected or connecting
	Failed    []ViewerPath // the last viewers whose connection failed, the latest first
}

// RequestPath describes how a request came.
type RequestPath struct {
	Host      string   // the host and port of the request
	Addresses []string // of Host
	Problem   string   // why the addresses are unknown
	Remote    string   // the address of the client
	Proxies   []string // as in Inquiry
}

// UDPPath describes the port for media.
type UDPPath struct {
	Open      bool
	Port      int      // zero: each viewer has its own
	Range     string   // the range of those ports, such as "59050-59070"
	Addresses []string // on which the port is open
	Problem   string   // why it is not open
}

// TCPPath describes whether viewers may connect to the port of HTTP.
type TCPPath struct {
	Shared  bool
	Port    int    // NetworkConfig.TCPPort
	Problem string // why it is not shared
}

// ServerPath describes a STUN or TURN server.
type ServerPath struct {
	URL       string
	Tried     bool // false: only viewers can try it
	Answered  bool
	Address   string        // the address of the port for media, as the server sees it
	RoundTrip time.Duration // of its answer
	Problem   string
}

// ViewerPath describes how a viewer is reached.
type ViewerPath struct {
	ID        string
	Transport Transport
	Owner     string    // as in ViewerOptions
	Remote    string    // the address of its request
	State     string    // of an RTCPeerConnection, such as "checking"
	Since     time.Time // when the viewer came
	Ended     time.Time // when it failed

	Local, Far string        // the ends of its path, such as "udp 192.0.2.1:59050"; empty: no path
	Relayed    bool          // by a TURN server
	Sent       uint64        // bytes on the path
	Received   uint64        // bytes on the path
	RoundTrip  time.Duration // on the path; zero: unknown

	Offered  int    // addresses that the viewer has sent
	Heard    uint64 // connectivity checks of the viewer that arrived, on all paths
	Answered uint64 // connectivity checks of this program that the viewer has answered
}

// Connected reports whether the viewer has a path.
func (p ViewerPath) Connected() bool { return p.State == webrtc.PeerConnectionStateConnected.String() }

// failuresKept bounds the length of Diagnosis.Failed.
const failuresKept = 5

// Diagnose describes every hop. It resolves Inquiry.Host, unless there is an Owner, which takes
// up to two seconds. Then it asks all STUN servers concurrently, which takes up to two seconds.
// It ends both when ctx ends. The Problem fields have the errors.
func (s *Streamer) Diagnose(ctx context.Context, q Inquiry) Diagnosis {
	d := s.network.inspect(ctx, q)
	s.each(func(v *viewer) { d.Viewers = append(d.Viewers, v.path()) })
	s.mu.Lock()
	d.Failed = slices.Clone(s.failed)
	s.mu.Unlock()
	slices.Reverse(d.Failed)
	if q.Owner != "" {
		foreign := func(v ViewerPath) bool { return v.Owner != q.Owner }
		d.Viewers, d.Failed = slices.DeleteFunc(d.Viewers, foreign), slices.DeleteFunc(d.Failed, foreign)
	}
	d.Verdict, d.Remedy = judge(&d, time.Now())
	return d
}

// Diagnose is like [Streamer.Diagnose] but without viewers, for use while there is no streamer.
func (n *Network) Diagnose(ctx context.Context, q Inquiry) Diagnosis {
	d := n.inspect(ctx, q)
	d.Verdict, d.Remedy = judge(&d, time.Now())
	return d
}

// NoNetwork returns the Diagnosis of a program without a Network. err is the error of
// [NewNetwork].
func NoNetwork(err error, q Inquiry) Diagnosis {
	d := Diagnosis{UDP: UDPPath{Problem: err.Error()}, Request: q.request()}
	d.TCP.Problem = "the network for media did not start"
	d.Verdict, d.Remedy = judge(&d, time.Now())
	return d
}

func (q Inquiry) request() RequestPath {
	return RequestPath{Host: q.Host, Remote: q.Remote, Proxies: q.Proxies}
}

// inspect describes everything but viewers.
func (n *Network) inspect(ctx context.Context, q Inquiry) Diagnosis {
	o := q.network()
	r := n.ports.Inspect(ctx, o)
	d := Diagnosis{Request: q.request(), TCP: n.inspectTCP(q), Announced: r.Announced}
	d.Request.Addresses = texts(r.Addresses)
	switch {
	case r.ResolveErr != nil:
		d.Request.Problem = fmt.Sprintf("the name %s is not known here: %v", r.Host, r.ResolveErr)
	case o.NoLookup && r.Host != "" && len(r.Addresses) == 0:
		d.Request.Problem = "names are resolved for the server's token and tokens of scope admin only"
	case q.Host != "" && r.Host == "":
		d.Request.Problem = "it is not a host and port"
	}
	d.UDP = UDPPath{Open: r.UDPPort != 0, Port: r.UDPPort, Addresses: texts(r.UDPAddresses)}
	if n.cfg.PortMin > 0 {
		d.UDP.Port, d.UDP.Range = 0, fmt.Sprintf("%d-%d", n.cfg.PortMin, n.cfg.PortMax)
	}
	switch {
	case r.UDPErr != nil:
		d.UDP.Problem = r.UDPErr.Error()
	case !d.UDP.Open:
		d.UDP.Problem = "it is switched off"
	}
	for _, a := range r.Servers {
		p := ServerPath{URL: a.URL, Tried: !errors.Is(a.Err, network.ErrNotAsked), Answered: a.Err == nil}
		if p.Answered {
			p.Address, p.RoundTrip = a.Seen.String(), a.Time
		} else {
			p.Problem = a.Err.Error()
		}
		d.Servers = append(d.Servers, p)
	}
	return d
}

func texts(ips []netip.Addr) (all []string) {
	for _, ip := range ips {
		all = append(all, ip.String())
	}
	return all
}

func (n *Network) inspectTCP(q Inquiry) TCPPath {
	switch {
	case n.cfg.TCP == nil:
		return TCPPath{Problem: "this network does not accept viewers there"}
	case n.cfg.TCPPort != 0:
		return TCPPath{Shared: true, Port: int(n.cfg.TCPPort)}
	case len(q.Proxies) > 0:
		return TCPPath{Problem: "the request came through an HTTP proxy, which passes only HTTP"}
	case !q.TCP:
		return TCPPath{Problem: "the request did not come by a port that accepts viewers"}
	}
	return TCPPath{Shared: true}
}

func (v *viewer) path() ViewerPath {
	p := ViewerPath{
		ID: v.id, Transport: v.transport, Owner: v.options.Owner, Remote: v.options.Remote, Since: v.since,
		State: webrtc.PeerConnectionStateNew.String(), Sent: v.bytes.Load(),
	}
	if peer := v.peer.Load(); peer != nil {
		peer.describe(&p)
	} else if v.live.Load() {
		p.State = webrtc.PeerConnectionStateConnected.String()
	}
	return p
}

// describe adds the agent's statistics of the path to w.
func (p *peer) describe(w *ViewerPath) {
	w.State, w.Offered, w.Sent = p.pc.ConnectionState().String(), int(p.offered.Load()), 0
	// The ICETransport must not be asked while it starts.
	stats := p.pc.GetStats()
	var used *webrtc.ICECandidatePairStats
	for _, s := range stats {
		pair, ok := s.(webrtc.ICECandidatePairStats)
		if !ok {
			continue
		}
		w.Heard += pair.RequestsReceived
		w.Answered += pair.ResponsesReceived
		if pair.Nominated && (used == nil || pair.BytesSent > used.BytesSent) {
			used = &pair
		}
	}
	if used == nil {
		return
	}
	local, _ := stats[used.LocalCandidateID].(webrtc.ICECandidateStats)
	far, _ := stats[used.RemoteCandidateID].(webrtc.ICECandidateStats)
	end := func(c webrtc.ICECandidateStats) string {
		return c.Protocol + " " + net.JoinHostPort(c.IP, strconv.Itoa(int(c.Port)))
	}
	w.Local, w.Far = end(local), end(far)
	if local.Protocol == "tcp" {
		w.Local = "tcp " + p.v.options.Host
	}
	w.Relayed = local.CandidateType == webrtc.ICECandidateTypeRelay || far.CandidateType == webrtc.ICECandidateTypeRelay
	w.Sent, w.Received = used.BytesSent, used.BytesReceived
	w.RoundTrip = time.Duration(used.CurrentRoundTripTime * float64(time.Second))
}

// watchPath remembers the path until there is a connection, because the agent forgets the path
// when it fails.
func (p *peer) watchPath() {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for !p.connected.Load() {
		select {
		case <-p.v.ctx.Done():
			return
		case <-tick.C:
			p.remember()
		}
	}
}

func (p *peer) remember() {
	w := p.v.path()
	p.last.Store(&w)
}

// soon is the time after which a viewer that leaves without a connection counts as failed.
const soon = 3 * time.Second

// recordFailure adds a viewer to Diagnosis.Failed if it ends without having been connected, or
// because its connection failed.
func (p *peer) recordFailure(now time.Time) {
	state := p.pc.ConnectionState()
	if state != webrtc.PeerConnectionStateFailed && (p.connected.Load() || now.Sub(p.v.since) < soon || p.pc.RemoteDescription() == nil) {
		return
	}
	w := p.v.path()
	if last := p.last.Load(); last != nil && last.Heard+last.Answered >= w.Heard+w.Answered {
		w = *last
	}
	w.State, w.Ended, w.Offered = webrtc.PeerConnectionStateFailed.String(), now, int(p.offered.Load())
	s := p.v.s
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = append(s.failed, w)
	if extra := len(s.failed) - failuresKept; extra > 0 {
		s.failed = slices.Delete(s.failed, 0, extra)
	}
}
