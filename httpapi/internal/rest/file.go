package rest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"
)

// Conditions are the headers by which a client requests a part of a file, or
// a file only if it has changed (RFC 9110, sections 13 and 14).
type Conditions struct {
	Range             string `header:"Range" doc:"One range of bytes: bytes=0-99, bytes=100-, bytes=-100. A request for several ranges gets the whole file"`
	IfRange           string `header:"If-Range" doc:"Entity tag or time; the response is the whole file if it has changed"`
	IfMatch           string `header:"If-Match"`
	IfNoneMatch       string `header:"If-None-Match" doc:"Entity tags; the response is 304 if the file has one of them"`
	IfModifiedSince   string `header:"If-Modified-Since"`
	IfUnmodifiedSince string `header:"If-Unmodified-Since"`
}

// FileOutput is an answer that has a file, or a part of it.
type FileOutput struct {
	Status       int
	ContentType  string `header:"Content-Type"`
	ETag         string `header:"ETag" doc:"Entity tag of the content"`
	Modified     string `header:"Last-Modified"`
	AcceptRanges string `header:"Accept-Ranges"`
	ContentRange string `header:"Content-Range" doc:"Range of a partial response, and the size of the file"`
	Disposition  string `header:"Content-Disposition"`
	Cache        string `header:"Cache-Control"`
	Body         func(huma.Context)

	discard func() // frees what Body would use; nil: nothing
}

// OnDiscard sets a function that is called instead of Body if the answer is not sent.
func (out *FileOutput) OnDiscard(f func()) { out.discard = f }

// Discard implements discarder.
func (out *FileOutput) Discard() {
	if out.discard != nil {
		out.discard()
	}
}

// source is a file that can be sent.
type source interface {
	io.ReaderAt
	io.Closer
	System() *os.File // nil: the system cannot send from it
}

