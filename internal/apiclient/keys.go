package apiclient

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// keys reads standard input so that a read which waits can be ended. Go offers
// no deadline for terminals that were opened by somebody else.
type keys struct {
	in   io.Reader
	file *os.File // in, if it is a file
	wake *os.File // is closed to end a read; its other end becomes readable
	woke *os.File
}

func newKeys(in io.Reader) (*keys, error) {
	k := &keys{in: in}
	f, ok := in.(*os.File)
	if !ok {
		return k, nil
	}
	var err error
	if k.woke, k.wake, err = os.Pipe(); err != nil {
		return nil, fmt.Errorf("standard input: %w", err)
	}
	k.file = f
	return k, nil
}

// stop ends a read that waits, and all later ones.
func (k *keys) stop() {
	if k.file != nil {
		_ = k.wake.Close()
	}
}

// close frees what read needs. Nobody may read any more.
func (k *keys) close() {
	if k.file != nil {
		_ = k.woke.Close()
	}
}

// read is as io.Reader's. It is called by one goroutine.
func (k *keys) read(p []byte) (int, error) {
	if k.file == nil {
		return k.in.Read(p)
	}
	fds := []unix.PollFd{
		{Fd: int32(k.file.Fd()), Events: unix.POLLIN},
		{Fd: int32(k.woke.Fd()), Events: unix.POLLIN},
	}
	for {
		_, err := unix.Poll(fds, -1)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return 0, fmt.Errorf("standard input: %w", err)
		case fds[1].Revents != 0:
			return 0, io.EOF
		case fds[0].Revents != 0:
			return k.file.Read(p)
		}
	}
}
