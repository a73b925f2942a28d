package network

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pion/stun/v4"
	"golang.org/x/time/rate"
)

// What STUN messages begin with (RFC 8489, section 5).
const (
	stunHeader  = 20
	stunCookie  = 0x2112A442
	stunRequest = 0x0001 // Binding request
	stunSuccess = 0x0101 // its success response
)

// isSTUN reports whether a packet is a STUN message of a type.
func isSTUN(b []byte, kind uint16) bool {
	return len(b) >= stunHeader && binary.BigEndian.Uint16(b) == kind && binary.BigEndian.Uint32(b[4:]) == stunCookie &&
		int(binary.BigEndian.Uint16(b[2:])) == len(b)-stunHeader
}

// stunConn is a UDP socket that is a STUN server as well (RFC 8489). It answers Binding
// requests without a user. It passes on the requests of ICE, which have one.
//
// It can also ask other STUN servers, which then see the address of this socket.
type stunConn struct {
	UDPConn
	closing sync.Once
	ended   chan struct{} // closed when the socket is
	allow   *rate.Limiter

	waiting atomic.Int32 // size of asked
	mu      sync.Mutex
	asked   map[[stun.TransactionIDSize]byte]chan netip.AddrPort
}

func newSTUNConn(conn UDPConn) *stunConn {
	return &stunConn{
		UDPConn: conn, ended: make(chan struct{}), allow: rate.NewLimiter(stunRate, stunRate),
		asked: map[[stun.TransactionIDSize]byte]chan netip.AddrPort{},
	}
}

// stunRate is how many requests a second a socket answers. It bounds what an attacker can
// send to a victim by forging the sender of requests.
const stunRate = 100

// read returns the next packet that the STUN server has not answered. It returns an error
// only after the socket was closed.
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
	return c.UDPConn.Close()
}

// readPause is the time until the next read after an error. The kernel returns one if it
// lacks memory.
const readPause = 10 * time.Millisecond

// answer answers a Binding request. It returns false if the request is one of ICE. It does
// not decode requests beyond stunRate.
func (c *stunConn) answer(request []byte, from netip.AddrPort) bool {
	if _, named := attribute(request, stun.AttrUsername); named {
		return false
	}
	if c.allow.Allow() {
		if reply := bindingReply(request, from); reply != nil {
			_, _ = c.WriteToUDPAddrPort(reply, from) // clients repeat their requests
		}
	}
	return true
}

// bindingReply returns the answer to a Binding request (RFC 8489, section 6.3). It returns
// nil if the request is malformed.
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

// unknownAttributes returns the attributes that a server must understand but this one does
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

// messageIntegritySHA256 may come without a user (RFC 8489, section 14.6). Its value is
// ignored then.
const messageIntegritySHA256 stun.AttrType = 0x001C

// errNoReply is returned if a STUN server does not answer.
var errNoReply = errors.New("no answer")

// firstRetry is the time until a request is repeated. It doubles each time (RFC 8489,
// section 6.2.1).
const firstRetry = 250 * time.Millisecond

// ask asks a STUN server for the address of this socket.
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

// answered delivers the response of a server to ask. It returns false if ask has not asked
// that server.
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
