package agents

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/deskhand/deskhand/internal/cuttext"
)

// EndedTurn is a turn of an agent that has ended.
type EndedTurn struct {
	Agent string

	// Outcome is a stop reason of ACP, such as "end_turn", "other" for a reason that ACP does
	// not have, "error" for an error of the agent, or "interrupted" if the agent's process
	// ended before.
	Outcome string

	// Took is the time since the prompt was passed to the process.
	Took time.Duration
}

// turnSpans holds the running turns of a process and their spans. Spans have no text of
// clients and agents: words that ACP does not have become "other".
type turnSpans struct {
	tracer trace.Tracer // nil: turns have no spans
	agent  string
	onEnd  func(EndedTurn)

	mu    sync.Mutex // guards what follows, and the tools of turns
	turns []*turnSpan
}

// turnSpan is a running turn.
type turnSpan struct {
	of      *turnSpans
	began   time.Time
	session string
	ctx     context.Context //nolint:containedctx // of no call: it has span
	span    trace.Span      // nil: there is no tracer
	tools   map[string]trace.Span
}

type turnSpansKey struct{}

// SpanOf returns the span of the turn that an agent's process works on. process is the context
// that Config.Mount got. The result is not valid if there are no spans, no turn or several.
func SpanOf(process context.Context) trace.SpanContext {
	t, ok := process.Value(turnSpansKey{}).(*turnSpans)
	if !ok {
		return trace.SpanContext{}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.turns) != 1 {
		return trace.SpanContext{}
	}
	return trace.SpanContextFromContext(t.turns[0].ctx)
}

// begin begins a turn if a message is a prompt. Its span continues the trace that _meta of the
// prompt names, or else the trace of ctx.
func (t *turnSpans) begin(ctx context.Context, env *envelope) *turnSpan {
	if env.method != "session/prompt" || !env.isRequest() {
		return nil
	}
	turn := &turnSpan{of: t, began: time.Now(), session: cuttext.Cut(env.sessionID(), 2*maxSessionID), ctx: context.Background()}
	if t.tracer != nil {
		parent := trace.ContextWithSpanContext(turn.ctx, trace.SpanContextFromContext(ctx))
		parent = propagation.TraceContext{}.Extract(parent, env.traceContext())
		turn.ctx, turn.span = t.tracer.Start(parent, "agent turn", trace.WithAttributes(attribute.String("deskhand.agent", t.agent)))
		turn.tools = map[string]trace.Span{}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.turns = append(t.turns, turn)
	return turn
}

// end ends a turn with its reply. accepted reports whether the prompt was passed on. turn may
// be nil.
func (turn *turnSpan) end(r reply, accepted bool) {
	if turn == nil {
		return
	}
	t, outcome := turn.of, outcomeOf(r)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.turns = slices.DeleteFunc(t.turns, func(other *turnSpan) bool { return other == turn })
	if turn.span != nil {
		for _, tool := range turn.tools {
			tool.End()
		}
		turn.span.SetAttributes(attribute.String("acp.stop_reason", outcome))
		if outcome == outcomeError || r.err != nil {
			turn.span.SetStatus(codes.Error, "")
		}
		turn.span.End()
	}
	if accepted && t.onEnd != nil {
		t.onEnd(EndedTurn{t.agent, outcome, time.Since(turn.began)})
	}
}

// Outcomes that are no stop reasons of ACP.
const (
	outcomeError       = "error"
	outcomeInterrupted = "interrupted"
)

// known returns a word of ACP, or "other".
func known(word string, words ...string) string {
	if slices.Contains(words, word) {
		return word
	}
	return "other"
}

// outcomeOf returns the outcome of a turn with a reply.
func outcomeOf(r reply) string {
	if r.err != nil {
		return outcomeInterrupted
	}
	var answer struct {
		Result struct {
			StopReason string `json:"stopReason"`
		} `json:"result"`
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(r.raw, &answer) != nil || answer.Error != nil {
		return outcomeError
	}
	return known(answer.Result.StopReason, "end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled")
}

// mark returns a prompt whose _meta names the span of the turn, as ACP has it for the W3C trace
// context. turn may be nil.
func (turn *turnSpan) mark(e *envelope) *envelope {
	if turn == nil || turn.span == nil || !e.params.exists() || e.raw[e.params.from] != '{' {
		return e
	}
	meta := []byte("{}")
	if at := e.find(e.params, "_meta"); at.exists() && e.raw[at.from] == '{' {
		meta = e.bytes(at)
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(turn.ctx, carrier)
	for _, name := range carrier.Keys() {
		meta = setMember(meta, name, jsonString(carrier.Get(name)))
	}
	marked, err := parse(e.with(edit{e.params, setMember(e.bytes(e.params), "_meta", meta)}))
	if err != nil {
		return e
	}
	return marked
}

// traceContext returns the W3C trace context in the _meta of a message.
func (e *envelope) traceContext() propagation.MapCarrier {
	carrier := propagation.MapCarrier{}
	meta := e.find(e.params, "_meta")
	for _, name := range carrierNames {
		if v := stringValue(e.bytes(e.find(meta, name))); v != "" {
			carrier[name] = v
		}
	}
	return carrier
}

var carrierNames = propagation.TraceContext{}.Fields()

// turnOf returns the turn of a session that runs, or nil. The caller holds t.mu.
func (t *turnSpans) turnOf(s *attachedSession) *turnSpan {
	if i := slices.IndexFunc(t.turns, func(turn *turnSpan) bool { return turn.session == s.id() && turn.span != nil }); i >= 0 {
		return t.turns[i]
	}
	return nil
}

// maxToolSpans bounds the spans of a turn's calls of tools that have not ended.
const maxToolSpans = 256

// update follows a turn's calls of tools in an update of the agent.
func (t *turnSpans) update(s *attachedSession, e *envelope) {
	if t.tracer == nil || s == nil {
		return
	}
	at := e.find(e.params, "update")
	member := func(name string) string { return stringValue(e.bytes(e.find(at, name))) }
	switch member("sessionUpdate") {
	case "tool_call", "tool_call_update":
	default:
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	turn, id := t.turnOf(s), member("toolCallId")
	if turn == nil {
		return
	}
	span := turn.tools[id]
	if span == nil {
		if member("sessionUpdate") != "tool_call" || len(turn.tools) >= maxToolSpans || len(id) > maxID {
			return
		}
		kind := known(member("kind"), "read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode")
		_, span = t.tracer.Start(turn.ctx, "agent tool call", trace.WithAttributes(attribute.String("acp.tool.kind", kind)))
		turn.tools[id] = span
	}
	switch member("status") {
	case "failed":
		span.SetStatus(codes.Error, "")
	case "completed":
	default:
		return
	}
	span.End()
	delete(turn.tools, id)
}

// ask begins the span of a question of the agent during a turn. It returns nil if there is
// none.
func (t *turnSpans) ask(s *attachedSession, method string) trace.Span {
	if t.tracer == nil || s == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	turn := t.turnOf(s)
	if turn == nil {
		return nil
	}
	method = known(method, methodPermission, MethodForm, "fs/read_text_file", "fs/write_text_file",
		"terminal/create", "terminal/output", "terminal/release", "terminal/wait_for_exit", "terminal/kill")
	_, span := t.tracer.Start(turn.ctx, "agent question", trace.WithAttributes(attribute.String("acp.method", method)))
	return span
}
