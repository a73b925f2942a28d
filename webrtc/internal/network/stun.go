package network

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pion/stun/v4"
	"github.com/pion/webrtc/v4"
	"golang.org/x/time/rate"
)

// The types of STUN messages (RFC 8489, section 5).
const (
	stunHeader  = 20
	stunCookie  = 0x2112A442
	stunRequest = 0x0001 // Binding request
	stunSuccess = 0x0101 // its success response
)

func isSTUN(b []byte, kind uint16) bool {
	return len(b) >= stunHeader && binary.BigEndian.Uint16(b) == kind && binary.BigEndian.Uint32(b[4:]) == stunCookie &&
		int(binary.BigEndian.Uint16(b[2:])) == len(b)-stunHeader
}

// stunConn is a UDP socket that is also a STUN server (RFC 8489). It answers Binding requests
// without a user. It passes on the requests of ICE, which have a user.
//
// It can also query other STUN servers, which then see the address of this socket.
type stunConn struct {
	UDPConn
	closing sync.Once
	ended   chan struct{} // closed when the socket is closed
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

// readPause is the time until the next read after an error. The kernel returns an error if it
// lacks memory.
const readPause = 10 * time.Millisecond

// answer answers a Binding request. It returns false for requests of ICE. It drops requests
// beyond stunRate without decoding them.
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

// query asks a STUN server for the address of this socket.
func (c *stunConn) query(ctx context.Context, server netip.AddrPort) (netip.AddrPort, error) {
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

// answered delivers the response of a server to query. It returns false if there is no query to
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

// Server is a STUN or TURN server (RFC 7064, RFC 7065).
type Server struct {
	URLs                 []string
	Username, Credential string // for TURN
}

// validate returns an error if browsers would reject the server. A page that has such a server
// cannot connect.
func (s Server) validate() error {
	if len(s.URLs) == 0 {
		return errors.New("an ICE server needs a URL")
	}
	for _, text := range s.URLs {
		u, err := stun.ParseURI(text)
		switch {
		case err != nil:
			return fmt.Errorf("ICE server %q: %w; it must be like stun:HOST:PORT or turn:HOST:PORT?transport=udp", text, err)
		case isTURN(u) && (s.Username == "" || s.Credential == ""):
			return fmt.Errorf("ICE server %q: a TURN server needs a user and a credential", text)
		}
	}
	return nil
}

func isTURN(u *stun.URI) bool {
	return u.Scheme == stun.SchemeTypeTURN || u.Scheme == stun.SchemeTypeTURNS
}

// Relays returns the TURN servers that relay for this program, for viewers that cannot reach it
// directly. TURN over DTLS is left out, because browsers do not use it.
func (l *Link) Relays() []webrtc.ICEServer {
	var all []webrtc.ICEServer
	for _, s := range l.n.cfg.Servers {
		for _, text := range s.URLs {
			if u, err := stun.ParseURI(text); err == nil && isTURN(u) && (u.Scheme == stun.SchemeTypeTURN || u.Proto == stun.ProtoTypeTCP) {
				all = append(all, webrtc.ICEServer{URLs: []string{text}, Username: s.Username, Credential: s.Credential})
			}
		}
	}
	return all
}

// STUN returns the URL of this program's STUN server, as the viewer reaches it.
func (l *Link) STUN() string {
	host, port := l.target.Host, l.target.Port
	if host == "" {
		host, port = "127.0.0.1", DefaultUDPPort+1
	}
	if l.n.stun != nil {
		l.n.stun.refresh()
		port = l.n.stun.port
	}
	return "stun:" + net.JoinHostPort(host, strconv.Itoa(port))
}

// askTime bounds the time for the replies of the STUN servers.
const askTime = 2 * time.Second

// Reply is the reply of a STUN or TURN server.
type Reply struct {
	URL  string
	Seen netip.AddrPort // the address of the port for media, as the server sees it
	Time time.Duration
	Err  error
}

// ErrNotAsked is the error of servers that do not speak STUN over UDP.
var ErrNotAsked = errors.New("it is only tried by viewers, because it is not reached by UDP")

// askServers queries all configured servers concurrently for the address from which they see
// the port. The replies are in the order of the servers.
func (l *Link) askServers(ctx context.Context) []Reply {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	var all []Reply
	for _, s := range l.n.cfg.Servers {
		for _, text := range s.URLs {
			all = append(all, Reply{URL: text})
		}
	}
	var work sync.WaitGroup
	for i := range all {
		work.Go(func() {
			begun := time.Now()
			all[i].Seen, all[i].Err = l.query(ctx, all[i].URL)
			all[i].Time = time.Since(begun)
		})
	}
	work.Wait()
	return all
}

func (l *Link) query(ctx context.Context, text string) (netip.AddrPort, error) {
	u, err := stun.ParseURI(text)
	switch {
	case err != nil:
		return netip.AddrPort{}, err
	case u.Scheme == stun.SchemeTypeSTUNS, u.Scheme == stun.SchemeTypeTURNS, u.Proto == stun.ProtoTypeTCP:
		return netip.AddrPort{}, ErrNotAsked
	case l.udp == nil:
		return netip.AddrPort{}, errors.New("there is no UDP port to ask from")
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", u.Host)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("resolve %s: %w", u.Host, err)
	}
	// IPv4 addresses are more often behind a NAT.
	server := ips[0]
	for _, ip := range ips {
		if ip.Unmap().Is4() {
			server = ip
			break
		}
	}
	at := netip.AddrPortFrom(server.Unmap(), uint16(u.Port)) //nolint:gosec // it is a port
	s, err := l.udp.socketFor(at)
	if err != nil {
		return netip.AddrPort{}, err
	}
	return s.conn.query(ctx, at)
}
