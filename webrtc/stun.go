package webrtc

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pion/stun/v4"
)

// What STUN messages begin with (RFC 8489, section 5).
const (
	stunHeader  = 20
	stunCookie  = 0x2112A442
	stunRequest = 0x0001 // Binding request
	stunSuccess = 0x0101 // its success response
)

// isSTUN says whether a packet is a STUN message of a type.
func isSTUN(b []byte, kind uint16) bool {
	return len(b) >= stunHeader && binary.BigEndian.Uint16(b) == kind && binary.BigEndian.Uint32(b[4:]) == stunCookie &&
		int(binary.BigEndian.Uint16(b[2:])) == len(b)-stunHeader
}

// stunConn is a UDP socket that is a STUN server beside what else it is
// (RFC 8489): it answers the Binding requests of those who only want to know
// their own address. The requests of ICE, which name a user, pass.
//
// It can ask other servers, too, so that the address it gets to know is the one
// of this very socket.
type stunConn struct {
	udpConn
	closing sync.Once
	ended   chan struct{} // closed when the socket is
	allow   bucket

	waiting atomic.Int32 // size of asked
	mu      sync.Mutex
	asked   map[[stun.TransactionIDSize]byte]chan netip.AddrPort
}

func newSTUNConn(conn udpConn) *stunConn {
	return &stunConn{
		udpConn: conn, ended: make(chan struct{}), allow: bucket{rate: stunRate, size: stunRate},
		asked: map[[stun.TransactionIDSize]byte]chan netip.AddrPort{},
	}
}

// stunRate is how many requests a second a socket answers. The sender of a
// request may be forged; with this an answer is no weapon against its victim.
const stunRate = 100

// read returns the next packet that it has not answered itself. The only error is
// the end of the socket.
func (c *stunConn) read(b []byte) (int, netip.AddrPort, error) {
	for {
		n, from, err := c.ReadFromUDPAddrPort(b)
		switch {
		case errors.Is(err, net.ErrClosed):
			return 0, from, err
		case err != nil:
			<-time.After(readPause)
		case isSTUN(b[:n], stunRequest) && c.answer(b[:n], from):
		case c.waiting.Load() > 0 && isSTUN(b[:n], stunSuccess) && c.answered(b[:n]):
		default:
			return n, from, nil
		}
	}
}

// Close closes the socket.
func (c *stunConn) Close() error {
	c.closing.Do(func() { close(c.ended) })
	return c.udpConn.Close()
}

// readPause is how long a socket is left alone that has given an error, which
// the kernel does when it lacks memory.
const readPause = 10 * time.Millisecond

// answer answers a Binding request, unless it is one of ICE. It says whether
// that is all there was to do. What is too much is not even decoded.
func (c *stunConn) answer(request []byte, from netip.AddrPort) bool {
	if _, named := attribute(request, stun.AttrUsername); named {
		return false
	}
	if c.allow.take(time.Now()) {
		if reply := bindingReply(request, from); reply != nil {
			_, _ = c.WriteToUDPAddrPort(reply, from) // they will ask again
		}
	}
	return true
}

// bindingReply is the answer to a Binding request (RFC 8489, section 6.3), or
// nil if there is none.
func bindingReply(request []byte, from netip.AddrPort) []byte {
	m := &stun.Message{Raw: append([]byte(nil), request...)}
	if err := m.Decode(); err != nil {
		return nil
	}
	setters := []stun.Setter{m, stun.BindingSuccess, &stun.XORMappedAddress{IP: from.Addr().Unmap().AsSlice(), Port: int(from.Port())}}
	if unknown := unknownAttributes(m); len(unknown) > 0 {
		setters = []stun.Setter{m, stun.BindingError, stun.CodeUnknownAttribute, unknown}
	}
	if m.Contains(stun.AttrFingerprint) {
		if stun.Fingerprint.Check(m) != nil {
			return nil
		}
		setters = append(setters, stun.Fingerprint)
	}
	out, err := stun.Build(setters...)
	if err != nil {
		return nil
	}
	return out.Raw
}

