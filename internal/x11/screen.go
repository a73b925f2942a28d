package x11

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/randr"
	"github.com/jezek/xgb/xproto"

	"github.com/deskhand/deskhand/internal/x11/request"
)

// ErrScreenSize is returned for a screen size that the X server cannot have.
var ErrScreenSize = errors.New("screen size is out of range")

// modePrefix begins the names of RandR modes of SetSize, so that it finds and deletes old
// ones, also of a killed process.
const modePrefix = "deskhand-"

// resizeLimit bounds how long SetSize waits for the event of a size that the server has
// accepted.
const resizeLimit = 5 * time.Second

// screenSize follows the size of the root window.
type screenSize struct {
	setting   sync.Mutex     // held by SetSize
	announced chan struct{}  // holds a token after an event of a new size
	following sync.WaitGroup // for followSize

	mu       sync.Mutex // guards the fields below
	w, h     int
	want     [2]int         // the size that SetSize waits for
	reached  chan struct{}  // closed at that size; nil: SetSize does not wait
	onResize func(w, h int) // nil: not called
}

// watchSize starts to follow the size of the root window.
func (c *Conn) watchSize() error {
	s := &c.size
	s.announced = make(chan struct{}, 1)
	c.handle(func(ev xgb.Event) {
		if _, ok := c.screenChange(ev); ok {
			select {
			case s.announced <- struct{}{}:
			default:
			}
		}
	})
	randr.SelectInput(c.x, c.root, randr.NotifyMaskScreenChange)
	w, h, err := c.rootSize()
	if err != nil {
		return request.Wrap("get screen size", err)
	}
	s.w, s.h = w, h
	s.following.Go(c.followSize)
	return nil
}

// followSize asks for the size of the root window after each event of a new size. It does not
// use the size in the event, which may be forged.
func (c *Conn) followSize() {
	for {
		select {
		case <-c.done:
			return
		case <-c.size.announced:
		}
		if w, h, err := c.rootSize(); err == nil {
			c.resized(w, h)
		}
	}
}

func (c *Conn) rootSize() (w, h int, err error) {
	r, err := xproto.GetGeometry(c.x, xproto.Drawable(c.root)).Reply()
	if err != nil {
		return 0, 0, err
	}
	return int(r.Width), int(r.Height), nil
}

// screenChange decodes a RandR ScreenChangeNotify event of the root window.
func (c *Conn) screenChange(ev xgb.Event) (e randr.ScreenChangeNotifyEvent, ok bool) {
	raw, ok := ev.(RawEvent)
	if !ok || raw[0]&127 != c.ext.randr+randr.ScreenChangeNotify {
		return e, false
	}
	e = randr.ScreenChangeNotifyEventNew(raw).(randr.ScreenChangeNotifyEvent)
	return e, e.Root == c.root
}

// resized handles the size that the root window has.
func (c *Conn) resized(w, h int) {
	s := &c.size
	s.mu.Lock()
	changed := w != s.w || h != s.h
	s.w, s.h = w, h
	if s.reached != nil && s.want == [2]int{w, h} {
		close(s.reached)
		s.reached = nil
	}
	f := s.onResize
	s.mu.Unlock()
	if changed && f != nil {
		f(w, h)
	}
}

// Size returns the screen size in pixels after the last change that the server announced.
func (c *Conn) Size() (w, h int, err error) {
	select {
	case <-c.done:
		return 0, 0, fmt.Errorf("get screen size: %w", ErrConnClosed)
	default:
	}
	c.size.mu.Lock()
	defer c.size.mu.Unlock()
	return c.size.w, c.size.h, nil
}

// OnResize sets a function that is called with new screen sizes. f runs on a goroutine of the
// connection: it must return soon and must not call SetSize or Close.
func (c *Conn) OnResize(f func(w, h int)) {
	c.size.mu.Lock()
	defer c.size.mu.Unlock()
	c.size.onResize = f
}

