package network

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/netip"
	"strconv"
	"testing"
	"time"

	"github.com/pion/stun/v4"
	"golang.org/x/time/rate"
)

// dial opens a socket that is connected to the port on one of its addresses. The socket is
// closed when the test ends.
func (u *udpPort) dial(t *testing.T, ip netip.Addr) *net.UDPConn {
	t.Helper()
	conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(u.addrPort(ip)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// exchange sends a packet and waits for the answer. It repeats the packet until there is one.
func exchange(t *testing.T, conn net.Conn, packet []byte) []byte {
	t.Helper()
	buf := make([]byte, 2000)
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		if _, err := conn.Write(packet); err != nil {
			t.Fatal(err)
		}
		_ = conn.SetReadDeadline(time.Now().Add(time.Second))
		n, err := conn.Read(buf)
		if err == nil {
			return buf[:n]
		}
		if !isTimeout(err) {
			t.Fatal(err)
		}
	}
	t.Fatal("no answer")
	return nil
}

// TestSTUNServer checks that the default entry for viewers is a STUN server, on every address
// and on another port than media.
func TestSTUNServer(t *testing.T) {
	t.Parallel()
	n := open(t, Config{})
	for _, ip := range n.udp.addresses() {
		url := n.link(t, Options{Host: net.JoinHostPort(ip.String(), "2468")}).STUN()
		if n.stun.port == n.udp.port {
			t.Fatalf("STUN and media have the same port %d", n.udp.port)
		}
		if want := "stun:" + net.JoinHostPort(ip.String(), strconv.Itoa(n.stun.port)); url != want {
			t.Fatalf("STUN() = %s, want %s", url, want)
		}
		uri, err := stun.ParseURI(url)
		if err != nil {
			t.Fatal(err)
		}
		conn := n.stun.dial(t, netip.MustParseAddr(uri.Host))
		client, err := stun.NewClient(conn)
		if err != nil {
			t.Fatal(err)
		}
		var at stun.XORMappedAddress
		err = client.Do(stun.MustBuild(stun.TransactionID, stun.BindingRequest), func(e stun.Event) {
			if e.Error == nil {
				e.Error = at.GetFrom(e.Message)
			}
			if e.Error != nil {
				t.Errorf("%s: %v", uri, e.Error)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		if at.String() != conn.LocalAddr().String() {
			t.Errorf("%s says %s, want %s", uri, at, conn.LocalAddr())
		}
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestBindingReply(t *testing.T) {
	t.Parallel()
	from := netip.MustParseAddrPort("[2001:db8::1]:7")
	build := func(setters ...stun.Setter) []byte {
		return stun.MustBuild(append([]stun.Setter{stun.TransactionID, stun.BindingRequest}, setters...)...).Raw
	}
	decode := func(raw []byte) *stun.Message {
		m := &stun.Message{Raw: raw}
		if err := m.Decode(); err != nil {
			t.Fatal(err)
		}
		return m
	}

	request := build(stun.NewSoftware("x"), stun.Fingerprint)
	reply := bindingReply(request, from)
	if reply == nil {
		t.Fatal("no reply")
	}
	m := decode(reply)
	var at stun.XORMappedAddress
	if err := at.GetFrom(m); err != nil || at.String() != from.String() {
		t.Errorf("address %v, %v; want %v", at, err, from)
	}
	if m.Type != stun.BindingSuccess || m.TransactionID != decode(request).TransactionID || stun.Fingerprint.Check(m) != nil {
		t.Errorf("reply is %v", m)
	}
	// An IPv4 address in an IPv6 address becomes IPv4.
	reply = bindingReply(build(), netip.MustParseAddrPort("[::ffff:1.2.3.4]:5"))
	if err := at.GetFrom(decode(reply)); err != nil || at.String() != "1.2.3.4:5" {
		t.Errorf("address %v, %v; want 1.2.3.4:5", at, err)
	}
	if len(reply) > 32 {
		t.Errorf("a reply of %d bytes to a request of 20", len(reply))
	}

	if new(stunConn).answer(build(stun.NewUsername("a:b")), from) {
		t.Error("the STUN server consumes a request of ICE")
	}
	changeRequest := stun.RawAttribute{Type: stun.AttrChangeRequest, Value: []byte{0, 0, 0, 6}}
	reply = bindingReply(build(changeRequest), from)
	var code stun.ErrorCodeAttribute
	m = decode(reply)
	if err := code.GetFrom(m); err != nil || m.Type != stun.BindingError || code.Code != stun.CodeUnknownAttribute {
		t.Errorf("a request with CHANGE-REQUEST is answered by %v", m)
	}
	var unknown stun.UnknownAttributes
	if err := unknown.GetFrom(m); err != nil || len(unknown) != 1 || unknown[0] != stun.AttrChangeRequest {
		t.Errorf("unknown attributes are %v, %v", unknown, err)
	}
	broken := bytes.Clone(request)
	broken[len(broken)-1] ^= 1
	if reply := bindingReply(broken, from); reply != nil {
		t.Error("a request with a wrong fingerprint is answered")
	}
}

// Packets other than plain requests go to the mux, which discards packets without a viewer.
func TestSTUNStrangers(t *testing.T) {
	t.Parallel()
	n := open(t, Config{})
	conn := n.udp.dial(t, n.udp.addresses()[0])
	for _, packet := range [][]byte{{}, {0}, []byte("GET /"), binding(t, "x:y")[framing:], make([]byte, 1400), append(stun.MustBuild(stun.BindingRequest).Raw, 0)} {
		if _, err := conn.Write(packet); err != nil {
			t.Fatal(err)
		}
	}
	// The server still answers, and this is its first answer.
	request := stun.MustBuild(stun.TransactionID, stun.BindingRequest)
	m := &stun.Message{Raw: exchange(t, conn, request.Raw)}
	if err := m.Decode(); err != nil || m.TransactionID != request.TransactionID {
		t.Errorf("answered %v, %v", m, err)
	}
}

// TestAskSTUNServer queries a server from the port for media.
func TestAskSTUNServer(t *testing.T) {
	t.Parallel()
	server := open(t, Config{})
	for _, ip := range server.udp.addresses() {
		t.Run(ip.String(), func(t *testing.T) {
			t.Parallel()
			url := "stun:" + server.udp.addrPort(ip).String()
			n := open(t, Config{Servers: []Server{
				{URLs: []string{url, "stun:127.0.0.1:9", "stuns:" + server.udp.addrPort(ip).String()}},
				{URLs: []string{"turn:" + server.udp.addrPort(ip).String()}, Username: "u", Credential: "c"},
			}})
			l := n.link(t, Options{})
			all := l.askServers(t.Context())
			for i, want := range []error{nil, errNoReply, ErrNotAsked, nil} {
				if a := all[i]; !errors.Is(a.Err, want) || (want == nil) != a.Seen.IsValid() {
					t.Errorf("%s: %v, %v; want %v", a.URL, a.Seen, a.Err, want)
				}
			}
			if at := all[0].Seen; int(at.Port()) != n.udp.port {
				t.Errorf("%s sees %v, want port %d", url, at, n.udp.port)
			}
			// The address of this machine itself is not a reflexive one.
			r := l.reach()
			r.Reflexive = []netip.AddrPort{all[0].Seen, netip.MustParseAddrPort("203.0.113.7:99")}
			if got := r.reflexive(); len(got) != 1 || got[0].candidate(0) == "" || got[0].IP.String() != "203.0.113.7" {
				t.Errorf("reflexive addresses: %v", got)
			}
			if got := len(l.Relays()); got != 1 {
				t.Errorf("%d servers relay, want 1", got)
			}
		})
	}
}

func TestAskEnds(t *testing.T) {
	t.Parallel()
	n := open(t, Config{})
	s, err := n.udp.socketFor(netip.MustParseAddrPort("127.0.0.1:9"))
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan error, 1)
	go func() {
		_, err := s.conn.query(context.Background(), netip.MustParseAddrPort("127.0.0.1:9"))
		asked <- err
	}()
	until(t, "the query waits", func() bool { return s.conn.waiting.Load() == 1 })
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-asked:
		if !errors.Is(err, net.ErrClosed) {
			t.Errorf("query: %v, want net.ErrClosed", err)
		}
	case <-time.After(patience):
		t.Error("Close does not end a query")
	}
}

// TestExcessIsNotDecoded checks that requests beyond the rate are dropped without allocations.
func TestExcessIsNotDecoded(t *testing.T) {
	c := &stunConn{allow: rate.NewLimiter(0, 0)}
	request := stun.MustBuild(stun.TransactionID, stun.BindingRequest, stun.Fingerprint).Raw
	from := netip.MustParseAddrPort("1.2.3.4:5")
	if got := testing.AllocsPerRun(100, func() { c.answer(request, from) }); got != 0 {
		t.Errorf("%v allocations for a request that is not answered", got)
	}
}

func FuzzBindingReply(f *testing.F) {
	f.Add(stun.MustBuild(stun.TransactionID, stun.BindingRequest, stun.Fingerprint).Raw)
	f.Add(binding(f, "a:b")[framing:])
	f.Fuzz(func(t *testing.T, b []byte) {
		reply := bindingReply(b, netip.MustParseAddrPort("1.2.3.4:5"))
		// An attacker who forges senders must not gain from long replies.
		if len(reply) > 3*len(b) {
			t.Errorf("%d bytes in answer to %d", len(reply), len(b))
		}
	})
}

// BenchmarkSTUN measures packets that are not plain requests. All packets of viewers pass this
// code.
func BenchmarkSTUN(b *testing.B) {
	packet := append([]byte{0x80}, make([]byte, 1199)...)
	b.ReportAllocs()
	for b.Loop() {
		if isSTUN(packet, stunRequest) {
			b.Fatal("taken for a request")
		}
	}
}
