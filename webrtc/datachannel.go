package webrtc

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"image"
	"image/png"
	"time"

	"github.com/disintegration/imaging"
	"github.com/pion/webrtc/v4"

	"github.com/deskhand/deskhand/desktop"
)

// Opcodes of sent messages. Their lengths include the header, unlike the lengths of received ones.
const (
	opCursorPosition = 0x01
	opCursorImage    = 0x02
	opPong           = 0x03
)

// dataChannel carries input, and the pointer, which the video does not show.
type dataChannel struct {
	v  *viewer
	ch *webrtc.DataChannel
}

// dataBacklog bounds the bytes that wait for a viewer's connection. If more wait, messages about
// the pointer are discarded.
const dataBacklog = 256 << 10

// newDataChannel adds the channel to a connection before its offer.
func newDataChannel(p *peer) error {
	ch, err := p.pc.CreateDataChannel("data", nil)
	if err != nil {
		return err
	}
	d := &dataChannel{v: p.v, ch: ch}
	ch.OnOpen(func() { p.v.showPointer(d) })
	ch.OnMessage(func(m webrtc.DataChannelMessage) { d.receive(m.Data) })
	return nil
}

func (d *dataChannel) receive(b []byte) {
	if len(b) >= inputHeader+8 && b[0] == opPing {
		pong := make([]byte, 0, 19)
		pong = append(pong, opPong, 0, 19)
		pong = append(pong, b[inputHeader:inputHeader+8]...)
		// Clients split a time by 2^32-1, not 2^32.
		now := uint64(time.Now().UnixMilli()) //nolint:gosec // it is after 1970
		pong = binary.BigEndian.AppendUint32(pong, uint32(now/0xffffffff))
		pong = binary.BigEndian.AppendUint32(pong, uint32(now%0xffffffff))
		d.sendPointer(pong)
		return
	}
	e, err := parseInput(b)
	if err == nil {
		err = d.v.input(e)
	}
	if err != nil {
		d.v.s.log.Debug("data channel", "viewer", d.v.id, "error", err)
	}
}

// sendPointer sends a message, unless more than dataBacklog bytes wait. It ignores errors, which
// also end the connection.
func (d *dataChannel) sendPointer(b []byte) {
	if d.ch.BufferedAmount() < dataBacklog {
		_ = d.ch.Send(b)
	}
}

type cursorImage struct{ message []byte }

// cursorMost is the largest width and height of a pointer's image. The message of such an image
// is always below 64 KiB, so its length fits into the header.
const cursorMost = 127

// newCursorImage makes the message of a pointer's image. It scales an image beyond cursorMost.
func newCursorImage(c desktop.CursorImage) (*cursorImage, error) {
	if c.Width <= 0 || c.Height <= 0 { // programs choose the size
		return nil, fmt.Errorf("the pointer's image has %d x %d pixels", c.Width, c.Height)
	}
	rgba := &image.RGBA{Pix: make([]byte, len(c.Pix)), Stride: 4 * c.Width, Rect: image.Rect(0, 0, c.Width, c.Height)}
	for i := 0; i+3 < len(c.Pix); i += 4 { // both are premultiplied
		rgba.Pix[i], rgba.Pix[i+1], rgba.Pix[i+2], rgba.Pix[i+3] = c.Pix[i+2], c.Pix[i+1], c.Pix[i], c.Pix[i+3]
	}
	img := image.Image(rgba)
	size, hot := rgba.Rect.Size(), c.Hot
	if size.X > cursorMost || size.Y > cursorMost {
		img = imaging.Fit(img, cursorMost, cursorMost, imaging.NearestNeighbor)
		size = img.Bounds().Size()
		hot.X, hot.Y = hot.X*size.X/c.Width, hot.Y*size.Y/c.Height
	}
	var b bytes.Buffer
	b.Write(make([]byte, inputHeader+8))
	if err := png.Encode(&b, img); err != nil {
		return nil, err
	}
	m := b.Bytes()
	m[0] = opCursorImage
	for i, n := range []int{len(m), size.X, size.Y, hot.X, hot.Y} {
		binary.BigEndian.PutUint16(m[1+2*i:], uint16(n)) //nolint:gosec // all are below 64 KiB
	}
	return &cursorImage{m}, nil
}

