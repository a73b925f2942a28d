package webrtc

import (
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pion/interceptor"
	"github.com/pion/rtcp"
	"github.com/pion/rtp"
	"github.com/pion/rtp/codecs"
	"github.com/pion/transport/v5/vnet"
	pion "github.com/pion/webrtc/v4"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/internal/testx11"
	"github.com/deskhand/deskhand/webrtc/internal/network"
)

// badLine is a virtual network that loses packets of a server and a client, and delays packets
// of the server by different times, so that they arrive in another order.
type badLine struct {
	router *vnet.Router
	server *vnet.Net
	client *vnet.Net
	loss   atomic.Int32 // percent
	jitter atomic.Int64 // at most, as a time.Duration
	passed atomic.Int64 // bytes of the server
}

const serverIP, clientIP = "10.1.0.1", "10.1.0.2"

func newBadLine(t *testing.T) *badLine {
	t.Helper()
	var err error
	l := &badLine{}
	if l.router, err = vnet.NewRouter(&vnet.RouterConfig{CIDR: "10.1.0.0/24", LoggerFactory: quiet{}, QueueSize: 1 << 16}); err != nil {
		t.Fatal(err)
	}
	for ip, n := range map[string]**vnet.Net{serverIP: &l.server, clientIP: &l.client} {
		if *n, err = vnet.NewNet(&vnet.NetConfig{StaticIPs: []string{ip}}); err != nil {
			t.Fatal(err)
		}
		if err := l.router.AddNet(*n); err != nil {
			t.Fatal(err)
		}
	}
	l.router.AddChunkFilter(func(vnet.Chunk) bool { return rand.Int32N(100) >= l.loss.Load() })
	if err := l.router.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.router.Stop(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func (*badLine) addresses() ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr(serverIP)}, nil
}

func (l *badLine) listen(at netip.AddrPort) (network.UDPConn, error) {
	conn, err := l.server.ListenUDP("udp4", net.UDPAddrFromAddrPort(at))
	if err != nil {
		return nil, err
	}
	return &lateConn{PacketConn: conn, l: l}, nil
}

// lateConn is a socket of the server.
type lateConn struct {
	net.PacketConn
	l *badLine
}

func (c *lateConn) ReadFromUDPAddrPort(b []byte) (int, netip.AddrPort, error) {
	n, from, err := c.ReadFrom(b)
	if err != nil {
		return 0, netip.AddrPort{}, net.ErrClosed // the only error of the virtual network
	}
	return n, from.(*net.UDPAddr).AddrPort(), nil
}

func (c *lateConn) WriteToUDPAddrPort(b []byte, to netip.AddrPort) (int, error) {
	c.l.passed.Add(int64(len(b)))
	if jitter := c.l.jitter.Load(); jitter > 0 {
		late := append([]byte(nil), b...)
		time.AfterFunc(time.Duration(rand.Int64N(jitter)), func() { _, _ = c.WriteTo(late, net.UDPAddrFromAddrPort(to)) })
		return len(b), nil
	}
	return c.WriteTo(b, net.UDPAddrFromAddrPort(to))
}

// receiver receives as browsers do: it requests missing packets, waits for them for a while, and
// requests a key picture if they do not arrive.
type receiver struct {
	t   *testing.T
	pc  *pion.PeerConnection
	src atomic.Uint32

	mu       sync.Mutex
	pictures int // pictures that could be shown
	keys     int
	broken   int // times that a picture could not be shown
	key      picture
}

