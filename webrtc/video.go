package webrtc

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"sync"
	"time"

	"github.com/deskhand/deskhand/desktop"
)

// BinaryConn is a Conn that can also send binary messages.
type BinaryConn interface {
	Conn

	// SendBinary sends a binary message. Several goroutines may call it concurrently,
	// also while Send runs. It must return within seconds after ctx has ended, even if the
	// client does not read, because the end of the viewer waits for it.
	SendBinary(context.Context, []byte) error
}

// Flags of binary messages to viewers without WebRTC. A message with flagData is one of the
// data channel. Others are pictures: the flags, microseconds since the viewer came (64 bits,
// big endian), and the picture.
const (
	flagKey  = 0x01
	flagData = 0x80

	pictureHeader = 9
)

// ServeVideo serves one viewer without WebRTC. It sends pictures as binary messages, for a
// decoder such as WebCodecs. The text messages are the messages of the signalling protocol
// about control, input, the clipboard and presence. There is no sound.
//
// It blocks until conn.Receive returns an error, ctx ends, the viewer is ended
// ([Streamer.EndViewer], ViewerOptions.Until) or the streamer is closed. It returns:
//   - nil if the connection, ctx or the viewer has ended;
//   - [ErrClosed] if the streamer is closed, or if the viewer was ended during the first
//     messages;
//   - [ErrTooManyViewers], [ErrTooManyOfOwner] or [ErrTooManyJoins] if a limit of viewers is
//     reached;
//   - the error of conn if the first messages cannot be sent.
func (s *Streamer) ServeVideo(ctx context.Context, conn BinaryConn, o ViewerOptions) error {
	ctx, cancel := s.during(ctx)
	defer cancel()
	v, err := s.newViewer(o, TransportWebSocket, "")
	if err != nil {
		return (&signaling{s: s, conn: conn}).refuse(ctx, err)
	}
	g := &signaling{s: s, conn: conn, options: o, id: v.id, key: rand.Text(), viewer: v}
	w := &videoSocket{v: v, conn: conn, g: g, ctx: ctx, pointers: make(chan []byte, pointersMost)}
	v.attach(g)
	defer v.close()
	around := g.beginPresence()
	defer around.sub.Close()
	if err := g.greet(ctx); err != nil {
		return err
	}
	if err := w.sendSize(s.d.Status().Size); err != nil {
		return err
	}
	var work sync.WaitGroup
	defer work.Wait()
	defer cancel()
	work.Go(func() { g.followPresence(ctx, around) })
	if !v.start(cancel, v.act, func() { v.pump(w.send) }, w.pumpPointers) {
		return ErrClosed
	}
	v.showPointer(w)
	v.begin()
	return g.listen(ctx)
}

type videoSocket struct {
	v    *viewer
	conn BinaryConn
	g    *signaling
	ctx  context.Context //nolint:containedctx // ends with the connection
	size desktop.Size    // the latest size that was sent to the client
	buf  []byte

	pointers chan []byte // messages that wait
}

// pointersMost bounds the messages about the pointer that wait. Older messages are discarded.
const pointersMost = 16

func (w *videoSocket) sendSize(size desktop.Size) error {
	w.size = size
	return w.g.send(w.ctx, "video/init", map[string]any{"codec": w.v.s.cfg.Codec, "width": size.Width, "height": size.Height})
}

func (w *videoSocket) send(p *wirePicture) error {
	if p.size != w.size {
		if err := w.sendSize(p.size); err != nil {
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

// sendPointer queues a message of the data channel. It never blocks.
func (w *videoSocket) sendPointer(m []byte) {
	queuePointer(w.pointers, append([]byte{flagData}, m...))
}

// queuePointer adds a message to a queue. If the queue is full, it discards the oldest message.
func queuePointer(queue chan []byte, m []byte) {
	for {
		select {
		case queue <- m:
			return
		default:
		}
		select {
		case <-queue:
		default:
		}
	}
}

// pumpPointers sends the queued messages until the viewer ends.
func (w *videoSocket) pumpPointers() {
	for {
		select {
		case <-w.v.ctx.Done():
			return
		case m := <-w.pointers:
			if w.conn.SendBinary(w.ctx, m) != nil {
				return // listen sees the error
			}
		}
	}
}
