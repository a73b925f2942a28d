package desktop

import (
	"bytes"
	"errors"
	"os"
	"syscall"
	"testing"
)

// TestReadLine checks that a child's line is bounded: what writes it may not be the child.
func TestReadLine(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.WriteString(" 7\nmore"); err != nil {
		t.Fatal(err)
	}
	if line, err := readLine(t.Context(), r); line != "7" || err != nil {
		t.Errorf("%q, %v", line, err)
	}
	written := make(chan error, 1)
	go func() {
		_, err := w.Write(bytes.Repeat([]byte("x"), 1<<20))
		written <- err
	}()
	if _, err := readLine(t.Context(), r); err == nil {
		t.Error("a line without an end")
	}
	r.Close()
	if err := <-written; !errors.Is(err, syscall.EPIPE) {
		t.Errorf("all was read: %v", err)
	}
	w.Close()
}
