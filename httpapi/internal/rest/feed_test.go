package rest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
)

func TestHeartbeat(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		w := bufio.NewWriter(&out)
		flushes := 0
		never := make(chan string)
		f := Feed[string]{Next: func(ctx context.Context) (string, error) { return Receive(ctx, never) }}
		f.send(t.Context(), &EventWriter{w: w}, func(*EventWriter) error {
			if flushes++; flushes == 4 {
				return errors.New("the client has gone")
			}
			return w.Flush()
		})
		if want := ": connected\n\n" + strings.Repeat(": heartbeat\n\n", 2); out.String() != want {
			t.Errorf("stream = %q, want %q", out.String(), want)
		}
	})
}
