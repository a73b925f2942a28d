package rest

import (
	"errors"
	"io"
	"sync"

	"github.com/deskhand/deskhand/httpapi/internal/grants"
)

// Defaults of bodyMemory. The largest body of a route always fits.
const (
	bodiesOfAll    = 256 << 20
	bodiesOfGuests = 64 << 20
	bodiesOfGuest  = 40 << 20
)

// bodyMemory bounds the bodies of requests, or of answers, that are in memory at the
// same time. A request's body counts from the time when the server begins to read it
// until its handler returns, an answer's from then until it is written.
// Bodies that are streamed do not count, and neither do bodies of up to prefetch
// bytes, which the number of connections bounds.
type bodyMemory struct {
	all    int64 // bytes of all bodies
	guests int64 // bytes of the bodies of guests, which have a token of a scope other than admin
	guest  int64 // bytes of the bodies of one guest

	mu         sync.Mutex // guards the fields below
	used       int64
	usedGuests int64
	usedGuest  map[*grants.Grant]int64
}

// newBodyMemory returns a bodyMemory in which a body of the largest size fits.
func newBodyMemory(largest int64) *bodyMemory {
	m := &bodyMemory{
		all: max(bodiesOfAll, largest), guests: max(bodiesOfGuests, largest), guest: bodiesOfGuest,
		usedGuest: map[*grants.Grant]int64{},
	}
	if largest > bodiesOfGuests {
		m.guest = largest
	}
	return m
}

// SetBounds replaces the bounds of all bodies and of the bodies of guests.
func (m *bodyMemory) SetBounds(all, guests int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all, m.guests = all, guests
}

// Size returns how many bytes are counted.
func (m *bodyMemory) Size() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.used
}

// take counts bytes of a body and reports whether they fit. guest is nil unless the body is
// one of a guest.
func (m *bodyMemory) take(bytes int64, guest *grants.Grant) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.used+bytes > m.all || guest != nil && (m.usedGuests+bytes > m.guests || m.usedGuest[guest]+bytes > m.guest) {
		return false
	}
	m.add(bytes, guest)
	return true
}

// release stops counting bytes that take has counted.
func (m *bodyMemory) release(bytes int64, guest *grants.Grant) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.add(-bytes, guest)
}

func (m *bodyMemory) add(bytes int64, guest *grants.Grant) {
	m.used += bytes
	if guest == nil {
		return
	}
	m.usedGuests += bytes
	if m.usedGuest[guest] += bytes; m.usedGuest[guest] == 0 {
		delete(m.usedGuest, guest)
	}
}

// errBodiesFull is the error of reading a body for which there is no memory.
var errBodiesFull = errors.New("too many request bodies are in memory")

// buffered is the body of a request on its way into memory.
type buffered struct {
	io.Reader
	memory *bodyMemory
	guest  *grants.Grant // see bodyMemory.take
	read   int64
	held   int64 // bytes that memory counts
	full   bool  // errBodiesFull was returned
	keep   bool  // kept gets what is read
	kept   []byte
}

// reserve counts a body of so many bytes.
func (b *buffered) reserve(size int64) error {
	if b.keep {
		size *= 2
	}
	if size <= max(Prefetch, b.held) {
		return nil
	}
	if !b.memory.take(size-b.held, b.guest) {
		b.full = true
		return errBodiesFull
	}
	b.held = size
	return nil
}

// Read implements io.Reader. It counts a chunked body as the body arrives.
func (b *buffered) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	b.read += int64(n)
	if full := b.reserve(b.read); full != nil {
		return 0, full
	}
	if b.keep {
		b.kept = append(b.kept, p[:n]...)
	}
	return n, err
}

// release stops counting the body. The caller must not use the body afterwards.
func (b *buffered) release() {
	if b != nil {
		b.memory.release(b.held, b.guest)
	}
}
