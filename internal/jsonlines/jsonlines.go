// Package jsonlines reads messages that are one line each, such as ACP's and MCP's on
// standard input and output, with a limit on their length.
package jsonlines

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"slices"
)

// Large is the number of bytes above which a line takes a [Share].
const Large = 1 << 20

const (
	headKept = 64 << 10 // of a line that is too long
	tailKept = 1 << 10
)

// Share is a part of the memory that several readers share.
type Share interface {
	// Take is called when a line exceeds Large, before the reader takes memory for more
	// of it. It blocks until there is memory for a line of the largest size. Next returns
	// its error.
	Take() error

	// Drop is called when the reader discards the line.
	Drop()
}

// Reader reads lines. It is for one goroutine.
type Reader struct {
	r     *bufio.Reader
	max   int
	share Share // nil: none
	taken bool  // for the current line
	skips bool  // the rest of a late line must be skipped
}

// NewReader returns a Reader for lines of at most max bytes. share may be nil.
func NewReader(r io.Reader, max int, share Share) *Reader {
	return &Reader{r: bufio.NewReaderSize(r, 64<<10), max: max, share: share}
}

// TooLong describes a line that is longer than the limit, or late.
type TooLong struct {
	Size       int64  // bytes that were read
	Head, Tail []byte // the first and the last of these bytes
	Late       bool   // the deadline passed before the end of the line
}

// Next returns the next line that is not blank, without the white space around it, in
// memory of its own. If the line is too long, Next returns a TooLong instead. The last
// line needs no line feed.
//
// If the input returns [os.ErrDeadlineExceeded] in a line that has taken a share, Next
// returns a TooLong, and the next call skips the rest of the line.
func (r *Reader) Next() (line []byte, long *TooLong, err error) {
	for {
		line, long, err = r.line()
		if long != nil {
			return nil, long, nil
		}
		size := cap(line)
		if line = bytes.TrimSpace(line); len(line) > 0 {
			if size > len(line)+len(line)/4 {
				line = bytes.Clone(line) // otherwise the white space stays in memory
			}
			return line, nil, nil
		}
		r.drop()
		if err != nil {
			return nil, nil, err
		}
	}
}

func (r *Reader) line() (line []byte, long *TooLong, err error) {
	r.taken = false
	if err := r.skip(); err != nil {
		return nil, nil, err
	}
	var parts [][]byte
	for size := 0; ; {
		var part []byte
		part, err = r.r.ReadSlice('\n')
		size += len(part)
		switch {
		case long != nil:
			long.Size, long.Tail = int64(size), last(append(long.Tail, part...), tailKept)
		case size > r.max+1: // the line feed does not count
			long, parts = newTooLong(append(parts, part)), nil
			r.drop()
		default:
			if err := r.take(size); err != nil {
				return nil, nil, err
			}
			parts = append(parts, bytes.Clone(part))
		}
		if r.taken && errors.Is(err, os.ErrDeadlineExceeded) {
			long, r.skips = newTooLong(parts), true
			long.Late = true
			r.drop()
			return nil, long, nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return joined(parts), long, err
		}
	}
}

// joined returns the concatenation of parts. It does not copy a single part.
func joined(parts [][]byte) []byte {
	if len(parts) == 1 {
		return parts[0]
	}
	return slices.Concat(parts...)
}

// skip reads the rest of a late line.
func (r *Reader) skip() error {
	for r.skips {
		_, err := r.r.ReadSlice('\n')
		r.skips = errors.Is(err, bufio.ErrBufferFull)
		if !r.skips && err != nil {
			return err
		}
	}
	return nil
}

// take takes the share if the current line has so many bytes that it needs one.
func (r *Reader) take(size int) error {
	if r.taken || r.share == nil || size <= Large {
		return nil
	}
	err := r.share.Take()
	r.taken = err == nil
	return err
}

func (r *Reader) drop() {
	if r.taken {
		r.taken = false
		r.share.Drop()
	}
}

func newTooLong(parts [][]byte) *TooLong {
	long := &TooLong{}
	for _, part := range parts {
		long.Size += int64(len(part))
		long.Head = append(long.Head, part[:min(len(part), headKept-len(long.Head))]...)
		long.Tail = last(append(long.Tail, part...), tailKept)
	}
	return long
}

// last returns the last bytes of b, at the beginning of b's memory.
func last(b []byte, n int) []byte {
	if len(b) > n {
		return append(b[:0], b[len(b)-n:]...)
	}
	return b
}
