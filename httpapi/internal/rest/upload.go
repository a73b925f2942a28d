package rest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/deskhand/deskhand/httpapi/internal/grants"
)

// upload is a request's body on its way to the disk. It may be of any size and
// take any time, as long as it moves. Its errors are Problems. It must be
// closed.
type upload struct {
	*body

	grant    *grants.Grant // of the request; its end is an error of Read
	conn     net.Conn
	most     int64 // bytes; zero: no bound
	patience time.Duration
	closing  <-chan struct{} // of the server

	done chan struct{}
	wait sync.WaitGroup
}

// Upload is the body of a request, which huma does not read.
func (a *API) Upload(r *Request) (*upload, error) {
	u := &upload{
		body: bodyOf(r.Fiber), grant: r.Grant, conn: r.Fiber.Context().Conn(), most: a.cfg.MaxUploadBytes,
		patience: a.Patience, closing: a.closing, done: make(chan struct{}),
	}
	if u.most > 0 && int64(u.size) > u.most {
		return nil, TooLarge(u.most)
	}
	u.wait.Go(func() { endLate(u.closing, u.done, func() { _ = u.conn.Close() }) })
	return u, nil
}

// endLate ends something that may wait for a client when it is not done a while
// after the server began to close.
func endLate(closing, done <-chan struct{}, end func()) {
	select {
	case <-done:
		return
	case <-closing:
	}
	grace := time.NewTimer(graceTime)
	defer grace.Stop()
	select {
	case <-done:
	case <-grace.C:
		end()
	}
}

// Close ends the upload, but not the connection.
func (u *upload) Close() {
	close(u.done)
	u.wait.Wait()
}

// Read reads a part of the body.
func (u *upload) Read(p []byte) (int, error) {
	if u.most > 0 {
		p = p[:min(int64(len(p)), u.most+1-int64(u.read))] // one more shows that there is too much
	}
	_ = u.conn.SetReadDeadline(time.Now().Add(u.patience))
	n, err := u.body.Read(p)
	if u.grant.Over() {
		u.ended, u.err = false, TokenOver()
		return n, u.err
	}
	if u.most > 0 && int64(u.read) > u.most {
		u.err = TooLarge(u.most)
		return n, u.err
	}
	if err == io.EOF && u.size == chunked && cutShort(u.conn) { //nolint:errorlint // body returns it as it is
		u.ended, u.err = false, io.ErrUnexpectedEOF
		err = u.err
	}
	return n, u.explain(err)
}

// explain says what a client has done, or left undone.
func (u *upload) explain(err error) error {
	if err == nil || err == io.EOF { //nolint:errorlint // body returns it as it is
		return err
	}
	select {
	case <-u.closing:
		return Closing()
	default:
		return brokenOff(err, int64(u.read), u.patience)
	}
}

// brokenOff is the answer to a client whose body has not come to its end.
func brokenOff(err error, read int64, patience time.Duration) *Problem {
	var timeout interface{ Timeout() bool } // errors of connections in memory are not a net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return RequestTimeout.Problem(fmt.Sprintf("invalid request: nothing of its body arrived for %v after %d bytes", patience, read))
	}
	return InvalidRequest.Problem(fmt.Sprintf("invalid request: its body was cut off after %d bytes: %v", read, err))
}

// cutShort reports whether a connection has ended where a chunked body seems to have.
// fasthttp takes the end of a connection between two chunks for the end of the body,
// and so would take half of a file for a whole one. A client that sends all of it and
// immediately ends its side of the connection is refused as well: it should send the
// length.
func cutShort(conn net.Conn) bool {
	if c, ok := conn.(syscall.Conn); ok {
		raw, err := c.SyscallConn()
		if err != nil {
			return true
		}
		ended := false
		err = raw.Read(func(fd uintptr) bool {
			n, _, err := unix.Recvfrom(int(fd), make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT)
			ended = n == 0 && err == nil || err != nil && err != unix.EAGAIN
			return true
		})
		return ended || err != nil
	}
	// Other connections, which are TLS or in memory, can only be read. Nothing is
	// expected on them: a client that sends the next request before the answer to this
	// one has to send it again. On a busy machine the deadline may pass before the end
	// is noticed, so the read is repeated.
	for range 4 {
		_ = conn.SetReadDeadline(time.Now().Add(time.Millisecond))
		if n, err := conn.Read(make([]byte, 1)); n > 0 || errors.Is(err, io.EOF) {
			return true
		}
	}
	return false
}
