package webrtc

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pion/rtcp"

	"github.com/deskhand/deskhand/desktop"
)

// TestFlood checks that a viewer that names too many streams or opens too many data channels is
// ended. Each of them costs memory until the connection ends.
func TestFlood(t *testing.T) {
	t.Parallel()
	s := stream(t, startDesktop(t, desktop.Config{}), Config{})
	for name, flood := range map[string]func(c *client){
		"streams": func(c *client) {
			report := &rtcp.ReceiverReport{SSRC: 1}
			for ssrc := range uint32(2 * mostStreams) {
				report.Reports = []rtcp.ReceptionReport{{SSRC: 1000 + ssrc}}
				if err := c.pc.WriteRTCP([]rtcp.Packet{report}); err != nil {
					c.t.Fatal(err)
				}
			}
		},
		"channels": func(c *client) {
			for range 2 * mostChannels {
				if _, err := c.pc.CreateDataChannel("", nil); err != nil {
					c.t.Fatal(err)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			other, c := watch(t, s, ViewerOptions{}), watch(t, s, ViewerOptions{})
			other.next("of another viewer", nil)
			c.next("before the flood", nil)
			flood(c)
			until(t, "the viewer is ended", func() bool { return !watches(s, c.id) })
			if !watches(s, other.id) {
				t.Error("another viewer has been ended, too")
			}
		})
	}
}

// TestFewStreams checks that a viewer may name a few streams and open a few data channels.
func TestFewStreams(t *testing.T) {
	t.Parallel()
	s := stream(t, startDesktop(t, desktop.Config{}), Config{})
	c := watch(t, s, ViewerOptions{})
	c.next("the first one", nil)
	for ssrc := range uint32(mostStreams / 2) {
		if err := c.pc.WriteRTCP([]rtcp.Packet{&rtcp.PictureLossIndication{MediaSSRC: 1000 + ssrc}}); err != nil {
			t.Fatal(err)
		}
	}
	for range mostChannels {
		opened := make(chan struct{})
		ch, err := c.pc.CreateDataChannel("", nil)
		if err != nil {
			t.Fatal(err)
		}
		ch.OnOpen(func() { close(opened) })
		select {
		case <-opened:
		case <-time.After(patience):
			t.Fatal("a channel does not open")
		}
	}
	if !watches(s, c.id) {
		t.Error("the viewer has been ended")
	}
}

// TestWatchOnly checks that a viewer that only watches gets no data channel, and sees the pointer.
func TestWatchOnly(t *testing.T) {
	t.Parallel()
	d := startDesktop(t, desktop.Config{})
	c := watch(t, stream(t, d, Config{}), ViewerOptions{ViewOnly: true})
	<-c.open
	if c.data != nil {
		t.Error("the viewer has a data channel")
	}
	message := func(what string, is func([]byte) bool) {
		t.Helper()
		for timeout := time.After(patience); ; {
			select {
			case m := <-c.messages:
				if is(m) {
					return
				}
			case <-timeout:
				t.Fatalf("no message with %s", what)
			}
		}
	}
	message("the pointer's image", func(m []byte) bool { return m[0] == opCursorImage })
	if _, err := d.Move(t.Context(), desktop.Move{At: desktop.Point{X: 12, Y: 34}}); err != nil {
		t.Fatal(err)
	}
	message("its position", func(m []byte) bool { return string(m) == string(cursorPosition(desktop.Point{X: 12, Y: 34})) })
}

// TestFastPointer checks that a pointer that moves faster than viewers can be told ends none, and
// that they get its last position.
func TestFastPointer(t *testing.T) {
	t.Parallel()
	s := stream(t, startDesktop(t, desktop.Config{}), Config{})
	c := watch(t, s, ViewerOptions{})
	<-c.open
	done := make(chan struct{})
	go func() {
		defer close(done)
		for begun, i := time.Now(), 0; time.Since(begun) < 2*time.Second; i++ {
			s.movePointer(desktop.Point{X: i % 100}, nil)
		}
		s.movePointer(desktop.Point{X: 300, Y: 200}, nil)
	}()
	last := string(cursorPosition(desktop.Point{X: 300, Y: 200}))
	for timeout := time.After(patience); ; {
		select {
		case m := <-c.messages:
			if string(m) != last {
				continue
			}
		case <-timeout:
			t.Error("the last position does not come")
		}
		break
	}
	<-done
	if !watches(s, c.id) {
		t.Error("the viewer has been ended")
	}
}

// TestManyRequests checks that the peer connections that a client requests are bounded.
func TestManyRequests(t *testing.T) {
	t.Parallel()
	s := stream(t, startDesktop(t, desktop.Config{}), Config{})
	c := watch(t, s, ViewerOptions{})
	begun := time.Now()
	for range 4 * requestBurst {
		c.send("signal/request", map[string]any{})
	}
	for range requestBurst + 2 {
		c.event("signal/provide")
	}
	// The first request was that of watch.
	if took := time.Since(begun); took < 2*time.Second/requestRate {
		t.Errorf("%d connections were made in %v", requestBurst+2, took)
	}
	c.leave()
	until(t, "the viewer is gone", func() bool { return len(s.Viewers()) == 0 })
}

// TestManyConnections checks the bounds of connections that have not requested the stream yet.
// Each of them costs memory.
func TestManyConnections(t *testing.T) {
	t.Parallel()
	s := stream(t, startDesktop(t, desktop.Config{}), Config{MaxViewers: 2})
	first := signal(t, s, ViewerOptions{Owner: "a"})
	signal(t, s, ViewerOptions{Owner: "a"})
	refused := func(owner string, want error) {
		t.Helper()
		near, far := newPipe()
		defer near.close()
		if err := s.ServeSignaling(t.Context(), far, ViewerOptions{Owner: owner}); !errors.Is(err, want) {
			t.Fatalf("a connection of %s: %v, want %v", owner, err, want)
		}
		m, err := near.Receive(t.Context())
		if err != nil || !strings.Contains(string(m), `"system/disconnect"`) || !strings.Contains(string(m), want.Error()) {
			t.Errorf("received %s, %v", m, err)
		}
	}
	refused("a", ErrTooManyOfOwner)
	signal(t, s, ViewerOptions{Owner: "b"})
	signal(t, s, ViewerOptions{Owner: "b"})
	refused("c", ErrTooManyViewers)
	signal(t, s, ViewerOptions{}) // of the program
	first.leave()
	signal(t, s, ViewerOptions{Owner: "a"})
}

// watches reports whether a viewer is connected.
func watches(s *Streamer, id string) bool {
	for _, v := range s.Viewers() {
		if v.ID == id {
			return true
		}
	}
	return false
}
