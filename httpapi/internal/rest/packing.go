package rest

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
)

// packing is something that is made while it is sent to a client. It must be
// closed.
type packing struct {
	*bufio.Reader

	conn     net.Conn
	patience time.Duration
	pipe     *io.PipeReader
	release  func()         // of the connection, from the token; nil: it is not held
	leave    func()         // of its place
	wait     sync.WaitGroup // for what makes it
}

// EnterArchive takes a place of an archive that is sent or unpacked, until leave is called. It
// returns a Problem if there is none.
func EnterArchive(a *API, r *Request) (leave func(), err error) {
	return enter(a.packs.of(r), "too many archives are being sent or unpacked")
}

// Pack begins to make such a thing, and returns the body of the answer. discard is to be called
// instead of body if the answer is not sent. What goes wrong before there is anything to send is an
// error; the context of the request must not end it later.
func (a *API) Pack(request *Request, write func(io.Writer) error) (body func(huma.Context), discard func(), err error) {
	leave, err := EnterArchive(a, request)
	if err != nil {
		return nil, nil, err
	}
	r, w := io.Pipe()
	p := &packing{Reader: bufio.NewReaderSize(r, ChunkSize), patience: a.Patience, pipe: r, leave: leave}
	packed := make(chan struct{})
	p.wait.Go(func() {
		defer close(packed)
		_ = w.CloseWithError(write(w)) // nil is the end
	})
	p.wait.Go(func() { endLate(a.closing, packed, func() { _ = r.CloseWithError(ErrClosed) }) })
	if _, err := p.Peek(1); err != nil && !errors.Is(err, io.EOF) {
		return nil, nil, errors.Join(err, p.Close())
	}
	discard = func() { _ = p.Close() } // the error is always nil
	return func(ctx huma.Context) {
		ctx.SetStatus(http.StatusOK)
		rc := RequestOf(ctx).Fiber.Context()
		p.conn = rc.Conn()
		p.release = RequestOf(ctx).Grant.Hold(p.conn)
		rc.SetBodyStream(p, -1)
	}, discard, nil
}

// Read gives the client time to accept what it returns. An error that it returns
// makes fasthttp close the connection without the end of the body, which is how
// the client knows.
func (p *packing) Read(b []byte) (int, error) {
	_ = p.conn.SetWriteDeadline(time.Now().Add(p.patience))
	return p.Reader.Read(b)
}

// Close ends the making. fasthttp calls it in any case.
func (p *packing) Close() error {
	if p.release != nil {
		p.release()
	}
	err := p.pipe.Close()
	p.wait.Wait()
	p.leave()
	return err
}
