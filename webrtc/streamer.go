package webrtc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/deskhand/deskhand/desktop"
)

// Desktop is the part of a desktop that a Streamer needs. *desktop.Desktop implements it.
type Desktop interface {
	Screen
	Input
	Control
}

// Screen has the methods for the picture, the pointer, the sound, the events and the clipboard
// of a desktop.
type Screen interface {
	Status() desktop.Status
	Feed() *desktop.Feed
	FollowCursor(context.Context, func(desktop.CursorImage)) error
	Subscribe(after uint64) *desktop.Subscription
	Listen(context.Context) (*desktop.Listener, error)
	Pointer(context.Context) (desktop.Pointer, error)
	Clipboard(ctx context.Context, sel desktop.Selection, contentType string) (desktop.Content, error)
	SetClipboard(context.Context, desktop.Content, ...desktop.Selection) error
}

// Input has the methods for the pointer and the keyboard.
type Input interface {
	Move(context.Context, desktop.Move) (desktop.Pointer, error)
	ButtonDown(context.Context, desktop.ButtonPress) (desktop.Pointer, error)
	ButtonUp(context.Context, desktop.ButtonPress) (desktop.Pointer, error)
	Scroll(context.Context, desktop.Scroll) (desktop.Pointer, error)
	KeyDown(ctx context.Context, key string) error
	KeyUp(ctx context.Context, key string) error
	Press(context.Context, desktop.Press) error
	Type(context.Context, desktop.Type) error
}

// Control has the methods that decide which actor's input has an effect.
type Control interface {
	Control() desktop.Control
	RequestControl(context.Context, desktop.Actor) error
	TakeControl(ctx context.Context, a desktop.Actor, force bool) error
	TakeSharedControl(ctx context.Context, a desktop.Actor, force bool) error
	GiveControl(ctx context.Context, from, to desktop.Actor) error
	ReleaseControl(context.Context, desktop.Actor) error
}

var _ Desktop = (*desktop.Desktop)(nil)

// Defaults of Config.
const (
	DefaultFrameRate  = 30
	DefaultBitrate    = 8_000_000
	DefaultMinBitrate = 1_000_000
	DefaultMaxViewers = 64
)

