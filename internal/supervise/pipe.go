package supervise

import (
	"os"

	"golang.org/x/sys/unix"
)

// The ends of a pipe.
const (
	ReadEnd  = 0
	WriteEnd = 1
)

// Pipe makes a pipe and returns this program's end, which is ReadEnd or WriteEnd, and
// the child's. Only this program's end is non-blocking, because programs do not expect
// non-blocking input and output.
func Pipe(end int) (ours, theirs *os.File, err error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, os.NewSyscallError("pipe2", err)
	}
	if err := unix.SetNonblock(p[end], true); err != nil {
		_ = unix.Close(p[0])
		_ = unix.Close(p[1])
		return nil, nil, os.NewSyscallError("fcntl", err)
	}
	return os.NewFile(uintptr(p[end]), "pipe"), os.NewFile(uintptr(p[1-end]), "pipe"), nil
}

// StartPiped is like [Group.Start], but the child's standard input and output are pipes.
// It returns this program's ends, which the caller closes.
func (g *Group) StartPiped(s Spec) (c *Child, in, out *os.File, err error) {
	in, theirIn, err := Pipe(WriteEnd)
	if err != nil {
		return nil, nil, nil, err
	}
	defer theirIn.Close()
	out, theirOut, err := Pipe(ReadEnd)
	if err != nil {
		_ = in.Close()
		return nil, nil, nil, err
	}
	defer theirOut.Close()
	s.Stdin, s.Stdout = theirIn, theirOut
	if c, err = g.Start(s); err != nil {
		_ = in.Close()
		_ = out.Close()
		return nil, nil, nil, err
	}
	return c, in, out, nil
}
