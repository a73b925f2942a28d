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
	// bufferSize makes system calls cheap and fits into a processor's cache.
	bufferSize = 512 << 10
	// writeBehind is the amount after which the disk begins to write, so that the sync at
	// the end of a large file is short.
	writeBehind = 16 << 20
)

var buffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}

// receive copies r to a file, at its offset. disk reports that the file will be synced.
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
			// This is a hint. Sync returns errors.
			_ = unix.SyncFileRange(int(file.Fd()), begun, total-begun, unix.SYNC_FILE_RANGE_WRITE)
			begun = total
		}
		switch {
		case err == io.EOF: // a wrapped io.EOF is an error
			return total, nil
		case err != nil:
			return total, endedAfter(total, err)
		}
	}
}

// syncFile syncs a file, if its file system can.
func syncFile(file *os.File) error {
	err := file.Sync()
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOTSUP) {
		return nil
	}
	return err
}

// endedAfter returns the error for content whose reader failed.
func endedAfter(n int64, err error) error {
	return &Error{Reason: fmt.Sprintf("content ended after %d bytes: %v", n, err), Err: err}
}
