package httpapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"syscall"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/filesystem"
	"github.com/deskhand/deskhand/recording"
)

// installCommand is what brings the programs that desktops need.
const installCommand = "deskhand install desktop --yes"

var errPanic = errors.New("panic")

// problemOf decides what a client is told about an error. other is what errors
// count as that have no kind of their own.
func problemOf(err error, other kind) *Problem {
	var p *Problem
	var bad *desktop.InvalidError
	var missing *desktop.MissingError
	var late *desktop.DeadlineError
	if p := cmp.Or(tokenProblem(err), fileProblem(err), fullProblem(err), processProblem(err), streamProblem(err), interruptedProblem(err),
		controlProblem(err), recordingProblem(err), fleetProblem(err)); p != nil {
		return p
	}
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &bad):
		return invalid(bad.Field, bad.Field+" "+bad.Reason)
	case errors.As(err, &missing):
		return missingPrograms(missing.Programs)
	case errors.As(err, &late):
		return tooLate(late)
	case errors.Is(err, context.DeadlineExceeded):
		return timedOut.problem("timeout").with("details", map[string]any{"message": err.Error()})
	case errors.Is(err, desktop.ErrClosed):
		return notStarted()
	case errors.Is(err, desktop.ErrRestarting):
		return runtimeFailed.desktop(sentence(err)+"; try again shortly").header(fiber.HeaderRetryAfter, "1")
	case errors.Is(err, desktop.ErrWindowNotFound):
		return windowNotFound.desktop(sentence(err) + "; GET the windows for those that exist")
	case errors.Is(err, desktop.ErrNoFocusedWindow):
		return noFocusedWindow.desktop("No window currently has focus")
	case errors.Is(err, desktop.ErrAppNotFound):
		return appNotFound.desktop(sentence(err))
	case errors.Is(err, desktop.ErrNoClipboardContent):
		return notAcceptable.problem("not acceptable: the selection holds no image").
			with("details", map[string]any{"message": "the selection holds no image; leave format out to read its text"})
	case errors.Is(err, desktop.ErrUnsupported):
		return unsupportedAction.desktop(sentence(err))
	case other == internal:
		return internal.problem("something went wrong inside the server; its log has the details under this response's X-Request-Id")
	}
	return other.desktop(sentence(err))
}

// NoSpace reports whether an error of this package says that a disk is full or
// that a quota is used up.
func NoSpace(err error) bool {
	return isAny(err, syscall.ENOSPC, syscall.EDQUOT, eventlog.ErrFull, filesystem.ErrNoSpace, recording.ErrNoSpace)
}

// fullProblem returns the problem for a full disk, or nil if err is another error.
func fullProblem(err error) *Problem {
	if !NoSpace(err) {
		return nil
	}
	if p, ok := errors.AsType[*Problem](err); ok {
		return p
	}
	text := err.Error()
	if errors.Is(err, recording.ErrNoSpace) {
		text = "there is too little space left on the disk of the recordings; delete some"
	}
	return noSpace.problem("stream error: "+text+"; nothing was done; try again when there is space").
		with("details", map[string]any{"message": text})
}

// sentence is an error's text as the start of a detail.
func sentence(err error) string {
	text := err.Error()
	return strings.ToUpper(text[:1]) + text[1:]
}

func notStarted() *Problem {
	return runtimeInactive.desktop("Desktop runtime has not been started; POST to its start first")
}

func missingPrograms(programs []string) *Problem {
	return dependencies.desktop(fmt.Sprintf(
		"Desktop dependencies are not installed: %s. Run `%s` to install them, or install the required tools manually.",
		strings.Join(programs, ", "), installCommand)).
		with("missingDependencies", programs).with("installCommand", installCommand)
}

func tooLate(e *desktop.DeadlineError) *Problem {
	details := map[string]any{"message": e.Error(), "operation": e.Op, "deadlineMs": e.After.Milliseconds()}
	if e.Done != "" {
		details["progress"] = e.Done
	}
	return timedOut.problem("timeout: "+e.Error()).with("details", details)
}

// interruptedProblem returns the problem for input that ended before it was complete,
// or nil if err is another error.
func interruptedProblem(err error) *Problem {
	var cut *desktop.InterruptedError
	if !errors.As(err, &cut) {
		return nil
	}
	p := controlProblem(cut.Cause)
	if p == nil {
		p = inputEnded.desktop("")
	}
	p.Detail = sentence(err)
	details := map[string]any{"message": err.Error(), "operation": cut.Op}
	if cut.Done != "" {
		details["progress"] = cut.Done
	}
	return p.with("details", details)
}

