package webrtc

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"
	"sync"

	"github.com/pion/ice/v4"
	"github.com/pion/interceptor"
	"github.com/pion/interceptor/pkg/cc"
	"github.com/pion/interceptor/pkg/gcc"
	"github.com/pion/logging"
	"github.com/pion/webrtc/v4"
)

// DefaultUDPPort is tried first for the media of all viewers.
const DefaultUDPPort = 59050

// ICEServer is a STUN or TURN server that viewers may use (RFC 7064, RFC 7065).
type ICEServer struct {
	URLs       []string `json:"urls"`
	Username   string   `json:"username,omitempty"`
	Credential string   `json:"credential,omitempty"`
}

// NetworkConfig says how viewers reach this program.
type NetworkConfig struct {
	// UDPPort carries the media of all viewers. Zero: 59050 or, when somebody
	// has that, one that the kernel chooses. Negative: no UDP.
	UDPPort int

	// PortMin and PortMax, if set, give every viewer a UDP port of its own in
	// that range instead.
	PortMin, PortMax uint16

	// Announce lists IP addresses under which this machine is reached from
	// outside of a network that translates addresses. Empty: those of its
	// interfaces.
	Announce []string

	// ICEServers are told to viewers.
	ICEServers []ICEServer

	// Logger receives debug messages. Nil: none.
	Logger *slog.Logger
}

// Network is how viewers reach this program. Any number of streamers may share
// one.
type Network struct {
	cfg  NetworkConfig
	udp  ice.UDPMux // nil: a range, or no UDP
	port int        // of udp

	closing sync.Once
	err     error
}

// NewNetwork opens the ports. It must be closed.
func NewNetwork(cfg NetworkConfig) (*Network, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	n := &Network{cfg: cfg}
	if cfg.UDPPort < 0 || cfg.PortMin > 0 {
		return n, nil
	}
	port := cfg.UDPPort
	if port == 0 {
		port = DefaultUDPPort
	}
	mux, err := openUDP(port)
	if err != nil && cfg.UDPPort == 0 {
		if port, err = freePort(); err == nil {
			mux, err = openUDP(port)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("open UDP port for media: %w", err)
	}
	n.udp, n.port = mux, port
	return n, nil
}

func openUDP(port int) (ice.UDPMux, error) {
	return ice.NewMultiUDPMuxFromPort(port, ice.UDPMuxFromPortWithLoopback(), ice.UDPMuxFromPortWithLogger(quiet{}.NewLogger("")))
}

// freePort asks the kernel for a port that nobody uses.
func freePort() (int, error) {
	c, err := net.ListenPacket("udp", ":0") //nolint:noctx // it does not wait
	if err != nil {
		return 0, err
	}
	_, port, err := net.SplitHostPort(c.LocalAddr().String())
	if e := c.Close(); err == nil {
		err = e
	}
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(port)
}

// stunAddress is where viewers find the STUN server of this program.
func (n *Network) stunAddress(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	if host == "" {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, strconv.Itoa(n.port))
}

// Close gives the ports back.
func (n *Network) Close() error {
	n.closing.Do(func() {
		if n.udp != nil {
			n.err = n.udp.Close()
		}
	})
	return n.err
}

const playoutDelayURI = "http://www.webrtc.org/experiments/rtp-hdrext/playout-delay"

// connect makes a connection for one viewer, and the estimator of its line. Only
// the codec is offered.
func (n *Network) connect(codec Codec, least, most int) (*webrtc.PeerConnection, cc.BandwidthEstimator, error) {
	media := &webrtc.MediaEngine{}
	if err := registerCodec(media, codec); err != nil {
		return nil, nil, err
	}
	registry := &interceptor.Registry{}
	bwe, err := cc.NewInterceptor(func() (cc.BandwidthEstimator, error) {
		return gcc.NewSendSideBWE(
			gcc.SendSideBWEInitialBitrate(most), gcc.SendSideBWEMinBitrate(least), gcc.SendSideBWEMaxBitrate(most),
			gcc.SendSideBWEPacer(gcc.NewNoOpPacer()), gcc.WithLoggerFactory(quiet{}))
	})
	if err != nil {
		return nil, nil, err
	}
	var estimator cc.BandwidthEstimator
	bwe.OnNewPeerConnection(func(_ string, e cc.BandwidthEstimator) { estimator = e })
	registry.Add(bwe)
	for _, err := range []error{
		webrtc.ConfigureTWCCHeaderExtensionSender(media, registry),
		media.RegisterHeaderExtension(webrtc.RTPHeaderExtensionCapability{URI: playoutDelayURI}, webrtc.RTPCodecTypeVideo),
		webrtc.ConfigureNack(media, registry),
		webrtc.ConfigureRTCPReports(registry),
	} {
		if err != nil {
			return nil, nil, err
		}
	}
	settings, err := n.settings()
	if err != nil {
		return nil, nil, err
	}
	api := webrtc.NewAPI(webrtc.WithMediaEngine(media), webrtc.WithInterceptorRegistry(registry), webrtc.WithSettingEngine(settings))
	pc, err := api.NewPeerConnection(webrtc.Configuration{BundlePolicy: webrtc.BundlePolicyMaxBundle})
	return pc, estimator, err
}

// settings are Pion's for one connection.
func (n *Network) settings() (webrtc.SettingEngine, error) {
	s := webrtc.SettingEngine{LoggerFactory: quiet{}}
	s.SetIncludeLoopbackCandidate(true)
	s.SetICEMulticastDNSMode(ice.MulticastDNSModeDisabled)
	switch {
	case n.udp != nil:
		s.SetICEUDPMux(n.udp)
	case n.cfg.PortMin > 0:
		if err := s.SetEphemeralUDPPortRange(n.cfg.PortMin, n.cfg.PortMax); err != nil {
			return s, fmt.Errorf("UDP ports %d-%d: %w", n.cfg.PortMin, n.cfg.PortMax, err)
		}
	}
	return s, nil
}

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
