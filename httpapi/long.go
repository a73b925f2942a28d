package httpapi

import (
	"bufio"
	"time"
)

// What a long answer looks like: clients give up on responses that do not begin
// within minutes (Node's fetch after 300 s), so it begins early, with the white
// space that JSON may begin with.
const (
	earlyHeaders = 20 * time.Second
	whiteSpace   = 25 * time.Second
)

// beat answers with white space until there is an answer, and then with its
// text. closed takes the answer's place when the server ends before.
func beat[A any](s *Server, r *request, answer <-chan A, closed A, text func(A) []byte) {
	ending := s.entryOf(r.c.Context()).ending
	r.stream(func(w *bufio.Writer, flush func() error, gone <-chan struct{}) {
		t := time.NewTicker(s.agents.beat)
		defer t.Stop()
		for {
			_ = w.WriteByte('\n') // flush tells the error
			if flush() != nil {
				return
			}
			select {
			case a := <-answer:
				_, _ = w.Write(text(a))
				_ = flush()
				return
			case <-t.C:
			case <-ending:
				_, _ = w.Write(text(closed))
				_ = flush()
				return
			case <-gone:
				return
			}
		}
	})
}
