package network

import (
	"bytes"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"github.com/pion/rtcp"
	"github.com/pion/stun/v4"
)

// TestRefusedSenders checks that packets of refused sources do not reach the connection.
func TestRefusedSenders(t *testing.T) {
	t.Parallel()
	marshal := func(sender uint32) []byte {
		b, err := (&rtcp.ReceiverReport{SSRC: sender}).Marshal()
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	port, viewers := udpViewers(t, "me")
	turn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer turn.Close()
	for name, way := range map[string]struct {
		to    netip.AddrPort
		conn  net.PacketConn
		frame func([]byte) []byte
	}{
		"direct":       {port, viewers[0], func(b []byte) []byte { return b }},
		"TURN channel": {turn.LocalAddr().(*net.UDPAddr).AddrPort(), relayPackets{turn, new(bounds)}, func(b []byte) []byte { return append([]byte{0x40, 0, 0, byte(len(b))}, b...) }},
		"TURN data": {turn.LocalAddr().(*net.UDPAddr).AddrPort(), relayPackets{turn, new(bounds)}, func(b []byte) []byte {
			return stun.MustBuild(stun.NewType(stun.MethodData, stun.ClassIndication), stun.RawAttribute{Type: stun.AttrData, Value: b}).Raw
		}},
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(way.to))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if name == "direct" {
				if _, err := way.conn.WriteTo(stun.MustBuild(stun.BindingSuccess).Raw, conn.LocalAddr()); err != nil {
					t.Fatal(err)
				}
			}
			buffer := make([]byte, maxPacket)
			for i := range uint32(mostSenders + 10) {
				known := i % mostSenders
				for _, sender := range []uint32{i, known} {
					if _, err := conn.Write(way.frame(marshal(sender))); err != nil {
						t.Fatal(err)
					}
				}
				want := [][]byte{way.frame(marshal(i)), way.frame(marshal(known))}
				if i >= mostSenders {
					want = want[1:]
				}
				for _, w := range want {
					if n, _, err := way.conn.ReadFrom(buffer); err != nil || !bytes.Equal(buffer[:n], w) {
						t.Fatalf("source %d: got %x, %v, want %x", i, buffer[:n], err, w)
					}
				}
			}
		})
	}
}

// TestDataRate: SCTP answers what it receives without a bound, so packets of DTLS have one.
// Others do not count.
func TestDataRate(t *testing.T) {
	t.Parallel()
	const size = 1000
	dtls, media := append([]byte{23}, make([]byte, size-1)...), append([]byte{0x80, 96}, make([]byte, size-2)...)
	s, begun, got := new(bounds), time.Now(), 0
	for range 1000 {
		if s.admit(dtls) {
			got++
		}
		if !s.admit(media) || !s.admit(make([]byte, 20)) {
			t.Fatal("a packet of media or STUN was refused")
		}
	}
	if most := (dataBurst + int(time.Since(begun).Seconds()*dataRate)) / size; got < dataBurst/size || got > most {
		t.Errorf("%d packets of DTLS were admitted, want %d to %d", got, dataBurst/size, most)
	}
}

// TestShortRate: Pion can be made to send hundreds of short packets of DTLS for each that it
// receives, which ends the viewer. Others do not count.
func TestShortRate(t *testing.T) {
	t.Parallel()
	record := func(size int) []byte { return append([]byte{23}, make([]byte, size-1)...) }
	ended := 0
	b := bounds{flooded: func() { ended++ }}
	for range 10 * shortBurst {
		for _, other := range [][]byte{record(shortPacket + 1), {0x80, 96}, make([]byte, 20), {}} {
			if err := b.send(other); err != nil {
				t.Fatalf("%d bytes: %v", len(other), err)
			}
		}
	}
	sent := 0
	for ; b.send(record(shortPacket)) == nil; sent++ {
	}
	if sent < shortBurst || sent > 2*shortBurst || ended != 1 {
		t.Errorf("%d short packets were sent, want about %d; ended %d times, want once", sent, shortBurst, ended)
	}
	if err := b.send(record(60)); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("after the limit: %v, want io.ErrClosedPipe", err)
	}
}

// udpViewers opens a UDP port and adds viewers to it.
func udpViewers(t *testing.T, names ...string) (netip.AddrPort, []net.PacketConn) {
	t.Helper()
	u := open(t, Config{}).udp
	at := u.addrPort(netip.MustParseAddr("127.0.0.1"))
	var all []net.PacketConn
	for _, name := range names {
		p, err := udpMux{u, new(bounds)}.GetConn(name, net.UDPAddrFromAddrPort(at))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = p.Close() })
		all = append(all, p)
	}
	return at, all
}

