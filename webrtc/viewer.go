package webrtc

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"

	"golang.org/x/time/rate"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/webrtc/internal/network"
)

// queueSize bounds the pictures that wait for a viewer's connection. If the queue is full, the
// viewer skips pictures until the next key picture.
const queueSize = 8

// Transport is how a viewer gets the pictures.
type Transport string

// The transports.
const (
	TransportWebRTC    Transport = "webrtc"
	TransportWHEP      Transport = "whep"
	TransportWebSocket Transport = "websocket"
)

// ViewerOptions describe a new viewer.
type ViewerOptions struct {
	// Name is shown to other viewers. Control characters are removed. Empty: none.
	Name string

	// ViewOnly viewers never get control. They have no data channel.
	ViewOnly bool

	// Host is the Host header of the viewer's request. The viewer also tries the port for
	// media at that host. Empty: only at the addresses of this machine.
	Host string

	// TCP is true if a listener of NetworkConfig.TCP accepted the viewer's request, so that
	// the viewer can try Host by TCP. It must be false if the request came through an HTTP
	// proxy. NetworkConfig.TCPPort applies in either case.
	TCP bool

	// Remote is the viewer's address, for ViewerInfo.
	Remote string

	// Owner identifies the user of the viewer, such as the id of a token. One owner may
	// have half of Config.MaxViewers, and may add as many viewers, but at least 32,
	// immediately, and then one a second. All owners together leave an eighth of
	// Config.MaxViewers free. Empty: the program, which has no such limits. The name in Host
	// is resolved for viewers without an owner only.
	Owner string

	// Until ends the viewer when the context is done. Nil: no context ends the viewer.
	Until context.Context //nolint:containedctx // ends with the owner's permission to watch
}

func (o ViewerOptions) network() network.Options {
	return network.Options{Host: o.Host, TCP: o.TCP, NoLookup: o.Owner != ""}
}

// ViewerInfo describes a viewer.
type ViewerInfo struct {
	ID        string    `json:"id"`
	Name      string    `json:"name,omitempty"`
	Owner     string    `json:"owner,omitempty"` // as in ViewerOptions
	Remote    string    `json:"remote,omitempty"`
	Transport Transport `json:"transport"`
	ViewOnly  bool      `json:"viewOnly"`
	Control   bool      `json:"control"`
	Connected bool      `json:"connected"` // pictures are sent
	Since     time.Time `json:"since"`
	Pictures  uint64    `json:"pictures"` // sent
	Skipped   uint64    `json:"skipped"`  // not sent, because the connection was too slow
	Bytes     uint64    `json:"bytes"`
}

type viewer struct {
	s         *Streamer
	id        string
	options   ViewerOptions
	transport Transport
	since     time.Time
	actor     desktop.Actor

	queue   chan *wirePicture
	sounds  chan *wireSound
	soundOn atomic.Bool // gets sound, by WebRTC
	live    atomic.Bool // gets pictures
	lost    atomic.Bool // waits for a key picture
	pointer pointerSink // gets the messages about the pointer; nil: none yet; guarded by Streamer.mu
	send    sendFunc    // sends a signalling message; nil: there is no connection; guarded by Streamer.mu
	asking  atomic.Bool // a request for control is being sent to the viewer
	key     string      // authenticates calls of this viewer; empty: none; guarded by Streamer.mu
	inputs  *inputQueue
	shown   atomic.Bool // got a picture
	wants   atomic.Bool // has requested control and not released it since

	pictures, skipped, bytes atomic.Uint64
	loss                     atomic.Uint32 // of packets, in 256ths
	allowed                  atomic.Int64  // estimated bits per second of the connection; 0: unknown
	frameRate, bitrate       atomic.Int64  // limits that the client asked for; 0: none

	ctx      context.Context //nolint:containedctx // ends with the viewer
	cancel   context.CancelCauseFunc
	work     sync.WaitGroup
	ended    sync.Once
	starting sync.Mutex           // guards gone, leave and finish, and work's Go against close's Wait
	leave    func() bool          // stops waiting for ViewerOptions.Until; nil: it has none
	gone     bool                 // close has begun
	finish   func()               // ends the transport; called once
	peer     atomic.Pointer[peer] // nil: it has no WebRTC connection
}

