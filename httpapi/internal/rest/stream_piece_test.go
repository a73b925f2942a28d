package rest

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"
)

// What is written to a stream waits for the client, also if it is one large write.
// Otherwise each client that does not read holds a copy.
func TestStreamHoldsLittle(t *testing.T) {
	t.Parallel()
	large := bytes.Repeat([]byte("0123456789abcdef"), 2<<20) // more than the buffers of a connection
	written := make(chan error, 1)
	app := fiber.New(fiber.Config{DisableStartupMessage: true})
	app.Get("/", func(c *fiber.Ctx) error {
		(&Request{Fiber: c}).Stream(func(w *bufio.Writer, flush func() error, _ <-chan struct{}) {
			_, err := w.Write(large)
			written <- err
			_, _ = w.WriteString("end")
		})
		return nil
	})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- app.Listener(ln) }()
	defer func() {
		if err := app.Shutdown(); err != nil {
			t.Error(err)
		}
		<-served
	}()
	res, err := http.Get("http://" + ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	select {
	case err := <-written:
		t.Errorf("the write ended before the client had read: %v", err)
	case <-time.After(100 * time.Millisecond): // the shorter this is, the less is tested
	}
	got, err := io.ReadAll(res.Body)
	if err != nil || !bytes.Equal(got, append(large, "end"...)) {
		t.Errorf("the client got %d bytes, %v", len(got), err)
	}
}
