package computer

import (
	"context"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// beginSpan begins the span of a call of a tool, and returns a function that ends it. The span
// continues the trace of ctx, or else the trace that _meta of the call names.
func (s *Server) beginSpan(ctx context.Context, call *mcp.CallToolRequest) (context.Context, func(mcp.Result, error)) {
	if s.cfg.Tracer == nil {
		return ctx, func(mcp.Result, error) {}
	}
	name := call.Params.Name
	if !s.has(name) {
		name = "unknown" // the client's text is in no span
	}
	here := trace.SpanContextFromContext(ctx)
	options := []trace.SpanStartOption{trace.WithAttributes(attribute.String("mcp.method.name", "tools/call"), attribute.String("gen_ai.tool.name", name))}
	if there := callerSpan(call.Params.Meta); there.IsValid() && there.TraceID() != here.TraceID() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, there)
		options = append(options, trace.WithLinks(trace.Link{SpanContext: here}))
	}
	ctx, span := s.cfg.Tracer.Start(ctx, "tools/call "+name, options...)
	return ctx, func(result mcp.Result, err error) {
		if r, ok := result.(*mcp.CallToolResult); err != nil || ok && r.IsError {
			span.SetStatus(codes.Error, "")
		}
		span.End()
	}
}

// callerSpan returns the span that _meta of a message names.
func callerSpan(meta mcp.Meta) trace.SpanContext {
	carrier := propagation.MapCarrier{}
	for name, value := range traceContext(meta) {
		carrier[name], _ = value.(string)
	}
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), carrier))
}

// traceContext returns the part of _meta that MCP reserves for the W3C trace context.
func traceContext(meta mcp.Meta) mcp.Meta {
	var only mcp.Meta
	for _, name := range (propagation.TraceContext{}).Fields() {
		if value, ok := meta[name]; ok {
			if only == nil {
				only = mcp.Meta{}
			}
			only[name] = value
		}
	}
	return only
}

// has reports whether there is a tool of that name.
func (s *Server) has(name string) bool {
	named := func(t tool) bool { return t.name == name }
	_, action := actions[name]
	return action || slices.ContainsFunc(tools, named) || slices.ContainsFunc(elementTools, named) || name == browserTool.name
}