func cursorPosition(p desktop.Point) []byte {
	m := []byte{opCursorPosition, 0, 7, 0, 0, 0, 0}
	binary.BigEndian.PutUint16(m[3:], uint16(p.X)) //nolint:gosec // screens are smaller
	binary.BigEndian.PutUint16(m[5:], uint16(p.Y)) //nolint:gosec // screens are smaller
	return m
}

// showPointer sends a viewer the pointer's image and position. If the image changes meanwhile,
// it also sends the new image.
func (v *viewer) showPointer(d pointerSink) {
	for sent := (*cursorImage)(nil); ; {
		v.s.mu.Lock()
		v.pointer = d
		cursor := v.s.cursor
		v.s.mu.Unlock()
		if cursor == sent {
			break
		}
		d.sendPointer(cursor.message)
		sent = cursor
	}
	if p, err := v.s.d.Pointer(v.ctx); err == nil {
		d.sendPointer(cursorPosition(p.Point))
	}
}

// followCursor sends new images of the pointer to all viewers until the streamer is closed.
func (s *Streamer) followCursor() {
	err := s.d.FollowCursor(s.ctx, func(c desktop.CursorImage) {
		img, err := newCursorImage(c)
		if err != nil {
			s.log.Debug("cursor", "error", err)
			return
		}
		s.mu.Lock()
		s.cursor = img
		s.mu.Unlock()
		s.sendAll(img.message, nil)
		arrives(s.ctx, time.After(pointerPause))
	})
	s.log.Debug("stop following the cursor", "error", err)
}

type pointerSink interface{ sendPointer([]byte) }

// sendAll sends a message about the pointer to all viewers except one.
func (s *Streamer) sendAll(m []byte, but *viewer) {
	s.mu.Lock()
	sinks := make([]pointerSink, 0, len(s.viewers))
	for _, v := range s.viewers {
		if v.pointer != nil && v != but {
			sinks = append(sinks, v.pointer)
		}
	}
	s.mu.Unlock()
	for _, d := range sinks {
		d.sendPointer(m)
	}
}

// followEvents sends viewers the pointer's position after other actors have moved the pointer.
func (s *Streamer) followEvents() {
	sub := s.d.Subscribe(0)
	defer sub.Close()
	for {
		select {
		case <-s.ctx.Done():
			return
		case e, open := <-sub.Events():
			if !open {
				return
			}
			if e.Type == desktop.EventAction && e.Action.Actor.Kind != desktop.ActorViewer {
				s.pointerMoved(e.Action)
			}
		}
	}
}

func (s *Streamer) pointerMoved(a *desktop.Action) {
	at := a.At
	if a.To != nil {
		at = a.To
	}
	if at != nil && a.Window == 0 {
		s.movePointer(*at, nil)
	}
}

// pointerPause is the least time between two positions of the pointer that viewers get, and
// between two images. It keeps them far below the bound of short packets of package network.
const pointerPause = 10 * time.Millisecond

// movePointer sends the pointer's position to all viewers except one, by followPointer.
func (s *Streamer) movePointer(to desktop.Point, by *viewer) {
	s.mu.Lock()
	s.pointerAt, s.movedBy = to, by
	s.mu.Unlock()
	notify(s.moved)
}

// followPointer sends the latest position of the pointer until the streamer is closed.
func (s *Streamer) followPointer() {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for arrives(s.ctx, pause.C) && arrives(s.ctx, s.moved) {
		s.mu.Lock()
		at, by := s.pointerAt, s.movedBy
		s.movedBy = nil // a viewer that has left is not kept in memory
		s.mu.Unlock()
		s.sendAll(cursorPosition(at), by)
		pause.Reset(pointerPause)
	}
}

func (s *Streamer) resized(size desktop.Size) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.size = size
	s.presenceChanged()
}

func newID() string { return rand.Text()[:12] }
