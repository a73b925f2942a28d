package network

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/pion/stun/v4"
	"github.com/pion/webrtc/v4"
)

// Server is a STUN or TURN server (RFC 7064, RFC 7065).
type Server struct {
	URLs                 []string
	Username, Credential string // for TURN
}

// validate returns why browsers would reject a server. A page cannot connect at all then.
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

// Relays returns the TURN servers that relay for this program, so that two ends which
// cannot reach each other meet there. TURN over DTLS is left out: browsers do not use it.
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

// askTime is how long STUN servers may take.
const askTime = 2 * time.Second

// Reply is what a STUN or TURN server replied.
type Reply struct {
	URL  string
	Seen netip.AddrPort // the address of the port for media, as the server sees it
	Time time.Duration
	Err  error
}

// ErrNotAsked is the error of servers that do not speak STUN over UDP.
var ErrNotAsked = errors.New("it is only tried by viewers, because it is not reached by UDP")

// askServers asks all configured servers concurrently by which address they see the port.
// The replies are in the order of the servers.
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
			all[i].Seen, all[i].Err = l.ask(ctx, all[i].URL)
			all[i].Time = time.Since(begun)
		})
	}
	work.Wait()
	return all
}

func (l *Link) ask(ctx context.Context, text string) (netip.AddrPort, error) {
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
	return s.conn.ask(ctx, at)
}
