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

// TestConnectedAgain: a connection that was broken for a moment goes on where it
// was. Packets with numbers that were there before are dropped as repeated.
func TestConnectedAgain(t *testing.T) {
	t.Parallel()
	s := stream(t, startDesktop(t, desktop.Config{}), Config{})
	c := watch(t, s, ViewerOptions{})
	c.next("the first one", picture.key)
	var p *peer
	s.each(func(v *viewer) { p = v.peer.Load() })
	p.stateChanged(pion.PeerConnectionStateDisconnected)
	p.v.askForKey() // something is written meanwhile
	p.stateChanged(pion.PeerConnectionStateConnected)
	p.v.close()
	// The close may have cut off one more.
	if sent, last := p.report.packets, p.header.SequenceNumber; sent == 0 || last-uint16(sent) > 1 { //nolint:gosec // numbers wrap around
		t.Errorf("the last of %d packets has number %d", sent, last)
	}
}

// TestNoTaskAfterClose: what a viewer begins while it is closed does not outlive
// that.
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
	for range 20 { // the greeting fails in some
		near, far := newPipe()
		near.close()
		if err := s.ServeSignaling(t.Context(), far, ViewerOptions{}); !errors.Is(err, ErrClosed) {
			t.Errorf("ServeSignaling after Close: %v, want %v", err, ErrClosed)
		}
	}
}

// TestTCPWaitsForTheAnswer: a viewer who has not answered yet has not had the time
// to be reached by UDP.
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
		t.Errorf("it was told %s", told)
	}
}

// sink is a viewer's pointer, which looks otherwise as soon as it is told of.
type sink struct {
	s    *Streamer
	next []*cursorImage
	told []string
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
		k.told = append(k.told, string(m[1:]))
	}
}

// TestPointerChanges: the last that a viewer is told of is the pointer as it is.
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
	if n := len(k.told); n == 0 || k.told[n-1] != "2" {
		t.Errorf("it was told of %q", k.told)
	}
	v.close()
}
