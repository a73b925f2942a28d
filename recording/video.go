package recording

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// syncInterval is how often what was written is forced to the disk: what a power
// cut costs at most.
const syncInterval = 5 * time.Second

// video is the file that a recording is written to. ffmpeg's output passes through
// this program, which writes whole fragments only: whatever dies, the file is
// playable up to its end.
type video struct {
	e     *entry
	limit int64 // bytes that all the recording's files may have; zero: any number
	took  int64 // bytes of the segments before
	file  *os.File
	size  int64

	begun  chan struct{} // closed at the first byte
	failed chan struct{} // closed when nothing is written any more; then reason and err say why
	reason Reason
	err    error

	removed bool // by somebody else; after close
	syncing sync.WaitGroup
	synced  time.Time
}

// newVideo makes the file.
func newVideo(e *entry) (*video, error) {
	f, err := os.OpenFile(filepath.Join(e.dir, videoFile), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	return &video{e: e, file: f, begun: make(chan struct{}), failed: make(chan struct{}), synced: time.Now()}, nil
}

// copy writes what ffmpeg makes, to its end. After a failure it goes on reading,
// so that ffmpeg ends when it is told to.
func (v *video) copy(from io.Reader) error {
	in := bufio.NewReaderSize(from, 64<<10)
	var whole []byte
	for {
		kind, box, err := readBox(in, whole)
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return err
		}
		switch kind {
		case "ftyp", "moof":
			whole = box // goes with what comes next
			continue
		case "mfra", "free":
			// An index of fragments, which the copy made afterwards does
			// without.
			whole = box[:0]
			continue
		}
		v.write(box)
		whole = box[:0]
	}
}

// largestBox bounds what ffmpeg may give at once: half a second of the largest
// picture takes less.
const largestBox = 1 << 30

// readBox appends the next box to b.
func readBox(in *bufio.Reader, b []byte) (kind string, _ []byte, err error) {
	head, err := in.Peek(boxHeader)
	if err != nil {
		return "", b, io.EOF // a box that was cut off is left out
	}
	length := int(binary.BigEndian.Uint32(head))
	if length < boxHeader || length > largestBox {
		return "", b, fmt.Errorf("ffmpeg wrote a box of %d bytes", length)
	}
	kind = string(head[4:])
	n := len(b)
	if need := n + length; need > cap(b) {
		b = append(make([]byte, 0, need+need/4), b...)
	}
	b = b[:n+length]
	if _, err := io.ReadFull(in, b[n:]); err != nil {
		return "", b[:n], io.EOF
	}
	return kind, b, nil
}

// write appends boxes that belong together, whole or not at all.
func (v *video) write(b []byte) {
	select {
	case <-v.failed:
		return
	default:
	}
	if v.limit > 0 && v.took+v.size+int64(len(b)) > v.limit {
		v.fail(ReasonMaxBytes, nil)
		return
	}
	if _, err := v.file.WriteAt(b, v.size); err != nil {
		reason := ReasonWriteFailed
		if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
			reason = ReasonDiskFull
		}
		v.fail(reason, errors.Join(err, v.file.Truncate(v.size)))
		return
	}
	if v.size == 0 {
		close(v.begun)
	}
	v.size += int64(len(b))
	v.e.grew(v.size)
	if time.Since(v.synced) >= syncInterval {
		v.synced = time.Now()
		v.syncing.Wait() // the one before took that long
		v.syncing.Go(func() { _ = syscall.Fdatasync(int(v.file.Fd())) })
	}
}

func (v *video) fail(reason Reason, err error) {
	v.reason, v.err = reason, err
	close(v.failed)
}

// gone says whether somebody deleted the file.
func (v *video) gone() bool {
	removed, err := unlinked(v.file)
	return removed || err != nil
}

// close forces everything to the disk. copy must have returned.
func (v *video) close() error {
	v.syncing.Wait()
	v.removed = v.gone()
	return errors.Join(v.file.Sync(), v.file.Close())
}
