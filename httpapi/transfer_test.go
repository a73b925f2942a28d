package httpapi

import (
	"io"
	"os"
	"strconv"
	"testing"
	"time"
)

// ways are those by which the API can be reached.
var ways = map[string]func(*testing.T, Config) *testServer{"Serve": serve, "Handler": embedded, "Mount": mounted}

// impatient has a server wait for clients that long only.
func impatient(d time.Duration) func(*Server) { return func(s *Server) { s.rest.Patience = d } }

// soak is how many times longer than usual the long tests run: DESKHAND_SOAK,
// which make soak sets to 10.
func soak() int {
	n, err := strconv.Atoi(os.Getenv("DESKHAND_SOAK"))
	if err != nil || n < 1 {
		return 1
	}
	return n
}

// pause lets time pass where that is what is tested.
func pause(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
	}
}

func countBytes(r io.Reader) (int64, error) { return io.Copy(io.Discard, r) }

func readFull(r io.Reader, buf []byte) (int, error) { return io.ReadFull(r, buf) }