// SetSize changes the size of the screen, in pixels, and waits until Size returns it and
// the function of OnResize is called. The error wraps ErrScreenSize if the server cannot
// have that size.
func (c *Conn) SetSize(w, h int) error {
	c.size.setting.Lock()
	defer c.size.setting.Unlock()
	op := fmt.Sprintf("set screen size %dx%d", w, h)
	r, err := randr.GetScreenSizeRange(c.x, c.root).Reply()
	if err != nil {
		return request.Wrap(op, err)
	}
	if w < int(r.MinWidth) || h < int(r.MinHeight) || w > int(r.MaxWidth) || h > int(r.MaxHeight) {
		return fmt.Errorf("%s: %w: %dx%d to %dx%d", op, ErrScreenSize, r.MinWidth, r.MinHeight, r.MaxWidth, r.MaxHeight)
	}
	reached := make(chan struct{})
	c.size.mu.Lock()
	c.size.want, c.size.reached = [2]int{w, h}, reached
	known := c.size.w == w && c.size.h == h
	c.size.mu.Unlock()
	defer func() {
		c.size.mu.Lock()
		c.size.reached = nil
		c.size.mu.Unlock()
	}()
	nowW, nowH, err := c.rootSize()
	if err != nil {
		return request.Wrap(op, err)
	}
	if nowW == w && nowH == h {
		if known {
			return nil
		}
	} else if err := c.changeSize(w, h); err != nil {
		return request.Wrap(op, err)
	}
	limit := time.NewTimer(resizeLimit)
	defer limit.Stop()
	select {
	case <-reached:
		return nil
	case <-c.done:
		return fmt.Errorf("%s: %w", op, ErrConnClosed)
	case <-limit.C:
		return fmt.Errorf("%s: the X server did not announce it within %v", op, resizeLimit)
	}
}

// monitor is the RandR output that shows the screen, with the CRTC behind it.
type monitor struct {
	c         *Conn
	resources *randr.GetScreenResourcesCurrentReply
	output    randr.Output
	info      *randr.GetOutputInfoReply
	crtc      randr.Crtc
}

// monitor returns the output that is on, else the first that can be.
func (c *Conn) monitor() (*monitor, error) {
	res, err := randr.GetScreenResourcesCurrent(c.x, c.root).Reply()
	if err != nil {
		return nil, err
	}
	var found *monitor
	for _, o := range res.Outputs {
		info, err := randr.GetOutputInfo(c.x, o, res.ConfigTimestamp).Reply()
		if err != nil {
			return nil, err
		}
		if info.Crtc != 0 {
			return &monitor{c, res, o, info, info.Crtc}, nil
		}
		if found == nil && len(info.Crtcs) > 0 {
			found = &monitor{c, res, o, info, info.Crtcs[0]}
		}
	}
	if found == nil {
		return nil, errors.New("the X server has no RandR output")
	}
	return found, nil
}

// changeSize sets a mode of that size. RRSetScreenSize alone would fail and leave Xvfb's CRTC
// larger than the screen.
func (c *Conn) changeSize(w, h int) error {
	m, err := c.monitor()
	if err != nil {
		return err
	}
	mode, err := m.findMode(w, h)
	if err != nil {
		return err
	}
	if err := m.setMode(mode, w, h); err != nil {
		return err
	}
	m.dropModes(mode)
	return nil
}

// findMode returns a mode of that size of the output. It makes one if there is none.
func (m *monitor) findMode(w, h int) (randr.Mode, error) {
	for _, info := range m.resources.Modes {
		mode := randr.Mode(info.Id)
		if int(info.Width) == w && int(info.Height) == h && slices.Contains(m.info.Modes, mode) {
			return mode, nil
		}
	}
	name := fmt.Sprintf("%s%dx%d", modePrefix, w, h)
	mode := maps.Collect(m.names)[name] // of a SetSize that was interrupted
	if mode == 0 {
		r, err := randr.CreateMode(m.c.x, m.c.root, randr.ModeInfo{
			Width: uint16(w), Height: uint16(h), NameLen: uint16(len(name)),
			HsyncStart: uint16(w), HsyncEnd: uint16(w), Htotal: uint16(w),
			VsyncStart: uint16(h), VsyncEnd: uint16(h), Vtotal: uint16(h),
		}, name).Reply()
		if err != nil {
			return 0, fmt.Errorf("create mode: %w", err)
		}
		mode = r.Mode
	}
	if err := randr.AddOutputModeChecked(m.c.x, m.output, mode).Check(); err != nil {
		randr.DestroyMode(m.c.x, mode)
		return 0, fmt.Errorf("add mode: %w", err)
	}
	return mode, nil
}

