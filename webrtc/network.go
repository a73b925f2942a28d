package webrtc

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"github.com/pion/ice/v4"
	"github.com/pion/interceptor"
	"github.com/pion/interceptor/pkg/cc"
	"github.com/pion/logging"
	"github.com/pion/webrtc/v4"
)

// DefaultUDPPort is tried first for the media of all viewers.
const DefaultUDPPort = 59050

// ErrNoPort is returned when every port of a range carries a viewer already.
var ErrNoPort = errors.New("no UDP port is free for another viewer")

// NetworkConfig says how viewers reach this program.
type NetworkConfig struct {
	// UDPPort carries the media of all viewers. Zero: 59050 or, when somebody
	// has that, one that the kernel chooses. Negative: no UDP.
	UDPPort int

	// PortMin and PortMax, if set, give every viewer a UDP port of its own in
	// that range instead.
	PortMin, PortMax uint16

	// Announce lists IP addresses under which this machine is reached from
	// outside of a network that translates addresses. Viewers are told these
	// instead of those of its interfaces. Empty: those of its interfaces.
	//
	// The address by which a viewer's request came is told in any case.
	Announce []string

	// TCP takes in viewers at the port that serves HTTP. Nil: they have to use
	// UDP, or a TURN server.
	TCP *TCP

	// TCPPort is the port that viewers are told for TCP, at the host of their
	// request and at Announce. Connections to it must arrive at a listener that
	// shares its port with TCP, without an HTTP proxy between. Zero: the port of
	// the request, unless an HTTP proxy has passed that on.
	TCPPort uint16

	// ICEServers are told to viewers. This program itself asks those for STUN
	// by which address its port is seen, and has those for TURN relay for it.
	// Empty: viewers are told a STUN server of this program, on a UDP port of its
	// own: the next one after UDPPort or, if that is in use, one that the kernel
	// chooses.
	ICEServers []ICEServer

	// Logger receives debug messages. Nil: none.
	Logger *slog.Logger
}

// Validate says what is wrong with a configuration, without opening anything.
// NewNetwork does that, too.
func (c NetworkConfig) Validate() error {
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
	for _, s := range c.ICEServers {
		if err := s.validate(); err != nil {
			return err
		}
	}
	return nil
}

// announce is Announce, parsed.
func (c NetworkConfig) announce() ([]netip.Addr, error) {
	var all []netip.Addr
	for _, text := range c.Announce {
		ip, err := netip.ParseAddr(text)
		if err != nil {
			return nil, fmt.Errorf("addresses to announce must be IP addresses, not %q", text)
		}
		if ip = ip.Unmap(); ip.IsUnspecified() || ip.IsMulticast() || ip.Zone() != "" {
			return nil, fmt.Errorf("nobody can reach this machine at %s", text)
		}
		all = append(all, ip)
	}
	return all, nil
}

// Network is how viewers reach this program. Any number of streamers may share
// one.
type Network struct {
	cfg      NetworkConfig
	machine  machine
	announce []netip.Addr
	udp      *udpPort // of all viewers; nil: each has its own, or there is none
	stun     *udpPort // carries no media; nil: there is none

	mu   sync.Mutex
	next uint16 // port of the range to try next

	closing sync.Once
	err     error
}

// NewNetwork opens the port, unless every viewer gets its own. It must be
// closed, after its streamers.
func NewNetwork(cfg NetworkConfig) (*Network, error) { return newNetwork(cfg, thisMachine{}) }

func newNetwork(cfg NetworkConfig, m machine) (*Network, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("network for media: %w", err)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	n := &Network{cfg: cfg, machine: m, next: cfg.PortMin}
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
	n.udp, err = openUDP(port, m, cfg.Logger)
	if cfg.UDPPort == 0 && errors.Is(err, syscall.EADDRINUSE) {
		n.udp, err = openUDP(0, m, cfg.Logger)
	}
	if err != nil {
		return nil, fmt.Errorf("open UDP port for media: %w", err)
	}
	n.openSTUN((n.udp.port + 1) % 65536)
	return n, nil
}

