package recording

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/deskhand/deskhand/internal/supervise"
)

const (
	// stuckLimit bounds the time in which ffmpeg must accept a picture.
	stuckLimit = 15 * time.Second

	// endLimit bounds the time in which ffmpeg must write the rest.
	endLimit = 20 * time.Second

	// queueBytes bounds the pictures that wait for ffmpeg. Their number is from
	// minQueue to maxQueue.
	queueBytes = 24 << 20
	minQueue   = 3
	maxQueue   = 30

	// soundQueue bounds the pieces of sound that wait for ffmpeg.
	soundQueue = 100

	pipeSize = 1 << 20
)

// packet is a picture or a piece of sound for ffmpeg.
type packet struct {
	buf   []byte // frameRoom bytes, then the data
	from  int    // where the packet begins, within frameRoom
	track byte
}

func (p *packet) data() []byte { return p.buf[frameRoom:] }

// encoder is one ffmpeg. Its methods are for one goroutine.
type encoder struct {
	encoding
	child *supervise.Child
	in    *os.File
	out   *os.File

	patience time.Duration // for ffmpeg to accept a picture

	queue chan *packet
	free  chan *packet // for pictures
	made  int          // packets for pictures

	wrote     chan struct{} // closed when the input of ffmpeg is closed
	read      chan struct{} // closed at the end of ffmpeg's output; nil before begin
	failed    chan struct{} // closed when ffmpeg accepts no more
	err       error         // why ffmpeg accepts no more; set before failed is closed
	outputErr error         // of ffmpeg's output; set before read is closed
}

// newEncoder starts an ffmpeg, which waits for its first picture.
func newEncoder(group *supervise.Group, tools programs, enc encoding, patience time.Duration) (*encoder, error) {
	child, in, out, err := group.StartPiped(supervise.Spec{Name: "ffmpeg", Path: tools.ffmpeg, Args: enc.arguments(tools)})
	if err != nil {
		return nil, storeError(err)
	}
	if raw, err := in.SyscallConn(); err == nil {
		// If this is not permitted, the pipe is only slower.
		_ = raw.Control(func(fd uintptr) { _, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, pipeSize) })
	}
	most := min(max(queueBytes/(enc.width*enc.height*3/2), minQueue), maxQueue)
	e := &encoder{
		encoding: enc, child: child, patience: patience, in: in, out: out,
		queue: make(chan *packet, most+soundQueue), free: make(chan *packet, most),
		wrote: make(chan struct{}), failed: make(chan struct{}),
	}
	go e.write()
	return e, nil
}

// write feeds ffmpeg until the queue is closed.
func (e *encoder) write() {
	defer close(e.wrote)
	_, err := e.in.Write(streamHeader(e.width, e.height, e.fps, e.sound))
	for p := range e.queue {
		if err == nil {
			err = e.put(p.buf[p.from:])
			if err != nil {
				e.err = err
				close(e.failed)
			}
		}
		if p.track == trackVideo {
			e.free <- p
		}
	}
	_ = e.in.Close() // ffmpeg ends at the end of its input
}

func (e *encoder) put(b []byte) error {
	if err := e.in.SetWriteDeadline(time.Now().Add(e.patience)); err != nil {
		return err
	}
	_, err := e.in.Write(b)
	return err
}

// picture returns a packet for a picture, or nil if ffmpeg is too slow.
func (e *encoder) picture() *packet {
	select {
	case p := <-e.free:
		return p
	default:
	}
	if e.made == cap(e.free) {
		return nil
	}
	e.made++
	return &packet{buf: make([]byte, frameRoom+e.width*e.height*3/2), track: trackVideo}
}

// await waits until there is a packet for a picture, or ffmpeg has failed.
func (e *encoder) await() {
	if e.made < cap(e.free) {
		return
	}
	select {
	case p := <-e.free:
		e.free <- p // does not block: free has room for all packets
	case <-e.failed:
	case <-e.child.Done():
	}
}

// send queues a packet without waiting. It returns false if there is no room for sound.
func (e *encoder) send(p *packet, at time.Duration) bool {
	var head [frameRoom]byte
	h := blockHeader(head[:0], p.track, at, len(p.buf)-frameRoom)
	p.from = frameRoom - len(h)
	copy(p.buf[p.from:], h)
	if p.track == trackSound && len(e.queue) >= soundQueue {
		return false
	}
	e.queue <- p
	return true
}

// begin begins to write the output of ffmpeg to a file.
func (e *encoder) begin(v *video) {
	e.read = make(chan struct{})
	go func() {
		defer close(e.read)
		e.outputErr = v.copy(e.out)
	}()
}

// end waits until ffmpeg has encoded everything. It returns an error if ffmpeg fails or does not
// end within endLimit.
func (e *encoder) end() error {
	close(e.queue)
	limit := time.NewTimer(endLimit)
	defer limit.Stop()
	var err error
	select {
	case <-e.child.Done():
	case <-limit.C:
		err = fmt.Errorf("%w: ffmpeg did not end within %v", ErrEncoder, endLimit)
		err = errors.Join(err, e.child.StopWithin(context.Background(), -1))
	}
	<-e.wrote
	if e.read != nil {
		<-e.read
	}
	_ = e.out.Close()
	switch {
	case err != nil:
	case e.child.Exit().Code != 0:
		err = fmt.Errorf("%w: %w", ErrEncoder, exitError(e.child))
	case e.outputErr != nil:
		err = fmt.Errorf("%w: %w", ErrEncoder, e.outputErr)
	}
	return err
}