// names yields the name of every mode and the mode.
func (m *monitor) names(yield func(name string, mode randr.Mode) bool) {
	names := m.resources.Names
	for _, info := range m.resources.Modes {
		n := min(int(info.NameLen), len(names))
		if !yield(string(names[:n]), randr.Mode(info.Id)) {
			return
		}
		names = names[n:]
	}
}

// setMode sets the mode while the server is grabbed, so that no other client sees the
// steps. A CRTC must fit the screen at each step, so it is off while the screen changes.
func (m *monitor) setMode(mode randr.Mode, w, h int) error {
	xproto.GrabServer(m.c.x)
	defer xproto.UngrabServer(m.c.x)
	old, err := randr.GetCrtcInfo(m.c.x, m.crtc, m.resources.ConfigTimestamp).Reply()
	if err != nil {
		return err
	}
	if err := m.setCrtc(0, nil); err != nil {
		return err
	}
	err = randr.SetScreenSizeChecked(m.c.x, m.c.root, uint16(w), uint16(h),
		scaleUp(w, m.c.screen.WidthInMillimeters, m.c.screen.WidthInPixels),
		scaleUp(h, m.c.screen.HeightInMillimeters, m.c.screen.HeightInPixels)).Check()
	if err == nil {
		err = m.setCrtc(mode, []randr.Output{m.output})
	}
	if err != nil && old.Mode != 0 {
		_ = m.setCrtc(old.Mode, old.Outputs)
	}
	return err
}

// scaleUp returns the length of n pixels in millimetres, at the screen's first resolution.
func scaleUp(n int, mm, px uint16) uint32 {
	return uint32(max(1, (n*int(mm)+int(px)/2)/max(1, int(px))))
}

// setCrtc sets the CRTC's mode, or turns the CRTC off. It reads the configuration's time
// stamp, which other clients and new modes change.
func (m *monitor) setCrtc(mode randr.Mode, outputs []randr.Output) error {
	res, err := randr.GetScreenResourcesCurrent(m.c.x, m.c.root).Reply()
	if err != nil {
		return err
	}
	r, err := randr.SetCrtcConfig(m.c.x, m.crtc, xproto.TimeCurrentTime, res.ConfigTimestamp,
		0, 0, mode, randr.RotationRotate0, outputs).Reply()
	if err != nil {
		return fmt.Errorf("set mode: %w", err)
	}
	if r.Status != randr.SetConfigSuccess {
		return fmt.Errorf("set mode: status %d", r.Status)
	}
	return nil
}

// dropModes deletes the modes of SetSize, except one.
func (m *monitor) dropModes(keep randr.Mode) {
	for name, mode := range m.names {
		if mode == keep || !strings.HasPrefix(name, modePrefix) {
			continue
		}
		if slices.Contains(m.info.Modes, mode) {
			randr.DeleteOutputMode(m.c.x, m.output, mode)
		}
		randr.DestroyMode(m.c.x, mode)
	}
}

// FillRoot sets the colour of the root window, 0xRRGGBB.
func (c *Conn) FillRoot(rgb uint32) error {
	if err := c.checkFormat(); err != nil {
		return request.Wrap("fill root window", err)
	}
	attributes := xproto.ChangeWindowAttributesChecked(c.x, c.root, xproto.CwBackPixel, []uint32{rgb & 0xffffff})
	clear := xproto.ClearAreaChecked(c.x, false, c.root, 0, 0, 0, 0)
	return request.Wrap("fill root window", errors.Join(attributes.Check(), clear.Check()))
}

// checkFormat returns an error unless pixels are blue, green, red and an unused byte, as
// this package requires.
func (c *Conn) checkFormat() error {
	setup := xproto.Setup(c.x)
	if setup.ImageByteOrder != xproto.ImageOrderLSBFirst {
		return errors.New("the X server's images are not little endian")
	}
	for _, f := range setup.PixmapFormats {
		if f.Depth == c.screen.RootDepth && f.BitsPerPixel != 32 {
			return fmt.Errorf("the X server has %d bits per pixel, want 32", f.BitsPerPixel)
		}
	}
	for _, d := range c.screen.AllowedDepths {
		for _, v := range d.Visuals {
			if v.VisualId == c.screen.RootVisual && (v.RedMask != 0xff0000 || v.GreenMask != 0xff00 || v.BlueMask != 0xff) {
				return fmt.Errorf("the X server's colour masks are %06x, %06x, %06x", v.RedMask, v.GreenMask, v.BlueMask)
			}
		}
	}
	return nil
}