// openSTUN opens the port of the STUN server that viewers are told, unless others
// were configured. It is not that of media, because Chromium drops all packets of
// media that come from the address of a STUN server. A viewer can do without it.
func (n *Network) openSTUN(port int) {
	if len(n.cfg.ICEServers) > 0 {
		return
	}
	var err error
	if n.stun, err = openUDP(port, n.machine, n.cfg.Logger); err != nil {
		n.stun, err = openUDP(0, n.machine, n.cfg.Logger)
	}
	if err != nil {
		n.cfg.Logger.Debug("open UDP port for STUN", "error", err)
	}
}

// Close closes the ports.
func (n *Network) Close() error {
	n.closing.Do(func() {
		for _, u := range []*udpPort{n.udp, n.stun} {
			if u != nil {
				n.err = errors.Join(n.err, u.Close())
			}
		}
	})
	return n.err
}

// link is how one viewer reaches this program.
type link struct {
	n       *Network
	udp     *udpPort // nil: none
	own     bool     // udp is of this viewer alone
	target  target
	tcp     bool // what comes to the target may be this viewer's
	senders senders
}

// link makes the way for a viewer. It must be closed.
func (n *Network) link(o ViewerOptions) (*link, error) {
	l := &link{n: n, udp: n.udp, target: parseTarget(o.Host), tcp: n.takesTCP(o)}
	if n.cfg.PortMin > 0 {
		var err error
		if l.udp, err = n.openInRange(); err != nil {
			return nil, err
		}
		l.own = true
	}
	return l, nil
}

// takesTCP reports whether a viewer is told of TCP.
func (n *Network) takesTCP(o ViewerOptions) bool {
	return n.cfg.TCP != nil && (o.TCP || n.cfg.TCPPort != 0)
}

// openInRange opens the next free port of the range. The one that was given
// back last comes last, because packets for its viewer may still be on the way.
func (n *Network) openInRange() (*udpPort, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var last error
	for range int(n.cfg.PortMax-n.cfg.PortMin) + 1 {
		port := n.next
		if n.next++; n.next > n.cfg.PortMax || n.next == 0 {
			n.next = n.cfg.PortMin
		}
		var u *udpPort
		if u, last = openUDP(int(port), n.machine, n.cfg.Logger); last == nil {
			return u, nil
		}
		if !errors.Is(last, syscall.EADDRINUSE) {
			return nil, fmt.Errorf("open UDP port for media: %w", last)
		}
	}
	return nil, fmt.Errorf("%w: %d-%d are all in use; widen the range (webrtcPortRange, --media-port-range) or close another viewer",
		ErrNoPort, n.cfg.PortMin, n.cfg.PortMax)
}

func (l *link) close() error {
	if l.own {
		return l.udp.Close()
	}
	return nil
}

const playoutDelayURI = "http://www.webrtc.org/experiments/rtp-hdrext/playout-delay"

// connect makes the connection of a viewer, and the estimator of its line. Only
// these codecs are offered. It calls flooded for each stream of the viewer's beyond
// mostStreams.
func (l *link) connect(codec Codec, sound audioFormat, least, most int, flooded func()) (*webrtc.PeerConnection, cc.BandwidthEstimator, error) {
	media := &webrtc.MediaEngine{}
	if err := registerCodec(media, codec); err != nil {
		return nil, nil, err
	}
	if err := media.RegisterCodec(sound.params, webrtc.RTPCodecTypeAudio); err != nil {
		return nil, nil, err
	}
	registry := &interceptor.Registry{}
	registry.Add(&feedbackGuard{})
	bwe, err := cc.NewInterceptor(func() (cc.BandwidthEstimator, error) { return newEstimator(least, most) })
	if err != nil {
		return nil, nil, err
	}
	var line cc.BandwidthEstimator
	bwe.OnNewPeerConnection(func(_ string, e cc.BandwidthEstimator) { line = e })
	registry.Add(bwe)
	for _, err := range []error{
		webrtc.ConfigureTWCCHeaderExtensionSender(media, registry),
		media.RegisterHeaderExtension(webrtc.RTPHeaderExtensionCapability{URI: playoutDelayURI}, webrtc.RTPCodecTypeVideo),
		webrtc.ConfigureNack(media, registry),
	} {
		if err != nil {
			return nil, nil, err
		}
	}
	settings, err := l.settings()
	if err != nil {
		return nil, nil, err
	}
	settings.BufferFactory = boundStreams(flooded)
	api := webrtc.NewAPI(webrtc.WithMediaEngine(media), webrtc.WithInterceptorRegistry(registry), webrtc.WithSettingEngine(settings))
	pc, err := api.NewPeerConnection(webrtc.Configuration{BundlePolicy: webrtc.BundlePolicyMaxBundle, ICEServers: l.n.relays()})
	return pc, line, err
}

