// Package jsonlines reads messages that are one line each, such as ACP's and MCP's on
// standard input and output, with a limit on their length.
package jsonlines

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

const (
	headKept = 64 << 10 // of a line that is too long
	tailKept = 1 << 10
)

// Reader reads lines. It is for one goroutine.
type Reader struct {
	r   *bufio.Reader
	max int
}

// NewReader returns a Reader for lines of at most max bytes.
func NewReader(r io.Reader, max int) *Reader {
	return &Reader{bufio.NewReaderSize(r, 64<<10), max}
}

// TooLong describes a line that is longer than the limit.
type TooLong struct {
	Size       int64
	Head, Tail []byte // the ends of the line
}

// Next returns the next line that is not blank, without the white space around it, in
// memory of its own. If the line is too long, Next returns a TooLong instead. The last
// line needs no line feed.
func (r *Reader) Next() (line []byte, long *TooLong, err error) {
	for {
		line, long, err = r.line()
		if long != nil {
			return nil, long, nil
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			return line, nil, nil
		}
		if err != nil {
			return nil, nil, err
		}
	}
}

func (r *Reader) line() (line []byte, long *TooLong, err error) {
	for {
		var part []byte
		part, err = r.r.ReadSlice('\n')
		switch {
		case long != nil:
			long.Size += int64(len(part))
			long.Tail = last(append(long.Tail, part...), tailKept)
		case len(line)+len(part) > r.max+1: // the line feed does not count
			line = append(line, part...)
			long = &TooLong{
				Size: int64(len(line)), Head: bytes.Clone(line[:min(len(line), headKept)]), Tail: bytes.Clone(last(line, tailKept)),
			}
			line = nil
		default:
			line = append(line, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, long, err
		}
	}
}

// last returns the last bytes of b, at the beginning of b's memory.
func last(b []byte, n int) []byte {
	if len(b) > n {
		return append(b[:0], b[len(b)-n:]...)
	}
	return b
}