// newViewer adds a viewer. It gets no pictures before begin. An empty id stands for a new one.
func (s *Streamer) newViewer(o ViewerOptions, transport Transport, id string) (*viewer, error) {
	o.Name = strings.Map(func(r rune) rune {
		if unicode.IsGraphic(r) {
			return r
		}
		return -1
	}, o.Name)
	v := &viewer{
		s: s, id: newID(), options: o, transport: transport, since: time.Now(),
		queue: make(chan *wirePicture, queueSize), inputs: newInputQueue(),
		sounds: make(chan *wireSound, soundQueue),
	}
	if id != "" {
		v.id = id
	}
	v.actor = desktop.Actor{Kind: desktop.ActorViewer, Name: o.Name, ID: v.id}
	v.ctx, v.cancel = context.WithCancelCause(desktop.WithActor(s.ctx, v.actor))
	v.lost.Store(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.hasRoom(o.Owner); err != nil {
		return nil, err
	}
	if !s.mayJoin(o.Owner) {
		return nil, ErrTooManyJoins
	}
	s.viewers = append(s.viewers, v)
	s.presenceChanged()
	if o.Until != nil {
		v.starting.Lock()
		defer v.starting.Unlock()
		v.leave = context.AfterFunc(o.Until, v.close)
	}
	return v, nil
}

// hasRoom returns nil if an owner may have another viewer. The caller holds mu.
func (s *Streamer) hasRoom(owner string) error {
	all := s.cfg.MaxViewers
	own := 0
	for _, v := range s.viewers {
		if v.options.Owner == owner {
			own++
		}
	}
	switch {
	case s.closed:
		return ErrClosed
	case len(s.viewers) >= all:
		return ErrTooManyViewers
	case owner == "":
		return nil
	case own >= max(all/2, 1):
		return ErrTooManyOfOwner
	case len(s.viewers) >= max(1, all-max(1, all/8)):
		return ErrTooManyViewers
	}
	return nil
}

// joinRate is how many viewers an owner may add in a second, and joinBurst how many at a time. Each
// of them costs all viewers a key picture and messages. A viewer that reconnects is added again.
const (
	joinRate  = 1
	joinBurst = 32
)

// mayJoin reports whether an owner may add another viewer now. The caller holds mu.
func (s *Streamer) mayJoin(owner string) bool {
	if owner == "" {
		return true
	}
	burst := max(joinBurst, s.cfg.MaxViewers/2)
	l := s.joins[owner]
	if l == nil {
		// A limiter that allows the whole burst is like a new one.
		maps.DeleteFunc(s.joins, func(_ string, l *rate.Limiter) bool { return l.Tokens() >= float64(burst) })
		l = rate.NewLimiter(joinRate, burst)
		s.joins[owner] = l
	}
	return l.Allow()
}

// begin starts sending pictures to the viewer.
func (v *viewer) begin() {
	if v.live.Swap(true) {
		return
	}
	v.s.adapt()
	v.askForKey()
	v.s.listenersChanged()
}

func (v *viewer) askForKey() {
	v.s.wantKey.Store(true)
	notify(v.s.poke)
}

func (v *viewer) watching() bool { return v.live.Load() }

// fresh reports whether the viewer has not seen any picture.
func (v *viewer) fresh() bool { return v.live.Load() && !v.shown.Load() }

// offer queues a picture, unless the connection is too slow for it. It never blocks. The
// caller holds the streamer's mu.
func (v *viewer) offer(p *wirePicture) {
	if !v.live.Load() {
		return
	}
	if v.lost.Load() && !p.key {
		v.skipped.Add(1)
		return
	}
	select {
	case v.queue <- p:
		if p.key {
			v.lost.Store(false)
		}
	default:
		v.skipped.Add(1)
		if !v.lost.Swap(true) {
			v.askForKey()
		}
	}
}

// pump sends queued pictures with send until the viewer ends.
func (v *viewer) pump(send func(*wirePicture) error) {
	for {
		select {
		case <-v.ctx.Done():
			return
		case p := <-v.queue:
			if err := send(p); err != nil {
				go v.close()
				return
			}
			v.pictures.Add(1)
			v.bytes.Add(uint64(len(p.data)))
			v.shown.Store(true)
			if v.lost.Load() && len(v.queue) == 0 {
				v.askForKey()
			}
		}
	}
}

// start runs the tasks of a viewer in goroutines. close calls finish and waits for them. It
// returns false, and starts nothing, if the viewer was closed.
func (v *viewer) start(finish func(), tasks ...func()) bool {
	v.starting.Lock()
	defer v.starting.Unlock()
	if v.gone {
		return false
	}
	v.finish = finish
	for _, f := range tasks {
		v.work.Go(f)
	}
	return true
}

// also starts another task, unless the viewer was closed.
func (v *viewer) also(task func()) {
	v.starting.Lock()
	defer v.starting.Unlock()
	if !v.gone {
		v.work.Go(task)
	}
}

// close ends the viewer and waits for its tasks. It may be called more than once.
func (v *viewer) close() {
	v.ended.Do(func() {
		v.live.Store(false)
		v.cancel(nil)
		v.starting.Lock()
		v.gone = true
		finish, leave := v.finish, v.leave
		v.starting.Unlock()
		if leave != nil {
			leave()
		}
		if finish != nil {
			finish()
		}
		v.work.Wait()
		v.releaseControl()
		v.s.mu.Lock()
		v.s.viewers = slices.DeleteFunc(v.s.viewers, func(o *viewer) bool { return o == v })
		v.s.presenceChanged()
		v.s.mu.Unlock()
		v.s.adapt()
		notify(v.s.poke)
		v.s.listenersChanged()
	})
}

func (v *viewer) info() ViewerInfo {
	c := v.s.d.Control()
	return ViewerInfo{
		ID: v.id, Name: v.options.Name, Owner: v.options.Owner, Remote: v.options.Remote, Transport: v.transport,
		ViewOnly: v.options.ViewOnly, Control: c.Holder != nil && *c.Holder == v.actor,
		Connected: v.live.Load(), Since: v.since,
		Pictures: v.pictures.Load(), Skipped: v.skipped.Load(), Bytes: v.bytes.Load(),
	}
}

// presenceChanged announces that a viewer came or left. The caller holds mu.
func (s *Streamer) presenceChanged() {
	close(s.change)
	s.change = make(chan struct{})
}
