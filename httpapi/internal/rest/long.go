package rest

import (
	"bufio"
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"

	"github.com/deskhand/deskhand/internal/panics"
)

// Clients give up on a response that does not begin within minutes (Node's fetch after
// 300 s), so a long answer begins early, with the white space that JSON may begin with.
const (
	earlyHeaders = 20 * time.Second
	whiteSpace   = 25 * time.Second
)

// longAnswer is the result of work: the text of the answer, or an error.
type longAnswer struct {
	text []byte
	err  error
}

// AnswerLong starts work by calling start, and answers with the JSON text or the error that
// work returns. Nil text is answered 202. Work continues when the client disconnects, and
// when ctx ends, whose error is then the answer. If work takes long, the answer begins as a
// 200, and late makes its text of an error. If late is nil, the answer begins when work has
// ended.
func (a *API) AnswerLong(ctx context.Context, start func(func()) error, work func() ([]byte, error), late func(error) []byte) (*BodyOutput, error) {
	answer := make(chan longAnswer, 1)
	if err := start(func() {
		var got longAnswer
		got.err = panics.Catch(a.log, "answer a request", func() (err error) {
			got.text, err = work()
			return err
		})
		answer <- got
	}); err != nil {
		return nil, err
	}
	var begin <-chan time.Time
	if late != nil {
		early := time.NewTimer(a.Early)
		defer early.Stop()
		begin = early.C
	}
	out := &BodyOutput{ContentType: fiber.MIMEApplicationJSON}
	select {
	case got := <-answer:
		switch {
		case got.err != nil:
			return nil, got.err
		case got.text == nil:
			return &BodyOutput{Body: func(ctx huma.Context) { ctx.SetStatus(http.StatusAccepted) }}, nil
		}
		out.Body = func(ctx huma.Context) {
			ctx.SetStatus(http.StatusOK)
			RequestOf(ctx).Send(got.text)
		}
	case <-begin:
		out.Body = func(ctx huma.Context) {
			ctx.SetStatus(http.StatusOK)
			a.beat(RequestOf(ctx), answer, late)
		}
	case <-ctx.Done(): // with the token
		return nil, ctx.Err()
	case <-a.closing:
		return nil, Closing()
	}
	return out, nil
}

// beat answers with white space until there is an answer, and then with its text.
func (a *API) beat(r *Request, answer <-chan longAnswer, late func(error) []byte) {
	ending := a.EntryOf(r.Fiber.Context()).Ending
	r.Stream(func(w *bufio.Writer, flush func() error, gone <-chan struct{}) {
		t := time.NewTicker(a.Beat)
		defer t.Stop()
		for {
			_ = w.WriteByte('\n') // flush returns the error
			if flush() != nil {
				return
			}
			var got longAnswer
			select {
			case <-t.C:
				continue
			case <-gone:
				return
			case <-ending:
				got.err = Closing()
			case got = <-answer:
			}
			if got.err != nil {
				got.text = late(got.err)
			}
			_, _ = w.Write(got.text)
			_ = flush()
			return
		}
	})
}

// Closing returns the problem of a request that the end of the server interrupts.
func Closing() *Problem { return Unavailable.Problem("the server is shutting down") }
