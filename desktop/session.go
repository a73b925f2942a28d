package desktop

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/deskhand/deskhand/internal/picture"
	"github.com/deskhand/deskhand/internal/supervise"
	"github.com/deskhand/deskhand/internal/x11"
)

// session is one life of the X server and what hangs on it. A desktop gets a
// new one when its X server dies.
type session struct {
	epoch     string // tells observations of this session from others
	startedAt time.Time
	env       []string // of programs on this display

	xserver *supervise.Child // nil when attached
	bus     *supervise.Child // replaced by the recovery goroutine alone
	wm      *supervise.Child // likewise
	wmReady atomic.Bool
	hung    bool // of the recovery goroutine: it gave the X server up
	wmHung  bool // likewise, the window manager

	conn      *x11.Conn
	capture   *x11.Capture
	input     *x11.Input
	clipboard *x11.Clipboard
	windows   *x11.Windows
	encoder   picture.Encoder
	shots     idle // lets go of the capture's and the encoder's memory
	unwatch   func()
}

// keepPictures is how long after the last look at the screen the memory is kept
// that the next one may need.
const keepPictures = 30 * time.Second

// newSession starts the programs that the desktop consists of and connects to
// them. What it started is ended again when it fails.
func (l *lifecycle) newSession(ctx context.Context) (*session, error) {
	epoch := make([]byte, 4)
	_, _ = rand.Read(epoch) // never fails (crypto/rand)
	s := &session{epoch: hex.EncodeToString(epoch), startedAt: time.Now()}
	s.shots = idle{after: keepPictures, f: func() {
		s.encoder.Trim()
		s.capture.Trim()
	}}
	if err := l.open(ctx, s); err != nil {
		s.close()
		s.stop()
		// What fails because ctx ended says so in words of its own.
		if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
			err = cause
		}
		return nil, err
	}
	return s, nil
}

func (l *lifecycle) open(ctx context.Context, s *session) error {
	display, err := l.attached, error(nil)
	if display == "" {
		if display, err = l.startServer(ctx, s); err != nil {
			return err
		}
	}
	s.env = l.environ(display)
	if s.conn, err = x11.Dial(ctx, x11.Config{Display: display, Cookie: l.cookie, Server: l.serverPeer(s), Logger: l.log}); err != nil {
		return err
	}
	// Whoever waits for a server that hangs is freed by the connection's end.
	stop := context.AfterFunc(ctx, func() { _ = s.conn.Close() })
	defer stop()
	if l.attached == "" {
		if err := l.prepareScreen(s); err != nil {
			return err
		}
	}
	if s.windows, err = s.conn.NewWindows(); err != nil {
		return err
	}
	if err := l.openParts(ctx, s); err != nil {
		return err
	}
	if !stop() {
		return context.Cause(ctx)
	}
	s.setManaged(true)
	l.follow(s)
	return nil
}

// startServer runs the X server and returns the display. Meanwhile it looks
// whether browsers need wrappers.
func (l *lifecycle) startServer(ctx context.Context, s *session) (string, error) {
	if err := l.user.Do(func() error { return x11.WriteAuthority(l.dirs.authority, l.cookie) }); err != nil {
		return "", err
	}
	var both errgroup.Group
	var number int
	both.Go(l.browsers)
	both.Go(func() (err error) {
		number, err = l.startXServer(ctx, s)
		return err
	})
	err := both.Wait()
	return displayName(number), err
}

// prepareScreen brings the screen, which the X server started at the largest
// size that it will ever have, to the wanted one: it can shrink and grow back
// at run time, but never grow beyond the size it began with.
func (l *lifecycle) prepareScreen(s *session) error {
	l.mu.Lock()
	size := l.size
	l.mu.Unlock()
	if size != l.cfg.MaxSize {
		if err := s.conn.SetSize(size.Width, size.Height); err != nil {
			return err
		}
	}
	return s.conn.FillRoot(l.cfg.Background)
}

// openParts opens what works on the display, while the window manager and
// D-Bus start.
func (l *lifecycle) openParts(ctx context.Context, s *session) error {
	all, ctx := errgroup.WithContext(ctx)
	if l.attached == "" {
		all.Go(func() error { return l.startWindowManager(ctx, s) })
		all.Go(func() (err error) {
			s.bus, err = l.startBus(ctx, s)
			return err
		})
	}
	all.Go(func() (err error) {
		if s.capture, err = s.conn.NewCapture(); err != nil {
			return err
		}
		if s.input, err = s.conn.NewInput(); err != nil {
			return err
		}
		s.input.Follow(s.windows)
		if l.attached == "" {
			if _, err := s.input.Keyboard.Check(); err != nil { // keeps it
				return err
			}
			if err := s.centrePointer(); err != nil {
				return err
			}
		}
		if s.clipboard, err = s.conn.NewClipboard(); err == nil {
			s.input.FollowClipboard(s.clipboard)
		}
		return err
	})
	return all.Wait()
}

// centrePointer puts the pointer where X servers have it at first. It was in the
// middle of a larger screen.
func (s *session) centrePointer() error {
	w, h, err := s.conn.Size()
	if err != nil {
		return err
	}
	return s.input.Pointer.Move(w/2, h/2)
}

// follow turns what happens on the display into events.
func (l *lifecycle) follow(s *session) {
	s.unwatch = s.windows.Watch(func(e x11.WindowEvent) { l.windowEvent(e) })
	s.clipboard.OnChange(func(sel x11.SelectionName) {
		l.events.emit(Event{Type: EventClipboardChanged, Selection: selectionOf(sel)})
	})
	s.conn.OnResize(func(w, h int) {
		l.mu.Lock()
		l.size = Size{w, h}
		l.mu.Unlock()
		l.events.emit(Event{Type: EventResized, Size: &Size{w, h}})
	})
}

// partingLimit is how long a server gets for the last requests to it. One that
// hangs would take for ever.
const partingLimit = time.Second

// release lets go of all keys and buttons that this program holds down: the X
// server would not when the connection ends.
func (s *session) release() {
	s.part(func() { _ = s.input.ReleaseAll() })
}

// part runs the last requests to a server. What still waits for an answer after
// partingLimit ends with the connection.
func (s *session) part(requests func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		requests()
	}()
	limit := time.NewTimer(partingLimit)
	defer limit.Stop()
	select {
	case <-done:
	case <-s.conn.Done():
	case <-limit.C:
	}
}

// close gives back what was taken from the display, and ends the connection.
// Any part may be missing.
func (s *session) close() {
	if s.conn == nil {
		return
	}
	if s.unwatch != nil {
		s.unwatch()
	}
	if s.connected() {
		s.part(s.giveBack)
	}
	_ = s.conn.Close()
	s.giveBack() // what else hangs on the connection
	s.shots.stop()
	s.encoder.Trim()
}

// giveBack closes what works on the display. The keyboard has its empty keys
// again afterwards, and what it was to hold is up.
func (s *session) giveBack() {
	if s.input != nil {
		_ = s.input.Close()
	}
	if s.clipboard != nil {
		_ = s.clipboard.Close()
	}
	if s.capture != nil {
		_ = s.capture.Close()
	}
}

func (s *session) connected() bool {
	select {
	case <-s.conn.Done():
		return false
	default:
		return true
	}
}

// stop ends the programs of a session that is not to be used any more.
func (s *session) stop() {
	for _, c := range []*supervise.Child{s.wm, s.xserver, s.bus} {
		if c != nil {
			_ = c.Stop(context.Background())
		}
	}
}

func displayName(number int) string { return fmt.Sprintf(":%d", number) }
