package recording

import (
	"context"
	"errors"
	"io"
	"os"
)

// Live reads a recording's file from its beginning, and follows it while it grows until the
// recording has ended. The data is a fragmented MP4 file, which players can play while they
// read. If the recording has ended before, the reader reads its file, which need not be
// fragmented. Live does not block, and its errors are the errors of [Store.Video].
//
// Read waits for more data. It returns io.EOF at the end of a recording that has ended, the
// cause of the end of ctx, or os.ErrClosed after Close. The reader is for one goroutine,
// except that Close may be called from any goroutine. The reader is not disturbed if the file
// is replaced or deleted.
func (s *Store) Live(ctx context.Context, id string) (io.ReadCloser, Info, error) {
	f, info, err := s.Video(id)
	if err != nil {
		return nil, Info{}, err
	}
	r := &liveReader{file: f, growth: func() (<-chan struct{}, bool) { return s.growth(id) }}
	r.ctx, r.cancel = context.WithCancelCause(ctx)
	return r, info, nil
}

// liveReader reads a file that grows.
type liveReader struct {
	file   *os.File
	ctx    context.Context //nolint:containedctx // of the caller; ends also with Close
	cancel context.CancelCauseFunc

	// growth returns a channel that is closed when the file has grown or does not grow any
	// more, and false if it does not grow any more.
	growth func() (<-chan struct{}, bool)
}

// Read implements io.Reader.
func (l *liveReader) Read(p []byte) (int, error) {
	for {
		if l.ctx.Err() != nil {
			return 0, context.Cause(l.ctx)
		}
		more, writing := l.growth() // before reading, which then returns everything up to the end
		n, err := l.file.Read(p)
		if n > 0 || !errors.Is(err, io.EOF) || !writing {
			return n, err
		}
		select {
		case <-more:
		case <-l.ctx.Done():
		}
	}
}

// Close closes the file and ends a Read that waits.
func (l *liveReader) Close() error {
	l.cancel(os.ErrClosed)
	return l.file.Close()
}
