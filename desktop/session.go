package desktop

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/deskhand/deskhand/internal/picture"
	"github.com/deskhand/deskhand/internal/supervise"
	"github.com/deskhand/deskhand/internal/x11"
)

// session is an X server with the programs and connections that depend on it. A desktop gets
// a new session when its X server dies.
type session struct {
	epoch     string // in the observations of this session
	startedAt time.Time
	log       *slog.Logger
	env       []string // of programs on this display
	cookie    []byte   // of the X server; nil when attached

	xserver *supervise.Child // nil when attached
	bus     *supervise.Child // replaced by the recovery goroutine alone
	wm      *supervise.Child // likewise
	wmReady atomic.Bool
	hung    bool // the X server does not answer; only the recovery goroutine uses it
	wmHung  bool // the window manager does not answer; likewise

	conn      *x11.Conn
	capture   *x11.Capture
	input     *x11.Input
	clipboard *x11.Clipboard
	windows   *x11.Windows
	encoder   picture.Encoder
	observed  observedScreens
	trim      *time.Timer // frees the memory of the capture and the encoder
	unwatch   func()
}

// keepPictures is how long the capture and the encoder keep memory after the last frame.
const keepPictures = 30 * time.Second

// newSession starts the desktop's own programs and connects to them. If it fails, it ends
// them.
func (l *lifecycle) newSession(ctx context.Context) (*session, error) {
	epoch := make([]byte, 4)
	_, _ = rand.Read(epoch) // never fails (crypto/rand)
	s := &session{epoch: hex.EncodeToString(epoch), startedAt: time.Now(), log: l.log}
	s.trim = time.AfterFunc(keepPictures, func() {
		s.encoder.Trim()
		s.capture.Trim()
	})
	s.trim.Stop() // until the first frame
	if err := l.open(ctx, s); err != nil {
		s.close()
		s.stop()
		// An error that the end of ctx has caused may not wrap the cause.
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
	if s.conn, err = x11.Dial(ctx, x11.Config{Display: display, Cookie: s.cookie, Server: l.serverPeer(s), Logger: l.log}); err != nil {
		return err
	}
	// Closing the connection ends all waits for a server that hangs.
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

// startServer runs the X server and returns the display. Meanwhile it prepares browsers.
func (l *lifecycle) startServer(ctx context.Context, s *session) (string, error) {
	s.cookie = x11.NewCookie()
	write := func(display int) error {
		return l.user.Do(func() error { return x11.WriteAuthority(l.dirs.authority, display, s.cookie) })
	}
	// Clients get the cookie after Xvfb listens. Earlier they could send it to another program.
	if err := write(-1); err != nil {
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
	if err == nil {
		err = write(number)
	}
	return displayName(number), err
}

// prepareScreen sets the size of the screen. The X server started with the largest size,
// beyond which it cannot grow.
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

// openParts starts the window manager and D-Bus, and prepares capture, input and clipboard
// meanwhile.
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

// centrePointer moves the pointer to the centre. The X server has put it in the centre of a
// larger screen.
func (s *session) centrePointer() error {
	w, h, err := s.conn.Size()
	if err != nil {
		return err
	}
	return s.input.Pointer.Move(w/2, h/2)
}

// follow emits events of the display.
func (l *lifecycle) follow(s *session) {
	s.unwatch = s.windows.Watch(func(e x11.WindowEvent) { l.windowEvent(e) })
	s.clipboard.OnChange(func(sel x11.SelectionName) {
		l.events.Emit(Event{Type: EventClipboardChanged, Selection: selectionOf(sel)})
	})
	s.conn.OnResize(func(w, h int) {
		l.mu.Lock()
		l.size = Size{w, h}
		l.mu.Unlock()
		l.events.Emit(Event{Type: EventResized, Size: &Size{w, h}})
	})
}

// partingLimit bounds the last requests to a server, which may hang.
const partingLimit = time.Second

// close ends the parts of a session and its connection. Any part may be nil.
func (s *session) close() {
	if s.conn == nil {
		return
	}
	if s.unwatch != nil {
		s.unwatch()
	}
	select {
	case <-s.conn.Done():
	default:
		_ = s.probe(partingLimit, nil, s.giveBack)
	}
	_ = s.conn.Close()
	_ = s.giveBack() // if the server did not answer
	s.trim.Stop()
	s.encoder.Trim()
}

// giveBack closes input, clipboard and capture, which releases keys and keycodes.
func (s *session) giveBack() error {
	var errs []error
	if s.input != nil {
		errs = append(errs, s.input.Close())
	}
	if s.clipboard != nil {
		errs = append(errs, s.clipboard.Close())
	}
	if s.capture != nil {
		errs = append(errs, s.capture.Close())
	}
	return errors.Join(errs...)
}

// stop ends the programs of a session.
func (s *session) stop() {
	for _, c := range []*supervise.Child{s.wm, s.xserver, s.bus} {
		if c != nil {
			_ = c.Stop(context.Background())
		}
	}
}

func displayName(number int) string { return fmt.Sprintf(":%d", number) }
