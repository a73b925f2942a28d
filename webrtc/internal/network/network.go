package network

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/pion/ice/v4"
	"github.com/pion/webrtc/v4"
)

// DefaultUDPPort is tried first for the media of all viewers.
const DefaultUDPPort = 59050

// MaxCandidates is how many addresses a viewer may send.
const MaxCandidates = 100

// ErrNoPort is returned if every port of a range is in use.
var ErrNoPort = errors.New("no UDP port is free for another viewer")

// Config describes a Network. The fields are explained at webrtc.NetworkConfig.
type Config struct {
	UDPPort          int
	PortMin, PortMax uint16
	Announce         []string
	TCP              *TCP
	TCPPort          uint16
	Servers          []Server
	Logger           *slog.Logger // must not be nil

	// Addresses returns the addresses to open ports on. Nil: LocalAddresses.
	Addresses func() ([]netip.Addr, error)

	// Listen opens a UDP port. Nil: net.ListenUDP.
	Listen func(netip.AddrPort) (UDPConn, error)

	// Resolve returns the addresses of a name. Nil: the default resolver's.
	Resolve func(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// UDPConn is a UDP socket, such as a *net.UDPConn.
type UDPConn interface {
	net.PacketConn
	ReadFromUDPAddrPort([]byte) (int, netip.AddrPort, error)
	WriteToUDPAddrPort([]byte, netip.AddrPort) (int, error)
}

// Validate returns an error if the configuration is invalid. It opens nothing.
func (c Config) Validate() error {
	switch {
	case c.UDPPort > 65535:
		return fmt.Errorf("UDPPort must be at most 65535, not %d", c.UDPPort)
	case c.PortMin > c.PortMax || c.PortMin == 0 && c.PortMax > 0:
		return fmt.Errorf("PortMin %d and PortMax %d are no range of ports", c.PortMin, c.PortMax)
	case c.PortMin > 0 && c.UDPPort != 0:
		return errors.New("UDPPort and PortMin exclude each other")
	}
	if _, err := c.announce(); err != nil {
		return err
	}
	for _, s := range c.Servers {
		if err := s.validate(); err != nil {
			return err
		}
	}
	return nil
}

func (c Config) announce() ([]netip.Addr, error) {
	var all []netip.Addr
	for _, text := range c.Announce {
		ip, err := netip.ParseAddr(text)
		if err != nil {
			return nil, fmt.Errorf("addresses to announce must be IP addresses, not %q", text)
		}
		if ip = ip.Unmap(); ip.IsUnspecified() || ip.IsMulticast() || ip.Zone() != "" {
			return nil, fmt.Errorf("viewers cannot reach this machine at %s", text)
		}
		all = append(all, ip)
	}
	return all, nil
}

// Network has the ports by which viewers reach this program.
type Network struct {
	cfg      Config
	announce []netip.Addr
	udp      *udpPort // of all viewers; nil: each has its own, or there is none
	stun     *udpPort // carries no media; nil: there is none

	mu   sync.Mutex
	next uint16 // port of the range to try next
}

// Open opens the port for media, unless every viewer gets its own, and a port for STUN if no
// servers are configured. It returns an error if the Config is invalid or the port for media
// cannot be opened.
func Open(cfg Config) (*Network, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Addresses == nil {
		cfg.Addresses = LocalAddresses
	}
	if cfg.Listen == nil {
		cfg.Listen = listenUDP
	}
	if cfg.Resolve == nil {
		cfg.Resolve = net.DefaultResolver.LookupNetIP
	}
	n := &Network{cfg: cfg, next: cfg.PortMin}
	n.announce, _ = cfg.announce()
	if cfg.UDPPort < 0 {
		return n, nil
	}
	if cfg.PortMin > 0 {
		n.openSTUN(0)
		return n, nil
	}
	port := cfg.UDPPort
	if port == 0 {
		port = DefaultUDPPort
	}
	var err error
	n.udp, err = openUDP(port, &n.cfg)
	if cfg.UDPPort == 0 && errors.Is(err, syscall.EADDRINUSE) {
		n.udp, err = openUDP(0, &n.cfg)
	}
	if err != nil {
		return nil, fmt.Errorf("open UDP port for media: %w", err)
	}
	n.openSTUN((n.udp.port + 1) % 65536)
	return n, nil
}

// openSTUN opens the port of the STUN server that viewers use if no other servers are
// configured. It differs from the port for media because Chromium drops media that comes
// from the address of a STUN server. An error is only logged, because viewers can connect
// without STUN.
func (n *Network) openSTUN(port int) {
	if len(n.cfg.Servers) > 0 {
		return
	}
	var err error
	if n.stun, err = openUDP(port, &n.cfg); err != nil {
		n.stun, err = openUDP(0, &n.cfg)
	}
	if err != nil {
		n.cfg.Logger.Debug("open UDP port for STUN", "error", err)
	}
}

// Close closes the ports. It may be called more than once.
func (n *Network) Close() error {
	var errs []error
	for _, u := range []*udpPort{n.udp, n.stun} {
		if u != nil {
			errs = append(errs, u.Close())
		}
	}
	return errors.Join(errs...)
}

// Options describe the request of a viewer.
type Options struct {
	Host string // the Host header, or empty
	TCP  bool   // a listener of Config.TCP accepted its connection

	// NoLookup means that the name in Host is not resolved: the addresses would show the viewer
	// what the name server of this machine knows.
	NoLookup bool
}

// Link is how one viewer reaches this program.
type Link struct {
	n       *Network
	udp     *udpPort // nil: none
	own     bool     // udp belongs to this viewer alone
	target  target
	lookups bool // the name of target is resolved
	tcp     bool // connections to the target reach Config.TCP
	bounds  bounds
}

// Link makes the link of a viewer. It returns ErrNoPort if the range has no free port.
func (n *Network) Link(o Options) (*Link, error) {
	l := n.newLink(o)
	if n.cfg.PortMin > 0 {
		var err error
		if l.udp, err = n.openInRange(); err != nil {
			return nil, err
		}
		l.own = true
	}
	return l, nil
}

func (n *Network) newLink(o Options) *Link {
	return &Link{n: n, udp: n.udp, target: parseTarget(o.Host), lookups: !o.NoLookup, tcp: n.cfg.TCP != nil && (o.TCP || n.cfg.TCPPort != 0)}
}

// openInRange opens the next free port of the range. The port that was closed last comes
// last, because packets for its viewer may still be on the way.
func (n *Network) openInRange() (*udpPort, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for range int(n.cfg.PortMax-n.cfg.PortMin) + 1 {
		port := n.next
		if n.next++; n.next > n.cfg.PortMax || n.next == 0 {
			n.next = n.cfg.PortMin
		}
		u, err := openUDP(int(port), &n.cfg)
		if err == nil {
			return u, nil
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			return nil, fmt.Errorf("open UDP port for media: %w", err)
		}
	}
	return nil, fmt.Errorf("%w: %d-%d are all in use; widen the range (webrtcPortRange, --media-port-range) or close another viewer",
		ErrNoPort, n.cfg.PortMin, n.cfg.PortMax)
}

// Close closes the port of the viewer, if it has its own.
func (l *Link) Close() error {
	if l.own {
		return l.udp.Close()
	}
	return nil
}

// These are the times for which an agent waits for a better path before it accepts a
// server-reflexive or a relayed path. It accepts a peer-reflexive path immediately: such a path
// can be direct, because browsers hide their addresses from pages.
const (
	waitReflexive = 100 * time.Millisecond
	waitRelay     = 500 * time.Millisecond
)

// Configure makes the agent of a connection use the link. flooded is called if the viewer makes
// this program send too many short packets, possibly more than once and from several goroutines.
// It must not block.
func (l *Link) Configure(s *webrtc.SettingEngine, flooded func()) error {
	l.bounds.flooded = flooded
	s.SetRemoteIPFilter(boundRemotes())
	s.SetIncludeLoopbackCandidate(true)
	s.SetICEMulticastDNSMode(ice.MulticastDNSModeDisabled)
	s.SetNetworkTypes([]webrtc.NetworkType{webrtc.NetworkTypeUDP4, webrtc.NetworkTypeUDP6, webrtc.NetworkTypeTCP4, webrtc.NetworkTypeTCP6})
	// A viewer must not make this program connect to an address.
	s.DisableActiveTCP(true)
	s.SetPrflxAcceptanceMinWait(0)
	s.SetSrflxAcceptanceMinWait(waitReflexive)
	s.SetRelayAcceptanceMinWait(waitRelay)
	udp := l.udp
	if udp == nil {
		udp = &udpPort{closed: true} // without a mux the agent would open ports
	}
	s.SetICEUDPMux(udpMux{udp, &l.bounds})
	if l.n.cfg.TCP != nil {
		s.SetICETCPMux(tcpMux{l.n.cfg.TCP, &l.bounds})
	}
	if len(l.Relays()) > 0 {
		relayed, err := newRelayNet(l.n.cfg.Servers, &l.bounds)
		if err != nil {
			return err
		}
		s.SetNet(relayed)
		s.SetICEProxyDialer(relayed)
	}
	return nil
}

// boundRemotes returns a RemoteIPFilter that accepts the addresses that a viewer may send, and
// as many addresses from which only packets arrive.
func boundRemotes() func(net.IP) bool {
	var accepted atomic.Int32
	return func(net.IP) bool {
		return accepted.Load() < 2*MaxCandidates && accepted.Add(1) <= 2*MaxCandidates
	}
}

// Report describes how a viewer can reach this program.
type Report struct {
	Host       string       // of Options, in canonical form; empty: it is not a host and port
	Addresses  []netip.Addr // of Host
	ResolveErr error        // why the addresses of Host are unknown

	UDPPort      int          // zero: none
	UDPAddresses []netip.Addr // addresses on which the port is open
	UDPErr       error        // why no port of the range could be opened

	Servers   []Reply  // of the configured servers
	Announced []string // addresses that are sent to the viewer, such as "udp 192.0.2.1:59050"
}

// Inspect finds out how a viewer can reach this program. It resolves the host and then asks
// the STUN servers, each for up to two seconds.
func (n *Network) Inspect(ctx context.Context, o Options) Report {
	l, err := n.Link(o)
	if err != nil {
		l = n.newLink(o)
	}
	defer func() { _ = l.Close() }() // no viewer used it
	l.target = l.resolved(ctx)
	r := Report{Host: l.target.Host, Addresses: l.target.IPs, ResolveErr: l.target.Err, UDPErr: err, Servers: l.askServers(ctx)}
	reach := l.reach()
	r.UDPPort, r.UDPAddresses = reach.UDP, reach.Own
	for _, a := range r.Servers {
		if a.Err == nil {
			reach.Reflexive = append(reach.Reflexive, a.Seen)
		}
	}
	for _, a := range unique(reach.udp(), reach.reflexive(), reach.tcp(), reach.names()) {
		r.Announced = append(r.Announced, a.String())
	}
	return r
}