// Config describes a Streamer.
type Config struct {
	// Network has the ports by which viewers reach this program. Streamers may share it.
	// Close does not close it. Nil: a network with the defaults, which Close closes.
	Network *Network

	// Codec of the video. Empty: VP8.
	Codec Codec

	// AudioCodec of the sound. Empty: Opus.
	AudioCodec AudioCodec

	// FrameRate is the most pictures a second, on average, from 1 to 60. Zero: 30.
	FrameRate int

	// Bitrate is the most bits a second of the video. If a viewer's connection is slower,
	// the rate is lowered, but not below MinBitrate. Zero: 8 Mbit/s and 1 Mbit/s. Bitrate
	// must not be less than MinBitrate, so a Bitrate below 1 Mbit/s needs a MinBitrate.
	Bitrate, MinBitrate int

	// MaxViewers bounds the number of viewers. Zero: 64.
	MaxViewers int

	// OnFrame is called when a frame has been encoded, with the time since the change of the
	// screen was noticed. It must not block. Nil: nothing.
	OnFrame func(age time.Duration)

	// Logger receives debug messages. Nil: none.
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	c.Codec = cmp.Or(c.Codec, VP8)
	c.AudioCodec = cmp.Or(c.AudioCodec, Opus)
	c.FrameRate = cmp.Or(c.FrameRate, DefaultFrameRate)
	c.Bitrate = cmp.Or(c.Bitrate, DefaultBitrate)
	c.MinBitrate = cmp.Or(c.MinBitrate, DefaultMinBitrate)
	c.MaxViewers = cmp.Or(c.MaxViewers, DefaultMaxViewers)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// Errors that callers can distinguish with errors.Is.
var (
	// ErrClosed is returned after Close, and by calls that Close interrupts.
	ErrClosed = errors.New("streamer is closed")
	// ErrTooManyViewers is returned if there are Config.MaxViewers viewers. For a viewer
	// with an owner the limit is lower: see [ViewerOptions].
	ErrTooManyViewers = errors.New("too many viewers watch this desktop; try again when one has left")
	// ErrTooManyOfOwner is returned if there are too many viewers of one owner: see
	// [ViewerOptions].
	ErrTooManyOfOwner = errors.New("too many viewers watch with this token; close one of them first")
	// ErrTooManyJoins is returned if one owner adds viewers too fast: see [ViewerOptions].
	ErrTooManyJoins = errors.New("too many viewers joined with this token; try again in a second")
	// ErrViewerNotFound is returned if no viewer has the given id.
	ErrViewerNotFound = errors.New("viewer not found")
)

// Streamer shows one desktop to any number of viewers. Its methods may be called from any
// goroutine.
type Streamer struct {
	d       Desktop
	cfg     Config // with defaults
	log     *slog.Logger
	network *Network
	own     bool // the network is closed with the streamer

	ctx    context.Context //nolint:containedctx // ends with the streamer
	cancel context.CancelFunc
	work   sync.WaitGroup

	newEncoder             func(encoderConfig) (encoder, error)
	videoClock, audioClock rtpClock
	audioFormat            audioFormat
	audio                  audio

	poke     chan struct{} // wakes the loop
	moved    chan struct{} // wakes followPointer
	wantKey  atomic.Bool   // a viewer needs a key picture
	rate     atomic.Int64  // target of the encoder, in bits per second
	frames   atomic.Int64  // the most pictures a second, with the limits of viewers
	meter    meter
	failures atomic.Uint64 // of the capture and the encoder

	mu      sync.Mutex               // guards the fields below
	closed  bool                     // by Close
	viewers []*viewer                // in the order of their arrival
	signals []string                 // the owner of each signalling connection that has one
	joins   map[string]*rate.Limiter // by owner
	process string                   // id of the encoder's process, if it has one
	packets *packetizer
	size    desktop.Size // of the pictures
	cursor  *cursorImage // the latest

	pointerAt desktop.Point // the latest position
	movedBy   *viewer       // the viewer that moved the pointer there; nil: another actor
	change    chan struct{} // closed at the next change of presence
	failed    []ViewerPath  // the last viewers whose connection failed
}

// Start starts a Streamer of a desktop. It captures nothing until there are viewers. The
// caller must close it. ctx bounds only the call: for VP9 and H264, Start tries the encoders
// of ffmpeg until one works. For VP8 it does not block.
//
// It returns an error if
//   - a number of cfg is out of range;
//   - a codec is unknown or this machine has no encoder for it ([ErrCodec]);
//   - ctx has ended;
//   - Config.Network is nil and [NewNetwork] fails.
func Start(ctx context.Context, d Desktop, cfg Config) (*Streamer, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("start streamer: %w", err)
	}
	newEncoder, err := findEncoder(ctx, cfg.Codec)
	if err := cmp.Or(ctx.Err(), err); err != nil {
		return nil, fmt.Errorf("start streamer: %w", err)
	}
	s := &Streamer{
		d: d, cfg: cfg, log: cfg.Logger, network: cfg.Network, newEncoder: newEncoder,
		poke: make(chan struct{}, 1), moved: make(chan struct{}, 1), change: make(chan struct{}),
		joins: map[string]*rate.Limiter{},
	}
	epoch := time.Now()
	s.videoClock, s.audioFormat = newRTPClock(epoch, clockRate), audioFormats[cfg.AudioCodec]
	s.audioClock = newRTPClock(epoch, int(s.audioFormat.params.ClockRate))
	s.audio.poke = make(chan struct{}, 1)
	if s.network == nil {
		if s.network, err = NewNetwork(NetworkConfig{Logger: cfg.Logger}); err != nil {
			return nil, err
		}
		s.own = true
	}
	s.adapt()
	s.packets = newPacketizer(cfg.Codec, s.videoClock)
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.work.Go(s.run)
	s.work.Go(s.followCursor)
	s.work.Go(s.followEvents)
	s.work.Go(s.followPointer)
	s.work.Go(s.runAudio)
	return s, nil
}