// play connects a receiver through the line.
func (l *badLine) play(t *testing.T, s *Streamer) *receiver {
	t.Helper()
	p := &receiver{t: t}
	media, registry := &pion.MediaEngine{}, &interceptor.Registry{}
	if err := media.RegisterDefaultCodecs(); err != nil {
		t.Fatal(err)
	}
	if err := pion.RegisterDefaultInterceptors(media, registry); err != nil {
		t.Fatal(err)
	}
	engine := pion.SettingEngine{LoggerFactory: quiet{}}
	engine.SetNet(l.client)
	engine.SetSRTPReplayProtectionWindow(1024) // as in browsers; with the default of 64, older packets that are resent would be dropped
	var err error
	p.pc, err = pion.NewAPI(pion.WithSettingEngine(engine), pion.WithMediaEngine(media), pion.WithInterceptorRegistry(registry)).
		NewPeerConnection(pion.Configuration{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.pc.GracefulClose(); err != nil {
			t.Error(err)
		}
	})
	if _, err := p.pc.AddTransceiverFromKind(pion.RTPCodecTypeVideo, pion.RTPTransceiverInit{Direction: pion.RTPTransceiverDirectionRecvonly}); err != nil {
		t.Fatal(err)
	}
	p.pc.OnTrack(func(track *pion.TrackRemote, _ *pion.RTPReceiver) {
		p.src.Store(uint32(track.SSRC()))
		p.receive(track)
	})
	offer, err := p.pc.CreateOffer(nil)
	if err != nil {
		t.Fatal(err)
	}
	gathered := pion.GatheringCompletePromise(p.pc)
	if err := p.pc.SetLocalDescription(offer); err != nil {
		t.Fatal(err)
	}
	<-gathered
	play, err := s.Play(t.Context(), p.pc.LocalDescription().SDP, ViewerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.pc.SetRemoteDescription(pion.SessionDescription{Type: pion.SDPTypeAnswer, SDP: play.Answer}); err != nil {
		t.Fatal(err)
	}
	return p
}

// waitFor is the number of later packets after which a receiver gives a missing packet up.
const waitFor = 300

// receive orders packets and assembles pictures.
func (p *receiver) receive(track *pion.TrackRemote) {
	held := map[uint16]*rtp.Packet{}
	var next uint16
	begun, good := false, false // good: no packet is missing since the latest key picture
	var frame []byte
	var last uint32
	for {
		packet, _, err := track.ReadRTP()
		if err != nil {
			return
		}
		if !begun {
			begun, next = true, packet.SequenceNumber
		}
		if packet.SequenceNumber-next < 1<<15 {
			held[packet.SequenceNumber] = packet
		}
		if len(held) > waitFor {
			for ; held[next] == nil; next++ {
				frame, good = nil, false
			}
			p.requestKey()
		}
		for ; held[next] != nil; next++ {
			q := held[next]
			delete(held, next)
			if q.Timestamp != last {
				frame, last = nil, q.Timestamp
			}
			var vp8 codecs.VP8Packet
			if payload, err := vp8.Unmarshal(q.Payload); err == nil {
				if vp8.S == 1 {
					frame = nil
				}
				frame = append(frame, payload...)
			}
			if q.Marker && len(frame) > 0 {
				good = p.show(picture{data: frame}, good)
				frame = nil
			}
		}
	}
}

// requestKey requests a key picture.
func (p *receiver) requestKey() {
	p.mu.Lock()
	p.broken++
	p.mu.Unlock()
	_ = p.pc.WriteRTCP([]rtcp.Packet{&rtcp.PictureLossIndication{MediaSSRC: p.src.Load()}}) // it may have ended
}

// show counts a picture that can be decoded.
func (p *receiver) show(pic picture, good bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if pic.key() {
		good = true
		p.keys++
		p.key = pic
	}
	if good {
		p.pictures++
	}
	return good
}

func (p *receiver) shown() (pictures, keys, broken int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pictures, p.keys, p.broken
}

// TestBadLine loses a third of the packets and delays the others by up to 200 ms. It checks that
// the video continues, that the server lowers the bit rate, and that it raises the rate on a
// good line.
func TestBadLine(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "xterm")
	l := newBadLine(t)
	cfg := NetworkConfig{UDPPort: 5000}
	ports := cfg.internal()
	ports.Addresses, ports.Listen = l.addresses, l.listen
	n, err := newNetwork(cfg, ports)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = n.Close() }() // after the streamer
	d := startDesktop(t, desktop.Config{})
	const script = `while :; do echo $(date) the quick brown fox jumps over the lazy dog; sleep 0.05; done`
	if _, err := d.Launch(t.Context(), desktop.Launch{App: "xterm", Args: []string{"-geometry", "100x30+0+0", "-e", "sh", "-c", script}, Wait: true}); err != nil {
		t.Fatal(err)
	}
	s := stream(t, d, Config{Network: n, MinBitrate: 300_000})
	p := l.play(t, s)
	until(t, "pictures are shown", func() bool { pictures, _, _ := p.shown(); return pictures > 10 })

	l.jitter.Store(int64(200 * time.Millisecond))
	l.loss.Store(30)
	before, _, _ := p.shown()
	until(t, "the server sends less", func() bool { return s.Status().Target < DefaultBitrate/2 })
	until(t, "the video continues", func() bool { pictures, _, _ := p.shown(); return pictures > before+20 })
	for range 4 { // longer than the two seconds between pictures of an unchanged screen
		at, _, _ := p.shown()
		until(t, "the video still continues", func() bool { pictures, _, _ := p.shown(); return pictures > at+5 })
	}
	_, keys, broken := p.shown()
	t.Logf("on the bad line: %d key pictures, %d times something was missing, target %d bit/s", keys, broken, s.Status().Target)

	l.jitter.Store(0)
	l.loss.Store(0)
	low := s.Status().Target
	until(t, "the server sends more again", func() bool { return s.Status().Target > low+low/5 })
	p.requestKey() // for a picture to compare
	_, keys, _ = p.shown()
	until(t, "a new key picture comes", func() bool { _, k, _ := p.shown(); return k > keys })
}
