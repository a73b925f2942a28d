package x11

import (
	"errors"
	"fmt"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/xproto"

	"github.com/deskhand/deskhand/internal/x11/request"
)

// Canvas is a window without a frame, above all others, on which tests and benchmarks
// draw. Its drawing methods, alone or inside [Conn.Draw], do not wait for the server. One
// goroutine uses it.
type Canvas struct {
	c    *Conn
	win  xproto.Window
	gc   xproto.Gcontext
	font xproto.Font
	w, h int
	kept []xproto.Pixmap
}

const (
	canvasFont   = "6x13" // which every server has
	canvasAscent = 11     // of a character above the base line
)

// CanvasCellWidth is the width of a character on a canvas.
const CanvasCellWidth = 6

// CanvasCellHeight is the height of a line on a canvas.
const CanvasCellHeight = 13

// imageBytes is the size of the image in the longest request, which has 65535 units of 4
// bytes (X11 protocol, section 1), with its header.
const imageBytes = 65535*4 - 24

// NewCanvas opens a canvas, white and with black as the colour of text.
func (c *Conn) NewCanvas(x, y, w, h int) (*Canvas, error) {
	if err := c.checkFormat(); err != nil {
		return nil, request.Wrap("open canvas", err)
	}
	cv := &Canvas{c: c, w: w, h: h}
	if err := cv.open(x, y); err != nil {
		return nil, errors.Join(request.Wrap("open canvas", err), cv.Close())
	}
	return cv, nil
}

func (cv *Canvas) open(x, y int) (err error) {
	c := cv.c
	if cv.win, err = xproto.NewWindowId(c.x); err != nil {
		return err
	}
	if cv.gc, err = xproto.NewGcontextId(c.x); err != nil {
		return err
	}
	if cv.font, err = xproto.NewFontId(c.x); err != nil {
		return err
	}
	const black, white = 0, 0xffffff
	window := xproto.CreateWindowChecked(c.x, c.screen.RootDepth, cv.win, c.root, int16(x), int16(y), uint16(cv.w), uint16(cv.h), 0,
		xproto.WindowClassInputOutput, c.screen.RootVisual, xproto.CwBackPixel|xproto.CwOverrideRedirect, []uint32{white, 1})
	font := xproto.OpenFontChecked(c.x, cv.font, uint16(len(canvasFont)), canvasFont)
	gc := xproto.CreateGCChecked(c.x, cv.gc, xproto.Drawable(cv.win),
		xproto.GcForeground|xproto.GcBackground|xproto.GcFont|xproto.GcGraphicsExposures, []uint32{black, white, uint32(cv.font), 0})
	mapped := xproto.MapWindowChecked(c.x, cv.win)
	raised := xproto.ConfigureWindowChecked(c.x, cv.win, xproto.ConfigWindowStackMode, []uint32{xproto.StackModeAbove})
	return errors.Join(window.Check(), font.Check(), gc.Check(), mapped.Check(), raised.Check())
}

// Close destroys the canvas.
func (cv *Canvas) Close() error {
	for _, p := range cv.kept {
		xproto.FreePixmap(cv.c.x, p)
	}
	xproto.FreeGC(cv.c.x, cv.gc)
	xproto.CloseFont(cv.c.x, cv.font)
	xproto.DestroyWindow(cv.c.x, cv.win)
	return request.Wrap("close canvas", cv.c.Sync())
}

// Draw calls f and sends what f draws, on any canvas, in one write.
func (c *Conn) Draw(f func()) error {
	c.wire.cork()
	f()
	return request.Wrap("draw", c.wire.uncork())
}

// Put draws w times h pixels, in the format of Frame.Pix, in rows of 4*w bytes, at x, y.
func (cv *Canvas) Put(x, y, w, h int, pix []byte) {
	cv.c.put(xproto.Drawable(cv.win), cv.gc, x, y, w, h, pix)
}

