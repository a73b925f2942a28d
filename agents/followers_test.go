package agents_test

import (
	"testing"
	"time"

	"github.com/deskhand/deskhand/agents"
)

// sentWait is how long a Post waits for streams.
const sentWait = 100 * time.Millisecond

const echoRequest = `{"id":1,"method":"echo","params":{}}`

func followed(t *testing.T, h *agents.Host, r agents.Replay) *agents.Stream {
	t.Helper()
	s, err := h.Follow(within(t), "srv", r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// checkWaits posts a request, and fails the test if Post returned before the stream has
// reported that the answer was sent.
func checkWaits(t *testing.T, h *agents.Host, s *agents.Stream) {
	t.Helper()
	begin, returned := time.Now(), make(chan time.Time, 1)
	go func() {
		if _, err := h.Post(within(t), "srv", agents.PostOptions{}, []byte(echoRequest)); err != nil {
			t.Error(err)
		}
		returned <- time.Now()
	}()
	if _, err := s.Next(within(t)); err != nil {
		t.Fatal(err)
	}
	sent := time.Now()
	s.Sent(s.Seq())
	if at := <-returned; at.Before(sent) && at.Sub(begin) < sentWait {
		t.Errorf("Post returned %v after it was called, %v before its answer was passed on", at.Sub(begin), sent.Sub(at))
	}
}

// Post returns an answer after a stream that is not behind has sent it.
func TestPostWaitsForFollower(t *testing.T) {
	t.Parallel()
	h := host(t, agents.Config{})
	post(t, h, "srv", initialize)
	s := followed(t, h, agents.Replay{None: true})
	s.Sent(s.Seq())
	for range 20 {
		checkWaits(t, h, s)
	}
}

// Post does not wait for streams that are behind, until they have caught up.
func TestPostLeavesFollowersBehind(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		replay agents.Replay
		says   bool // that it has passed on something
	}{
		"stalled":       {agents.Replay{None: true}, true},
		"not caught up": {agents.Replay{All: true}, true},
		"silent":        {agents.Replay{None: true}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := host(t, agents.Config{})
			post(t, h, "srv", initialize)
			s := followed(t, h, c.replay)
			if c.says {
				s.Sent(s.Seq())
			}
			const n = 40
			begin := time.Now()
			for range n {
				post(t, h, "srv", echoRequest)
			}
			if took := time.Since(begin); took > n*sentWait/2 {
				t.Errorf("%d requests took %v", n, took)
			}
			last, err := h.Log().Last(within(t), "acp:srv")
			for err == nil && s.Seq() < last {
				_, err = s.Next(within(t))
			}
			if err != nil {
				t.Fatal(err)
			}
			s.Sent(s.Seq())
			checkWaits(t, h, s)
		})
	}
}

// The end of a stream ends the wait for it.
func TestPostAndFollowerThatLeaves(t *testing.T) {
	t.Parallel()
	h := host(t, agents.Config{})
	post(t, h, "srv", initialize)
	for range 20 {
		s := followed(t, h, agents.Replay{None: true})
		s.Sent(s.Seq())
		done := make(chan struct{})
		begin := time.Now()
		go func() {
			defer close(done)
			_, _ = h.Post(within(t), "srv", agents.PostOptions{}, []byte(echoRequest))
		}()
		if _, err := s.Next(within(t)); err != nil {
			t.Fatal(err)
		}
		s.Close()
		<-done
		if took := time.Since(begin); took < sentWait {
			return // once is enough, on a machine that is busy
		}
	}
	t.Error("each Post waited for a follower that has gone")
}
