package webrtc

import (
	"fmt"
	"net"
	"regexp"
	"testing"
	"time"

	"github.com/pion/rtcp"
	"github.com/pion/stun/v4"
	pion "github.com/pion/webrtc/v4"

	"github.com/deskhand/deskhand/desktop"
)

// peerOf returns the server's side of a client.
func peerOf(t *testing.T, s *Streamer, c *client) *peer {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range s.viewers {
		if v.id == c.id {
			return v.peer.Load()
		}
	}
	t.Fatal("the viewer is gone")
	return nil
}

// TestSenders checks that reports of new RTCP sources are dropped when there are too many,
// because Pion keeps each source until the connection ends.
func TestSenders(t *testing.T) {
	t.Parallel()
	var tcp TCP
	ln := serve(t, &tcp, "127.0.0.1:0")
	for name, way := range map[string]struct {
		network  NetworkConfig
		settings func(*pion.SettingEngine)
		relay    bool
	}{
		"udp":       {},
		"tcp":       {network: NetworkConfig{UDPPort: -1, TCP: &tcp}, settings: byTCP},
		"relay udp": {network: NetworkConfig{UDPPort: -1, ICEServers: []ICEServer{turnServer(t, "udp")}}, relay: true},
		"relay tcp": {network: NetworkConfig{UDPPort: -1, ICEServers: []ICEServer{turnServer(t, "tcp")}}, relay: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := stream(t, startDesktop(t, desktop.Config{}), Config{Network: openNetwork(t, way.network)})
			c := signal(t, s, ViewerOptions{Host: ln.Addr().String(), TCP: true})
			c.settings, c.relay = way.settings, way.relay
			c.send("signal/request", nil)
			c.connect()
			c.next("before the flood", picture.key)
			p := peerOf(t, s, c)
			media := uint32(p.sender.GetParameters().Encodings[0].SSRC)
			const first, further = 100_000, 200_000
			arrives := func(lost uint8) {
				t.Helper()
				p.v.loss.Store(0)
				r := &rtcp.ReceiverReport{SSRC: first, Reports: []rtcp.ReceptionReport{{SSRC: media, FractionLost: lost}}}
				if err := c.pc.WriteRTCP([]rtcp.Packet{r}); err != nil {
					t.Fatal(err)
				}
				until(t, "the report arrives", func() bool { return p.v.loss.Load() == uint32(lost) })
			}
			arrives(11)
			for i := range uint32(64) {
				if err := c.pc.WriteRTCP([]rtcp.Packet{&rtcp.ReceiverReport{SSRC: further + i}}); err != nil {
					t.Fatal(err)
				}
			}
			arrives(22)
			// The report of a new source does not arrive, but a request of the first one
			// that is sent after it does.
			for len(c.pictures) > 0 {
				<-c.pictures
			}
			for _, packet := range []rtcp.Packet{
				&rtcp.ReceiverReport{SSRC: further + 1000, Reports: []rtcp.ReceptionReport{{SSRC: media, FractionLost: 33}}},
				&rtcp.PictureLossIndication{SenderSSRC: first, MediaSSRC: media},
			} {
				if err := c.pc.WriteRTCP([]rtcp.Packet{packet}); err != nil {
					t.Fatal(err)
				}
			}
			c.next("after the request", picture.key)
			if got := p.v.loss.Load(); got != 22 {
				t.Errorf("the loss is %d, want 22: the report of a new source arrived", got)
			}
			if !watches(s, c.id) {
				t.Error("the viewer has been ended")
			}
		})
	}
}

// TestDataBuffer checks the bound of the bytes that wait for the rest of a message. Each of
// them can occupy hundreds of bytes of memory.
func TestDataBuffer(t *testing.T) {
	t.Parallel()
	s := stream(t, startDesktop(t, desktop.Config{}), Config{})
	c := watch(t, s, ViewerOptions{})
	<-c.open
	for _, stats := range c.pc.GetStats() {
		if got, ok := stats.(pion.SCTPTransportStats); ok && got.ReceiverWindow > streamBuffer {
			t.Errorf("the client may send %d bytes that are not read yet, want at most %d", got.ReceiverWindow, streamBuffer)
		}
	}
}

// TestCandidates checks the bound of the candidates of a viewer. Each candidate costs requests,
// answers and checks of paths.
func TestCandidates(t *testing.T) {
	t.Parallel()
	n := openNetwork(t, NetworkConfig{})
	s := stream(t, startDesktop(t, desktop.Config{}), Config{Network: n})
	c := watch(t, s, ViewerOptions{Host: "127.0.0.1:2468"})
	c.next("the first one", picture.key)
	p := peerOf(t, s, c)
	user := regexp.MustCompile(`a=ice-ufrag:(\S+)`)
	ours, theirs := p.pc.LocalDescription().SDP, p.pc.RemoteDescription().SDP
	request := stun.MustBuild(stun.TransactionID, stun.BindingRequest,
		stun.NewUsername(user.FindStringSubmatch(ours)[1]+":"+user.FindStringSubmatch(theirs)[1]),
		stun.NewShortTermIntegrity(regexp.MustCompile(`a=ice-pwd:(\S+)`).FindStringSubmatch(ours)[1])).Raw
	from := func() net.Conn {
		conn, err := net.Dial("udp", fmt.Sprintf("127.0.0.1:%d", n.port(t)))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	candidates := func() (count int) {
		for _, s := range p.pc.GetStats() {
			if c, ok := s.(pion.ICECandidateStats); ok && c.Type == pion.StatsTypeRemoteCandidate {
				count++
			}
		}
		return count
	}
	first, buffer := from(), make([]byte, 1500)
	for range 4 * maxCandidates {
		for _, conn := range []net.Conn{from(), first} {
			if _, err := conn.Write(request); err != nil {
				t.Fatal(err)
			}
		}
		_ = first.SetReadDeadline(time.Now().Add(patience))
		if _, err := first.Read(buffer); err != nil {
			t.Fatal(err)
		}
	}
	if got := candidates(); got < maxCandidates || got > 2*maxCandidates {
		t.Errorf("%d addresses of the viewer are known, want at most %d", got, 2*maxCandidates)
	}
}
