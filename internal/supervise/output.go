package supervise

import (
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

const (
	pipeSize  = 64 << 10               // what a pipe holds at most unless its writer enlarges it
	tailSize  = 8 << 10                // what Tail keeps
	drainWait = 500 * time.Millisecond // how long Done waits for the output of a child that has ended
)

// sink collects what a child writes, from one or two pipes.
type sink struct {
	log *logFile // nil: none

	mu   sync.Mutex
	tail []byte
}

func (s *sink) write(b []byte) {
	if s.log != nil {
		s.log.write(b)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	// The tail is cut only when it has doubled, so that most writes move nothing.
	s.tail = append(s.tail, b...)
	if n := len(s.tail) - tailSize; n > tailSize {
		s.tail = append(s.tail[:0], s.tail[n:]...)
	}
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
	to      io.Writer // nil: none
	sink    *sink
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
	return &pump{
		r: os.NewFile(uintptr(p[0]), "|0"), to: to, sink: s,
		drained: make(chan struct{}), done: make(chan struct{}),
	}, os.NewFile(uintptr(p[1]), "|1"), nil
}

func (p *pump) run() {
	defer close(p.done)
	defer p.r.Close()
	buf := make([]byte, 16<<10)
	for {
		n, err := p.r.Read(buf)
		p.write(buf[:n])
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

// empty reads what is in the pipe. It stops at a pipe's capacity: whatever
// comes after that was written by somebody else after the child's end.
func (p *pump) empty(buf []byte) {
	conn, err := p.r.SyscallConn()
	if err != nil {
		return
	}
	for total := 0; total <= pipeSize; {
		n := 0
		err = conn.Read(func(fd uintptr) bool {
			n, _ = unix.Read(int(fd), buf)
			return true
		})
		if err != nil || n <= 0 {
			return
		}
		p.write(buf[:n])
		total += n
	}
}

func (p *pump) write(b []byte) {
	if len(b) == 0 {
		return
	}
	p.sink.write(b)
	if p.to == nil {
		return
	}
	if _, err := p.to.Write(b); err != nil {
		p.to = nil // it asked for no more; the child must be able to go on
	}
}

// settle waits until all that the child has written so far was passed on, but
// not long: a writer that blocks must not hide the child's end. It may be
// called once.
func (p *pump) settle() {
	if err := p.r.SetReadDeadline(time.Unix(1, 0)); err != nil {
		return // the pipe has ended
	}
	t := time.NewTimer(drainWait)
	defer t.Stop()
	select {
	case <-p.drained:
	case <-p.done:
	case <-t.C:
	}
}