func (c Config) validate() error {
	switch {
	case c.FrameRate < 1 || c.FrameRate > 60:
		return fmt.Errorf("FrameRate must be between 1 and 60, not %d", c.FrameRate)
	case c.Bitrate < c.MinBitrate || c.MinBitrate < 0:
		return fmt.Errorf("Bitrate %d must not be less than MinBitrate %d", c.Bitrate, c.MinBitrate) //nolint:staticcheck // it begins with a field
	case c.MaxViewers < 0:
		return fmt.Errorf("MaxViewers must be positive, not %d", c.MaxViewers)
	case c.Codec != VP8 && c.Codec != VP9 && c.Codec != H264:
		return fmt.Errorf("%w: %q; use vp8, vp9 or h264", ErrCodec, c.Codec)
	case c.AudioCodec != Opus && c.AudioCodec != G722:
		return fmt.Errorf("%w: %q; use opus or g722", ErrCodec, c.AudioCodec)
	}
	return nil
}

// Close ends all viewers and waits for them. The release of a viewer's keys can take five
// seconds. Close returns nil or, if Config.Network was nil, the error of closing the ports.
// It may be called more than once.
func (s *Streamer) Close() error {
	s.mu.Lock()
	s.closed = true
	viewers := slices.Clone(s.viewers)
	s.mu.Unlock()
	s.cancel()
	for _, v := range viewers {
		v.close()
	}
	s.work.Wait()
	if s.own {
		return s.network.Close()
	}
	return nil
}

// notify puts a value into a channel that holds one.
func notify(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (s *Streamer) any(f func(*viewer) bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.viewers, f)
}

func (s *Streamer) viewer(id string) *viewer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.IndexFunc(s.viewers, func(v *viewer) bool { return v.id == id }); i >= 0 {
		return s.viewers[i]
	}
	return nil
}

func (s *Streamer) each(f func(*viewer)) {
	s.mu.Lock()
	viewers := slices.Clone(s.viewers)
	s.mu.Unlock()
	for _, v := range viewers {
		f(v)
	}
}

// Status describes a Streamer.
type Status struct {
	Codec     Codec        `json:"codec"`
	Audio     AudioCodec   `json:"audioCodec,omitempty"` // empty: the desktop has no sound
	ProcessID string       `json:"processId,omitempty"`  // of the encoder, if it has a process
	Size      desktop.Size `json:"size"`
	FrameRate int          `json:"frameRate"` // at most, with the limits of viewers
	Viewers   []ViewerInfo `json:"viewers"`
	// PicturesPerSecond and BitsPerSecond are averages of the last seconds.
	PicturesPerSecond float64 `json:"picturesPerSecond"`
	BitsPerSecond     int     `json:"bitsPerSecond"`
	// Pictures and Bytes are what was encoded since the start.
	Pictures uint64 `json:"pictures"`
	Bytes    uint64 `json:"bytes"`
	// Failures is the number of failures of the capture and the encoder since the start, after
	// which both were started again.
	Failures uint64 `json:"failures"`
	// Target is the target of the encoder, in bits per second.
	Target int `json:"targetBitsPerSecond"`
}

// Status returns the current status. It does not block, and may be called after Close.
func (s *Streamer) Status() Status {
	st := Status{
		Codec: s.cfg.Codec, Size: s.d.Status().Size, FrameRate: int(s.frames.Load()),
		Viewers: s.Viewers(), Target: int(s.rate.Load()),
	}
	if s.soundAvailable() {
		st.Audio = s.cfg.AudioCodec
	}
	s.mu.Lock()
	st.ProcessID = s.process
	s.mu.Unlock()
	st.PicturesPerSecond, st.BitsPerSecond = s.meter.rates(time.Now())
	st.Pictures, st.Bytes = s.meter.totals()
	st.Failures = s.failures.Load()
	return st
}

// Viewers returns the viewers in the order of their arrival.
func (s *Streamer) Viewers() []ViewerInfo {
	list := []ViewerInfo{}
	s.each(func(v *viewer) { list = append(list, v.info()) })
	return list
}
