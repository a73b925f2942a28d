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
	pipeSize   = 64 << 10 // what a pipe holds at most unless its writer enlarges it
	bufferSize = 16 << 10
	tailSize   = 8 << 10                // what Tail keeps
	drainWait  = 500 * time.Millisecond // how long Done waits for a writer that takes nothing
)

// sink collects what a child writes, from one or two pipes.
type sink struct {
	log *logFile // nil: none

	mu      sync.Mutex
	tail    []byte
	total   int64         // bytes that were ever written
	changed chan struct{} // closed with the next; nil when nobody waits
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
	// The tail is cut only when it has doubled, so that most writes move nothing.
	s.tail = append(s.tail, b...)
	if n := len(s.tail) - tailSize; n > tailSize {
		s.tail = append(s.tail[:0], s.tail[n:]...)
	}
}

// since returns a copy of what was written after the first n bytes, as far as
// it is kept, how much was written in all, and what is closed with the next.
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

// pump carries what arrives on one pipe to the sink and a writer.
//
// It goes on for as long as anything holds the other end: a program that the
// child left behind would be killed by SIGPIPE if the pipe were closed when the
// child ends. Nobody waits for that; what the child itself had written is told
// by drained.
type pump struct {
	r       *os.File
	tty     bool      // r is a terminal's other side
	to      io.Writer // nil: none
	filler  Filler    // nil: to is none
	sink    *sink
	passing atomic.Int64  // when the writer was last given something, in Unix nanoseconds; 0: it has taken that
	drained chan struct{} // closed once settle's request was met
	done    chan struct{}
}

// newPump makes a pipe and returns its writing end, for the child.
func newPump(to io.Writer, s *sink) (*pump, *os.File, error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, os.NewSyscallError("pipe2", err)
	}
	// Only our end is non-blocking: the flag belongs to the pipe's end, and
	// programs do not expect it on their output.
	if err := unix.SetNonblock(p[0], true); err != nil {
		_ = unix.Close(p[0])
		_ = unix.Close(p[1])
		return nil, nil, os.NewSyscallError("fcntl", err)
	}
	return pumpFrom(os.NewFile(uintptr(p[0]), "|0"), to, s), os.NewFile(uintptr(p[1]), "|1"), nil
}

func pumpFrom(r *os.File, to io.Writer, s *sink) *pump {
	p := &pump{r: r, to: to, sink: s, drained: make(chan struct{}), done: make(chan struct{})}
	p.filler, _ = to.(Filler)
	return p
}

// Filler is an Output that has its own memory to read into, so that nothing is
// copied. What it receives reaches neither LogPath nor Tail.
type Filler interface {
	io.Writer

	// Space returns the memory for what comes next, not empty. It is not
	// touched after the following Filled. Neither may block.
	Space() []byte

	// Filled tells that n bytes, not none, were put at the beginning of it.
	Filled(n int)
}

func (p *pump) run() {
	defer close(p.done)
	// Records of children that have ended are kept; what received their output
	// may be large.
	defer func() { p.to, p.filler = nil, nil }()
	defer p.r.Close()
	buf := p.buffer()
	defer p.recycle(buf)
	for {
		if p.filler != nil {
			buf = p.filler.Space()
		}
		n, err := p.read(buf)
		p.took(buf[:n])
		if errors.Is(err, os.ErrDeadlineExceeded) {
			// settle wants to know when all that was in the pipe is out of it.
			if err = p.r.SetReadDeadline(time.Time{}); err == nil {
				p.empty(buf)
				close(p.drained)
			}
		}
		if err != nil {
			return
		}
	}
}

// read reads what comes next. A terminal that nothing has open is no end while
// the child lives: its last act may be to close its output (coreutils do), or it
// may open /dev/tty again, and closing our side would kill it by SIGHUP.
func (p *pump) read(buf []byte) (n int, err error) {
	n, err = p.r.Read(buf)
	if !p.tty || !errors.Is(err, unix.EIO) || p.settled() {
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
	case err != nil: // the last of inner is that it had to wait
		return 0, err
	case inner == nil && n == 0:
		return 0, io.EOF
	}
	return max(0, n), inner
}

// settled tells whether settle's request was met. The pump's goroutine asks.
func (p *pump) settled() bool {
	select {
	case <-p.drained:
		return true
	default:
		return false
	}
}

// buffers are what pumps read into that have no Filler.
var buffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}

// buffer returns nil for a Filler, which has its own.
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

// empty reads what is in the pipe. It stops at a pipe's capacity: whatever
// comes after that was written by somebody else after the child's end.
func (p *pump) empty(buf []byte) {
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
		p.took(buf[:n])
		total += n
	}
}

// took passes on what was read.
func (p *pump) took(b []byte) {
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
		p.to = nil // it asked for no more; the child must be able to go on
	}
}

// settle waits until all that the child has written so far was passed on, however
// busy the machine is, but not long for a writer that blocks: that must not hide
// the child's end. Fillers do not block. It may be called once.
func (p *pump) settle() {
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
