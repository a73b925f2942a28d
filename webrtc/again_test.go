package webrtc

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	pion "github.com/pion/webrtc/v4"

	"github.com/deskhand/deskhand/desktop"
)

// TestConnectedAgain checks that a connection that was interrupted continues its sequence
// numbers. Receivers drop packets whose numbers were used before.
func TestConnectedAgain(t *testing.T) {
	t.Parallel()
	s := stream(t, startDesktop(t, desktop.Config{}), Config{})
	c := watch(t, s, ViewerOptions{})
	c.next("the first one", picture.key)
	var p *peer
	s.each(func(v *viewer) { p = v.peer.Load() })
	p.stateChanged(pion.PeerConnectionStateDisconnected)
	p.v.askForKey() // pump writes packets meanwhile
	p.stateChanged(pion.PeerConnectionStateConnected)
	p.v.close()
	// The close may have interrupted one more packet.
	if sent, last := p.report.packets, p.header.SequenceNumber; sent == 0 || last-uint16(sent) > 1 { //nolint:gosec // numbers wrap around
		t.Errorf("the last of %d packets has number %d", sent, last)
	}
}

// TestNoTaskAfterClose checks that close waits for the viewer's tasks, and that no task starts
// after close.
func TestNoTaskAfterClose(t *testing.T) {
	t.Parallel()
	s := stream(t, startDesktop(t, desktop.Config{}), Config{})
	v, err := s.newViewer(ViewerOptions{}, TransportWebRTC, "")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	v.also(func() {
		defer close(ended)
		<-v.ctx.Done()
	})
	v.close()
	select {
	case <-ended:
	default:
		t.Error("close did not wait for a task")
	}
	v.also(func() { t.Error("a task began after close") })
	v.work.Wait()
}

func TestSignalingAfterClose(t *testing.T) {
	t.Parallel()
	s := stream(t, startDesktop(t, desktop.Config{}), Config{})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for range 20 { // the greeting fails in a part of them
		near, far := newPipe()
		near.close()
		if err := s.ServeSignaling(t.Context(), far, ViewerOptions{}); !errors.Is(err, ErrClosed) {
			t.Errorf("ServeSignaling after Close: %v, want %v", err, ErrClosed)
		}
	}
}

// TestTCPWaitsForTheAnswer checks that a viewer gets TCP candidates only after its answer,
// because UDP has had no time to connect before.
func TestTCPWaitsForTheAnswer(t *testing.T) {
	t.Parallel()
	var tcp TCP
	ln := serve(t, &tcp, "127.0.0.1:0")
	s := stream(t, startDesktop(t, desktop.Config{}), Config{Network: openNetwork(t, NetworkConfig{TCP: &tcp})})
	c := signal(t, s, ViewerOptions{Host: ln.Addr().String(), TCP: true})
	c.send("signal/request", nil)
	c.event("signal/provide")
	ctx, cancel := context.WithTimeout(t.Context(), 600*time.Millisecond)
	defer cancel()
	told := ""
	for {
		text, err := c.conn.Receive(ctx)
		if err != nil {
			break
		}
		told += string(text)
	}
	if !strings.Contains(told, " udp ") || strings.Contains(told, " tcp ") {
		t.Errorf("it received the candidates %s", told)
	}
}

// sink records the images that a viewer receives, and changes the streamer's pointer during the
// first messages.
type sink struct {
	s      *Streamer
	next   []*cursorImage
	images []string
}

func (k *sink) sendPointer(m []byte) {
	if len(k.next) > 0 {
		k.s.mu.Lock()
		k.s.cursor, k.next = k.next[0], k.next[1:]
		now := k.s.cursor
		k.s.mu.Unlock()
		k.s.sendAll(now.message, nil)
	}
	if m[0] == opCursorImage {
		k.images = append(k.images, string(m[1:]))
	}
}

// TestPointerChanges checks that the last pointer that a viewer receives is the present one.
func TestPointerChanges(t *testing.T) {
	t.Parallel()
	s := stream(t, startDesktop(t, desktop.Config{}), Config{})
	until(t, "the pointer's picture is known", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.cursor != nil
	})
	v, err := s.newViewer(ViewerOptions{}, TransportWebSocket, "")
	if err != nil {
		t.Fatal(err)
	}
	k := &sink{s: s}
	for i := range 3 {
		k.next = append(k.next, &cursorImage{message: fmt.Append([]byte{opCursorImage}, i)})
	}
	v.showPointer(k)
	if n := len(k.images); n == 0 || k.images[n-1] != "2" {
		t.Errorf("it received the images %q", k.images)
	}
	v.close()
}