// TestUDPInboxIsBounded bounds the packets that wait for an agent. The agent of a viewer that
// has not answered reads no packets.
func TestUDPInboxIsBounded(t *testing.T) {
	t.Parallel()
	at, viewers := udpViewers(t, "idle", "other")
	conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(at))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	buffer := make([]byte, maxPacket)
	to := func(name string) []byte {
		return stun.MustBuild(stun.TransactionID, stun.BindingRequest, stun.NewUsername(name+":x")).Raw
	}
	idle, other := to("idle"), to("other")
	for range 4 * inboxSize {
		for _, m := range [][]byte{idle, other} {
			if _, err := conn.Write(m); err != nil {
				t.Fatal(err)
			}
		}
		if _, _, err := viewers[1].ReadFrom(buffer); err != nil { // this agent reads every packet
			t.Fatal(err)
		}
	}
	if got := len(viewers[0].(*udpPackets).in); got != inboxSize {
		t.Errorf("%d packets wait, want %d", got, inboxSize)
	}
	if err := viewers[0].Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := viewers[0].WriteTo(idle, conn.LocalAddr()); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("writing after the end: %v", err)
	}
}

// TestUDPAddressIsNotTaken checks that a viewer that claims the address of another viewer does
// not get the other's packets.
func TestUDPAddressIsNotTaken(t *testing.T) {
	t.Parallel()
	at, viewers := udpViewers(t, "owner", "thief")
	conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(at))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	request := stun.MustBuild(stun.TransactionID, stun.BindingRequest).Raw
	answer := stun.MustBuild(stun.TransactionID, stun.BindingSuccess).Raw
	buffer := make([]byte, maxPacket)
	write := func(who int, m []byte) {
		t.Helper()
		if _, err := viewers[who].WriteTo(m, conn.LocalAddr()); err != nil {
			t.Fatal(err)
		}
	}
	arrives := func(who int, m string) {
		t.Helper()
		if _, err := conn.Write([]byte(m)); err != nil {
			t.Fatal(err)
		}
		until(t, "the packet arrives", func() bool { return len(viewers[who].(*udpPackets).in) > 0 })
		if n, _, err := viewers[who].ReadFrom(buffer); err != nil || string(buffer[:n]) != m {
			t.Fatalf("got %q, %v, want %q", buffer[:n], err, m)
		}
	}
	write(1, request)
	arrives(1, "to whom has claimed the address first")
	write(0, answer)
	arrives(0, "to whom has it")
	write(1, request)
	arrives(0, "to whom still has it")
	write(1, answer)
	arrives(1, "to a new viewer with the address of an old one")
}

func TestRequestedUser(t *testing.T) {
	t.Parallel()
	good := stun.MustBuild(stun.TransactionID, stun.BindingRequest, stun.NewSoftware("odd"), stun.NewUsername("me:you"), stun.Fingerprint).Raw
	if name, ok := requestedUser(good); !ok || string(name) != "me" {
		t.Errorf("got %q, %v", name, ok)
	}
	for i := range good {
		requestedUser(good[:i])
		broken := append([]byte(nil), good...)
		broken[i] ^= 0xff
		if name, _ := requestedUser(broken); len(name) > len("me:you") {
			t.Errorf("with byte %d broken: %q", i, name)
		}
	}
	for name, m := range map[string][]byte{
		"none":     stun.MustBuild(stun.TransactionID, stun.BindingRequest).Raw,
		"one half": stun.MustBuild(stun.TransactionID, stun.BindingRequest, stun.NewUsername("me")).Raw,
		"response": stun.MustBuild(stun.TransactionID, stun.BindingSuccess, stun.NewUsername("me:you")).Raw,
	} {
		if user, ok := requestedUser(m); ok {
			t.Errorf("%s: %q", name, user)
		}
	}
}

func TestReceivingAllocatesNothing(t *testing.T) {
	at, viewers := udpViewers(t, "me")
	conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(at))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := viewers[0].WriteTo(stun.MustBuild(stun.BindingSuccess).Raw, conn.LocalAddr()); err != nil {
		t.Fatal(err)
	}
	report, err := (&rtcp.ReceiverReport{SSRC: 1}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	p, buffer := viewers[0].(*udpPackets), make([]byte, maxPacket)
	if got := testing.AllocsPerRun(1000, func() {
		_, _ = conn.Write(report)
		_, _, _ = p.ReadFromAddrPort(buffer)
	}); got >= 1 {
		t.Errorf("%v allocations a packet", got)
	}
}

// TestRelayByTLS checks that the certificate of a TURN server must have the server's name.
func TestRelayByTLS(t *testing.T) {
	t.Parallel()
	srv := httptest.NewUnstartedServer(nil)
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.StartTLS()
	defer srv.Close()
	_, port, err := net.SplitHostPort(srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	n, err := newRelayNet([]Server{{URLs: []string{"turns:localhost:" + port}}}, new(bounds))
	if err != nil {
		t.Fatal(err)
	}
	var other x509.HostnameError
	if _, err := n.Dial("tcp4", "localhost:"+port); !errors.As(err, &other) || other.Host != "localhost" {
		t.Errorf("a server with the certificate of another name: %v", err)
	}
}
