package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/gofiber/fiber/v2"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/webrtc"
)

// live is the stream of one slot's desktop. It begins with the first viewer, or
// when it is asked for, and ends with the desktop.
type live struct {
	mu      sync.Mutex // guards what follows
	desk    Desktop    // that the streamer shows
	stream  *webrtc.Streamer
	network *webrtc.Network // of this stream alone; nil: the shared one
	left    []string        // ids of WHEP players that have left, the latest last
}

// mostLeft is how many ids of WHEP players that have left are remembered.
const mostLeft = 256

// remember records that a player has left.
func (l *live) remember(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.left = append(l.left[max(0, len(l.left)-mostLeft+1):], id)
}

// remembers reports whether a player has left.
func (l *live) remembers(id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Contains(l.left, id)
}

// networks holds the one that streams share, from its first use on.
type networks struct {
	cfg Config
	tcp webrtc.TCP // viewers that come to the port of HTTP

	mu     sync.Mutex // guards what follows
	shared *webrtc.Network
	closed bool
}

func (n *networks) get() (*webrtc.Network, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil, shuttingDown.problem("the server is shutting down")
	}
	if n.shared == nil {
		var err error
		if n.shared, err = webrtc.NewNetwork(n.config()); err != nil {
			return nil, err
		}
	}
	return n.shared, nil
}

func (n *networks) close() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed = true
	if n.shared == nil {
		return nil
	}
	return n.shared.Close()
}

// OpenMedia opens the port for the live view now, rather than with the first
// viewer: for who wants to know at once whether it is free.
func (s *Server) OpenMedia() error {
	_, err := s.desktops.networks.get()
	return err
}

// config is that of every network.
func (n *networks) config() webrtc.NetworkConfig {
	cfg := n.cfg.Media
	cfg.TCP = n.sharing()
	if cfg.Logger == nil {
		cfg.Logger = n.cfg.Logger
	}
	return cfg
}

// sharing is what takes viewers' connections from the port of HTTP.
func (n *networks) sharing() *webrtc.TCP {
	if n.cfg.Media.TCP != nil {
		return n.cfg.Media.TCP
	}
	return &n.tcp
}

// streamer returns the stream of a slot's desktop, and starts it if need be.
func (sl *slot) streamer(ctx context.Context) (*webrtc.Streamer, error) {
	d, err := sl.desktop()
	if err != nil {
		return nil, err
	}
	shown, ok := d.(webrtc.Desktop)
	if !ok {
		return nil, unsupportedAction.desktop("This kind of desktop has no live view")
	}
	sl.live.mu.Lock()
	defer sl.live.mu.Unlock()
	if sl.live.stream != nil && sl.live.desk == d {
		return sl.live.stream, nil
	}
	if err := sl.live.end(); err != nil {
		return nil, err
	}
	cfg, own, err := sl.streamConfig()
	if err != nil {
		return nil, err
	}
	s, err := webrtc.Start(ctx, shown, cfg)
	if err != nil {
		if own != nil {
			err = errors.Join(err, own.Close())
		}
		return nil, err
	}
	sl.live.desk, sl.live.stream, sl.live.network = d, s, own
	return s, nil
}

// streamConfig is what the start of the desktop asked for. own is a network for
// this stream alone.
func (sl *slot) streamConfig() (cfg webrtc.Config, own *webrtc.Network, err error) {
	sl.mu.Lock()
	o := sl.options
	sl.mu.Unlock()
	cfg.Logger = sl.all.cfg.Logger
	if o.StreamVideoCodec != nil {
		cfg.Codec = webrtc.Codec(*o.StreamVideoCodec)
	}
	if o.StreamAudioCodec != nil {
		cfg.AudioCodec = webrtc.AudioCodec(*o.StreamAudioCodec)
	}
	if o.StreamFrameRate != nil {
		cfg.FrameRate = int(*o.StreamFrameRate)
	}
	if o.WebRTCPortRange == nil {
		cfg.Network, err = sl.all.networks.get()
		return cfg, nil, err
	}
	low, high, _ := strings.Cut(*o.WebRTCPortRange, "-")
	first, err1 := strconv.ParseUint(low, 10, 16)
	last, err2 := strconv.ParseUint(high, 10, 16)
	if err := errors.Join(err1, err2); err != nil {
		return cfg, nil, fmt.Errorf("webrtcPortRange: %w", err)
	}
	network := sl.all.networks.config()
	network.UDPPort = 0
	network.PortMin, network.PortMax = uint16(first), uint16(last)
	own, err = webrtc.NewNetwork(network)
	cfg.Network = own
	return cfg, own, err
}

// running is the stream, or nil.
func (l *live) running() *webrtc.Streamer {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stream
}

// viewer is who acts when a request has the key of one who watches.
func (l *live) viewer(key string) (desktop.Actor, bool) {
	s := l.running()
	if s == nil {
		return desktop.Actor{}, false
	}
	return s.ViewerActor(key)
}

// stop ends the stream, if there is one.
func (l *live) stop() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.end()
}

// end is stop for who has mu.
func (l *live) end() error {
	if l.stream == nil {
		return nil
	}
	err := l.stream.Close()
	if l.network != nil {
		err = errors.Join(err, l.network.Close())
	}
	l.desk, l.stream, l.network = nil, nil, nil
	return err
}

// streamProblem is the answer to an error of package webrtc, or nil.
func streamProblem(err error) *Problem {
	switch {
	case errors.Is(err, webrtc.ErrClosed):
		return conflictOf("desktop streaming is not active")
	case errors.Is(err, webrtc.ErrTooManyOfOwner):
		return kind{"too_many_viewers", "Too Many Viewers", http.StatusTooManyRequests}.problem(err.Error())
	case errors.Is(err, webrtc.ErrTooManyViewers):
		return kind{"too_many_viewers", "Too Many Viewers", http.StatusServiceUnavailable}.problem(err.Error()).header(fiber.HeaderRetryAfter, "10")
	case errors.Is(err, webrtc.ErrNoCodec):
		return notAcceptable.problem("not acceptable: " + err.Error())
	case errors.Is(err, webrtc.ErrOffer):
		return invalidRequest.problem("invalid request: " + err.Error())
	case errors.Is(err, webrtc.ErrNoPort):
		return conflictOf(err.Error())
	case errors.Is(err, webrtc.ErrCodec):
		return conflictOf("failed to start the stream: " + err.Error())
	}
	return nil
}
