package recording

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
)

// Live reads a recording's file from its beginning and, while it is recorded,
// goes on as it grows; the end of the file is the end of the recording. What is
// read is a fragmented MP4 file, which players play as it comes. A recording that
// has ended is read as it is.
//
// The reader is for one goroutine, but for Close. Read returns the error of ctx
// when that ends. Neither that the finished recording's file is replaced nor that
// it is deleted disturbs it.
func (s *Store) Live(ctx context.Context, id string) (io.ReadCloser, Info, error) {
	f, info, err := s.Video(id)
	if err != nil {
		return nil, Info{}, err
	}
	grown := func() (<-chan struct{}, bool) {
		_, more, writing := s.growth(id)
		return more, writing
	}
	return follow(ctx, f, grown), info, nil
}

// liveReader reads a file that somebody else appends to.
type liveReader struct {
	file   *os.File
	cancel <-chan struct{} // closed when reading shall end
	why    func() error    // nil until then

	// grown returns a channel that is closed when there is more, or when there
	// will be nothing more; false when that is so already.
	grown func() (<-chan struct{}, bool)

	once   sync.Once
	closed chan struct{}
}

func follow(ctx context.Context, f *os.File, grown func() (<-chan struct{}, bool)) *liveReader {
	return &liveReader{file: f, cancel: ctx.Done(), why: ctx.Err, grown: grown, closed: make(chan struct{})}
}

// Read implements io.Reader.
func (l *liveReader) Read(p []byte) (int, error) {
	for {
		if err := l.why(); err != nil {
			return 0, err
		}
		more, writing := l.grown() // before reading: what was written until then is read
		n, err := l.file.Read(p)
		if n > 0 || !errors.Is(err, io.EOF) || !writing {
			return n, err
		}
		select {
		case <-more:
		case <-l.closed:
			return 0, os.ErrClosed
		case <-l.cancel:
		}
	}
}

// Close frees the file, and ends a Read under way.
func (l *liveReader) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.file.Close()
}