// answerError answers with an error that no operation handled.
func (s *Server) answerError(c *fiber.Ctx, err error) error {
	var p *Problem
	var routing *fiber.Error
	switch {
	case errors.As(err, &p):
	case errors.As(err, &routing) && routing.Code == http.StatusNotFound:
		p = routeNotFound.problem("endpoint not found: " + c.Method() + " " + c.Path())
	case errors.As(err, &routing) && routing.Code == http.StatusMethodNotAllowed:
		p = methodNotAllowed.problem(fmt.Sprintf("%s is not allowed here; use %s", c.Method(), c.GetRespHeader(fiber.HeaderAllow)))
	default:
		if !errors.Is(err, errPanic) {
			s.failed(askedOf(c), "request failed", "error", err)
		}
		p = problemOf(err, internal)
	}
	s.write(c, p)
	return nil
}

// write answers with a problem.
func (s *Server) write(c *fiber.Ctx, p *Problem) {
	text, err := marshalJSON(p)
	if err != nil {
		s.failed(askedOf(c), "problem", "code", p.Code, "error", err)
		text = []byte(`{"type":"` + typePrefix + internal.code + `","status":500}`)
	}
	for name, values := range p.Header {
		for _, v := range values {
			c.Set(name, v)
		}
	}
	c.Set(fiber.HeaderContentType, problemType)
	c.Status(p.Status)
	c.Response().SetBodyRaw(text)
}

// answerMalformed answers what is no HTTP request that could be routed.
func (s *Server) answerMalformed(rc *fasthttp.RequestCtx, err error) {
	var small *fasthttp.ErrSmallBuffer
	var timeout interface{ Timeout() bool }
	p := invalidRequest.problem("invalid request: not understood as HTTP/1.1")
	switch {
	case errors.As(err, &small):
		p = headersTooLarge.problem(fmt.Sprintf("invalid request: its headers must have at most %d bytes", headerSize))
	case errors.As(err, &timeout) && timeout.Timeout():
		p = requestTimeout.problem(fmt.Sprintf("invalid request: it was not complete after %v", readTime))
	}
	answerRaw(rc, p)
}

// answerRaw answers what does not reach fiber, and ends the connection: what
// follows on it may not be a request.
func answerRaw(rc *fasthttp.RequestCtx, p *Problem) {
	text, err := marshalJSON(p)
	if err != nil {
		text = nil // the status has to do
	}
	rc.Response.Reset()
	rc.SetStatusCode(p.Status)
	rc.SetContentType(problemType)
	rc.SetBody(text)
	rc.SetConnectionClose()
}

// asProblem turns what huma has to say about a request into a Problem.
func asProblem(ctx huma.Context, _ string, v any) (any, error) {
	model, ok := v.(*huma.ErrorModel)
	if !ok {
		return v, nil
	}
	k := invalidRequest
	switch model.Status {
	case http.StatusUnsupportedMediaType:
		return force(ctx, notJSON()), nil
	case http.StatusRequestEntityTooLarge:
		return force(ctx, tooLarge(ctx.Operation().MaxBodyBytes-1)), nil
	case http.StatusRequestTimeout:
		return force(ctx, requestTimeout.problem("invalid request: its body did not arrive in time")), nil
	case http.StatusInternalServerError: // the body could not be read
		if b := requestOf(ctx).buffered; b != nil && b.full {
			ctx.SetHeader(fiber.HeaderRetryAfter, "1")
			return force(ctx, noRoom.problem("too many request bodies are in memory; try again later")), nil
		}
		return force(ctx, k.problem("invalid request: its body could not be read to the end")), nil
	case http.StatusUnprocessableEntity:
		k.status = http.StatusUnprocessableEntity
	}
	return force(ctx, rejected(k, model.Errors)), nil
}

func notJSON() *Problem {
	return unsupportedMedia.problem("unsupported media type: the body must be JSON, with Content-Type: application/json").
		with("details", map[string]any{"message": "expected Content-Type: application/json"})
}

func tooLarge(most int64) *Problem {
	return payloadTooLarge.problem(fmt.Sprintf("invalid request: the body must have at most %d bytes", most))
}

// rejected tells which parts of a request were not accepted. What they held is
// left out: it may be secret, and the client knows it.
func rejected(k kind, errs []*huma.ErrorDetail) *Problem {
	var texts []string
	list := make([]map[string]string, 0, len(errs))
	for _, e := range errs {
		where, field, _ := strings.Cut(e.Location, ".")
		if where != "body" {
			k.status = http.StatusBadRequest
		}
		member, message := memberOf(e.Message)
		if member != "" && field != "" {
			member = field + "." + member
		}
		field = cmp.Or(member, field)
		text := message
		if field != "" {
			text = field + ": " + text
		}
		texts = append(texts, where+": "+text)
		list = append(list, map[string]string{"in": where, "field": field, "message": message})
	}
	return k.problem("invalid request: "+strings.Join(texts, "; ")).with("errors", list)
}

// force makes p's status the one that is sent.
func force(ctx huma.Context, p *Problem) *Problem {
	requestOf(ctx).forced = p.Status
	return p
}
