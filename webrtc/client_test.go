package webrtc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"image"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pion/rtp"
	"github.com/pion/rtp/codecs"
	pion "github.com/pion/webrtc/v4"
	vp8file "golang.org/x/image/vp8"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/internal/testx11"
)

// patience bounds each wait of a test.
const patience = time.Minute

// startDesktop runs a desktop until the test ends.
func startDesktop(t *testing.T, cfg desktop.Config) *desktop.Desktop {
	t.Helper()
	testx11.Require(t, "Xvfb", "openbox", "dbus-daemon")
	if cfg.Size == (desktop.Size{}) {
		cfg.Size = desktop.Size{Width: 640, Height: 480}
	}
	d, err := desktop.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// stream runs a streamer until the test ends.
func stream(t *testing.T, d Desktop, cfg Config) *Streamer {
	t.Helper()
	s, err := Start(t.Context(), d, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// pipe is a Conn in memory.
type pipe struct {
	in, out chan []byte
	closed  chan struct{}
	once    *sync.Once
}

func newPipe() (client, server pipe) {
	a, b, closed, once := make(chan []byte, 100), make(chan []byte, 100), make(chan struct{}), new(sync.Once)
	return pipe{a, b, closed, once}, pipe{b, a, closed, once}
}

func (p pipe) Receive(ctx context.Context) ([]byte, error) {
	select {
	case m := <-p.in:
		return m, nil
	case <-p.closed:
		return nil, io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p pipe) Send(ctx context.Context, m []byte) error {
	select {
	case p.out <- bytes.Clone(m):
		return nil
	case <-p.closed:
		return io.ErrClosedPipe
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p pipe) close() { p.once.Do(func() { close(p.closed) }) }

// client is a viewer that speaks the protocol of a browser.
type client struct {
	t        *testing.T
	conn     pipe
	pc       *pion.PeerConnection
	data     *pion.DataChannel
	open     chan struct{}
	messages chan []byte // of the data channel, or about the pointer
	events   chan received
	pictures chan picture
	done     chan error // what ServeSignaling returned
	id       string
	settings func(*pion.SettingEngine) // changes the settings of Pion; may be nil
	sound    func(*pion.TrackRemote)   // receives the sound; nil: it is discarded
	relay    bool                      // it connects through a TURN server only

	mu         sync.Mutex
	candidates []string // addresses of the server, from its description and its candidates
}

// picture is a frame as it arrived.
type picture struct {
	data  []byte
	delay bool // every packet had the playout-delay extension
}

// key reports whether the picture is a key frame (RFC 6386, section 9.1).
func (p picture) key() bool { return p.data[0]&1 == 0 }

// image decodes a key frame.
func (p picture) image(t *testing.T) image.Image {
	t.Helper()
	d := vp8file.NewDecoder()
	d.Init(bytes.NewReader(p.data), len(p.data))
	if _, err := d.DecodeFrameHeader(); err != nil {
		t.Fatal(err)
	}
	img, err := d.DecodeFrame()
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// watch connects a client.
func watch(t *testing.T, s *Streamer, o ViewerOptions) *client {
	t.Helper()
	return watchBy(t, s, o, nil)
}

// watchBy connects a client with other settings of Pion.
func watchBy(t *testing.T, s *Streamer, o ViewerOptions, settings func(*pion.SettingEngine)) *client {
	t.Helper()
	c := signal(t, s, o)
	c.settings = settings
	c.send("control/request", nil)
	c.send("signal/request", map[string]any{"video": map[string]any{}, "audio": map[string]any{"disabled": true}})
	c.connect()
	return c
}

// signal connects a client that has not requested the stream yet.
func signal(t *testing.T, s *Streamer, o ViewerOptions) *client {
	t.Helper()
	near, far := newPipe()
	c := &client{
		t: t, conn: near, open: make(chan struct{}), messages: make(chan []byte, 100), events: make(chan received, 1000),
		pictures: make(chan picture, 1000), done: make(chan error, 1),
	}
	go func() { c.done <- s.ServeSignaling(context.Background(), far, o) }()
	t.Cleanup(c.leave)
	init := c.event("system/init")
	var payload struct {
		SessionID string `json:"session_id"`
	}
	if err := json.Unmarshal(init, &payload); err != nil {
		t.Fatal(err)
	}
	c.id = payload.SessionID
	return c
}

// addresses returns the addresses of the server that the client received, such as
// "udp 127.0.0.1 59050 host".
func (c *client) addresses() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.candidates)
}

// addCandidate stores an address of the server.
func (c *client) addCandidate(line string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w := strings.Fields(line); len(w) > 7 {
		c.candidates = append(c.candidates, strings.Join([]string{w[2], w[4], w[5], w[7]}, " "))
	}
}

func (c *client) connect() {
	c.t.Helper()
	var offer struct {
		SDP        string
		ICEServers []ICEServer
	}
	if err := json.Unmarshal(c.event("signal/provide"), &offer); err != nil {
		c.t.Fatal(err)
	}
	var cfg pion.Configuration
	if c.relay {
		cfg.ICETransportPolicy = pion.ICETransportPolicyRelay
		for _, s := range offer.ICEServers {
			cfg.ICEServers = append(cfg.ICEServers, pion.ICEServer{URLs: s.URLs, Username: s.Username, Credential: s.Credential})
		}
	}
	engine := pion.SettingEngine{LoggerFactory: quiet{}}
	engine.SetIncludeLoopbackCandidate(true)
	engine.SetIPFilter(func(ip net.IP) bool {
		a, ok := netip.AddrFromSlice(ip)
		return ok && arrivesAsSent(a.Unmap())
	})
	if c.settings != nil {
		c.settings(&engine)
	}
	media := &pion.MediaEngine{}
	if err := media.RegisterDefaultCodecs(); err != nil {
		c.t.Fatal(err)
	}
	extension := pion.RTPHeaderExtensionCapability{URI: playoutDelayURI}
	if err := media.RegisterHeaderExtension(extension, pion.RTPCodecTypeVideo); err != nil {
		c.t.Fatal(err)
	}
	pc, err := pion.NewAPI(pion.WithSettingEngine(engine), pion.WithMediaEngine(media)).NewPeerConnection(cfg)
	if err != nil {
		c.t.Fatal(err)
	}
	c.pc = pc
	pc.OnICECandidate(func(candidate *pion.ICECandidate) {
		if candidate != nil {
			c.send("signal/candidate", candidate.ToJSON())
		}
	})
	pc.OnTrack(func(track *pion.TrackRemote, _ *pion.RTPReceiver) {
		switch {
		case track.Kind() == pion.RTPCodecTypeVideo:
			c.receive(track)
		case c.sound != nil:
			c.sound(track)
		}
	})
	pc.OnDataChannel(func(ch *pion.DataChannel) {
		c.data = ch
		ch.OnOpen(func() { close(c.open) })
		ch.OnMessage(func(m pion.DataChannelMessage) { c.messages <- m.Data })
	})
	var once sync.Once                                 // a connection can be established again
	if !strings.Contains(offer.SDP, "m=application") { // viewers that only watch have no data channel
		pc.OnConnectionStateChange(func(state pion.PeerConnectionState) {
			if state == pion.PeerConnectionStateConnected {
				once.Do(func() { close(c.open) })
			}
		})
	}
	if err := pc.SetRemoteDescription(pion.SessionDescription{Type: pion.SDPTypeOffer, SDP: offer.SDP}); err != nil {
		c.t.Fatal(err)
	}
	answer, err := pc.CreateAnswer(nil)
	if err != nil {
		c.t.Fatal(err)
	}
	if err := pc.SetLocalDescription(answer); err != nil {
		c.t.Fatal(err)
	}
	c.send("signal/answer", map[string]string{"sdp": answer.SDP})
	go c.listen()
}

// receive assembles pictures from packets.
func (c *client) receive(track *pion.TrackRemote) {
	var depacketizer codecs.VP8Packet
	var frame []byte
	delay := true
	for {
		p, _, err := track.ReadRTP()
		if err != nil {
			return
		}
		payload, err := depacketizer.Unmarshal(p.Payload)
		if err != nil {
			continue
		}
		delay = delay && hasDelay(p)
		frame = append(frame, payload...)
		if p.Marker {
			select {
			case c.pictures <- picture{frame, delay}:
			default:
			}
			frame, delay = nil, true
		}
	}
}

func hasDelay(p *rtp.Packet) bool {
	for _, id := range p.GetExtensionIDs() {
		if e := p.GetExtension(id); len(e) == 3 && bytes.Equal(e, []byte{0, 0, 0}) {
			return true
		}
	}
	return false
}

// listen handles messages until the connection ends.
func (c *client) listen() {
	for {
		text, err := c.conn.Receive(context.Background())
		if err != nil {
			close(c.events)
			return
		}
		var m received
		if err := json.Unmarshal(text, &m); err != nil {
			c.t.Errorf("message %s: %v", text, err)
			continue
		}
		if m.Event == "signal/candidate" {
			var candidate pion.ICECandidateInit
			if err := json.Unmarshal(m.Payload, &candidate); err == nil {
				c.addCandidate(candidate.Candidate)
				_ = c.pc.AddICECandidate(candidate)
			}
			continue
		}
		if m.Event == "signal/pointer" {
			var b struct{ Data []byte }
			if err := json.Unmarshal(m.Payload, &b); err != nil {
				c.t.Errorf("message %s: %v", text, err)
			}
			select {
			case c.messages <- b.Data:
			default:
			}
			continue
		}
		select {
		case c.events <- m:
		default:
		}
	}
}

func (c *client) send(event string, payload any) {
	text, err := json.Marshal(message{event, payload})
	if err != nil {
		c.t.Error(err)
	}
	_ = c.conn.Send(context.Background(), text)
}

// event waits for a message before listen runs, or from it.
func (c *client) event(name string) json.RawMessage {
	c.t.Helper()
	if c.pc == nil {
		for {
			ctx, cancel := context.WithTimeout(c.t.Context(), patience)
			text, err := c.conn.Receive(ctx)
			cancel()
			if err != nil {
				c.t.Fatalf("while waiting for %s: %v", name, err)
			}
			var m received
			if err := json.Unmarshal(text, &m); err != nil {
				c.t.Fatal(err)
			}
			if m.Event == name {
				return m.Payload
			}
			c.events <- m // a test may ask for it later
		}
	}
	deadline := time.After(patience)
	for {
		select {
		case m, open := <-c.events:
			if !open {
				c.t.Fatalf("the connection ended before %s came", name)
			}
			if m.Event == name {
				return m.Payload
			}
		case <-deadline:
			c.t.Fatalf("%s did not come", name)
		}
	}
}

// next waits for a picture for which ok returns true.
func (c *client) next(what string, ok func(picture) bool) picture {
	c.t.Helper()
	deadline := time.After(patience)
	for {
		select {
		case p := <-c.pictures:
			if ok == nil || ok(p) {
				return p
			}
		case <-deadline:
			c.t.Fatalf("no picture came: %s", what)
		}
	}
}

// leave closes the connection and waits for ServeSignaling.
func (c *client) leave() {
	c.conn.close()
	if c.pc != nil {
		_ = c.pc.GracefulClose()
	}
	select {
	case err := <-c.done:
		if err != nil && !errors.Is(err, ErrClosed) {
			c.t.Errorf("ServeSignaling: %v", err)
		}
		c.done <- nil
	case <-time.After(patience):
		c.t.Error("ServeSignaling does not return")
	}
}

// until polls.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}