// put draws by as many requests as it takes.
func (c *Conn) put(on xproto.Drawable, gc xproto.Gcontext, x, y, w, h int, pix []byte) {
	for rows := imageBytes / (4 * w); h > 0; h -= rows {
		rows = min(rows, h)
		xproto.PutImage(c.x, xproto.ImageFormatZPixmap, on, gc, uint16(w), uint16(rows), int16(x), int16(y), 0, c.screen.RootDepth, pix[:rows*w*4])
		y, pix = y+rows, pix[rows*w*4:]
	}
}

// Keep stores a picture of the canvas's size, in the format of Put, in the server, and
// returns its number for [Canvas.Show]. It waits for the server.
func (cv *Canvas) Keep(pix []byte) (number int, err error) {
	if len(pix) != cv.w*cv.h*4 {
		return 0, fmt.Errorf("keep picture: it has %d bytes, want %d", len(pix), cv.w*cv.h*4)
	}
	id, err := xproto.NewPixmapId(cv.c.x)
	if err != nil {
		return 0, request.Wrap("keep picture", err)
	}
	made := xproto.CreatePixmapChecked(cv.c.x, cv.c.screen.RootDepth, id, xproto.Drawable(cv.win), uint16(cv.w), uint16(cv.h))
	if err := made.Check(); err != nil {
		return 0, request.Wrap("keep picture", err)
	}
	cv.kept = append(cv.kept, id)
	cv.c.put(xproto.Drawable(id), cv.gc, 0, 0, cv.w, cv.h, pix)
	return len(cv.kept) - 1, request.Wrap("keep picture", cv.c.Sync())
}

// Show draws a picture of Keep.
func (cv *Canvas) Show(number int) {
	xproto.CopyArea(cv.c.x, xproto.Drawable(cv.kept[number]), xproto.Drawable(cv.win), cv.gc, 0, 0, 0, 0, uint16(cv.w), uint16(cv.h))
}

// Print appends lines of ASCII text at the lower edge, as a terminal does. It moves the
// other lines up by a copy within the window.
func (cv *Canvas) Print(lines ...string) {
	up := len(lines) * CanvasCellHeight
	win := xproto.Drawable(cv.win)
	xproto.CopyArea(cv.c.x, win, win, cv.gc, 0, int16(up), 0, 0, uint16(cv.w), uint16(cv.h-up))
	xproto.ClearArea(cv.c.x, false, cv.win, 0, int16(cv.h-up), 0, 0)
	for i, line := range lines {
		base := cv.h - up + i*CanvasCellHeight + canvasAscent
		for x := 0; len(line) > 0; {
			part := line[:min(len(line), 255)] // the length is a byte
			line = line[len(part):]
			xproto.ImageText8(cv.c.x, byte(len(part)), win, cv.gc, int16(x), int16(base), part)
			x += len(part) * CanvasCellWidth
		}
	}
}

// WatchPointer calls f, on the connection's event goroutine, with each position of the
// pointer, until stop. It is for measurements: an invisible window, of the screen's size at
// Dial, gets the motion, and programs below it get none.
func (c *Conn) WatchPointer(f func(x, y int)) (stop func() error, err error) {
	win, err := xproto.NewWindowId(c.x)
	if err != nil {
		return nil, request.Wrap("watch pointer", err)
	}
	remove := c.handle(func(ev xgb.Event) {
		if e, ok := ev.(xproto.MotionNotifyEvent); ok && e.Event == win {
			f(int(e.RootX), int(e.RootY))
		}
	})
	made := xproto.CreateWindowChecked(c.x, 0, win, c.root, 0, 0, c.screen.WidthInPixels, c.screen.HeightInPixels, 0,
		xproto.WindowClassInputOnly, 0, xproto.CwOverrideRedirect|xproto.CwEventMask, []uint32{1, xproto.EventMaskPointerMotion})
	mapped := xproto.MapWindowChecked(c.x, win)
	stop = func() error {
		remove()
		xproto.DestroyWindow(c.x, win)
		return request.Wrap("watch pointer", c.Sync())
	}
	if err := errors.Join(made.Check(), mapped.Check()); err != nil {
		return nil, errors.Join(request.Wrap("watch pointer", err), stop())
	}
	return stop, nil
}
