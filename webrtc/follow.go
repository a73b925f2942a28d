package webrtc

import (
	"crypto/rand"

	"github.com/deskhand/deskhand/desktop"
)

// followEvents tells viewers where the pointer is, after others have moved it.
func (s *Streamer) followEvents() {
	sub := s.d.Subscribe(0)
	defer sub.Close()
	for {
		select {
		case <-s.ctx.Done():
			return
		case e, open := <-sub.Events():
			if !open {
				return
			}
			if e.Type == desktop.EventAction && e.Action.Actor.Kind != desktop.ActorViewer {
				s.pointerMoved(e.Action)
			}
		}
	}
}

func (s *Streamer) pointerMoved(a *desktop.Action) {
	at := a.At
	if a.To != nil {
		at = a.To
	}
	if at != nil && a.Window == 0 {
		s.sendAll(cursorPosition(*at), nil)
	}
}

// resized has viewers told of a new size of the picture.
func (s *Streamer) resized(size desktop.Size) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.size = size
	s.presenceChanged()
}

func newID() string { return rand.Text()[:12] }
