package agents

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// lineReader cuts what an agent writes into lines. It has no limit but its own:
// of a line that is longer, only the ends are kept.
type lineReader struct {
	r   *bufio.Reader
	max int
}

const (
	readSize = 64 << 10
	headKept = 64 << 10 // of a line that is too long
	tailKept = 1 << 10
)

func newLineReader(r io.Reader, most int) *lineReader {
	return &lineReader{r: bufio.NewReaderSize(r, readSize), max: most}
}

// outsized is a line that was too long.
type outsized struct {
	size       int64
	head, tail []byte
}

// next returns the next line that is not blank, without its end, as memory of
// its own; or what is left of one that was too long. The last line needs no end.
func (l *lineReader) next() ([]byte, *outsized, error) {
	for {
		line, long, err := l.line()
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

func (l *lineReader) line() (line []byte, long *outsized, err error) {
	for {
		var part []byte
		part, err = l.r.ReadSlice('\n')
		switch {
		case long != nil:
			long.size += int64(len(part))
			long.tail = lastBytes(append(long.tail, part...), tailKept)
		case len(line)+len(part) > l.max+1: // the end of the line does not count
			long = &outsized{size: int64(len(line) + len(part))}
			line = append(line, part...)
			long.head = bytes.Clone(line[:min(len(line), headKept)])
			long.tail = bytes.Clone(lastBytes(line, tailKept))
			line = nil
		default:
			line = append(line, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, long, err
		}
	}
}

func lastBytes(b []byte, n int) []byte {
	if len(b) > n {
		return append(b[:0], b[len(b)-n:]...)
	}
	return b
}
