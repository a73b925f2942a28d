package filesystem

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

const (
	// bufferSize is large enough that system calls cost nothing, and small
	// enough to stay in a processor's cache.
	bufferSize = 512 << 10
	// writeBehind is how much is written before the disk is asked to begin,
	// so that the sync at the end has not all of a large file to wait for.
	writeBehind = 16 << 20
)

var buffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}

// receive copies what r gives to a file, from where that is. disk tells that
// the file will be synced.
func receive(file *os.File, r io.Reader, disk bool, alive aliveFunc) (int64, error) {
	buffer := buffers.Get().(*[bufferSize]byte)
	defer buffers.Put(buffer)
	var total, begun int64
	for {
		if err := alive(); err != nil {
			return total, err
		}
		n, err := r.Read(buffer[:])
		if n > 0 {
			written, err := file.Write(buffer[:n])
			total += int64(written)
			if err != nil {
				return total, err
			}
		}
		if disk && total-begun >= writeBehind {
			// Nothing but a hint; Sync tells of errors.
			_ = unix.SyncFileRange(int(file.Fd()), begun, total-begun, unix.SYNC_FILE_RANGE_WRITE)
			begun = total
		}
		switch {
		case err == io.EOF: // a wrapped one means something else
			return total, nil
		case err != nil:
			return total, endedAfter(total, err)
		}
	}
}

// syncFile puts a file on the disk, if it is on one.
func syncFile(file *os.File) error {
	err := file.Sync()
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOTSUP) {
		return nil
	}
	return err
}

// endedAfter is the error for content that could not be read to its end.
func endedAfter(n int64, err error) error {
	return &Error{Reason: fmt.Sprintf("content ended after %d bytes: %v", n, err), Err: err}
}
