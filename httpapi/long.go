package httpapi

import (
	"bufio"
	"errors"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"
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

// longOutput is an answer that may begin before it is known.
type longOutput struct {
	ContentType string `header:"Content-Type"`
	Body        func(huma.Context)
}

// longAnswer is what becomes of something that may take long.
type longAnswer[B any] struct {
	body B
	err  error
}

// answerLong answers with the body that comes, or its error. When that takes long
// the answer begins as a 200, and late makes its body of an error.
func answerLong[B any](s *Server, answer <-chan longAnswer[B], late func(error) any) (*longOutput, error) {
	early := time.NewTimer(s.agents.early)
	defer early.Stop()
	out := &longOutput{ContentType: fiber.MIMEApplicationJSON}
	select {
	case a := <-answer:
		text, err := marshalJSON(a.body)
		if err = errors.Join(a.err, err); err != nil {
			return nil, err
		}
		out.Body = func(hc huma.Context) {
			hc.SetStatus(http.StatusOK)
			requestOf(hc).send(text)
		}
	case <-early.C:
		out.Body = func(hc huma.Context) {
			hc.SetStatus(http.StatusOK)
			beat(s, requestOf(hc), answer, longAnswer[B]{err: errClosing()}, func(a longAnswer[B]) []byte {
				var body any = a.body
				if a.err != nil {
					body = late(a.err)
				}
				text, err := marshalJSON(body)
				if err != nil {
					s.log.Error("a long answer", "error", err)
				}
				return text
			})
		}
	case <-s.closing:
		return nil, errClosing()
	}
	return out, nil
}

func errClosing() error { return shuttingDown.problem("the server is shutting down") }