// SendFile completes an answer that has a file, or the part of it that the
// conditions ask for. The file is closed in any case.
func (a *API) SendFile(out *FileOutput, f source, size int64, modified time.Time, c *Conditions, r *Request) (*FileOutput, error) {
	out.Status, out.Modified, out.AcceptRanges = http.StatusOK, modified.UTC().Format(http.TimeFormat), "bytes"
	switch c.condition(out.ETag, modified) {
	case http.StatusPreconditionFailed:
		return nil, errors.Join(Preconditions.Problem("conflict: the file is another one by now; read it again"), f.Close())
	case http.StatusNotModified:
		out.Status, out.ContentType, out.Disposition = http.StatusNotModified, "", ""
		out.Body = func(ctx huma.Context) { ctx.SetStatus(out.Status) }
		return out, f.Close()
	}
	part := byteRange{0, size}
	if r.Method() == http.MethodGet && c.Range != "" && c.current(out.ETag, modified) {
		var err error
		if part, err = out.cut(c.Range, size); err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
	out.OnDiscard(func() { _ = f.Close() })
	out.Body = func(ctx huma.Context) {
		ctx.SetStatus(out.Status)
		rc := RequestOf(ctx).Fiber.Context()
		release := RequestOf(ctx).Grant.Hold(rc.Conn())
		rc.SetBodyStream(&download{file: f, conn: rc.Conn(), part: part, patience: a.Patience, release: release}, int(part.length))
	}
	return out, nil
}

// cut returns the part of a file of that size that a Range header requests. It makes
// the answer a partial one, unless the header is to be ignored.
func (out *FileOutput) cut(header string, size int64) (byteRange, error) {
	part, understood, satisfiable := parseRange(header, size)
	switch {
	case !understood:
		return byteRange{0, size}, nil
	case !satisfiable:
		return part, noRange.Problem(fmt.Sprintf("invalid request: the file has only %d bytes", size)).
			WithHeader(fiber.HeaderContentRange, fmt.Sprintf("bytes */%d", size))
	}
	out.Status = http.StatusPartialContent
	out.ContentRange = fmt.Sprintf("bytes %d-%d/%d", part.from, part.from+part.length-1, size)
	return part, nil
}

// Attachment returns the Content-Disposition by which a browser saves a file under a name (RFC 6266).
func Attachment(name string) string {
	return mime.FormatMediaType("attachment", map[string]string{"filename": strings.ToValidUTF8(name, "\uFFFD")})
}

// condition evaluates the conditions of a request in the order of RFC 9110,
// section 13.2.2. It returns the status of the answer, or zero if the file is sent.
func (c *Conditions) condition(tag string, modified time.Time) int {
	modified = modified.Truncate(time.Second) // all that HTTP can say
	switch {
	case c.IfMatch != "":
		if !listsTag(c.IfMatch, tag, false) {
			return http.StatusPreconditionFailed
		}
	case c.IfUnmodifiedSince != "":
		if since, err := http.ParseTime(c.IfUnmodifiedSince); err == nil && modified.After(since) {
			return http.StatusPreconditionFailed
		}
	}
	switch {
	case c.IfNoneMatch != "":
		if listsTag(c.IfNoneMatch, tag, true) {
			return http.StatusNotModified
		}
	case c.IfModifiedSince != "":
		if since, err := http.ParseTime(c.IfModifiedSince); err == nil && !modified.After(since) {
			return http.StatusNotModified
		}
	}
	return 0
}

// listsTag reports whether an entity tag is in a list of tags, or the list is *.
// Weak ones count only when weak is set.
func listsTag(list, tag string, weak bool) bool {
	for one := range strings.SplitSeq(list, ",") {
		one = strings.TrimSpace(one)
		if weak {
			one = strings.TrimPrefix(one, "W/")
		}
		if one == "*" || one == tag {
			return true
		}
	}
	return false
}

// current reports whether a range applies to the present file (RFC 9110, section 13.1.5).
func (c *Conditions) current(tag string, modified time.Time) bool {
	if c.IfRange == "" || c.IfRange == tag {
		return true
	}
	at, err := http.ParseTime(c.IfRange)
	return err == nil && modified.Truncate(time.Second).Equal(at)
}

// byteRange is a part of a file.
type byteRange struct{ from, length int64 }

// parseRange reads a Range header with one range of bytes (RFC 9110, section
// 14.1.2). It does not understand other headers, such as several ranges, which are ignored.
func parseRange(header string, size int64) (r byteRange, understood, satisfiable bool) {
	unit, set, _ := strings.Cut(header, "=")
	first, last, found := strings.Cut(strings.TrimSpace(set), "-")
	if !strings.EqualFold(strings.TrimSpace(unit), "bytes") || !found {
		return byteRange{}, false, false
	}
	if first == "" {
		n, ok := digits(last)
		if !ok {
			return byteRange{}, false, false
		}
		n = min(n, size)
		return byteRange{size - n, n}, true, n > 0
	}
	from, ok := digits(first)
	if !ok {
		return byteRange{}, false, false
	}
	to := size - 1
	if last != "" {
		n, ok := digits(last)
		if !ok || n < from {
			return byteRange{}, false, false
		}
		to = min(n, to)
	}
	return byteRange{from, to - from + 1}, true, from < size
}

// digits parses a number. A number that is too large becomes the largest one.
func digits(text string) (int64, bool) {
	if text == "" || strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil || errors.Is(err, strconv.ErrRange)
}

// download sends a part of a file to a client. It may take any time
// as long as the client keeps reading.
type download struct {
	file     source
	conn     net.Conn
	part     byteRange
	patience time.Duration
	release  func() // of the connection, from the token
}

// Close closes the file. fasthttp calls it in any case.
func (d *download) Close() error {
	d.release()
	return d.file.Close()
}

// Read is not used: fasthttp prefers WriteTo.
func (d *download) Read(p []byte) (int, error) {
	if d.part.length == 0 {
		return 0, io.EOF
	}
	n, err := d.file.ReadAt(p[:min(int64(len(p)), d.part.length)], d.part.from)
	d.part.from, d.part.length = d.part.from+int64(n), d.part.length-int64(n)
	if n > 0 {
		err = nil
	}
	return n, err
}

// ChunkSize is the size of a piece that is sent. A client has API.Patience to accept it.
const ChunkSize = 256 << 10

// Buffers has buffers of ChunkSize bytes.
var Buffers = sync.Pool{New: func() any { return new([ChunkSize]byte) }}

// WriteTo sends the part. Where the system can send from the file, it does.
func (d *download) WriteTo(w io.Writer) (sent int64, err error) {
	out, buffered := w.(*bufio.Writer)
	_, direct := d.conn.(io.ReaderFrom)
	if file := d.file.System(); file != nil && buffered && direct && d.part.length > int64(out.Available()) {
		return d.sendDirectly(out, file)
	}
	buf := Buffers.Get().(*[ChunkSize]byte)
	defer Buffers.Put(buf)
	for d.part.length > 0 {
		n, err := d.Read(buf[:])
		if err != nil {
			return sent, shrunk(err)
		}
		d.allow()
		m, err := w.Write(buf[:n])
		sent += int64(m)
		if err != nil {
			return sent, err
		}
	}
	return sent, nil
}

// sendDirectly has the kernel copy from the file to the connection (sendfile(2)),
// which bufio does when nothing is in its buffer.
func (d *download) sendDirectly(out *bufio.Writer, file *os.File) (sent int64, err error) {
	if _, err := file.Seek(d.part.from, io.SeekStart); err != nil {
		return 0, err
	}
	d.allow()
	if err := out.Flush(); err != nil {
		return 0, err
	}
	for sent < d.part.length {
		d.allow()
		n, err := out.ReadFrom(&io.LimitedReader{R: file, N: min(ChunkSize, d.part.length-sent)})
		sent += n
		switch {
		case err != nil:
			return sent, err
		case n == 0:
			return sent, shrunk(io.EOF)
		}
	}
	return sent, nil
}

func (d *download) allow() { _ = d.conn.SetWriteDeadline(time.Now().Add(d.patience)) }

// shrunk is the error for a file that has become shorter since its size was
// sent. The connection is closed then, so that the client sees the error.
func shrunk(err error) error { return fmt.Errorf("file became shorter while it was sent: %w", err) }
