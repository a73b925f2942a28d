package webrtc

import (
	"fmt"
	"log/slog"
	"net"

	"github.com/deskhand/deskhand/webrtc/internal/network"
)

// DefaultUDPPort is tried first for the media of all viewers.
const DefaultUDPPort = network.DefaultUDPPort

// ErrNoPort is returned if every port of a range is in use, by viewers or other programs.
var ErrNoPort = network.ErrNoPort

// NetworkConfig describes how viewers reach this program.
type NetworkConfig struct {
	// UDPPort carries the media of all viewers. Zero: 59050 or, if it is in use, a port that
	// the kernel chooses. Negative: no UDP.
	UDPPort int

	// PortMin and PortMax, if set, are a range from which each viewer gets its own UDP port.
	// UDPPort must then be zero.
	PortMin, PortMax uint16

	// Announce lists the IP addresses of this machine outside of a network that translates
	// addresses. Viewers try these instead of the addresses of its interfaces. Empty: the
	// addresses of its interfaces.
	//
	// Viewers always try the address to which their request came.
	Announce []string

	// TCP lets viewers connect to the port of an HTTP server. Nil: viewers need UDP or a
	// TURN server.
	TCP *TCP

	// TCPPort is the port that viewers try by TCP, at the host of their request and at
	// Announce. Connections to it must reach a listener of TCP without passing an HTTP
	// proxy. Zero: the port of the request, unless the request came through an HTTP proxy.
	TCPPort uint16

	// ICEServers are used by viewers and by this program. STUN servers return the address
	// of its port as they see it. TURN servers relay for it. Empty: viewers use a STUN server
	// of this program. Its UDP port is the next port after UDPPort or, if that is in use, a
	// port that the kernel chooses.
	ICEServers []ICEServer

	// Logger receives debug messages. Nil: none.
	Logger *slog.Logger
}

// ICEServer is a STUN or TURN server for viewers (RFC 7064, RFC 7065).
type ICEServer struct {
	URLs       []string `json:"urls"`
	Username   string   `json:"username,omitempty"`   // for TURN
	Credential string   `json:"credential,omitempty"` // for TURN
}

// Validate returns an error if the configuration is invalid. It opens nothing. NewNetwork
// validates as well.
func (c NetworkConfig) Validate() error { return c.internal().Validate() }

func (c NetworkConfig) internal() network.Config {
	n := network.Config{
		UDPPort: c.UDPPort, PortMin: c.PortMin, PortMax: c.PortMax,
		Announce: c.Announce, TCPPort: c.TCPPort, Logger: c.Logger,
	}
	if c.TCP != nil {
		n.TCP = &c.TCP.shared
	}
	for _, s := range c.ICEServers {
		n.Servers = append(n.Servers, network.Server(s))
	}
	if n.Logger == nil {
		n.Logger = slog.New(slog.DiscardHandler)
	}
	return n
}

// Network has the ports by which viewers reach this program. Streamers may share it.
type Network struct {
	cfg   NetworkConfig
	ports *network.Network
}

// NewNetwork opens the port for media, unless every viewer gets its own. It does not wait for
// STUN or TURN servers. It returns an error if cfg is invalid or the port cannot be opened,
// such as a UDPPort that is in use. The caller must close the Network after its streamers.
func NewNetwork(cfg NetworkConfig) (*Network, error) { return newNetwork(cfg, cfg.internal()) }

func newNetwork(cfg NetworkConfig, ports network.Config) (*Network, error) {
	n, err := network.Open(ports)
	if err != nil {
		return nil, fmt.Errorf("network for media: %w", err)
	}
	return &Network{cfg, n}, nil
}

// Close closes the ports and returns the errors of that. Further calls return nil.
func (n *Network) Close() error { return n.ports.Close() }

// iceServers returns the servers for a viewer. The list is never empty, because the published
// client would add a public server to an empty list.
func (n *Network) iceServers(l *network.Link) []ICEServer {
	if len(n.cfg.ICEServers) > 0 {
		return n.cfg.ICEServers
	}
	return []ICEServer{{URLs: []string{l.STUN()}}}
}

// TCP lets viewers whose UDP packets are blocked connect to the TCP port of an HTTP server
// (ICE-TCP, RFC 6544). A browser that reaches the page then also reaches the video, through
// port forwards of any kind, but not through proxies that pass only HTTP.
//
// The zero value is ready to use. Set NetworkConfig.TCP to it. Networks and listeners may
// share one. Its methods may be called from any goroutine.
type TCP struct{ shared network.TCP }

// Share returns a listener for an HTTP server. It accepts the connections of ln. If the first
// bytes of a connection are a message of ICE, the viewer gets the connection, and the server
// reads io.EOF. All other connections pass unchanged, with TLS or without. Only *net.TCPConn
// are examined.
//
// A connection is examined when the server reads from it, so the server's deadlines apply,
// and a connection that sends nothing does not block others.
func (t *TCP) Share(ln net.Listener) net.Listener { return t.shared.Share(ln) }

// Shares reports whether a listener of [TCP.Share] accepted the connection, so that viewers
// can connect the same way.
func (t *TCP) Shares(conn net.Conn) bool { return t.shared.Shares(conn) }
