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

// syncInterval is the time between two syncs: a power failure costs no more than that.
const syncInterval = 5 * time.Second

// video is the file of a segment. It gets whole fragments of ffmpeg's output only, so it can
// be played up to its end at any time.
type video struct {
	e       *entry
	limit   int64 // bytes of all segments together; zero means no limit
	earlier int64 // bytes of the segments before
	file    *os.File
	size    int64

	begun  chan struct{} // closed after the first write
	failed chan struct{} // closed when no more is written
	reason Reason        // why no more is written; set before failed is closed
	err    error

	removed bool // the file was deleted; set by close
	syncing sync.WaitGroup
	synced  time.Time
}

func newVideo(e *entry) (*video, error) {
	f, err := os.OpenFile(filepath.Join(e.dir, videoFile), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	return &video{e: e, file: f, begun: make(chan struct{}), failed: make(chan struct{}), synced: time.Now()}, nil
}

// copy writes the output of ffmpeg to the file. After a failure it continues to read, so
// that ffmpeg can end.
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
			whole = box // is written with the next box
			continue
		case "mfra", "free":
			whole = box[:0] // an index of fragments, which no player needs
			continue
		}
		v.write(box)
		whole = box[:0]
	}
}

// maxBox is larger than half a second of the largest picture.
const maxBox = 1 << 30

// readBox appends the next box to b. A box that is cut off is io.EOF.
func readBox(in *bufio.Reader, b []byte) (kind string, _ []byte, err error) {
	head, err := in.Peek(boxHeader)
	if err != nil {
		return "", b, io.EOF
	}
	length := int(binary.BigEndian.Uint32(head))
	if length < boxHeader || length > maxBox {
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

// write appends boxes that belong together, all of them or none.
func (v *video) write(b []byte) {
	select {
	case <-v.failed:
		return
	default:
	}
	if v.limit > 0 && v.earlier+v.size+int64(len(b)) > v.limit {
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
	v.e.grow(v.size)
	if time.Since(v.synced) >= syncInterval {
		v.synced = time.Now()
		v.syncing.Wait() // for the sync before
		v.syncing.Go(func() { _ = syscall.Fdatasync(int(v.file.Fd())) })
	}
}

func (v *video) fail(reason Reason, err error) {
	v.reason, v.err = reason, err
	close(v.failed)
}

// gone reports whether the file was deleted.
func (v *video) gone() bool {
	removed, err := unlinked(v.file)
	return removed || err != nil
}

// close syncs and closes the file. copy must have returned.
func (v *video) close() error {
	v.syncing.Wait()
	v.removed = v.gone()
	return errors.Join(v.file.Sync(), v.file.Close())
}
