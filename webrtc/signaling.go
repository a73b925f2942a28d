package webrtc

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pion/webrtc/v4"
	"golang.org/x/time/rate"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/internal/jsonlimit"
)

// Conn is a connection of text messages, such as a WebSocket. One goroutine receives. Any
// goroutine may send, one at a time.
type Conn interface {
	// Receive waits for the next text message or the end of ctx. An error ends the
	// connection.
	Receive(context.Context) ([]byte, error)

	// Send sends a text message. ctx has a deadline.
	Send(context.Context, []byte) error
}

type message struct {
	Event   string `json:"event"`
	Payload any    `json:"payload,omitempty"`
}

// received is a message of a client. Some clients call the payload data.
type received struct {
	Event   string          `json:"event"`
	Payload json.RawMessage `json:"payload"`
	Data    json.RawMessage `json:"data"`
}

const (
	// heartbeat is how often clients get a heartbeat.
	heartbeat = 10 * time.Second
	// sendLimit is how long a client may take to accept a message.
	sendLimit = 10 * time.Second
	// requestRate is how many peer connections a client may request in a second, and requestBurst
	// how many at a time. Later requests wait, and so do the client's other messages.
	requestRate  = 1
	requestBurst = 5
)

// errUnsent is returned if a message cannot be sent. listen then ends the connection.
var errUnsent = errors.New("send message")

// signaling is one client of the signalling protocol of neko 3, as the clients of
// sandbox-agent 0.4.2 speak it.
type signaling struct {
	s       *Streamer
	conn    Conn
	options ViewerOptions
	id, key string

	requests *rate.Limiter // of peer connections
	pointers chan []byte   // messages about the pointer that wait, for a client without a data channel

	sending sync.Mutex

	mu     sync.Mutex // guards the fields below
	viewer *viewer    // of a connection without WebRTC; nil: peer has it
	peer   *peer
	wants  bool                      // control, as soon as there is a connection
	held   []webrtc.ICECandidateInit // candidates that came before the answer
	seen   int                       // how many candidates came
	limit  videoLimit
}

// ServeSignaling serves the browser of one viewer. It blocks until conn returns an
// error, ctx ends or the streamer is closed. Then it ends the viewer, which can take five
// seconds.
//
// It returns:
//   - nil if the connection or ctx has ended;
//   - [ErrClosed] if the streamer was closed;
//   - [ErrTooManyOfOwner] if the owner has Config.MaxViewers connections;
//   - [ErrTooManyViewers] if all owners together have twice as many;
//   - the error of conn.Send if the greeting cannot be sent.
//
// The viewer is added when the client asks for the video. If it is rejected, the client gets
// the reason in system/disconnect, and ServeSignaling continues. It also continues after
// [Streamer.EndViewer], and the client can ask again. ViewerOptions.Until ends viewers, but
// not ServeSignaling.
func (s *Streamer) ServeSignaling(ctx context.Context, conn Conn, o ViewerOptions) error {
	ctx, cancel := s.during(ctx)
	defer cancel()
	g := &signaling{
		s: s, conn: conn, options: o, id: newID(), key: rand.Text(),
		requests: rate.NewLimiter(requestRate, requestBurst), pointers: make(chan []byte, pointersMost),
	}
	leave, err := s.admit(o.Owner)
	if err != nil {
		return g.refuse(ctx, err)
	}
	defer leave()
	defer g.endPeer()
	around := g.beginPresence()
	defer around.sub.Close()
	if err := g.greet(ctx); err != nil {
		if s.ctx.Err() != nil {
			return ErrClosed
		}
		return err
	}
	var work sync.WaitGroup
	defer work.Wait()
	defer cancel()
	work.Go(func() { g.followPresence(ctx, around) })
	return g.listen(ctx)
}

// during returns a context that ends with the streamer as well.
func (s *Streamer) during(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}

// listen handles the client's messages until the connection ends.
func (g *signaling) listen(ctx context.Context) error {
	for {
		text, err := g.conn.Receive(ctx)
		switch {
		case err != nil && g.s.ctx.Err() != nil:
			// The client does not reconnect then.
			_ = g.send(context.WithoutCancel(ctx), "system/disconnect", map[string]string{"message": "the stream has ended"})
			return ErrClosed
		case err != nil:
			return nil //nolint:nilerr // the client has closed the connection
		}
		err = g.handle(ctx, text)
		if errors.Is(err, errUnsent) && g.s.ctx.Err() == nil {
			return nil // what the client sent before it left is not handled
		}
		if err != nil {
			g.s.log.Debug("signalling", "viewer", g.id, "error", err)
		}
	}
}

// refuse sends the client the reason why it cannot watch, and returns the reason.
func (g *signaling) refuse(ctx context.Context, reason error) error {
	return errors.Join(reason, g.send(ctx, "system/disconnect", map[string]string{"message": reason.Error()}))
}

