package network

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"net"
	"strconv"
	"time"

	"github.com/pion/stun/v4"
	"github.com/pion/transport/v5"
	"github.com/pion/transport/v5/stdnet"
	"github.com/pion/turn/v5"
)

// relayNet connects an agent to its TURN servers. It bounds relayed packets, which pass neither
// udpMux nor tcpMux.
//
// It is the transport.Net of the agent and, for TURN over TCP and TLS, its proxy.Dialer.
type relayNet struct {
	transport.Net
	secure map[string]string // hosts of servers that are reached by TLS, by address
	bounds *bounds
}

func newRelayNet(servers []Server, b *bounds) (relayNet, error) {
	n, err := stdnet.NewNet()
	secure := map[string]string{}
	for _, server := range servers {
		for _, text := range server.URLs {
			if u, err := stun.ParseURI(text); err == nil && u.Scheme == stun.SchemeTypeTURNS {
				secure[net.JoinHostPort(u.Host, strconv.Itoa(u.Port))] = u.Host
			}
		}
	}
	return relayNet{n, secure, b}, err
}

func (n relayNet) ListenPacket(network, address string) (net.PacketConn, error) {
	c, err := n.Net.ListenPacket(network, address)
	return relayPackets{c, n.bounds}, err
}

// errNoDirect is returned for sockets that are not for a TURN server.
var errNoDirect = errors.New("only TURN servers are reached")

// ListenUDP implements transport.Net. It keeps the agent from opening a UDP port to ask a
// TURN server for its address.
func (relayNet) ListenUDP(string, *net.UDPAddr) (transport.UDPConn, error) { return nil, errNoDirect }

// relayTimeout bounds the time to connect to a TURN server.
const relayTimeout = 10 * time.Second

func (n relayNet) Dial(network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), relayTimeout)
	defer cancel()
	var dialer interface {
		DialContext(ctx context.Context, network, address string) (net.Conn, error)
	} = &net.Dialer{}
	if host, ok := n.secure[address]; ok {
		dialer = &tls.Dialer{Config: &tls.Config{ServerName: host}} //nolint:gosec // Go's minimum version is good
	}
	c, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return relayStream{c, relayPackets{turn.NewSTUNConn(c), n.bounds}}, nil
}

type relayPackets struct {
	net.PacketConn
	bounds *bounds
}

func (p relayPackets) ReadFrom(b []byte) (int, net.Addr, error) {
	for {
		n, from, err := p.PacketConn.ReadFrom(b)
		if err != nil || !isShortAllocation(b[:n]) && p.bounds.admit(relayed(b[:n])) {
			return n, from, err
		}
	}
}

func (p relayPackets) WriteTo(b []byte, to net.Addr) (int, error) {
	if err := p.bounds.send(relayed(b)); err != nil {
		return 0, err
	}
	return p.PacketConn.WriteTo(b, to)
}

// leastAllocation is the shortest lifetime of an allocation that is used. The client refreshes
// an allocation after half of its lifetime. With a lifetime of 0 and a server that is gone, it
// would try that without a pause and keep each attempt in memory.
const leastAllocation = 10 * time.Second

// isShortAllocation reports whether a packet of a TURN server makes an allocation with a shorter
// lifetime (RFC 8656, section 7.3). Without that packet, the server has no address for viewers.
func isShortAllocation(b []byte) bool {
	const allocated = 0x0103
	if !isSTUN(b, allocated) {
		return false
	}
	v, ok := attribute(b, stun.AttrLifetime)
	return ok && len(v) == 4 && binary.BigEndian.Uint32(v) < uint32(leastAllocation/time.Second)
}

// relayStream is a connection to a TURN server. One Read returns one packet of it, and one Write
// sends one.
type relayStream struct {
	net.Conn
	packets relayPackets
}

func (s relayStream) Read(b []byte) (int, error) {
	n, _, err := s.packets.ReadFrom(b)
	return n, err
}

func (s relayStream) Write(b []byte) (int, error) {
	if err := s.packets.bounds.send(relayed(b)); err != nil {
		return 0, err
	}
	return s.Conn.Write(b)
}

// relayed returns the payload of a packet from or to a TURN server: the data of a channel, or of
// a Data or Send indication (RFC 8656, sections 12.4, 11.6 and 11.1). It is empty for other packets.
func relayed(b []byte) []byte {
	const header, data, send = 4, 0x0017, 0x0016
	if len(b) >= header && b[0]>>6 == 1 {
		return b[header:]
	}
	if !isSTUN(b, data) && !isSTUN(b, send) {
		return nil
	}
	payload, _ := attribute(b, stun.AttrData)
	return payload
}

func attribute(b []byte, kind stun.AttrType) (value []byte, ok bool) {
	const header = 4
	for b = b[stunHeader:]; len(b) >= header; {
		k, n := stun.AttrType(binary.BigEndian.Uint16(b)), int(binary.BigEndian.Uint16(b[2:]))
		if b = b[header:]; n > len(b) {
			break
		}
		if k == kind {
			return b[:n], true
		}
		b = b[min(len(b), (n+3)&^3):]
	}
	return nil, false
}
