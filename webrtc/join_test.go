package webrtc

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/deskhand/deskhand/desktop"
)

// joined is a viewer without WebRTC.
type joined struct {
	id   string // of the viewer; empty: it was refused
	why  string // the message of a refusal
	conn pipe
	done chan error // what ServeVideo returned
}

// join connects a viewer without WebRTC and waits until it is accepted or refused.
func join(t *testing.T, s *Streamer, o ViewerOptions) joined {
	t.Helper()
	near, far := newPipe()
	j := joined{conn: near, done: make(chan error, 1)}
	go func() { j.done <- s.ServeVideo(context.Background(), binaryPipe{far, make(chan []byte, 1000)}, o) }()
	for {
		var m struct {
			Event   string
			Payload struct {
				ID      string `json:"session_id"`
				Message string
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		text, err := near.Receive(ctx)
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &m); err != nil {
			t.Fatal(err)
		}
		switch m.Event {
		case "system/init":
			j.id = m.Payload.ID
		case "system/disconnect":
			j.why = m.Payload.Message
			return j
		case "video/init":
			return j
		}
	}
}

// leave disconnects the viewer and returns the error of ServeVideo.
func (j joined) leave() error {
	j.conn.close()
	return <-j.done
}

// TestManyJoins checks that viewers that come and go cost another viewer few messages, and that it
// knows the viewers in the end.
func TestManyJoins(t *testing.T) {
	t.Parallel()
	s := stream(t, startDesktop(t, desktop.Config{}), Config{})
	c := watch(t, s, ViewerOptions{})
	c.next("the first one", nil)
	begun, messages := time.Now(), 0
	hear := func(event, id string) {
		t.Helper()
		for timeout := time.After(patience); ; {
			select {
			case m := <-c.events:
				if !strings.HasPrefix(m.Event, "session/") {
					continue
				}
				messages++
				var viewer struct{ ID string }
				if err := json.Unmarshal(m.Payload, &viewer); err != nil {
					t.Fatal(err)
				}
				if m.Event == event && viewer.ID == id {
					return
				}
			case <-timeout:
				t.Fatalf("%s of %s did not come", event, id)
			}
		}
	}
	for range 200 {
		if err := join(t, s, ViewerOptions{}).leave(); err != nil {
			t.Fatal(err)
		}
	}
	last := join(t, s, ViewerOptions{})
	hear("session/created", last.id)
	if err := last.leave(); err != nil {
		t.Fatal(err)
	}
	hear("session/deleted", last.id)
	// Each time it can hear of one viewer that came and one that left.
	took := time.Since(begun)
	if most := 2 * (2 + int(took/presencePause)); messages > most {
		t.Errorf("%d messages in %v, want at most %d", messages, took, most)
	}
}

// TestHolderIsKnown checks that a client knows a viewer before it hears that the viewer has control.
func TestHolderIsKnown(t *testing.T) {
	t.Parallel()
	s := stream(t, startDesktop(t, desktop.Config{}), Config{})
	c := signal(t, s, ViewerOptions{})
	for range 5 {
		j := join(t, s, ViewerOptions{})
		text, err := json.Marshal(message{Event: "control/take"})
		if err != nil {
			t.Fatal(err)
		}
		if err := j.conn.Send(t.Context(), text); err != nil {
			t.Fatal(err)
		}
		known := false
		for host := (controlHost{}); host.HostID != j.id; {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			text, err := c.conn.Receive(ctx)
			cancel()
			if err != nil {
				t.Fatal(err)
			}
			var m received
			if err := json.Unmarshal(text, &m); err != nil {
				t.Fatal(err)
			}
			if m.Event == "control/host" {
				host = controlHost{}
				if err := json.Unmarshal(m.Payload, &host); err != nil {
					t.Fatal(err)
				}
			}
			known = known || m.Event == "session/created" && strings.Contains(string(m.Payload), j.id)
		}
		if !known {
			t.Error("control/host names a viewer that the client does not know")
		}
		if err := j.leave(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestJoinRate checks that an owner cannot add viewers faster than joinRate.
func TestJoinRate(t *testing.T) {
	t.Parallel()
	s := stream(t, startDesktop(t, desktop.Config{}), Config{})
	s.mu.Lock()
	s.joins["idle"] = rate.NewLimiter(joinRate, joinBurst)
	s.mu.Unlock()
	begun, accepted, refused := time.Now(), 0, 0
	for range 3 * joinBurst {
		j := join(t, s, ViewerOptions{Owner: "a"})
		switch err := j.leave(); {
		case err == nil:
			accepted++
		case errors.Is(err, ErrTooManyJoins) && strings.Contains(j.why, ErrTooManyJoins.Error()):
			refused++
		default:
			t.Fatal(err)
		}
	}
	took := time.Since(begun)
	if most := joinBurst + joinRate*(1+int(took/time.Second)); accepted < joinBurst || accepted > most {
		t.Errorf("%d viewers joined in %v and %d were refused, want %d to %d", accepted, took, refused, joinBurst, most)
	}
	for _, owner := range []string{"b", ""} {
		if err := join(t, s, ViewerOptions{Owner: owner}).leave(); err != nil {
			t.Errorf("a viewer of owner %q: %v", owner, err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.joins["a"] == nil || s.joins["idle"] != nil {
		t.Errorf("limiters are kept of %v, want a and b", s.joins)
	}
}
