package supervise

import (
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

const (
	pipeSize   = 64 << 10 // capacity of a pipe, unless its writer enlarges it
	bufferSize = 16 << 10
	tailSize   = 8 << 10                // bytes that Tail keeps
	drainWait  = 500 * time.Millisecond // how long Done waits for a blocked writer
)

// sink collects a child's output from one or two pipes.
type sink struct {
	log *logFile // nil for no log

	mu      sync.Mutex
	tail    []byte
	total   int64         // bytes that were ever written
	changed chan struct{} // closed by the next write; nil unless a caller waits
}

func (s *sink) write(b []byte) {
	if s.log != nil {
		s.log.write(b)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.total += int64(len(b))
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
	// The tail is cut when it has doubled, so that most writes move nothing.
	s.tail = append(s.tail, b...)
	if n := len(s.tail) - tailSize; n > tailSize {
		s.tail = append(s.tail[:0], s.tail[n:]...)
	}
}

// since implements [Child.Since].
func (s *sink) since(n int64) (b []byte, total int64, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	if missing := min(s.total-n, int64(len(s.tail))); missing > 0 {
		b = slices.Clone(s.tail[int64(len(s.tail))-missing:])
	}
	return b, s.total, s.changed
}

func (s *sink) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.tail
	if n := len(b) - tailSize; n > 0 {
		b = b[n:]
	}
	for i := 0; i < utf8.UTFMax && len(b) > 0 && !utf8.RuneStart(b[0]); i++ {
		b = b[1:]
	}
	return strings.ToValidUTF8(string(b), "\uFFFD")
}

// pump carries output from one pipe to the sink and a writer.
//
// It runs as long as a process holds the other end: SIGPIPE would kill processes that
// the child started if the pipe were closed when the child ends. A group closes the oldest
// pipes if ended children have more than keepOpen. drained says that the child's own output
// was forwarded.
type pump struct {
	r       *os.File
	tty     bool      // r is a terminal's master
	to      io.Writer // may be nil
	filler  Filler    // to, if it is a Filler
	sink    *sink
	passing atomic.Int64  // start of the running Write in Unix nanoseconds, or 0
	drained chan struct{} // closed when the pipe was emptied for drain
	done    chan struct{}
}

// newPump makes a pipe and returns its writing end, for the child.
func newPump(to io.Writer, s *sink) (*pump, *os.File, error) {
	r, w, err := Pipe(ReadEnd)
	if err != nil {
		return nil, nil, err
	}
	return pumpFrom(r, to, s), w, nil
}

func pumpFrom(r *os.File, to io.Writer, s *sink) *pump {
	p := &pump{r: r, to: to, sink: s, drained: make(chan struct{}), done: make(chan struct{})}
	p.filler, _ = to.(Filler)
	return p
}

// Filler is an Output that supplies the memory that output is read into, which saves a
// copy. Its output reaches neither LogPath nor Tail. Its methods must not block.
type Filler interface {
	io.Writer

	// Space returns memory for the next output, at least one byte. It is used until
	// the following Filled.
	Space() []byte

	// Filled reports that the first n bytes of that memory hold output. n is not 0.
	Filled(n int)
}

func (p *pump) run() {
	defer close(p.done)
	defer func() { p.to, p.filler = nil, nil }() // may be large, and the record of the child is kept
	defer p.r.Close()
	buf := p.buffer()
	defer p.recycle(buf)
	for {
		if p.filler != nil {
			buf = p.filler.Space()
		}
		n, err := p.read(buf)
		p.forward(buf[:n])
		if errors.Is(err, os.ErrDeadlineExceeded) {
			// drain asks to empty the pipe.
			if err = p.r.SetReadDeadline(time.Time{}); err == nil {
				p.readRest(buf)
				close(p.drained)
			}
		}
		if err != nil {
			return
		}
	}
}

// read reads from the pipe or terminal. While the child lives, the output does not end
// when no process has the terminal open: the child may close its output before it exits,
// as coreutils do, or open /dev/tty again, and SIGHUP would kill it if the master were
// closed.
func (p *pump) read(buf []byte) (n int, err error) {
	n, err = p.r.Read(buf)
	if !p.tty || !errors.Is(err, unix.EIO) || p.isDrained() {
		return n, err
	}
	conn, err := p.r.SyscallConn()
	if err != nil {
		return 0, err
	}
	var inner error
	err = conn.Read(func(fd uintptr) bool {
		for {
			if n, inner = unix.Read(int(fd), buf); inner != unix.EINTR {
				return inner != unix.EAGAIN && inner != unix.EIO
			}
		}
	})
	switch {
	case err != nil: // inner is EAGAIN or EIO
		return 0, err
	case inner == nil && n == 0:
		return 0, io.EOF
	}
	return max(0, n), inner
}

// isDrained reports whether the pipe was emptied for drain.
func (p *pump) isDrained() bool {
	select {
	case <-p.drained:
		return true
	default:
		return false
	}
}

// buffers are the buffers of pumps without a Filler.
var buffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}

// buffer returns a buffer to read into, or nil for a Filler.
func (p *pump) buffer() []byte {
	if p.filler != nil {
		return nil
	}
	return buffers.Get().(*[bufferSize]byte)[:]
}

func (p *pump) recycle(buf []byte) {
	if p.filler == nil {
		buffers.Put((*[bufferSize]byte)(buf))
	}
}

// readRest reads the pipe until it is empty, or up to a pipe's capacity: further output was
// written by other processes after the child's end.
func (p *pump) readRest(buf []byte) {
	conn, err := p.r.SyscallConn()
	if err != nil {
		return
	}
	for total := 0; total <= pipeSize; {
		if p.filler != nil {
			buf = p.filler.Space()
		}
		n := 0
		err = conn.Read(func(fd uintptr) bool {
			n, _ = unix.Read(int(fd), buf)
			return true
		})
		if err != nil || n <= 0 {
			return
		}
		p.forward(buf[:n])
		total += n
	}
}

// forward passes output to the filler, or to the sink and the writer.
func (p *pump) forward(b []byte) {
	if len(b) == 0 {
		return
	}
	if p.filler != nil {
		p.filler.Filled(len(b))
		return
	}
	p.passing.Store(time.Now().UnixNano())
	defer p.passing.Store(0)
	p.sink.write(b)
	if p.to == nil {
		return
	}
	if _, err := p.to.Write(b); err != nil {
		p.to = nil // the child must not block
	}
}

// drain waits until the output that the child has written was forwarded, however busy
// the machine is. It waits at most drainWait for a blocked writer, which must not hide
// the child's end. It may be called once.
func (p *pump) drain() {
	if err := p.r.SetReadDeadline(time.Unix(1, 0)); err != nil {
		return // the pipe has ended
	}
	late := time.NewTimer(drainWait)
	defer late.Stop()
	for {
		select {
		case <-p.drained:
			return
		case <-p.done:
			return
		case <-late.C:
		}
		left := drainWait
		if since := p.passing.Load(); since != 0 {
			left -= time.Since(time.Unix(0, since))
		}
		if left <= 0 {
			return
		}
		late.Reset(left)
	}
}
