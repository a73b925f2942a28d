package filesystem

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"math"
	"strconv"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// Compression is the compression of a tar archive.
type Compression string

// The compressions.
const (
	// CompressionAuto means that Extract recognizes the compression by the first bytes,
	// and that Archive does not compress.
	CompressionAuto Compression = ""
	// CompressionNone is a tar archive without compression.
	CompressionNone Compression = "none"
	// CompressionGzip is RFC 1952, as in .tar.gz.
	CompressionGzip Compression = "gzip"
	// CompressionZstd is RFC 8878, as in .tar.zst.
	CompressionZstd Compression = "zstd"
)

const (
	// readAhead is the size of the buffer for an archive.
	readAhead = 64 << 10
	// maxWindow bounds the window of a zstd archive, and so its memory. Levels up to 20
	// need no more.
	maxWindow = 32 << 20
	// bombSize is the size up to which any compression ratio is permitted.
	bombSize = 64 << 20
)

// sourceReader reads the archive. It keeps the error of its reader, so that a broken connection
// differs from a damaged archive.
type sourceReader struct {
	reader io.Reader
	alive  aliveFunc
	n      int64 // bytes read
	err    error // other than io.EOF
}

func (s *sourceReader) Read(p []byte) (int, error) {
	if s.err = s.alive(); s.err != nil {
		return 0, s.err
	}
	n, err := s.reader.Read(p)
	s.n += int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// tarStream is the decompressed archive.
type tarStream struct {
	source *sourceReader
	plain  io.Reader
	close  func()
	limits ExtractOptions

	n     int64 // bytes read, after decompression
	zeros int   // number of zeros at the end, up to two blocks
}

func openTar(r io.Reader, options ExtractOptions, alive aliveFunc) (*tarStream, error) {
	s := &tarStream{source: &sourceReader{reader: r, alive: alive}, limits: options, close: func() {}}
	ahead := bufio.NewReaderSize(s.source, readAhead)
	compression := options.Compression
	if compression == CompressionAuto {
		first, err := ahead.Peek(10)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, s.explain(err, "")
		}
		if compression, err = detect(first); err != nil {
			return nil, err
		}
	} else if _, err := ahead.Peek(1); errors.Is(err, io.EOF) {
		compression = CompressionNone // an empty archive has no entries
	}
	switch compression {
	case CompressionNone:
		s.plain = ahead
	case CompressionGzip:
		z, err := gzip.NewReader(ahead)
		if err != nil {
			return nil, s.explain(err, "")
		}
		s.plain = z
	case CompressionZstd:
		// A concurrency of 1 means no goroutines.
		z, err := zstd.NewReader(ahead, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderMaxMemory(math.MaxInt64))
		if err != nil {
			return nil, s.explain(err, "")
		}
		s.plain, s.close = z, z.Close
	default:
		return nil, unknownCompression(compression)
	}
	return s, nil
}

func unknownCompression(c Compression) error {
	return newError(ErrArchive, "", "compression "+strconv.Quote(string(c))+" is unknown", "one of none, gzip, zstd")
}

// detect recognizes a compression by the first bytes of an archive.
func detect(first []byte) (Compression, error) {
	begins := func(magic string) bool { return bytes.HasPrefix(first, []byte(magic)) }
	skippable := len(first) >= 4 && first[0]&0xf0 == 0x50 && bytes.Equal(first[1:4], []byte("\x2a\x4d\x18"))
	other := ""
	switch {
	case begins("\x1f\x8b"):
		return CompressionGzip, nil
	case begins("\x28\xb5\x2f\xfd"), skippable:
		return CompressionZstd, nil
	case begins("BZh") && bytes.HasSuffix(first, []byte("1AY&SY")):
		other = "bzip2"
	case begins("\xfd7zXZ\x00"):
		other = "xz"
	case begins("PK\x03\x04"):
		other = "zip"
	default:
		return CompressionNone, nil
	}
	return "", newError(ErrArchive, "", "archives of "+other+" are not supported", "send tar, tar.gz or tar.zst")
}

func (s *tarStream) Read(p []byte) (int, error) {
	n, err := s.plain.Read(p)
	s.n += int64(n)
	s.countZeros(p[:n])
	if tooMuch := s.checkRatio(s.n); tooMuch != nil {
		return n, tooMuch
	}
	return n, err
}

// countZeros counts the zeros at the end, up to the two blocks that end an archive.
func (s *tarStream) countZeros(p []byte) {
	const most = 2 * blockSize
	n := 0
	for n < len(p) && n < most && p[len(p)-1-n] == 0 {
		n++
	}
	if n == len(p) {
		n += s.zeros
	}
	s.zeros = min(n, most)
}

// checkRatio returns an error if an archive expands too much.
func (s *tarStream) checkRatio(expanded int64) error {
	if s.limits.MaxRatio < 0 || expanded <= bombSize || expanded/int64(s.limits.MaxRatio) <= s.source.n {
		return nil
	}
	return tooLarge("archive expands to more than " + strconv.Itoa(s.limits.MaxRatio) + " times its size (MaxRatio)")
}

func tooLarge(problem string) error { return &Error{Reason: problem, Kind: ErrTooLarge} }

// blockSize is the unit of the tar format.
const blockSize = 512

// end checks the end of the archive, after cost bytes since the last entry. It reads the rest,
// because the checksums of gzip and zstd come last.
func (s *tarStream) end(cost int64) error {
	if s.n == 0 {
		return nil
	}
	if cost < blockSize || s.zeros < blockSize {
		return &Error{Reason: "archive ends early, without its end marker", Kind: ErrArchive, Err: io.ErrUnexpectedEOF}
	}
	rest := make([]byte, 32<<10)
	for {
		n, err := s.Read(rest)
		if len(bytes.TrimLeft(rest[:n], "\x00")) > 0 {
			return newError(ErrArchive, "", "archive has data after its end", "send joined archives one by one")
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return s.explain(err, "")
		}
	}
}

// explain returns the error for a failed read of the archive, in or after an entry: an error
// of the connection, of the FS, or of the archive.
func (s *tarStream) explain(err error, entry string) error {
	if s.source.err != nil {
		if ours := s.source.alive(); ours != nil {
			return ours
		}
		return &Error{Reason: "archive was not sent to its end: " + s.source.err.Error(), Err: s.source.err}
	}
	if e := (*Error)(nil); errors.As(err, &e) {
		return err
	}
	e := &Error{Path: entry, Reason: "archive is damaged", Kind: ErrArchive, Err: err}
	switch {
	case errors.Is(err, zstd.ErrWindowSizeExceeded), errors.Is(err, zstd.ErrDecoderSizeExceeded):
		e.Reason, e.Remedy = "archive needs too much memory to decompress", "zstd -20 is the most that is taken"
		e.Kind = ErrTooLarge
		return e
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		e.Reason = "archive ends early"
	default:
		e.Reason += " (" + err.Error() + ")"
	}
	if entry != "" {
		e.Reason += ", in or after the entry"
	}
	return e
}
