package webrtc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/pion/stun/v4"
	"github.com/pion/webrtc/v4"
)

// ICEServer is a STUN or TURN server that viewers may use (RFC 7064, RFC 7065).
type ICEServer struct {
	URLs       []string `json:"urls"`
	Username   string   `json:"username,omitempty"`   // for TURN
	Credential string   `json:"credential,omitempty"` // for TURN
}

// validate says why browsers would not take a server: a page's connection fails
// altogether then.
func (s ICEServer) validate() error {
	if len(s.URLs) == 0 {
		return errors.New("an ICE server needs a URL")
	}
	for _, text := range s.URLs {
		u, err := stun.ParseURI(text)
		switch {
		case err != nil:
			return fmt.Errorf("ICE server %q: %w; it must be like stun:HOST:PORT or turn:HOST:PORT?transport=udp", text, err)
		case relay(u) && (s.Username == "" || s.Credential == ""):
			return fmt.Errorf("ICE server %q: a TURN server needs a user and a credential", text)
		}
	}
	return nil
}

// relay says whether a URL is that of a TURN server.
func relay(u *stun.URI) bool {
	return u.Scheme == stun.SchemeTypeTURN || u.Scheme == stun.SchemeTypeTURNS
}

// relays are the servers that relay for this program: two who both cannot be
// reached meet there. Those that are reached by DTLS, which no browser speaks to
// them, are left out.
func (n *Network) relays() []webrtc.ICEServer {
	var all []webrtc.ICEServer
	for _, s := range n.cfg.ICEServers {
		for _, text := range s.URLs {
			if u, err := stun.ParseURI(text); err == nil && relay(u) && (u.Scheme == stun.SchemeTypeTURN || u.Proto == stun.ProtoTypeTCP) {
				all = append(all, webrtc.ICEServer{URLs: []string{text}, Username: s.Username, Credential: s.Credential})
			}
		}
	}
	return all
}

// iceServers are those that a viewer is told. The list is never empty: the
// published client would add a public server to an empty one.
func (l *link) iceServers() []ICEServer {
	if len(l.n.cfg.ICEServers) > 0 {
		return l.n.cfg.ICEServers
	}
	host, port := l.target.Host, l.target.Port
	if host == "" {
		host, port = "127.0.0.1", DefaultUDPPort+1
	}
	if l.n.stun != nil {
		l.n.stun.refresh()
		port = l.n.stun.port
	}
	return []ICEServer{{URLs: []string{"stun:" + net.JoinHostPort(host, strconv.Itoa(port))}}}
}

// askTime is how long a STUN server may take.
const askTime = 2 * time.Second

// asked is what a STUN or TURN server said.
type asked struct {
	URL  string
	At   netip.AddrPort // as which it sees the port
	Time time.Duration
	Err  error
}

// askServers asks every configured server that can be asked over UDP by which
// address it sees the port. The answers are in the order of the servers.
func (l *link) askServers(ctx context.Context) []asked {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	var all []asked
	for _, s := range l.n.cfg.ICEServers {
		for _, text := range s.URLs {
			all = append(all, asked{URL: text})
		}
	}
	var work sync.WaitGroup
	for i := range all {
		work.Go(func() {
			begun := time.Now()
			all[i].At, all[i].Err = l.ask(ctx, all[i].URL)
			all[i].Time = time.Since(begun)
		})
	}
	work.Wait()
	return all
}

// errNotAsked is the error for servers that speak no STUN over UDP.
var errNotAsked = errors.New("it is only tried by viewers, because it is not reached by UDP")

func (l *link) ask(ctx context.Context, text string) (netip.AddrPort, error) {
	u, err := stun.ParseURI(text)
	switch {
	case err != nil:
		return netip.AddrPort{}, err
	case u.Scheme == stun.SchemeTypeSTUNS, u.Scheme == stun.SchemeTypeTURNS, u.Proto == stun.ProtoTypeTCP:
		return netip.AddrPort{}, errNotAsked
	case l.udp == nil:
		return netip.AddrPort{}, errors.New("there is no UDP port to ask from")
	}
	servers, err := lookup(ctx, u.Host, u.Port)
	if err != nil {
		return netip.AddrPort{}, err
	}
	s, err := l.udp.socketFor(servers[0])
	if err != nil {
		return netip.AddrPort{}, err
	}
	return s.conn.ask(ctx, servers[0])
}

// reflexive are the addresses by which STUN servers see the port.
func (l *link) reflexive(ctx context.Context) []netip.AddrPort {
	var all []netip.AddrPort
	for _, a := range l.askServers(ctx) {
		if a.Err == nil && !slices.Contains(all, a.At) {
			all = append(all, a.At)
		}
	}
	return all
}
