package webrtc

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/deskhand/deskhand/desktop"
)

// BinaryConn is a Conn that carries binary messages, too.
type BinaryConn interface {
	Conn

	// SendBinary sends a binary message. It is called by another goroutine than
	// Send.
	SendBinary(context.Context, []byte) error
}

// Flags of binary messages to viewers without WebRTC. A message with flagData is
// one of the data channel's; the others are pictures: the flags, microseconds
// since the viewer came (64 bits, big endian), then the picture.
const (
	flagKey  = 0x01
	flagData = 0x80

	pictureHeader = 9
)

// ServeVideo serves one viewer to whom no WebRTC gets through: pictures come as
// binary messages over the connection itself, for a decoder such as that of
// WebCodecs. The messages of the signalling protocol that are about control,
// input, the clipboard and presence go either way as text. There is no sound. It
// returns when the connection, ctx or the streamer ends: nil when the client went.
func (s *Streamer) ServeVideo(ctx context.Context, conn BinaryConn, o ViewerOptions) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(s.ctx, func() { cancel(ErrClosed) })
	defer stop()
	v, err := s.newViewer(o, TransportWebSocket, "")
	if err != nil {
		g := &signaling{s: s, conn: conn}
		return errors.Join(err, g.send(ctx, "system/disconnect", map[string]string{"message": err.Error()}))
	}
	w := &videoSocket{v: v, conn: conn, ctx: ctx, pointers: make(chan []byte, pointersMost)}
	g := &signaling{s: s, conn: conn, options: o, id: v.id, key: rand.Text(), viewer: v}
	v.hear(g)
	defer v.close("")
	around := g.beginPresence()
	defer around.sub.Close()
	if err := g.greet(ctx); err != nil {
		return err
	}
	if err := w.tellSize(s.d.Status().Size); err != nil {
		return err
	}
	var work sync.WaitGroup
	defer work.Wait()
	defer cancel(nil)
	work.Go(func() { g.followPresence(ctx, around) })
	if !v.start(func(string) { cancel(nil) }, v.act, func() { v.pump(w.send) }, w.pumpPointers) {
		return ErrClosed
	}
	v.showPointer(w)
	v.begin()
	return w.listen(g)
}

// videoSocket sends pictures over a connection.
type videoSocket struct {
	v    *viewer
	conn BinaryConn
	ctx  context.Context //nolint:containedctx // ends with the connection
	size desktop.Size    // that the client knows
	buf  []byte

	pointers chan []byte // messages that wait
}

// pointersMost is how many messages about the pointer may wait. Who is further
// behind misses some.
const pointersMost = 16

// listen does what the client asks for until it goes.
func (w *videoSocket) listen(g *signaling) error {
	for {
		text, err := w.conn.Receive(w.ctx)
		switch {
		case err != nil && w.v.s.ctx.Err() != nil:
			g.sayEnd(w.ctx)
			return ErrClosed
		case err != nil:
			return nil //nolint:nilerr // the client has gone
		}
		if m, err := decodeReceived(text); err == nil && m.Event == "video/key" {
			w.v.lost.Store(true)
			w.v.askForKey()
			continue
		}
		if err := g.take(w.ctx, text); err != nil {
			w.v.s.log.Debug("signalling", "viewer", w.v.id, "error", err)
		}
	}
}

// tellSize tells the client what is to come.
func (w *videoSocket) tellSize(size desktop.Size) error {
	w.size = size
	text, err := json.Marshal(message{"video/init", map[string]any{
		"codec": w.v.s.cfg.Codec, "width": size.Width, "height": size.Height,
	}})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(w.ctx, sendLimit)
	defer cancel()
	return w.conn.Send(ctx, text)
}

// send sends one picture.
func (w *videoSocket) send(p *wirePicture) error {
	if p.size != w.size {
		if err := w.tellSize(p.size); err != nil {
			return err
		}
	}
	flags := byte(0)
	if p.key {
		flags = flagKey
	}
	w.buf = append(w.buf[:0], flags)
	w.buf = binary.BigEndian.AppendUint64(w.buf, uint64(p.at.Sub(w.v.since)/time.Microsecond)) //nolint:gosec // it is later
	w.buf = append(w.buf, p.data...)
	return w.conn.SendBinary(w.ctx, w.buf)
}

// sendPointer sends a message that others get over their data channel. It never
// waits.
func (w *videoSocket) sendPointer(m []byte) {
	select {
	case w.pointers <- append([]byte{flagData}, m...):
	default:
	}
}

// pumpPointers sends the messages that wait, until the viewer goes.
func (w *videoSocket) pumpPointers() {
	for {
		select {
		case <-w.v.ctx.Done():
			return
		case m := <-w.pointers:
			if w.conn.SendBinary(w.ctx, m) != nil {
				return // the connection's end is seen elsewhere
			}
		}
	}
}
