package webrtc

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	pion "github.com/pion/webrtc/v4"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/internal/testx11"
)

// serve answers HTTP requests on a port that is shared with viewers, until the
// test ends.
func serve(t *testing.T, tcp *TCP, address string) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", address)
	if err != nil {
		t.Skip(err)
	}
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "hello %s %s", r.URL.Path, body)
	}))
	_ = srv.Listener.Close()
	srv.Listener, srv.Config.ReadHeaderTimeout = tcp.Share(ln), time.Second
	srv.Start()
	t.Cleanup(srv.Close)
	return ln
}

func get(t *testing.T, ln net.Listener, path string) string {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	resp, err := client.Get("http://" + ln.Addr().String() + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// byTCP makes a client use TCP only.
func byTCP(e *pion.SettingEngine) {
	e.SetNetworkTypes([]pion.NetworkType{pion.NetworkTypeTCP4, pion.NetworkTypeTCP6})
}

// TestTCP checks the picture and control of a viewer that can reach only the port of the page.
func TestTCP(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"127.0.0.1:0", "[::1]:0", ":0"} {
		t.Run(address, func(t *testing.T) {
			t.Parallel()
			var tcp TCP
			ln := serve(t, &tcp, address)
			// The server has no UDP port, either.
			n := openNetwork(t, NetworkConfig{UDPPort: -1, TCP: &tcp})
			d := startDesktop(t, desktop.Config{})
			s := stream(t, d, Config{Network: n})
			host := fmt.Sprintf("localhost:%d", ln.Addr().(*net.TCPAddr).Port)
			c := watchBy(t, s, ViewerOptions{Host: host, TCP: true}, byTCP)
			first := c.next("the first one", picture.key)
			if diff := difference(first.image(t), screenshot(t, d)); diff > 12 {
				t.Errorf("the picture is %.1f levels off the screen", diff)
			}
			if p := c.pair(); p.Remote.Protocol != pion.ICEProtocolTCP || p.Remote.TCPType != "passive" {
				t.Errorf("the picture comes from %v, not by TCP", p.Remote)
			}
			<-c.open
			if err := c.data.Send([]byte{opMove, 0, 4, 0, 50, 0, 60}); err != nil {
				t.Fatal(err)
			}
			until(t, "the pointer is at 50,60", func() bool {
				p, err := d.Pointer(t.Context())
				return err == nil && p.Point == desktop.Point{X: 50, Y: 60}
			})
			if got := get(t, ln, "/meanwhile"); got != "hello /meanwhile " {
				t.Errorf("HTTP on the same port answers %q", got)
			}
		})
	}
}

// TestTCPPlayer checks that the answer to a WHEP player has the TCP address.
func TestTCPPlayer(t *testing.T) {
	t.Parallel()
	var tcp TCP
	ln := serve(t, &tcp, "127.0.0.1:0")
	s := stream(t, startDesktop(t, desktop.Config{}), Config{Network: openNetwork(t, NetworkConfig{UDPPort: -1, TCP: &tcp})})
	engine := pion.SettingEngine{LoggerFactory: quiet{}}
	engine.SetIncludeLoopbackCandidate(true)
	byTCP(&engine)
	media := &pion.MediaEngine{}
	if err := media.RegisterDefaultCodecs(); err != nil {
		t.Fatal(err)
	}
	pc, err := pion.NewAPI(pion.WithSettingEngine(engine), pion.WithMediaEngine(media)).NewPeerConnection(pion.Configuration{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = pc.GracefulClose() }()
	if _, err := pc.AddTransceiverFromKind(pion.RTPCodecTypeVideo, pion.RTPTransceiverInit{Direction: pion.RTPTransceiverDirectionRecvonly}); err != nil {
		t.Fatal(err)
	}
	came := make(chan struct{})
	pc.OnTrack(func(track *pion.TrackRemote, _ *pion.RTPReceiver) {
		if _, _, err := track.ReadRTP(); err == nil {
			close(came)
		}
	})
	offer, err := pc.CreateOffer(nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := pc.SetLocalDescription(offer); err != nil {
		t.Fatal(err)
	}
	play, err := s.Play(t.Context(), offer.SDP, ViewerOptions{Host: ln.Addr().String(), TCP: true})
	if err != nil {
		t.Fatal(err)
	}
	port := ln.Addr().(*net.TCPAddr).Port
	if want := fmt.Sprintf(" 127.0.0.1 %d typ host tcptype passive\r\n", port); strings.Count(play.Answer, "a=candidate:") != 1 || !strings.Contains(play.Answer, want) {
		t.Errorf("answer\n%s\nwant one candidate, with %q", play.Answer, want)
	}
	if err := pc.SetRemoteDescription(pion.SessionDescription{Type: pion.SDPTypeAnswer, SDP: play.Answer}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-came:
	case <-time.After(patience):
		t.Fatal("no video comes")
	}
}

// TestStuckTCPViewer checks that a viewer whose TCP connection is stuck delays neither other
// viewers nor Close.
func TestStuckTCPViewer(t *testing.T) {
	t.Parallel()
	testx11.Require(t, "xterm")
	var tcp TCP
	ln := serve(t, &tcp, "127.0.0.1:0")
	stuck, port := stickyForward(t, ln.Addr().String())
	d := startDesktop(t, desktop.Config{})
	const script = `while :; do head -c 30000 /dev/urandom | base64 -w 120; done`
	if _, err := d.Launch(t.Context(), desktop.Launch{App: "xterm", Args: []string{"-geometry", "100x40+0+0", "-e", "sh", "-c", script}, Wait: true}); err != nil {
		t.Fatal(err)
	}
	s := stream(t, d, Config{Network: openNetwork(t, NetworkConfig{TCP: &tcp})})
	slow := watchBy(t, s, ViewerOptions{Host: port, TCP: true}, byTCP)
	slow.next("the first one", picture.key)
	quick := watch(t, s, ViewerOptions{Host: ln.Addr().String()})
	quick.next("the first one", picture.key)
	close(stuck)
	// The buffers of the stuck connection are smaller.
	sent := s.Viewers()[1].Bytes
	until(t, "the other viewer gets another megabyte", func() bool { return s.Viewers()[1].Bytes > sent+1<<20 })
	before := s.Viewers()[1].Pictures
	until(t, "the other viewer gets more pictures", func() bool { return s.Viewers()[1].Pictures > before+10 })
	begun := time.Now()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if took := time.Since(begun); took > 4*time.Second {
		t.Errorf("Close took %v", took)
	}
}

// stickyForward forwards connections until stuck is closed, and then neither reads nor writes.
func stickyForward(t *testing.T, to string) (stuck chan struct{}, from string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	stuck, ended := make(chan struct{}), make(chan struct{})
	var work sync.WaitGroup
	pump := func(a, b net.Conn) {
		buf := make([]byte, 4096)
		for {
			n, err := a.Read(buf)
			if err != nil {
				_ = b.Close()
				return
			}
			select {
			case <-stuck:
				<-ended
				return
			default:
				_, _ = b.Write(buf[:n])
			}
		}
	}
	work.Go(func() {
		for {
			a, err := ln.Accept()
			if err != nil {
				return
			}
			b, err := net.Dial("tcp", to)
			if err != nil {
				_ = a.Close()
				continue
			}
			_ = b.(*net.TCPConn).SetReadBuffer(16 << 10)
			work.Go(func() { defer a.Close(); pump(a, b) })
			work.Go(func() { defer b.Close(); pump(b, a) })
		}
	})
	t.Cleanup(func() {
		close(ended)
		_ = ln.Close()
		work.Wait()
	})
	return stuck, ln.Addr().String()
}

// TestUDPFirst checks that viewers that UDP reaches get no TCP address.
func TestUDPFirst(t *testing.T) {
	t.Parallel()
	var tcp TCP
	ln := serve(t, &tcp, "127.0.0.1:0")
	s := stream(t, startDesktop(t, desktop.Config{}), Config{Network: openNetwork(t, NetworkConfig{TCP: &tcp})})
	c := watch(t, s, ViewerOptions{Host: ln.Addr().String(), TCP: true})
	c.next("the first one", picture.key)
	if p := c.pair(); p.Remote.Protocol != pion.ICEProtocolUDP {
		t.Errorf("the picture comes from %v, not by UDP", p.Remote)
	}
}
