package rest

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"syscall"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"github.com/deskhand/deskhand/internal/plainjson"
)

var errPanic = errors.New("panic")

// NoSpaceLeft reports whether err says that a disk is full or that a quota is used up.
func NoSpaceLeft(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// DiskFull returns the problem for a full disk.
func DiskFull(text string) *Problem {
	return NoSpace.Problem("stream error: "+text+"; nothing was done; try again when there is space").
		With("details", map[string]any{"message": text})
}

// Sentence returns an error's text as the start of a detail.
func Sentence(err error) string {
	text := err.Error()
	return strings.ToUpper(text[:1]) + text[1:]
}

// answerError answers with an error that no operation handled.
func (a *API) answerError(c *fiber.Ctx, err error) error {
	var p *Problem
	var routing *fiber.Error
	switch {
	case errors.As(err, &p):
	case errors.As(err, &routing) && routing.Code == http.StatusNotFound:
		p = routeNotFound.Problem("endpoint not found: " + c.Method() + " " + c.Path())
	case errors.As(err, &routing) && routing.Code == http.StatusMethodNotAllowed:
		p = methodNotAllowed.Problem(fmt.Sprintf("%s is not allowed here; use %s", c.Method(), c.GetRespHeader(fiber.HeaderAllow)))
	default:
		if !errors.Is(err, errPanic) {
			a.failed(askedOf(c), "request failed", "error", err)
		}
		p = Group{API: a}.ProblemOf(err, Internal)
	}
	a.Write(c, p)
	return nil
}

// Write answers with a problem.
func (a *API) Write(c *fiber.Ctx, p *Problem) {
	text, err := plainjson.Marshal(p)
	if err != nil {
		a.failed(askedOf(c), "problem", "code", p.Code, "error", err)
		text = []byte(`{"type":"` + TypePrefix + Internal.Code + `","status":500}`)
	}
	for name, values := range p.Header {
		for _, v := range values {
			c.Set(name, v)
		}
	}
	c.Set(fiber.HeaderContentType, ProblemType)
	c.Status(p.Status)
	c.Response().SetBodyRaw(text)
}

// answerMalformed answers a request that is not valid HTTP and cannot be routed.
func (a *API) answerMalformed(rc *fasthttp.RequestCtx, err error) {
	var small *fasthttp.ErrSmallBuffer
	var timeout interface{ Timeout() bool }
	p := InvalidRequest.Problem("invalid request: not understood as HTTP/1.1")
	switch {
	case errors.As(err, &small):
		p = headersTooLarge.Problem(fmt.Sprintf("invalid request: its headers must have at most %d bytes", HeaderSize))
	case errors.As(err, &timeout) && timeout.Timeout():
		p = RequestTimeout.Problem(fmt.Sprintf("invalid request: it was not complete after %v", a.ReadTime))
	}
	answerRaw(rc, p)
}

// answerRaw answers a request that does not reach fiber, and closes the connection:
// the following bytes may not be a request.
func answerRaw(rc *fasthttp.RequestCtx, p *Problem) {
	text, err := plainjson.Marshal(p)
	if err != nil {
		text = nil // the status has to do
	}
	rc.Response.Reset()
	rc.SetStatusCode(p.Status)
	rc.SetContentType(ProblemType)
	rc.SetBody(text)
	rc.SetConnectionClose()
}

// asProblem returns the Problem for an error that huma found in a request.
func asProblem(ctx huma.Context, _ string, v any) (any, error) {
	model, ok := v.(*huma.ErrorModel)
	if !ok {
		return v, nil
	}
	k := InvalidRequest
	switch model.Status {
	case http.StatusUnsupportedMediaType:
		return force(ctx, NotJSON()), nil
	case http.StatusRequestEntityTooLarge:
		return force(ctx, TooLarge(ctx.Operation().MaxBodyBytes-1)), nil
	case http.StatusRequestTimeout:
		return force(ctx, RequestTimeout.Problem("invalid request: its body did not arrive in time")), nil
	case http.StatusInternalServerError: // the body could not be read
		if b := RequestOf(ctx).buffered; b != nil && b.full {
			ctx.SetHeader(fiber.HeaderRetryAfter, "1")
			return force(ctx, Unavailable.Problem("too many request bodies are in memory; try again later")), nil
		}
		return force(ctx, k.Problem("invalid request: its body could not be read to the end")), nil
	case http.StatusUnprocessableEntity:
		k.Status = http.StatusUnprocessableEntity
	}
	return force(ctx, Rejected(k, model.Errors)), nil
}

// NotJSON is the problem of a body that is not JSON.
func NotJSON() *Problem {
	return UnsupportedMedia.Problem("unsupported media type: the body must be JSON, with Content-Type: application/json").
		With("details", map[string]any{"message": "expected Content-Type: application/json"})
}

// TooLarge is the problem of a body that is larger than allowed.
func TooLarge(most int64) *Problem {
	return PayloadTooLarge.Problem(fmt.Sprintf("invalid request: the body must have at most %d bytes", most))
}

// Rejected returns the problem that names the rejected parts of a request. Their content is
// left out: it may be secret, and the client knows it.
func Rejected(k Kind, errs []*huma.ErrorDetail) *Problem {
	var texts []string
	list := make([]map[string]string, 0, len(errs))
	for _, e := range errs {
		where, field, _ := strings.Cut(e.Location, ".")
		if where != "body" {
			k.Status = http.StatusBadRequest
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
	return k.Problem("invalid request: "+strings.Join(texts, "; ")).With("errors", list)
}

// force makes the adapter send p's status.
func force(ctx huma.Context, p *Problem) *Problem {
	RequestOf(ctx).forced = p.Status
	return p
}

// IsAny reports whether err is one of kinds.
func IsAny(err error, kinds ...error) bool {
	for _, k := range kinds {
		if errors.Is(err, k) {
			return true
		}
	}
	return false
}

// ConflictOf returns a conflict in the words of the reference.
func ConflictOf(message string) *Problem {
	return Conflict.Message(message)
}

// StreamError is the reference's problem for a failed call of the operating system.
var StreamError = Kind{"stream_error", "Stream Error", http.StatusBadGateway}