// unknownAttributes are those that a server must understand, and this one does
// not.
func unknownAttributes(m *stun.Message) stun.UnknownAttributes {
	var unknown stun.UnknownAttributes
	for _, a := range m.Attributes {
		if a.Type.Required() && a.Type != stun.AttrMessageIntegrity && a.Type != messageIntegritySHA256 {
			unknown = append(unknown, a.Type)
		}
	}
	return unknown
}

// messageIntegritySHA256 may come without a user, and is not to be answered to
// then (RFC 8489, section 14.6).
const messageIntegritySHA256 stun.AttrType = 0x001C

// bucket limits how often something is done.
type bucket struct {
	rate, size float64 // a second, and at once

	mu   sync.Mutex
	left float64
	last time.Time
}

// take says whether it may be done once more now.
func (b *bucket) take(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.last.IsZero() {
		b.left = b.size
	} else {
		b.left = min(b.size, b.left+b.rate*now.Sub(b.last).Seconds())
	}
	b.last = now
	if b.left < 1 {
		return false
	}
	b.left--
	return true
}

// errNoReply is the error when a STUN server does not answer.
var errNoReply = errors.New("no answer")

// firstRetry is after how long a STUN server is asked again, each time twice as
// long (RFC 8489, section 6.2.1).
const firstRetry = 250 * time.Millisecond

// ask asks a STUN server by which address it sees this socket.
func (c *stunConn) ask(ctx context.Context, server netip.AddrPort) (netip.AddrPort, error) {
	m, err := stun.Build(stun.TransactionID, stun.BindingRequest, stun.Fingerprint)
	if err != nil {
		return netip.AddrPort{}, err
	}
	reply := make(chan netip.AddrPort, 1)
	c.mu.Lock()
	c.asked[m.TransactionID] = reply
	c.mu.Unlock()
	c.waiting.Add(1)
	defer func() {
		c.waiting.Add(-1)
		c.mu.Lock()
		delete(c.asked, m.TransactionID)
		c.mu.Unlock()
	}()
	for pause := firstRetry; ; pause *= 2 {
		if _, err := c.WriteToUDPAddrPort(m.Raw, server); err != nil {
			return netip.AddrPort{}, err
		}
		select {
		case at := <-reply:
			return at, nil
		case <-ctx.Done():
			return netip.AddrPort{}, errNoReply
		case <-c.ended:
			return netip.AddrPort{}, net.ErrClosed
		case <-time.After(pause):
		}
	}
}

// answered takes the response of a server that was asked. It says whether it was.
func (c *stunConn) answered(response []byte) bool {
	m := &stun.Message{Raw: append([]byte(nil), response...)}
	if m.Decode() != nil {
		return false
	}
	c.mu.Lock()
	reply := c.asked[m.TransactionID]
	c.mu.Unlock()
	if reply == nil {
		return false
	}
	var at stun.XORMappedAddress
	if at.GetFrom(m) != nil {
		return true
	}
	if ip, ok := netip.AddrFromSlice(at.IP); ok {
		select {
		case reply <- netip.AddrPortFrom(ip.Unmap(), uint16(at.Port)): //nolint:gosec // it is a port
		default: // it answered twice
		}
	}
	return true
}

// lookup finds the addresses of a STUN server, IPv4 first: those that are to be
// found out are more often behind a NAT there.
func lookup(ctx context.Context, host string, port int) ([]netip.AddrPort, error) {
	if ip, err := netip.ParseAddr(host); err == nil {
		return []netip.AddrPort{netip.AddrPortFrom(ip.Unmap(), uint16(port))}, nil //nolint:gosec // it is a port
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, fmt.Errorf("resolve %s: %w", host, err)
	}
	var v4, v6 []netip.AddrPort
	for _, ip := range ips {
		at := netip.AddrPortFrom(ip.Unmap(), uint16(port)) //nolint:gosec // it is a port
		if at.Addr().Is4() {
			v4 = append(v4, at)
		} else {
			v6 = append(v6, at)
		}
	}
	return append(v4, v6...), nil
}
