package eventlog

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/klauspost/compress/zstd"
)

// How a payload is stored, the bits of event.form. A payload without any is
// stored as it is.
const (
	formZstd   = 1 << iota // compressed
	formPieces             // parts of it are blobs
	formApart              // all of it is a blob, and event.payload is the blob's hash
)

// compressFrom is the size from which payloads are compressed. Smaller ones would
// hardly shrink.
const compressFrom = 1 << 10

// maxInline is the size above which SQLite stores a payload apart from its event. SQLite
// reads the whole row when it compares a key of a table without rowid.
const maxInline = 16 << 10

// hash names a blob by its content.
type hash [sha256.Size]byte

// stored is a payload as the database has it.
type stored struct {
	form  int
	data  []byte
	blobs []blob
}

type blob struct {
	hash hash
	data []byte
}

func newBlob(data []byte) blob { return blob{sha256.Sum256(data), data} }

// codec converts payloads to their stored form and back. Its methods may be called
// concurrently.
type codec struct {
	encoder *zstd.Encoder
	decoder *zstd.Decoder
	apart   bool // payloads above maxInline are stored apart
}

func newCodec(apart bool) (*codec, error) {
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
		zstd.WithEncoderCRC(true), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return nil, err
	}
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(2*maxPayload)) // bounds a damaged row
	if err != nil {
		return nil, err
	}
	return &codec{encoder, decoder, apart}, nil
}

func (c *codec) close() {
	c.decoder.Close()
	_ = c.encoder.Close() // it has no stream
}

// encode returns what is stored for a payload. The result may share its bytes.
func (c *codec) encode(payload []byte) stored {
	s := stored{data: payload}
	if pieces := findRuns(payload); len(pieces) > 0 {
		s.form |= formPieces
		s.data, s.blobs = extractBlobs(payload, pieces)
	}
	if len(s.data) > compressFrom {
		packed := c.encoder.EncodeAll(s.data, make([]byte, 0, len(s.data)/2))
		if len(packed) < len(s.data) {
			s.form |= formZstd
			s.data = packed
		}
	}
	if c.apart && len(s.data) > maxInline {
		b := newBlob(s.data)
		s.form |= formApart
		s.data, s.blobs = b.hash[:], append(s.blobs, b)
	}
	return s
}

// extractBlobs replaces pieces of a payload by their hashes. The skeleton has, for each
// piece, the length of the text before it, that text, and the hash. The length of the last
// text and that text follow.
func extractBlobs(payload []byte, pieces []span) (skeleton []byte, blobs []blob) {
	at := 0
	for _, p := range pieces {
		data, ok := decodePiece(payload[p.from:p.to])
		if !ok {
			continue // its encoding would differ
		}
		b := newBlob(data)
		skeleton = binary.AppendUvarint(skeleton, uint64(p.from-at))
		skeleton = append(skeleton, payload[at:p.from]...)
		skeleton = append(skeleton, b.hash[:]...)
		blobs = append(blobs, b)
		at = p.to
	}
	skeleton = binary.AppendUvarint(skeleton, uint64(len(payload)-at))
	return append(skeleton, payload[at:]...), blobs
}

var errDamaged = errors.New("a payload cannot be decoded")

// decode is the reverse of encode. find returns a blob. For a payload that is stored apart, s
// holds the data of its blob, or nil if the blob is missing.
func (c *codec) decode(s stored, size int, find func(hash) ([]byte, error)) ([]byte, error) {
	data := s.data
	if s.form&^(formZstd|formPieces|formApart) != 0 {
		return nil, fmt.Errorf("%w: form %d is unknown", errDamaged, s.form)
	}
	if s.form&formApart != 0 && data == nil {
		return nil, errNoBlob
	}
	if s.form&formZstd != 0 {
		var err error
		if data, err = c.decoder.DecodeAll(data, nil); err != nil {
			return nil, fmt.Errorf("%w: %w", errDamaged, err)
		}
	}
	if s.form&formPieces != 0 {
		var err error
		if data, err = insertBlobs(data, size, find); err != nil {
			return nil, err
		}
	}
	if len(data) != size {
		return nil, fmt.Errorf("%w: it has %d bytes instead of %d", errDamaged, len(data), size)
	}
	if data == nil {
		data = []byte{}
	}
	return data, nil
}

// insertBlobs is the reverse of extractBlobs.
func insertBlobs(skeleton []byte, size int, find func(hash) ([]byte, error)) ([]byte, error) {
	if size < 0 || size > maxPayload {
		return nil, fmt.Errorf("%w: it cannot have %d bytes", errDamaged, size)
	}
	payload := make([]byte, 0, size)
	for {
		n, length := binary.Uvarint(skeleton)
		if length <= 0 || n > uint64(len(skeleton)-length) {
			return nil, errDamaged
		}
		payload = append(payload, skeleton[length:length+int(n)]...)
		skeleton = skeleton[length+int(n):]
		if len(skeleton) == 0 {
			return payload, nil
		}
		if len(skeleton) < sha256.Size {
			return nil, errDamaged
		}
		data, err := find(hash(skeleton[:sha256.Size]))
		if err != nil {
			return nil, err
		}
		payload = base64.StdEncoding.AppendEncode(payload, data)
		skeleton = skeleton[sha256.Size:]
	}
}
