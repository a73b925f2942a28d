package webrtc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/internal/jsonlimit"
)

// TestMalformedSignaling checks that malformed messages end neither the connection of their
// client nor that of another client.
func TestMalformedSignaling(t *testing.T) {
	t.Parallel()
	d := startDesktop(t, desktop.Config{})
	s := stream(t, d, Config{})
	c := watch(t, s, ViewerOptions{})
	c.next("the first one", picture.key)
	<-c.open
	for _, text := range []string{
		"", "{", "null", "[]", `"x"`, `{}`, `{"event":7}`, `{"event":"signal/answer"}`, `{"event":"signal/answer","payload":{"sdp":7}}`,
		`{"event":"signal/answer","payload":{"sdp":"v=0"}}`, `{"event":"signal/answer","payload":{"sdp":"` + strings.Repeat("a=x\\r\\n", 100_000) + `"}}`,
		`{"event":"signal/candidate","payload":{"candidate":"nonsense"}}`, `{"event":"signal/candidate","payload":[]}`,
		`{"event":"control/move"}`, `{"event":"control/move","payload":{"x":1e99,"y":1}}`, `{"event":"control/buttondown","payload":{"code":99}}`,
		`{"event":"control/keydown","payload":{"keysym":0}}`, `{"event":"control/scroll","payload":{"delta_y":99999999}}`,
		`{"event":"control/give","payload":{"id":"unknown"}}`, `{"event":"nonsense/` + strings.Repeat("x", 100_000) + `"}`,
		`{"event":"clipboard/set","payload":{"text":"` + strings.Repeat("x", clipboardMost+1) + `"}}`,
	} {
		if err := c.conn.Send(t.Context(), []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 10_000 {
		c.send("signal/candidate", map[string]any{"candidate": fmt.Sprintf("candidate:1 1 udp 1 127.0.0.1 %d typ host", 1+i%60000), "sdpMid": "0"})
	}
	for _, b := range [][]byte{nil, {1}, {1, 0, 4}, {0xff, 0xff, 0xff, 0, 0}, {2, 0, 5, 0x7f, 0xff, 0x80, 0, 0}, {3, 0, 4, 0, 0, 0, 0}} {
		if err := c.data.Send(b); err != nil {
			t.Fatal(err)
		}
	}
	c.send("control/move", map[string]int{"x": 11, "y": 22})
	until(t, "a valid message has an effect", func() bool {
		p, err := d.Pointer(t.Context())
		return err == nil && p.Point == desktop.Point{X: 11, Y: 22}
	})
}

func TestSignalingIsNotNestedDeep(t *testing.T) {
	t.Parallel()
	message := func(depth int) []byte {
		return []byte(`{"event":"video/key","payload":` + strings.Repeat("[", depth) + strings.Repeat("]", depth) + `}`)
	}
	if m, err := decodeReceived(message(jsonlimit.MaxDepth - 1)); err != nil || m.Event != "video/key" {
		t.Errorf("at the limit: %+v, %v", m, err)
	}
	if _, err := decodeReceived(message(jsonlimit.MaxDepth)); !errors.Is(err, jsonlimit.ErrTooDeep) {
		t.Errorf("beyond the limit: %v", err)
	}
}

// TestControlBetweenViewers checks that only the input of the holder of control has an effect,
// and that a button that a viewer holds down is released when the viewer disconnects.
func TestControlBetweenViewers(t *testing.T) {
	t.Parallel()
	d := startDesktop(t, desktop.Config{})
	s := stream(t, d, Config{})
	ann := watch(t, s, ViewerOptions{Name: "ann"})
	<-ann.open
	ann.event("control/host")
	bob := watch(t, s, ViewerOptions{Name: "bob"})
	<-bob.open
	bob.event("control/refused")
	eve := watch(t, s, ViewerOptions{Name: "eve", ViewOnly: true})
	<-eve.open

	move := func(c *client, x byte) {
		t.Helper()
		if c.data == nil { // it only watches
			c.send("control/move", map[string]byte{"x": x, "y": x})
			return
		}
		if err := c.data.Send([]byte{opMove, 0, 4, 0, x, 0, x}); err != nil {
			t.Fatal(err)
		}
	}
	at := func(x int) {
		t.Helper()
		until(t, fmt.Sprintf("the pointer is at %d", x), func() bool {
			p, err := d.Pointer(t.Context())
			return err == nil && p.X == x && p.Y == x
		})
	}
	move(bob, 20)
	move(eve, 30)
	move(ann, 40)
	at(40)
	// A drag that its viewer does not end.
	if err := ann.data.Send([]byte{opButtonDown, 0, 4, 0, 0, 0, 1}); err != nil {
		t.Fatal(err)
	}
	move(ann, 50)
	at(50)
	ann.leave()
	until(t, "control is free", func() bool { return d.Control().Holder == nil })
	move(eve, 60)
	move(bob, 70) // bob requested control while ann held it
	at(70)
	if h := d.Control().Holder; h == nil || h.Name != "bob" {
		t.Errorf("control is held by %v", h)
	}
	// The click works only if the button of the drag was released.
	sub := d.Subscribe(0)
	defer sub.Close()
	eve.send("control/take", nil)
	eve.send("control/request", nil)
	if _, err := d.Click(t.Context(), desktop.Click{}); err != nil {
		t.Errorf("the API is refused while control is granted but not taken: %v", err)
	}
	bob.send("control/take", nil)
	until(t, "control is taken", func() bool { return d.Control().Taken })
	if _, err := d.Click(t.Context(), desktop.Click{}); err == nil {
		t.Error("the API is not refused while control is taken")
	}
	// A request for control is then refused, and bob receives it.
	ann2 := watch(t, s, ViewerOptions{Name: "ann, again"})
	<-ann2.open
	ann2.send("control/take", nil)
	ann2.event("control/refused")
	var asked struct{ ID string }
	if err := json.Unmarshal(bob.event("control/request"), &asked); err != nil || asked.ID != ann2.id {
		t.Errorf("bob received a request of %q, %v; want %q", asked.ID, err, ann2.id)
	}
	bob.send("control/release", nil)
	until(t, "control is free again", func() bool { return d.Control().Holder == nil })
}

// TestHolderDoesNotRead checks that requests for control are not queued for a holder that does
// not read.
func TestHolderDoesNotRead(t *testing.T) {
	t.Parallel()
	d := startDesktop(t, desktop.Config{})
	s := stream(t, d, Config{})
	ann := watch(t, s, ViewerOptions{Name: "ann"})
	<-ann.open
	ann.send("control/take", nil)
	until(t, "control is taken", func() bool { return d.Control().Taken })
	told, stuck := make(chan struct{}, 100), make(chan struct{})
	s.mu.Lock()
	i := slices.IndexFunc(s.viewers, func(v *viewer) bool { return v.id == ann.id })
	s.viewers[i].send = func(context.Context, string, any) error {
		told <- struct{}{}
		<-stuck
		return nil
	}
	s.mu.Unlock()
	bob := watch(t, s, ViewerOptions{Name: "bob"})
	<-bob.open
	for range 50 {
		bob.send("control/take", nil)
		bob.event("control/refused")
	}
	<-told
	close(stuck)
	if n := len(told); n > 0 {
		t.Errorf("%d further requests waited for the holder", n)
	}
}

// TestPictureSurvives checks that the video continues after a restart of the X server, and
// follows the screen's size.
func TestPictureSurvives(t *testing.T) {
	t.Parallel()
	d := startDesktop(t, desktop.Config{})
	s := stream(t, d, Config{})
	c := watch(t, s, ViewerOptions{})
	size := func(w, h int) func(picture) bool {
		return func(p picture) bool {
			b := p.data
			// Start code, then the two sizes (RFC 6386, section 9.1).
			return p.key() && len(b) > 10 && int(b[6])|int(b[7]&0x3f)<<8 == w && int(b[8])|int(b[9]&0x3f)<<8 == h
		}
	}
	c.next("the first one", size(640, 480))
	if err := d.Resize(t.Context(), desktop.Size{Width: 801, Height: 333}); err != nil {
		t.Fatal(err)
	}
	p := c.next("one of the new size", size(801, 333))
	if diff := difference(p.image(t), screenshot(t, d)); diff > 12 {
		t.Errorf("the picture is %.1f levels off the screen", diff)
	}
	c.event("screen/updated")
	for _, p := range d.Status().Processes {
		if p.Name == "Xvfb" {
			if err := syscall.Kill(p.PID, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
	}
	c.next("one of the next X server", size(801, 333))
}

// TestManyViewers checks that fifty viewers get a picture, and that a viewer that does not read
// delays none of them.
func TestManyViewers(t *testing.T) {
	t.Parallel()
	d := startDesktop(t, desktop.Config{})
	s := stream(t, d, Config{MaxViewers: 51})
	// This viewer does not read.
	_, far := newPipe()
	stuck := binaryPipe{far, make(chan []byte)}
	ctx, cancel := context.WithCancel(t.Context())
	stuckDone := make(chan error, 1)
	go func() { stuckDone <- s.ServeVideo(ctx, stuck, ViewerOptions{}) }()

	var wg sync.WaitGroup
	for range 50 {
		near, far := newPipe()
		conn := binaryPipe{far, make(chan []byte, 1000)}
		done := make(chan error, 1)
		go func() { done <- s.ServeVideo(context.Background(), conn, ViewerOptions{}) }()
		wg.Go(func() {
			for m := range conn.binary {
				if m[0] == flagKey {
					break
				}
			}
			near.close()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	cancel()
	<-stuckDone
	until(t, "all viewers have left", func() bool { return len(s.Viewers()) == 0 })
}

func TestTooManyViewers(t *testing.T) {
	t.Parallel()
	d := startDesktop(t, desktop.Config{})
	s := stream(t, d, Config{MaxViewers: 1})
	c := watch(t, s, ViewerOptions{})
	c.next("the first one", nil)
	near, far := newPipe()
	done := make(chan error, 1)
	go func() { done <- s.ServeSignaling(context.Background(), far, ViewerOptions{}) }()
	text, err := json.Marshal(message{Event: "signal/request"})
	if err != nil {
		t.Fatal(err)
	}
	if err := near.Send(t.Context(), text); err != nil {
		t.Fatal(err)
	}
	for {
		m, err := near.Receive(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(m), `"system/disconnect"`) {
			if !strings.Contains(string(m), ErrTooManyViewers.Error()) {
				t.Errorf("received %s", m)
			}
			break
		}
	}
	near.close()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
