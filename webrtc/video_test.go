package webrtc

import (
	"bytes"
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/deskhand/deskhand/desktop"
)

// binaryPipe is a BinaryConn in memory.
type binaryPipe struct {
	pipe
	binary chan []byte
}

func (p binaryPipe) SendBinary(ctx context.Context, m []byte) error {
	select {
	case p.binary <- bytes.Clone(m):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func TestServeVideo(t *testing.T) {
	t.Parallel()
	d := startDesktop(t, desktop.Config{})
	if _, err := d.Launch(t.Context(), desktop.Launch{App: "xterm", Wait: true}); err != nil {
		t.Fatal(err)
	}
	s := stream(t, d, Config{})
	near, far := newPipe()
	conn := binaryPipe{far, make(chan []byte, 1000)}
	done := make(chan error, 1)
	go func() { done <- s.ServeVideo(context.Background(), conn, ViewerOptions{Name: "bob"}) }()

	text := func(event string) json.RawMessage {
		t.Helper()
		for {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			m, err := near.Receive(ctx)
			cancel()
			if err != nil {
				t.Fatalf("while waiting for %s: %v", event, err)
			}
			var r received
			if err := json.Unmarshal(m, &r); err != nil {
				t.Fatal(err)
			}
			if r.Event == event {
				return r.Payload
			}
		}
	}
	say := func(event string, payload any) {
		t.Helper()
		m, err := json.Marshal(message{event, payload})
		if err != nil {
			t.Fatal(err)
		}
		if err := near.Send(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	key := func() picture {
		t.Helper()
		deadline := time.After(patience)
		for {
			select {
			case m := <-conn.binary:
				if m[0] == flagKey {
					return picture{data: m[pictureHeader:]}
				}
			case <-deadline:
				t.Fatal("no key picture came")
			}
		}
	}

	if got := string(text("video/init")); got != `{"codec":"vp8","height":480,"width":640}` {
		t.Errorf("video/init = %s", got)
	}
	if diff := difference(key().image(t), screenshot(t, d)); diff > 12 {
		t.Errorf("the picture is %.1f levels off the screen", diff)
	}
	say("video/key", nil)
	key()

	say("control/request", nil)
	text("control/host")
	say("control/move", map[string]int{"x": 77, "y": 88})
	until(t, "the pointer is at 77,88", func() bool {
		p, err := d.Pointer(t.Context())
		return err == nil && p.Point == desktop.Point{X: 77, Y: 88}
	})
	if err := d.Resize(t.Context(), desktop.Size{Width: 500, Height: 401}); err != nil {
		t.Fatal(err)
	}
	if got := string(text("video/init")); got != `{"codec":"vp8","height":401,"width":500}` {
		t.Errorf("video/init after a change of size = %s", got)
	}
	near.close()
	if err := <-done; err != nil {
		t.Errorf("ServeVideo: %v", err)
	}
	until(t, "the viewer is gone", func() bool { return len(s.Viewers()) == 0 })
}
