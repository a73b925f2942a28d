package webrtc

import (
	"bytes"
	"encoding/binary"
	"image"
	"image/png"
	"time"

	"github.com/pion/webrtc/v4"

	"github.com/deskhand/deskhand/desktop"
)

// Opcodes of what is sent. Their lengths include the header, other than those
// of what is received.
const (
	opCursorPosition = 0x01
	opCursorImage    = 0x02
	opPong           = 0x03
)

// dataChannel carries input, and the pointer, which is not in the picture.
type dataChannel struct {
	v  *viewer
	ch *webrtc.DataChannel
}

// dataBacklog is how much may wait for a viewer's line before cursors are left
// out.
const dataBacklog = 256 << 10

// newDataChannel adds the channel to a connection that was not offered yet.
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

// sendPointer sends a message unless too many wait already. What fails, fails
// with the connection.
func (d *dataChannel) sendPointer(b []byte) {
	if d.ch.BufferedAmount() < dataBacklog {
		_ = d.ch.Send(b)
	}
}

// cursorImage is the pointer's picture as it is sent.
type cursorImage struct{ message []byte }

// newCursorImage encodes a picture of the pointer.
func newCursorImage(c desktop.CursorImage) (*cursorImage, error) {
	img := &image.RGBA{Pix: make([]byte, len(c.Pix)), Stride: 4 * c.Width, Rect: image.Rect(0, 0, c.Width, c.Height)}
	for i := 0; i+3 < len(c.Pix); i += 4 { // both are premultiplied
		img.Pix[i], img.Pix[i+1], img.Pix[i+2], img.Pix[i+3] = c.Pix[i+2], c.Pix[i+1], c.Pix[i], c.Pix[i+3]
	}
	var b bytes.Buffer
	b.Write(make([]byte, inputHeader+8))
	if err := png.Encode(&b, img); err != nil {
		return nil, err
	}
	m := b.Bytes()
	m[0] = opCursorImage
	for i, n := range []int{len(m), c.Width, c.Height, c.Hot.X, c.Hot.Y} {
		binary.BigEndian.PutUint16(m[1+2*i:], uint16(n)) //nolint:gosec // the length wraps around at 64 KiB, as clients expect
	}
	return &cursorImage{m}, nil
}

// cursorPosition is the message that tells where the pointer is.
func cursorPosition(p desktop.Point) []byte {
	m := []byte{opCursorPosition, 0, 7, 0, 0, 0, 0}
	binary.BigEndian.PutUint16(m[3:], uint16(p.X)) //nolint:gosec // screens are smaller
	binary.BigEndian.PutUint16(m[5:], uint16(p.Y)) //nolint:gosec // screens are smaller
	return m
}

// showPointer tells a viewer what the pointer looks like and where it is. If it
// looks otherwise meanwhile, the viewer may have been told of that before.
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

// followCursor keeps all viewers' pointers true, for as long as the streamer
// lives.
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
	})
	s.log.Debug("cursor is not followed any more", "why", err)
}

// pointerSink takes messages about the pointer to a viewer.
type pointerSink interface{ sendPointer([]byte) }

// sendAll sends a message about the pointer to every viewer but one.
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