// admit counts a signalling connection of an owner until leave is called. A connection uses
// memory even without a viewer. There may be twice as many connections as viewers, because a
// browser that reconnects may have two for a while.
func (s *Streamer) admit(owner string) (leave func(), err error) {
	if owner == "" {
		return func() {}, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	own := 0
	for _, o := range s.signals {
		if o == owner {
			own++
		}
	}
	switch {
	case own >= s.cfg.MaxViewers:
		return nil, ErrTooManyOfOwner
	case len(s.signals) >= 2*s.cfg.MaxViewers:
		return nil, ErrTooManyViewers
	}
	s.signals = append(s.signals, owner)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		i := slices.Index(s.signals, owner)
		s.signals = slices.Delete(s.signals, i, i+1)
	}, nil
}

func (g *signaling) send(ctx context.Context, event string, payload any) error {
	text, err := json.Marshal(message{event, payload})
	if err != nil {
		return err
	}
	g.sending.Lock()
	defer g.sending.Unlock()
	ctx, cancel := context.WithTimeout(ctx, sendLimit)
	defer cancel()
	if err := g.conn.Send(ctx, text); err != nil {
		return fmt.Errorf("%w: %w", errUnsent, err)
	}
	return nil
}

type screenSize struct {
	Width  int `json:"width"`
	Height int `json:"height"`
	Rate   int `json:"rate"`
}

func (g *signaling) screen() screenSize {
	size := g.s.d.Status().Size
	return screenSize{size.Width, size.Height, g.s.cfg.FrameRate}
}

// controlHost names the holder of control. Kind, name and taken are additions to the
// protocol: the holder need not be a session, and taken is true if it has control alone.
type controlHost struct {
	ID       string            `json:"id"`
	HasHost  bool              `json:"has_host"`
	HostID   string            `json:"host_id,omitempty"`
	HostKind desktop.ActorKind `json:"host_kind,omitempty"`
	HostName string            `json:"host_name,omitempty"`
	Taken    bool              `json:"taken,omitempty"`
}

func (g *signaling) greet(ctx context.Context) error {
	return g.send(ctx, "system/init", map[string]any{
		"session_id":   g.id,
		"viewer_key":   g.key, // an addition to the protocol, for Streamer.ViewerActor
		"control_host": g.host(),
		"screen_size":  g.screen(),
		"sessions":     g.sessions(),
		"settings": map[string]any{
			"private_mode": false, "locked_logins": false, "locked_controls": false, "control_protection": false,
			"implicit_hosting": true, "inactive_cursors": false, "merciful_reconnect": true,
			"heartbeat_interval": int(heartbeat / time.Second), "plugins": map[string]any{},
		},
		"touch_events": true, "screencast_enabled": false,
		"webrtc": map[string]any{"videos": []string{"main"}},
	})
}

func (g *signaling) host() controlHost {
	c := g.s.d.Control()
	if c.Holder == nil {
		return controlHost{ID: g.id}
	}
	id := c.Holder.ID
	if id == "" {
		id = c.Holder.String()
	}
	return controlHost{ID: id, HasHost: true, HostID: id, HostKind: c.Holder.Kind, HostName: c.Holder.Name, Taken: c.Taken}
}

// sessions returns the viewers in the form of neko.
func (g *signaling) sessions() map[string]any {
	all := map[string]any{}
	for _, v := range g.s.Viewers() {
		all[v.ID] = map[string]any{
			"id":      v.ID,
			"profile": map[string]any{"name": v.Name, "can_login": true, "can_connect": true, "can_watch": true, "can_host": !v.ViewOnly},
			"state":   map[string]any{"is_connected": true, "is_watching": v.Connected, "connected_since": v.Since},
		}
	}
	return all
}

// decodeReceived decodes a message. It bounds the message's nesting.
func decodeReceived(text []byte) (received, error) {
	if err := jsonlimit.CheckBody(text); err != nil {
		return received{}, fmt.Errorf("the message %w", err)
	}
	var m received
	if err := json.Unmarshal(text, &m); err != nil {
		return received{}, errors.New("not a message of the protocol") // JSON's error could quote secrets
	}
	return m, nil
}

func (g *signaling) handle(ctx context.Context, text []byte) error {
	m, err := decodeReceived(text)
	if err != nil {
		return err
	}
	payload := m.Payload
	if payload == nil {
		payload = m.Data
	}
	into := func(v any) error {
		if len(payload) == 0 {
			return nil
		}
		if err := json.Unmarshal(payload, v); err != nil {
			return fmt.Errorf("%.40q: its payload does not have the form that it must have", m.Event)
		}
		return nil
	}
	switch m.Event {
	case "video/key":
		if g.viewer != nil {
			g.viewer.lost.Store(true)
			g.viewer.askForKey()
		}
		return nil
	case "signal/request", "signal/restart":
		if g.viewer != nil {
			return errors.New("this connection carries the pictures itself")
		}
		var wanted request
		_ = into(&wanted) // unknown options are ignored
		return g.provide(ctx, wanted)
	case "signal/audio":
		var wanted struct{ Disabled bool }
		if err := into(&wanted); err != nil {
			return err
		}
		return g.switchAudio(ctx, wanted.Disabled)
	case "signal/video":
		var limit videoLimit
		if err := into(&limit); err != nil {
			return err
		}
		return g.limitVideo(limit)
	case "signal/answer":
		var answer struct{ SDP string }
		if err := into(&answer); err != nil {
			return err
		}
		return g.answered(answer.SDP)
	case "signal/candidate":
		var c webrtc.ICECandidateInit
		if err := into(&c); err != nil {
			return err
		}
		return g.candidate(c)
	case "client/heartbeat", "system/logs", "keyboard/map", "keyboard/modifiers":
		return nil
	}
	var b controlBody
	if err := into(&b); err != nil {
		return err
	}
	return g.handleControl(ctx, m.Event, b)
}

