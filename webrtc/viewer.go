package webrtc

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/webrtc/internal/network"
)

// queueSize is how many pictures may wait for a viewer's line. One who is further
// behind goes on with the next key picture.
const queueSize = 8

// Transport is the way by which a viewer gets the picture.
type Transport string

// The transports.
const (
	TransportWebRTC    Transport = "webrtc"
	TransportWHEP      Transport = "whep"
	TransportWebSocket Transport = "websocket"
)

// ViewerOptions describe somebody who wants to watch.
type ViewerOptions struct {
	// Name is shown to other viewers, without control characters. Empty: none.
	Name string

	// ViewOnly keeps the viewer from ever having control.
	ViewOnly bool

	// Host is the host and port by which the viewer reached this program, as
	// the Host header of its request has it. It is told to try the port for
	// media there, too. Empty: only at the addresses of this machine.
	Host string

	// TCP says that connections to Host arrive at a listener that shares its
	// port with NetworkConfig.TCP, so that the viewer can be told to try that.
	// It should not be set when the request came through an HTTP proxy.
	// NetworkConfig.TCPPort counts in any case.
	TCP bool

	// Remote is the viewer's address, for lists.
	Remote string

	// Owner identifies the user of the viewer, such as by the id of a token. The
	// viewers of one owner get at most half of Config.MaxViewers. Viewers with an
	// owner together leave an eighth of it free. Empty: the program itself, whose
	// viewers may use all of it.
	Owner string

	// Until ends the viewer when it is done. Nil: the viewer has no such end.
	Until context.Context //nolint:containedctx // ends with the owner's leave to watch
}

func (o ViewerOptions) network() network.Options { return network.Options{Host: o.Host, TCP: o.TCP} }

// ViewerInfo tells about somebody who watches.
type ViewerInfo struct {
	ID        string    `json:"id"`
	Name      string    `json:"name,omitempty"`
	Owner     string    `json:"owner,omitempty"` // as ViewerOptions has it
	Remote    string    `json:"remote,omitempty"`
	Transport Transport `json:"transport"`
	ViewOnly  bool      `json:"viewOnly"`
	Control   bool      `json:"control"`
	Connected bool      `json:"connected"` // pictures are on their way
	Since     time.Time `json:"since"`
	Pictures  uint64    `json:"pictures"` // that were sent
	Skipped   uint64    `json:"skipped"`  // that were not, because the line was too slow
	Bytes     uint64    `json:"bytes"`
}

// viewer is somebody who watches.
type viewer struct {
	s         *Streamer
	id        string
	options   ViewerOptions
	transport Transport
	since     time.Time
	actor     desktop.Actor

	queue   chan *wirePicture
	sounds  chan *wireSound
	hears   atomic.Bool // wants sound, and gets it over a connection of WebRTC
	live    atomic.Bool // wants pictures
	lost    atomic.Bool // waits for a key picture
	pointer pointerSink // nil: none is open; guarded by Streamer.mu
	tell    tellFunc    // nil: there is no way to; guarded by Streamer.mu
	key     string      // shows that a call is this viewer's; empty: none does; guarded by Streamer.mu
	inputs  *inputQueue
	shown   atomic.Bool // got one at least
	wants   atomic.Bool // has asked for control, and not given it back

	pictures, skipped, bytes atomic.Uint64
	loss                     atomic.Uint32 // of packets, in 256ths
	allowed                  atomic.Int64  // bits per second that the line seems to carry; 0: unknown

	ctx      context.Context //nolint:containedctx // ends with the viewer
	cancel   context.CancelCauseFunc
	work     sync.WaitGroup
	ended    sync.Once
	starting sync.Mutex           // guards gone, leave and finish, and work's Go against close's Wait
	leave    func() bool          // waits for ViewerOptions.Until no longer; nil: it has none
	gone     bool                 // close has begun
	finish   func(reason string)  // ends the transport; called once
	peer     atomic.Pointer[peer] // nil: it has no connection of WebRTC
}

