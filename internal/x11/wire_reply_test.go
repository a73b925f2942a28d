package x11

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"

	"github.com/jezek/xgb/xproto"
)

// source is a connection whose peer has sent all of its data.
type source struct {
	net.Conn
	io.Reader
}

func (s source) Read(b []byte) (int, error) { return s.Reader.Read(b) }

// message is the beginning of a message of the X server, 32 bytes.
func message(kind byte, seq uint16, extra uint32) []byte {
	b := make([]byte, 32)
	b[0] = kind
	binary.LittleEndian.PutUint16(b[2:], seq)
	binary.LittleEndian.PutUint32(b[4:], extra)
	return b
}

func TestWireLongReply(t *testing.T) {
	t.Parallel()
	setup := make([]byte, 8+16)
	setup[0] = 1
	setup[6] = 4                     // units of four bytes that follow
	event := message(2, 1, maxReply) // of an event these bytes are no length
	short := append(message(1, 2, 2), "eightbyt"...)
	long := append(message(1, 3, maxReply/4+1), make([]byte, maxReply+4)...)
	after := message(1, 4, 0)
	in := bytes.Join([][]byte{setup, event, short, long, after}, nil)
	refused := message(0, 3, 0)
	refused[1] = xproto.BadAlloc
	want := bytes.Join([][]byte{setup, event, short, refused, after}, nil)

	for _, piece := range []int{1, 32, 4096} {
		w := &wire{Conn: source{Reader: bytes.NewReader(in)}}
		got, err := io.ReadAll(pieces{w, piece})
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("in pieces of %d: got %d bytes, %v, want %d", piece, len(got), err, len(want))
		}
	}
	w := &wire{Conn: source{Reader: bytes.NewReader(in[:len(in)-100])}}
	if _, err := io.ReadAll(w); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a long reply that ends early: %v", err)
	}
}

// pieces reads at most a given number of bytes at a time.
type pieces struct {
	r    io.Reader
	most int
}

func (p pieces) Read(b []byte) (int, error) { return p.r.Read(b[:min(len(b), p.most)]) }