type request struct {
	Audio      struct{ Disabled bool }
	ICEServers string // onlyConfigured or empty
}

// onlyConfigured asks for the configured servers only. It is an addition to the protocol.
const onlyConfigured = "configured"

// provide makes a peer connection and sends its offer. It ends an earlier peer connection.
func (g *signaling) provide(ctx context.Context, wanted request) error {
	if err := g.requests.Wait(ctx); err != nil {
		return err
	}
	g.endPeer()
	p, err := g.s.newPeer(g.options, TransportWebRTC, g.id)
	if err != nil {
		return g.refuse(ctx, err)
	}
	if !g.options.ViewOnly {
		if err := newDataChannel(p); err != nil {
			p.v.close()
			return err
		}
	}
	p.v.attach(g)
	p.enableAudio(!wanted.Audio.Disabled)
	g.mu.Lock()
	g.peer, g.held, g.seen = p, nil, 0
	wants, limit := g.wants, g.limit
	g.mu.Unlock()
	p.v.limitVideo(limit)
	if wants {
		if err := g.requestControl(ctx, p.v); err != nil {
			return err
		}
	}
	offer, err := p.pc.CreateOffer(nil)
	if err != nil {
		return err
	}
	servers := g.s.network.iceServers(p.link)
	if wanted.ICEServers == onlyConfigured {
		servers = append([]ICEServer{}, g.s.network.cfg.ICEServers...)
	}
	if err := g.send(ctx, "signal/provide", map[string]any{
		"sdp": offer.SDP, "iceservers": servers,
		"video": map[string]any{"disabled": false, "id": "main", "video": "main", "auto": false},
		"audio": audioState{Disabled: !p.v.soundOn.Load()},
	}); err != nil {
		return err
	}
	// No candidate is sent before the offer.
	p.trickle(func(c webrtc.ICECandidateInit) {
		_ = g.send(ctx, "signal/candidate", c) // listen notices the end of the connection
	})
	if err := p.pc.SetLocalDescription(offer); err != nil {
		return err
	}
	if g.options.ViewOnly {
		p.v.also(func() { p.v.showPointer(g) }) // it asks the X server
	}
	return nil
}

func (g *signaling) current() *peer {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.peer
}

func (g *signaling) viewing() *viewer {
	if g.viewer != nil {
		return g.viewer
	}
	if p := g.current(); p != nil {
		return p.v
	}
	return nil
}

func (g *signaling) answered(sdp string) error {
	p := g.current()
	if p == nil {
		return errors.New("an answer to no offer")
	}
	within, err := checkDescription(sdp, !g.options.ViewOnly)
	if err != nil {
		return fmt.Errorf("answer: %w", err)
	}
	if err := p.pc.SetRemoteDescription(webrtc.SessionDescription{Type: webrtc.SDPTypeAnswer, SDP: sdp}); err != nil {
		return fmt.Errorf("answer: %w", err)
	}
	select {
	case <-p.answered:
	default:
		close(p.answered)
	}
	g.mu.Lock()
	held := g.held
	g.held = nil
	g.seen += within
	p.offered.Store(int32(g.seen)) //nolint:gosec // it is bounded
	g.mu.Unlock()
	var errs []error
	for _, c := range held {
		if err := p.pc.AddICECandidate(c); err != nil {
			errs = append(errs, fmt.Errorf("candidate: %w", err))
		}
	}
	p.hurry()
	return errors.Join(errs...)
}

// candidate adds an address of the client. It holds addresses that come before the answer.
func (g *signaling) candidate(c webrtc.ICECandidateInit) error {
	if len(c.Candidate)+length(c.SDPMid)+length(c.UsernameFragment) > candidateMost {
		return errLongCandidate
	}
	g.mu.Lock()
	p := g.peer
	g.seen++
	tooMany := g.seen > maxCandidates
	early := p != nil && p.pc.RemoteDescription() == nil
	if early && !tooMany {
		g.held = append(g.held, c)
	}
	g.mu.Unlock()
	switch {
	case p == nil:
		return errors.New("a candidate for no connection")
	case tooMany:
		return errTooManyCandidates
	case early:
		return nil
	}
	p.offered.Add(1)
	if err := p.pc.AddICECandidate(c); err != nil {
		return fmt.Errorf("candidate: %w", err)
	}
	return nil
}

func length(s *string) int {
	if s == nil {
		return 0
	}
	return len(*s)
}

func (g *signaling) endPeer() {
	g.mu.Lock()
	p := g.peer
	g.peer, g.held = nil, nil
	g.mu.Unlock()
	if p != nil {
		p.v.close()
	}
}
