package agents_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/deskhand/deskhand/agents"
)

// prompted is an agent that hands the prompts that it gets to prompts. Before it answers one, it
// writes its lines. It exits when it is told to.
func prompted(prompts chan<- string) func(context.Context, string) (agents.Launch, error) {
	return func(context.Context, string) (agents.Launch, error) {
		return agents.Launch{Run: func(_ context.Context, in io.Reader, out io.Writer) error {
			for lines := bufio.NewScanner(in); lines.Scan(); {
				var m struct {
					ID     json.RawMessage
					Method string
					Params struct{ Prompt []struct{ Text string } }
				}
				if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
					return err
				}
				answer := `"result":{"sessionId":"one"}`
				if m.Method == "session/prompt" {
					prompts <- lines.Text()
					answer = m.Params.Prompt[0].Text
					for _, more := range m.Params.Prompt[1:] {
						fmt.Fprintln(out, more.Text)
					}
				}
				if answer == "exit" {
					return errors.New("told to")
				}
				fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,%s}`+"\n", m.ID, answer)
			}
			return nil
		}}, nil
	}
}

// promptWith returns a prompt for that agent.
func promptWith(meta, answer string, lines ...string) string {
	var blocks []string
	for _, text := range append([]string{answer}, lines...) {
		blocks = append(blocks, fmt.Sprintf(`{"type":"text","text":%q}`, text))
	}
	return fmt.Sprintf(`{"id":"p","method":"session/prompt","params":{"sessionId":"one","prompt":[%s]%s}}`, strings.Join(blocks, ","), meta)
}

const (
	callerTrace = "4bf92f3577b34da6a3ce929d0e0e4736"
	clientTrace = "5bf92f3577b34da6a3ce929d0e0e4737"
	endTurn     = `"result":{"stopReason":"end_turn"}`
)

// metaOf returns _meta of a prompt.
func metaOf(t *testing.T, prompt string) map[string]any {
	t.Helper()
	var m struct {
		Params struct {
			Meta map[string]any `json:"_meta"`
		}
	}
	if err := json.Unmarshal([]byte(prompt), &m); err != nil {
		t.Fatal(err)
	}
	return m.Params.Meta
}

// caller returns a context of a call in callerTrace.
func caller(t *testing.T) context.Context {
	t.Helper()
	id, err := trace.TraceIDFromHex(callerTrace)
	if err != nil {
		t.Fatal(err)
	}
	return trace.ContextWithSpanContext(within(t), trace.NewSpanContext(trace.SpanContextConfig{TraceID: id, SpanID: trace.SpanID{1}, TraceFlags: trace.FlagsSampled}))
}

// TestTraceContext gives agents the span of the turn in _meta. Without a tracer a prompt stays as
// it is.
func TestTraceContext(t *testing.T) {
	t.Parallel()
	spans := tracetest.NewInMemoryExporter()
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans)).Tracer("test")
	agent := agents.PostOptions{Agent: "scripted"}
	clients := `,"_meta":{"a":[1],"traceparent":"00-` + clientTrace + `-00f067aa0ba902b7-01","tracestate":"v=1"}`
	for name, c := range map[string]struct {
		tracer       trace.Tracer
		meta, traces string // empty: _meta has no trace context
	}{
		"caller":     {tracer, "", callerTrace},
		"client":     {tracer, clients, clientTrace},
		"other meta": {tracer, `,"_meta":{"a":[1]}`, callerTrace},
		"wrong meta": {tracer, `,"_meta":7`, callerTrace},
		"no tracer":  {nil, clients, ""},
	} {
		prompts := make(chan string, 1)
		h := host(t, agents.Config{Tracer: c.tracer, Launch: prompted(prompts)})
		post(t, h, "srv", `{"id":1,"method":"session/new","params":{"cwd":"/"}}`)
		prompt := promptWith(c.meta, endTurn)
		if _, err := h.Post(caller(t), "srv", agent, []byte(prompt)); err != nil {
			t.Fatal(err)
		}
		got := <-prompts
		if c.tracer == nil {
			if want := strings.Replace(prompt, `"p"`, "2", 1); got != want {
				t.Errorf("%s: the agent got %s\nwant %s", name, got, want)
			}
			continue
		}
		span := spans.GetSpans()[0]
		spans.Reset()
		meta := metaOf(t, got)
		if want := "00-" + c.traces + "-" + span.SpanContext.SpanID().String() + "-01"; meta["traceparent"] != want || span.Name != "agent turn" {
			t.Errorf("%s: _meta is %v, want traceparent %s", name, meta, want)
		}
		if want := strings.Contains(c.meta, "tracestate"); (meta["tracestate"] == "v=1") != want || strings.Contains(c.meta, `"a"`) != (meta["a"] != nil) {
			t.Errorf("%s: _meta is %v", name, meta)
		}
		if span.Parent.TraceID().String() != c.traces {
			t.Errorf("%s: the parent is %v", name, span.Parent)
		}
	}
}

// TestTurnSpans follows turns that end in each way. No span has text of the agent.
func TestTurnSpans(t *testing.T) {
	t.Parallel()
	spans := tracetest.NewInMemoryExporter()
	prompts, ended := make(chan string, 1), make(chan agents.EndedTurn, 1)
	h := host(t, agents.Config{
		Tracer: sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans)).Tracer("test"), OnTurn: func(e agents.EndedTurn) { ended <- e }, Launch: prompted(prompts),
	})
	update := func(text string) string {
		return `{"method":"session/update","params":{"sessionId":"one","update":{` + text + `}}}`
	}
	post(t, h, "srv", `{"id":1,"method":"session/new","params":{"cwd":"/"}}`)
	start := update(`"sessionUpdate":"tool_call","toolCallId":"1","title":"secret","kind":"execute"`)
	for _, c := range []struct {
		answer string
		lines  []string
		want   string   // outcome
		spans  []string // in the order of their ends
	}{
		{endTurn, nil, "end_turn", []string{"agent turn end_turn"}},
		{`"result":{"stopReason":"a secret"}`, nil, "other", []string{"agent turn other"}},
		{`"error":{"code":1,"message":"secret"}`, nil, "error", []string{"agent turn error failed"}},
		{
			endTurn, []string{start, update(`"sessionUpdate":"tool_call_update","toolCallId":"1","status":"completed"`)},
			"end_turn", []string{"agent tool call execute", "agent turn end_turn"},
		},
		{
			endTurn, []string{update(`"sessionUpdate":"tool_call","toolCallId":"2","kind":"secret","status":"failed"`), start},
			"end_turn", []string{"agent tool call other failed", "agent tool call execute", "agent turn end_turn"},
		},
		{endTurn, []string{update(`"sessionUpdate":"tool_call_update","toolCallId":"3","status":"completed"`)}, "end_turn", []string{"agent turn end_turn"}},
		{endTurn, []string{update(`"sessionUpdate":"tool_call","toolCallId":"` + strings.Repeat("x", 1<<10+1) + `"`)}, "end_turn", []string{"agent turn end_turn"}},
		{"exit", []string{start}, "interrupted", []string{"agent tool call execute", "agent turn interrupted failed"}},
	} {
		spans.Reset()
		_, err := h.Post(caller(t), "srv", agents.PostOptions{Agent: "scripted"}, []byte(promptWith("", c.answer, c.lines...)))
		if exits := c.answer == "exit"; (err != nil) != exits {
			t.Errorf("%s: %v", c.answer, err)
		}
		<-prompts
		if e := <-ended; e.Agent != "scripted" || e.Outcome != c.want || e.Took <= 0 {
			t.Errorf("%s: ended as %+v", c.answer, e)
		}
		var got []string
		for _, span := range spans.GetSpans() {
			text := span.Name
			for _, a := range span.Attributes {
				if a.Key != attribute.Key("deskhand.agent") {
					text += " " + a.Value.AsString()
				}
			}
			if span.Status.Code == codes.Error {
				text += " failed"
			}
			if got = append(got, text); span.SpanContext.TraceID().String() != callerTrace {
				t.Errorf("%s: %s is in another trace", c.answer, text)
			}
		}
		if !slices.Equal(got, c.spans) || strings.Contains(fmt.Sprint(spans.GetSpans()), "secret") {
			t.Errorf("%s: spans %q, want %q", c.answer, got, c.spans)
		}
	}
}
