package rest

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/deskhand/deskhand/internal/testlog"
)

// TestWithoutTracer: a request costs nothing more because there could be spans.
func TestWithoutTracer(t *testing.T) { // not parallel, as it counts allocations
	app := fiber.New()
	c := app.AcquireCtx(&fasthttp.RequestCtx{})
	defer app.ReleaseCtx(c)
	a, r := access{&API{}}, &Request{Fiber: c, ctx: t.Context()}
	if n := testing.AllocsPerRun(100, func() { a.beginSpan(r); a.endSpan(c) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	a.cfg.Tracer = noop.NewTracerProvider().Tracer("")
	r.op = &huma.Operation{Method: "GET", Path: "/v1/thing"}
	if n := testing.AllocsPerRun(100, func() { a.beginSpan(r); a.endSpan(c) }); n == 0 {
		t.Error("the measurement finds no allocations of a tracer either")
	}
}

// TestLogHandler adds the ids of a request to what is logged with its context, and to what work
// logs that goes on after it.
func TestLogHandler(t *testing.T) {
	t.Parallel()
	var text testlog.Buffer
	log := slog.New(LogHandler(slog.NewTextHandler(&text, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})))
	r := &Request{asked: asked{id: "one", trace: "abc"}}
	ctx := context.WithValue(t.Context(), requestKey{}, r)
	log.With("a", 1).InfoContext(ctx, "request")
	work := Detach(trace.ContextWithSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}})))
	r.asked = asked{id: "two"}
	log.InfoContext(work, "work")
	log.InfoContext(ctx, "untraced")
	log.Info("neither")
	want := `level=INFO msg=request a=1 request=one trace_id=abc
level=INFO msg=work request=one trace_id=abc
level=INFO msg=untraced request=two
level=INFO msg=neither
`
	if text.String() != want {
		t.Errorf("log:\n%s", text.String())
	}
	if got := trace.SpanContextFromContext(work).TraceID(); got != (trace.TraceID{1}) {
		t.Errorf("the trace of the work is %s", got)
	}
	if work.Value(requestKey{}) != nil {
		t.Error("the work keeps the request")
	}
}

// TestForwardedClient: the address that a proxy gives counts only if it is one.
func TestForwardedClient(t *testing.T) {
	t.Parallel()
	a := &API{cfg: Config{TrustProxy: true}}
	app := fiber.New()
	app.Get("/", func(c *fiber.Ctx) error { return c.SendString(a.Client(c)) })
	for given, want := range map[string]string{
		"203.0.113.9":             "203.0.113.9",
		" 2001:db8::7 , 10.0.0.9": "2001:db8::7",
		"fe80::1%<b>":             "fe80::1",
		"203.0.113.9:4711":        "203.0.113.9",
		"[2001:db8::7]:1":         "2001:db8::7",
		"::ffff:192.0.2.4":        "192.0.2.4",
		"6.6.6.6Z":                "0.0.0.0:0", // of the connection in this test
		"":                        "0.0.0.0:0",
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("X-Forwarded-For", given)
		resp, err := app.Test(r)
		if err != nil {
			t.Fatal(err)
		}
		got, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if string(got) != want {
			t.Errorf("%q: %s, want %s", given, got, want)
		}
	}
}
