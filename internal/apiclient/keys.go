package apiclient

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// keys reads standard input so that stop can end a blocked read. Go has no
// deadlines for a terminal that this process did not open.
type keys struct {
	in   io.Reader
	file *os.File // in, if it is a file
	wake *os.File // closing it makes woke readable
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

// stop ends a blocked read and all later ones.
func (k *keys) stop() {
	if k.file != nil {
		_ = k.wake.Close()
	}
}

// close frees what read needs. It must follow the last read.
func (k *keys) close() {
	if k.file != nil {
		_ = k.woke.Close()
	}
}

// read is like [io.Reader.Read]. One goroutine may call it.
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