// newViewer adds a viewer, who gets no pictures before begin.
//
// id is the viewer's; empty: a new one.
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
	s.viewers = append(s.viewers, v)
	s.presenceChanged()
	if o.Until != nil {
		v.starting.Lock()
		defer v.starting.Unlock()
		v.leave = context.AfterFunc(o.Until, func() { v.close("its leave to watch has ended") })
	}
	return v, nil
}

// hasRoom returns nil if another viewer of an owner may watch. The caller has mu.
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
	case len(s.viewers) >= all-all/8:
		return ErrTooManyViewers
	}
	return nil
}

// begin has pictures sent to the viewer, the first one soon.
func (v *viewer) begin() {
	if v.live.Swap(true) {
		return
	}
	v.s.adapt()
	v.askForKey()
	v.s.listenersChanged()
}

// askForKey has the encoder make a key picture.
func (v *viewer) askForKey() {
	v.s.wantKey.Store(true)
	v.s.nudge()
}

func (v *viewer) watching() bool { return v.live.Load() }

// fresh says whether the viewer has seen nothing yet.
func (v *viewer) fresh() bool { return v.live.Load() && !v.shown.Load() }

// offer hands a picture to the viewer, unless the line is too slow for it. It
// never waits. The streamer's mu is held.
func (v *viewer) offer(p *wirePicture) {
	if !v.live.Load() {
		return
	}
	if v.lost.Load() && !p.key {
		v.skipped.Add(1)
		return
	}
	p.retain()
	select {
	case v.queue <- p:
		if p.key {
			v.lost.Store(false)
		}
	default:
		p.release()
		v.skipped.Add(1)
		if !v.lost.Swap(true) {
			v.askForKey()
		}
	}
}

// pump sends pictures until the viewer goes, with send.
func (v *viewer) pump(send func(*wirePicture) error) {
	defer func() {
		for {
			select {
			case p := <-v.queue:
				p.release()
			default:
				return
			}
		}
	}()
	for {
		select {
		case <-v.ctx.Done():
			return
		case p := <-v.queue:
			err := send(p)
			if err == nil {
				v.pictures.Add(1)
				v.bytes.Add(uint64(len(p.data)))
				v.shown.Store(true)
			}
			p.release()
			if err != nil {
				go v.close("the line is broken")
				return
			}
			if v.lost.Load() && len(v.queue) == 0 {
				v.askForKey()
			}
		}
	}
}

// start begins what a viewer needs goroutines for, and says what ends it. It
// returns false, and begins nothing, when the viewer has been closed meanwhile.
func (v *viewer) start(finish func(reason string), tasks ...func()) bool {
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

// also begins a task while the viewer may be closed at any moment; then it does
// nothing. Tasks themselves may begin others without it.
func (v *viewer) also(task func()) {
	v.starting.Lock()
	defer v.starting.Unlock()
	if !v.gone {
		v.work.Go(task)
	}
}

// close ends the viewer, and waits for that. It may be called more than once.
func (v *viewer) close(reason string) {
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
			finish(reason)
		}
		v.work.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), partingTime)
		defer cancel()
		if err := v.s.d.ReleaseControl(ctx, v.actor); err != nil {
			v.s.log.Debug("control of a viewer that left", "error", err)
		}
		v.s.mu.Lock()
		v.s.viewers = slices.DeleteFunc(v.s.viewers, func(o *viewer) bool { return o == v })
		v.s.presenceChanged()
		v.s.mu.Unlock()
		v.s.nudge()
		v.s.listenersChanged()
	})
}

// partingTime is how long the release of a viewer's keys may take.
const partingTime = 5 * time.Second

func (v *viewer) info() ViewerInfo {
	c := v.s.d.Control()
	return ViewerInfo{
		ID: v.id, Name: v.options.Name, Owner: v.options.Owner, Remote: v.options.Remote, Transport: v.transport,
		ViewOnly: v.options.ViewOnly, Control: c.Holder != nil && *c.Holder == v.actor,
		Connected: v.live.Load(), Since: v.since,
		Pictures: v.pictures.Load(), Skipped: v.skipped.Load(), Bytes: v.bytes.Load(),
	}
}

// presenceChanged tells everybody that somebody came or went. The caller has mu.
func (s *Streamer) presenceChanged() {
	close(s.change)
	s.change = make(chan struct{})
}
