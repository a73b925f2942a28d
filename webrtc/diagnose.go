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

// Inquiry is the question whether somebody can watch, or why not. What is known
// of the request that asks it stands for that of the viewer, so it should come
// from the viewer's browser.
type Inquiry struct {
	// With an Owner, the diagnosis is about the viewers of that owner only.
	ViewerOptions

	// Proxies names what showed that the request came through HTTP proxies,
	// such as the headers that they add. Empty: nothing did.
	Proxies []string
}

// Diagnosis tells of every hop between a viewer and this program what is known.
type Diagnosis struct {
	Verdict string       // in one sentence, what works or where it ends
	Remedy  string       // what can be done about it; empty: nothing has to
	Request RequestPath  // how the inquiry came
	UDP     UDPPath      // the port for media
	TCP     TCPPath      // the port of HTTP
	Servers []ServerPath // the STUN and TURN servers that viewers are told
	Told    []string     // addresses that a viewer is told to try, as "udp 192.0.2.1:59050"
	Viewers []ViewerPath // those who watch or try to
	Failed  []ViewerPath // the last who tried in vain or were cut off, the latest first
}

// RequestPath tells how a request came.
type RequestPath struct {
	Host      string   // by which host and port
	Addresses []string // that the host stands for
	Problem   string   // why those are not known
	Remote    string   // from where
	Proxies   []string // what showed that HTTP proxies are on the way
}

// UDPPath tells of the port for media.
type UDPPath struct {
	Open      bool
	Port      int      // zero: each viewer has its own
	Range     string   // "59050-59070": from where those are; empty: there is one port
	Addresses []string // of this machine, on which it is open
	Problem   string   // why it is not
}

// TCPPath tells whether viewers may connect to the port of HTTP.
type TCPPath struct {
	Shared  bool
	Port    int    // NetworkConfig.TCPPort
	Problem string // why not
}

// ServerPath tells of a STUN or TURN server.
type ServerPath struct {
	URL       string
	Tried     bool // not all can be
	Answered  bool
	Address   string        // as which it sees the port for media
	RoundTrip time.Duration // of its answer
	Problem   string
}

// ViewerPath tells how a viewer is reached.
type ViewerPath struct {
	ID        string
	Transport Transport
	Owner     string    // as ViewerOptions has it
	Remote    string    // from where its request came
	State     string    // as of an RTCPeerConnection, such as "checking"
	Since     time.Time // it has been there
	Ended     time.Time // of those who failed

	Local, Far string        // the ends of the way that is used, as "udp 192.0.2.1:59050"; empty: none is
	Relayed    bool          // a TURN server is between them
	Sent       uint64        // bytes on that way
	Received   uint64        // the same
	RoundTrip  time.Duration // on that way; zero: unknown

	Offered  int    // how many addresses the viewer told
	Heard    uint64 // how many of its checks arrived, on all ways
	Answered uint64 // how many of ours it answered
}

// Connected says whether there is a way that is used.
func (p ViewerPath) Connected() bool { return p.State == webrtc.PeerConnectionStateConnected.String() }

// failuresKept is how many viewers that failed are remembered.
const failuresKept = 5

// Diagnose looks at every hop. It asks STUN servers, which takes some seconds if
// they do not answer.
func (s *Streamer) Diagnose(ctx context.Context, q Inquiry) Diagnosis {
	d := s.network.inspect(ctx, q)
	s.each(func(v *viewer) { d.Viewers = append(d.Viewers, v.way()) })
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

// Diagnose describes every hop while there is no streamer.
func (n *Network) Diagnose(ctx context.Context, q Inquiry) Diagnosis {
	d := n.inspect(ctx, q)
	d.Verdict, d.Remedy = judge(&d, time.Now())
	return d
}

// NoNetwork returns the diagnosis if NewNetwork has returned an error.
func NoNetwork(err error, q Inquiry) Diagnosis {
	d := Diagnosis{UDP: UDPPath{Problem: err.Error()}, Request: q.request()}
	d.TCP.Problem = "there is no network to bring viewers to"
	d.Verdict, d.Remedy = judge(&d, time.Now())
	return d
}

func (q Inquiry) request() RequestPath {
	return RequestPath{Host: q.Host, Remote: q.Remote, Proxies: q.Proxies}
}

// inspect describes everything but viewers.
func (n *Network) inspect(ctx context.Context, q Inquiry) Diagnosis {
	r := n.ports.Inspect(ctx, q.network())
	d := Diagnosis{Request: q.request(), TCP: n.inspectTCP(q), Told: r.Told}
	d.Request.Addresses = texts(r.Addresses)
	switch {
	case r.ResolveErr != nil:
		d.Request.Problem = fmt.Sprintf("the name %s is not known here: %v", r.Host, r.ResolveErr)
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

// way tells how a viewer is reached.
func (v *viewer) way() ViewerPath {
	if p := v.peer.Load(); p != nil {
		return p.way()
	}
	state := webrtc.PeerConnectionStateNew
	if v.live.Load() {
		state = webrtc.PeerConnectionStateConnected
	}
	return ViewerPath{
		ID: v.id, Transport: v.transport, Owner: v.options.Owner, Remote: v.options.Remote, State: state.String(), Since: v.since,
		Sent: v.bytes.Load(),
	}
}

// way tells how the viewer is reached, as far as the agent knows at the moment.
func (p *peer) way() ViewerPath {
	w := ViewerPath{
		ID: p.v.id, Transport: p.v.transport, Owner: p.v.options.Owner, Remote: p.v.options.Remote, State: p.pc.ConnectionState().String(), Since: p.v.since,
		Offered: int(p.offered.Load()),
	}
	// Not from the ICETransport, which is not to be asked while it starts.
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
		return w
	}
	local, _ := stats[used.LocalCandidateID].(webrtc.ICECandidateStats)
	far, _ := stats[used.RemoteCandidateID].(webrtc.ICECandidateStats)
	w.Local, w.Far = end(local), end(far)
	if local.Protocol == tcpProtocol {
		w.Local = "tcp " + p.v.options.Host
	}
	w.Relayed = local.CandidateType == webrtc.ICECandidateTypeRelay || far.CandidateType == webrtc.ICECandidateTypeRelay
	w.Sent, w.Received = used.BytesSent, used.BytesReceived
	w.RoundTrip = time.Duration(used.CurrentRoundTripTime * float64(time.Second))
	return w
}

// tcpProtocol is what Pion calls TCP.
const tcpProtocol = "tcp"

// end is one end of a way.
func end(c webrtc.ICECandidateStats) string {
	return c.Protocol + " " + net.JoinHostPort(c.IP, strconv.Itoa(int(c.Port)))
}

// watchWay keeps what is known of the way, which the agent forgets when it
// fails. It costs nothing once there is a connection.
func (p *peer) watchWay() {
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

// remember keeps what is known of the way now.
func (p *peer) remember() {
	w := p.way()
	p.last.Store(&w)
}

// soon is how early somebody may leave without having failed.
const soon = 3 * time.Second

// noteFailure remembers a viewer that has gone without having been connected, or
// because the connection failed.
func (p *peer) noteFailure(now time.Time) {
	state := p.pc.ConnectionState()
	if state != webrtc.PeerConnectionStateFailed && (p.connected.Load() || now.Sub(p.v.since) < soon || p.pc.RemoteDescription() == nil) {
		return
	}
	w := p.way()
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
