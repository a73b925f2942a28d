package httpapi

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/httpapi/internal/grants"
)

// tracer returns the tracer of the server, or nil.
func (c Config) tracer() trace.Tracer {
	if c.TracerProvider == nil {
		return nil
	}
	return c.TracerProvider.Tracer("github.com/deskhand/deskhand", trace.WithInstrumentationVersion(c.Version))
}

// spanOf returns the span of the turn of the agent that has a token.
func spanOf(g *grants.Grant) trace.SpanContext { return agents.SpanOf(g.Context()) }

// operation counts an operation of a desktop, and makes its span if it belongs to a request.
// The input of viewers does not. It is a desktop.Config.Observe.
func (s *Server) operation(ctx context.Context, o desktop.Observed) {
	s.metrics.Operation(o)
	if s.tracer == nil || !trace.SpanContextFromContext(ctx).IsValid() {
		return
	}
	_, span := s.tracer.Start(ctx, "desktop "+string(o.Operation), trace.WithTimestamp(o.Began))
	if o.Action != "" {
		span.SetAttributes(attribute.String("deskhand.action", string(o.Action)))
	}
	if o.Err != nil {
		span.SetStatus(codes.Error, "") // the error may name what was typed
	}
	span.End()
}