const (
	// How long an agent holds back with a way that works, in case that a better
	// one does. A browser hides its own addresses from pages, so that all that
	// is known of it is what its packets tell: such a way is as good as any.
	waitReflexive = 100 * time.Millisecond
	waitRelay     = 500 * time.Millisecond
)

// settings are Pion's for one connection.
func (l *link) settings() (webrtc.SettingEngine, error) {
	s := webrtc.SettingEngine{LoggerFactory: quiet{}}
	s.SetSCTPMaxReceiveBufferSize(streamBuffer)
	s.SetRemoteIPFilter(boundCandidates())
	s.SetIncludeLoopbackCandidate(true)
	s.SetICEMulticastDNSMode(ice.MulticastDNSModeDisabled)
	s.SetNetworkTypes([]webrtc.NetworkType{webrtc.NetworkTypeUDP4, webrtc.NetworkTypeUDP6, webrtc.NetworkTypeTCP4, webrtc.NetworkTypeTCP6})
	// A viewer must not be able to have this program connect anywhere.
	s.DisableActiveTCP(true)
	s.SetPrflxAcceptanceMinWait(0)
	s.SetSrflxAcceptanceMinWait(waitReflexive)
	s.SetRelayAcceptanceMinWait(waitRelay)
	if l.udp != nil {
		s.SetICEUDPMux(udpMux{l.udp, &l.senders})
	} else {
		s.SetICEUDPMux(noUDP{})
	}
	if l.n.cfg.TCP != nil {
		s.SetICETCPMux(tcpMux{l.n.cfg.TCP, &l.senders})
	}
	if len(l.n.relays()) > 0 {
		relayed, err := newRelayNet(l.n.cfg.ICEServers, &l.senders)
		if err != nil {
			return s, err
		}
		s.SetNet(relayed)
		s.SetICEProxyDialer(relayed)
	}
	return s, nil
}

// noUDP is the ice.UDPMux without any port. With none at all agents would open
// ports of their own.
type noUDP struct{}

// GetConn implements ice.UDPMux.
func (noUDP) GetConn(string, net.Addr) (net.PacketConn, error) { return nil, net.ErrClosed }

// RemoveConnByUfrag implements ice.UDPMux.
func (noUDP) RemoveConnByUfrag(string) {}

// GetListenAddresses implements ice.UDPMux.
func (noUDP) GetListenAddresses() []net.Addr { return nil }

// Close implements ice.UDPMux.
func (noUDP) Close() error { return nil }

// registerCodec offers one codec, with the feedback that is listened to.
func registerCodec(media *webrtc.MediaEngine, codec Codec) error {
	feedback := []webrtc.RTCPFeedback{
		{Type: "transport-cc"}, {Type: "goog-remb"}, {Type: "ccm", Parameter: "fir"}, {Type: "nack"}, {Type: "nack", Parameter: "pli"},
	}
	p := webrtc.RTPCodecParameters{
		RTPCodecCapability: webrtc.RTPCodecCapability{MimeType: mimeType(codec), ClockRate: clockRate, RTCPFeedback: feedback},
		PayloadType:        96,
	}
	if codec == H264 {
		p.SDPFmtpLine = "level-asymmetry-allowed=1;packetization-mode=1;profile-level-id=42e01f"
	}
	return media.RegisterCodec(p, webrtc.RTPCodecTypeVideo)
}

func mimeType(codec Codec) string {
	switch codec {
	case VP9:
		return webrtc.MimeTypeVP9
	case H264:
		return webrtc.MimeTypeH264
	case VP8:
	}
	return webrtc.MimeTypeVP8
}

// quiet keeps Pion's own log, which tells of every packet of a stranger.
type quiet struct{}

// NewLogger implements logging.LoggerFactory.
func (quiet) NewLogger(string) logging.LeveledLogger {
	return logging.NewDefaultLeveledLoggerForScope("", logging.LogLevelDisabled, io.Discard)
}
