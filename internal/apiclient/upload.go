package apiclient

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
)

// octetStream is the type of data of which nothing else is known.
const octetStream = "application/octet-stream"

const tarType = "application/x-tar"

// rawBody opens what --data says. Files are sent as they are read.
func (r *run) rawBody(op *Operation, in *inputs, command string) (*payload, error) {
	for _, v := range in.all {
		if v.place == inBody && v.given() {
			return nil, usagef(command, "%s is a member of a JSON body, which --data excludes", v.label)
		}
	}
	var p *payload
	switch {
	case r.data == "-":
		p = &payload{reader: io.NopCloser(r.Stdin), size: -1, stream: true}
		if f, ok := r.Stdin.(*os.File); ok {
			p.size = restOf(f)
		}
	case strings.HasPrefix(r.data, "@"):
		f, err := os.Open(r.data[1:])
		if err != nil {
			return nil, usagef(command, "--data: %v", err)
		}
		if info, err := f.Stat(); err == nil && info.IsDir() {
			_ = f.Close()
			return nil, usagef(command, "--data: %s is a directory", r.data[1:])
		}
		p = &payload{reader: f, size: restOf(f), stream: true}
	default:
		p = payloadOf([]byte(r.data), "")
	}
	var accepted []string
	if op != nil {
		accepted = op.rawBodies()
	}
	if p.kind = r.contentType; p.kind == "" {
		p.sniff(accepted)
	}
	return p, nil
}

// restOf is how much there is left to read of a file; -1: that is not known.
func restOf(f *os.File) int64 {
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return -1
	}
	at, err := f.Seek(0, io.SeekCurrent)
	if err != nil || at > info.Size() {
		return -1
	}
	return info.Size() - at
}

// sniff chooses the body's type among those that are accepted; none: all are.
func (p *payload) sniff(accepted []string) {
	if len(accepted) == 1 && !strings.Contains(accepted[0], "*") {
		p.kind = accepted[0]
		return
	}
	buffered := bufio.NewReader(p.reader)
	begin, _ := buffered.Peek(512)
	p.reader = readCloser{buffered, p.reader}
	p.kind = octetStream
	found := mediaTypeOf(begin)
	switch {
	case slices.Contains(accepted, found):
		p.kind = found
	case len(accepted) == 0 || slices.Contains(accepted, octetStream) || strings.Contains(accepted[0], "*"):
	case slices.Contains(accepted, tarType):
		p.kind = tarType // old ones have no mark
	default:
		p.kind = accepted[0]
	}
}

// mediaTypeOf tells what data is by how it begins.
func mediaTypeOf(begin []byte) string {
	switch {
	case bytes.HasPrefix(begin, []byte("\x1f\x8b")):
		return "application/gzip"
	case bytes.HasPrefix(begin, []byte("\x28\xb5\x2f\xfd")): // RFC 8878, section 3.1.1
		return "application/zstd"
	case len(begin) > 262 && string(begin[257:262]) == "ustar": // POSIX.1-2017, pax
		return tarType
	}
	found, _, _ := strings.Cut(http.DetectContentType(begin), ";")
	return found
}

type readCloser struct {
	io.Reader
	io.Closer
}

// size in words, as people read it.
func byteCount(n int64) string {
	const step = 1024
	if n < step {
		return fmt.Sprintf("%d B", n)
	}
	value, unit := float64(n), 0
	for value >= step && unit < 4 {
		value /= step
		unit++
	}
	return fmt.Sprintf("%.1f %ciB", value, "KMGT"[unit-1])
}
