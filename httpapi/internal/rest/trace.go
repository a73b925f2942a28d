package rest

import (
	"context"
	"log/slog"

	"github.com/gofiber/fiber/v2"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// MetricsPath is the path of the metrics. Scrapes and health checks have no span.
const MetricsPath = "/metrics"

type spanKey struct{}

// beginSpan begins the span of a request that may pass. The span continues the trace that the
// client names, or else the trace of Config.SpanOf. It has no text of the client: neither the
// path nor the query, but the pattern of the path.
func (a access) beginSpan(r *Request) {
	if a.cfg.Tracer == nil || r.op.Path == MetricsPath || isProbe(r.op.Path) {
		return
	}
	ctx := propagation.TraceContext{}.Extract(r.ctx, requestHeader{r.Fiber})
	if !trace.SpanContextFromContext(ctx).IsValid() {
		ctx = trace.ContextWithSpanContext(ctx, a.callerSpan(r))
	}
	ctx, span := a.cfg.Tracer.Start(ctx, r.op.Method+" "+r.op.Path, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
		attribute.String("http.request.method", r.Fiber.Method()), attribute.String("http.route", r.op.Path),
		attribute.String("deskhand.request", r.asked.id)))
	r.WithContext(ctx)
	r.Fiber.Locals(spanKey{}, span)
	r.asked.trace = span.SpanContext().TraceID().String()
}

// callerSpan returns the span of an agent that makes a request with its token.
func (a access) callerSpan(r *Request) trace.SpanContext {
	g := r.Grant
	if a.cfg.NoToken {
		token, _ := headerToken(r.Fiber)
		g, _ = a.lookUp(token)
	}
	if g == nil || a.cfg.SpanOf == nil {
		return trace.SpanContext{}
	}
	return a.cfg.SpanOf(g)
}

// endSpan ends the span of a request.
func (a access) endSpan(c *fiber.Ctx) {
	if a.cfg.Tracer == nil {
		return
	}
	if span, ok := c.Locals(spanKey{}).(trace.Span); ok {
		status := c.Response().StatusCode()
		span.SetAttributes(attribute.Int("http.response.status_code", status))
		if status >= fiber.StatusInternalServerError {
			span.SetStatus(codes.Error, "")
		}
		span.End()
	}
}

// requestHeader reads the headers of a request for a propagator.
type requestHeader struct{ *fiber.Ctx }

// Get implements propagation.TextMapCarrier.
func (h requestHeader) Get(name string) string { return h.Ctx.Get(name) }

// Set implements propagation.TextMapCarrier. A request is only read.
func (requestHeader) Set(string, string) {}

// Keys implements propagation.TextMapCarrier.
func (requestHeader) Keys() []string { return nil }

type askedKey struct{}

// Detach returns a context for work that continues after its request. The log and the spans of
// the work name the request.
func Detach(ctx context.Context) context.Context {
	work := context.Background()
	if r := RequestIn(ctx); r != nil {
		work = context.WithValue(work, askedKey{}, r.asked)
	}
	if span := trace.SpanContextFromContext(ctx); span.IsValid() {
		work = trace.ContextWithSpanContext(work, span)
	}
	return work
}

// ids returns the ids of a request, as pairs for the log.
func (about asked) ids() []any {
	if about.trace == "" {
		return []any{"request", about.id}
	}
	return []any{"request", about.id, "trace_id", about.trace}
}

// LogHandler returns a handler that adds the ids of the request to a record that is logged
// with the context of a request or of [Detach].
func LogHandler(h slog.Handler) slog.Handler { return logHandler{h} }

type logHandler struct{ slog.Handler }

// Handle implements [slog.Handler].
func (h logHandler) Handle(ctx context.Context, record slog.Record) error {
	about, _ := ctx.Value(askedKey{}).(asked)
	if r := RequestIn(ctx); r != nil {
		about = r.asked
	}
	if about.id != "" {
		record = record.Clone()
		record.Add(about.ids()...)
	}
	return h.Handler.Handle(ctx, record)
}

// WithAttrs implements [slog.Handler].
func (h logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return logHandler{h.Handler.WithAttrs(attrs)}
}

// WithGroup implements [slog.Handler].
func (h logHandler) WithGroup(name string) slog.Handler {
	return logHandler{h.Handler.WithGroup(name)}
}
