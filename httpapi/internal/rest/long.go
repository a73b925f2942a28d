package rest

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

// Beat answers with white space until there is an answer, and then with its
// text. closed takes the answer's place when the server ends before.
func Beat[A any](a *API, r *Request, answer <-chan A, closed A, text func(A) []byte) {
	ending := a.EntryOf(r.Fiber.Context()).Ending
	r.Stream(func(w *bufio.Writer, flush func() error, gone <-chan struct{}) {
		t := time.NewTicker(a.Beat)
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

// LongOutput is an answer that may begin before it is known.
type LongOutput struct {
	ContentType string `header:"Content-Type"`
	Body        func(huma.Context)
}

// LongAnswer is what becomes of something that may take long.
type LongAnswer[B any] struct {
	Body B
	Err  error
}

// AnswerLong answers with the body that comes, or its error. When that takes long
// the answer begins as a 200, and late makes its body of an error.
func AnswerLong[B any](api *API, answer <-chan LongAnswer[B], late func(error) any) (*LongOutput, error) {
	early := time.NewTimer(api.Early)
	defer early.Stop()
	out := &LongOutput{ContentType: fiber.MIMEApplicationJSON}
	select {
	case a := <-answer:
		text, err := MarshalJSON(a.Body)
		if err = errors.Join(a.Err, err); err != nil {
			return nil, err
		}
		out.Body = func(hc huma.Context) {
			hc.SetStatus(http.StatusOK)
			RequestOf(hc).Send(text)
		}
	case <-early.C:
		out.Body = func(hc huma.Context) {
			hc.SetStatus(http.StatusOK)
			Beat(api, RequestOf(hc), answer, LongAnswer[B]{Err: Closing()}, func(a LongAnswer[B]) []byte {
				var body any = a.Body
				if a.Err != nil {
					body = late(a.Err)
				}
				text, err := MarshalJSON(body)
				if err != nil {
					api.log.Error("a long answer", "error", err)
				}
				return text
			})
		}
	case <-api.closing:
		return nil, Closing()
	}
	return out, nil
}

// Closing is the problem of what was not done because the server ends.
func Closing() error { return ShuttingDown.Problem("the server is shutting down") }
