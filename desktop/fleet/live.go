package fleet

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/deskhand/deskhand/webrtc"
)

// liveView is the stream of a desktop.
type liveView struct {
	mu      sync.Mutex // guards the fields below
	desk    Desktop    // which the stream shows
	stream  *webrtc.Streamer
	network *webrtc.Network // of this stream alone; nil: the shared one
	ended   []string        // ids of viewers that EndViewer has ended, the latest last
}

// maxEnded is the largest length of liveView.ended.
const maxEnded = 256

// networks holds the network that live views share. It is opened when it is first
// needed.
type networks struct {
	cfg Config
	tcp webrtc.TCP

	mu     sync.Mutex // guards the fields below
	shared *webrtc.Network
	closed bool
}

func (n *networks) get() (*webrtc.Network, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil, ErrClosed
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

// config returns the configuration of every network.
func (n *networks) config() webrtc.NetworkConfig {
	cfg := n.cfg.Media
	cfg.TCP = n.sharing()
	cfg.Logger = cmp.Or(cfg.Logger, n.cfg.Logger)
	return cfg
}

func (n *networks) sharing() *webrtc.TCP {
	return cmp.Or(n.cfg.Media.TCP, &n.tcp)
}

// Stream returns the live view of the running desktop, and starts it if there is none.
// It lives until StopStream or Stop; ctx bounds only the start. It returns a *StateError
// if the desktop does not run, an error that wraps ErrNoLiveView, or the error of
// webrtc.Start or webrtc.NewNetwork.
func (in *Instance) Stream(ctx context.Context) (*webrtc.Streamer, error) {
	d, err := in.Desktop()
	if err != nil {
		return nil, err
	}
	shown, ok := d.(webrtc.Desktop)
	if !ok {
		return nil, &Error{in.id, ErrNoLiveView}
	}
	l := &in.live
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stream != nil && l.desk == d {
		return l.stream, nil
	}
	if err := l.end(); err != nil {
		return nil, err
	}
	cfg, own, err := in.streamConfig()
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
	l.desk, l.stream, l.network = d, s, own
	return s, nil
}

// streamConfig returns the configuration of the latest start. own is a network for this
// stream alone, or nil.
func (in *Instance) streamConfig() (cfg webrtc.Config, own *webrtc.Network, err error) {
	in.mu.Lock()
	o := in.options
	in.mu.Unlock()
	cfg = o.Stream
	cfg.Logger = cmp.Or(cfg.Logger, in.fleet.cfg.Logger)
	switch {
	case cfg.Network != nil:
		return cfg, nil, nil
	case o.PortMin == 0 && o.PortMax == 0:
		cfg.Network, err = in.fleet.networks.get()
		return cfg, nil, err
	}
	network := in.fleet.networks.config()
	network.UDPPort = 0
	network.PortMin, network.PortMax = o.PortMin, o.PortMax
	own, err = webrtc.NewNetwork(network)
	cfg.Network = own
	return cfg, own, err
}

// RunningStream returns the live view if there is one, or nil. It does not start one.
func (in *Instance) RunningStream() *webrtc.Streamer {
	in.live.mu.Lock()
	defer in.live.mu.Unlock()
	return in.live.stream
}

// StopStream ends the live view of all viewers, if there is one, and waits for them. It returns
// the error of closing the ports of this desktop's own network, or nil.
func (in *Instance) StopStream() error { return in.live.close() }

// EndViewer ends a viewer if may returns true for it, and waits as webrtc.Streamer.EndViewer
// does. It returns nil if it has ended that viewer before,
// and webrtc.ErrViewerNotFound if there is no such viewer, or may returns false.
func (in *Instance) EndViewer(id string, may func(webrtc.ViewerInfo) bool) error {
	stream := in.RunningStream()
	ended := stream != nil &&
		slices.ContainsFunc(stream.Viewers(), func(v webrtc.ViewerInfo) bool { return v.ID == id && may(v) }) &&
		!errors.Is(stream.EndViewer(id), webrtc.ErrViewerNotFound)
	l := &in.live
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case ended:
		l.ended = append(l.ended[max(0, len(l.ended)-maxEnded+1):], id)
		return nil
	case slices.Contains(l.ended, id):
		return nil
	}
	return webrtc.ErrViewerNotFound
}

// Diagnose returns how viewers reach the live view or, if there is none, the network
// that the next one uses. It blocks as webrtc.Streamer.Diagnose does.
func (in *Instance) Diagnose(ctx context.Context, q webrtc.Inquiry) webrtc.Diagnosis {
	if stream := in.RunningStream(); stream != nil {
		return stream.Diagnose(ctx, q)
	}
	cfg, own, err := in.streamConfig()
	if err != nil {
		return webrtc.NoNetwork(err, q)
	}
	if own != nil {
		defer func() { _ = own.Close() }() // streamConfig has opened it for this call
	}
	return cfg.Network.Diagnose(ctx, q)
}

func (l *liveView) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.end()
}

// end ends the stream, if there is one. The caller has mu.
func (l *liveView) end() error {
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
