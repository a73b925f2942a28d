package mockagent

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Stop reasons of ACP.
const (
	stopEnd       = "end_turn"
	stopCancelled = "cancelled"
)

// turn is a prompt and its consequences.
type turn struct {
	a      *agent
	s      *session
	id     json.RawMessage // of the request
	prompt []block
	trace  traceContext
	first  bool // of its session
	cancel context.CancelFunc
	done   chan struct{} // closed when the turn is over

	inputBytes, outputBytes int // of texts, for the usage
}

// traceContext is the W3C trace context, which ACP and MCP have in _meta. The agent passes it on.
type traceContext struct {
	Parent any `json:"traceparent"`
	State  any `json:"tracestate"`
}

// meta returns _meta for a message, or nil.
func (c traceContext) meta() mcp.Meta {
	if c.Parent == nil {
		return nil
	}
	meta := mcp.Meta{"traceparent": c.Parent}
	if c.State != nil {
		meta["tracestate"] = c.State
	}
	return meta
}

// block is a content block of a prompt or of a message.
type block struct {
	Type     string          `json:"type"`
	Text     string          `json:"text,omitempty"`
	Data     string          `json:"data,omitempty"`
	MimeType string          `json:"mimeType,omitempty"`
	URI      string          `json:"uri,omitempty"`
	Name     string          `json:"name,omitempty"`
	Resource json.RawMessage `json:"resource,omitempty"`
}

func textBlock(text string) block { return block{Type: "text", Text: text} }

// prompt adds a turn to its session's queue.
func (a *agent) prompt(ctx context.Context, id json.RawMessage, p *sessionParams) (any, error) {
	s, err := a.find(p.SessionID)
	if err != nil {
		return nil, err
	}
	if len(p.Prompt) == 0 {
		return nil, rpcErrorf(codeInvalidParams, "prompt must be a list of at least one content block")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(s.queue) > maxQueue {
		return nil, rpcErrorf(codeInvalidRequest, "%d prompts of this session wait already", maxQueue)
	}
	ctx, cancel := context.WithCancel(ctx)
	t := &turn{a: a, s: s, id: id, prompt: p.Prompt, cancel: cancel, done: make(chan struct{}), first: s.Prompts == 0}
	_ = json.Unmarshal(p.Meta, &t.trace) // other things in it are not for this agent
	s.Prompts++
	var before <-chan struct{}
	if n := len(s.queue); n > 0 {
		before = s.queue[n-1].done
	}
	s.queue = append(s.queue, t)
	a.turns.Go(func() {
		defer cancel()
		t.run(ctx, before)
	})
	return nil, nil
}

// run waits for the previous turn, if there is one, and answers the request.
func (t *turn) run(ctx context.Context, before <-chan struct{}) {
	defer t.dequeue()
	if before != nil {
		select {
		case <-before:
		case <-ctx.Done():
			t.a.out.answer(t.id, map[string]any{"stopReason": stopCancelled})
			<-before // keeps the order of the queue
			return
		}
	}
	stop, err := t.perform(ctx)
	t.a.mu.Lock()
	if saved := t.a.save(t.s); err == nil && saved != nil {
		err = saved
	}
	t.a.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		stop = stopCancelled
	case err != nil:
		t.a.refuse(t.id, err)
		return
	}
	t.a.out.answer(t.id, map[string]any{"stopReason": stop, "usage": map[string]int{
		"inputTokens": tokens(t.inputBytes), "outputTokens": tokens(t.outputBytes), "totalTokens": tokens(t.inputBytes) + tokens(t.outputBytes),
	}})
}

// tokens estimates the number of tokens of a text.
func tokens(bytes int) int { return (bytes + 3) / 4 }

// dequeue removes the turn from the queue, so that the next one begins.
func (t *turn) dequeue() {
	t.a.mu.Lock()
	defer t.a.mu.Unlock()
	t.s.queue = slices.DeleteFunc(t.s.queue, func(other *turn) bool { return other == t })
	close(t.done)
}

// perform does what the prompt says.
func (t *turn) perform(ctx context.Context) (stop string, err error) {
	var text []string
	t.a.mu.Lock()
	for _, b := range t.prompt {
		t.a.addHistory(t.s, update{Kind: "user_message_chunk", Content: b})
		t.inputBytes += len(b.Text)
		if b.Type == "text" {
			text = append(text, b.Text)
		}
	}
	t.s.endText()
	said := strings.Join(text, " ")
	if t.s.Title == "" {
		t.s.Title = title(said)
	}
	t.a.mu.Unlock()
	if t.first {
		t.say(help())
	}
	name, rest, _ := strings.Cut(strings.TrimSpace(said), " ")
	for _, w := range words {
		if strings.EqualFold(w.name, name) {
			return w.do(t, ctx, strings.TrimSpace(rest))
		}
	}
	return t.echo(ctx, "")
}

func title(said string) string {
	said, _, _ = strings.Cut(strings.TrimSpace(said), "\n")
	if r := []rune(said); len(r) > 60 {
		return string(r[:59]) + "…"
	}
	return said
}

// update sends an update of the turn's session.
func (t *turn) update(u update) {
	t.a.mu.Lock()
	defer t.a.mu.Unlock()
	t.a.sendUpdate(t.s, u)
}

// say sends a piece of the agent's message.
func (t *turn) say(text string) {
	t.outputBytes += len(text)
	t.update(update{Kind: "agent_message_chunk", Content: textBlock(text)})
}

// pause sends the buffered messages and waits. It returns false if the turn is
// cancelled.
func (t *turn) pause(ctx context.Context, d time.Duration) bool {
	t.a.out.flush()
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

func (a *agent) cancelTurns(s *session) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, t := range s.queue {
		t.cancel()
	}
}

func (a *agent) cancelSession(_ context.Context, _ json.RawMessage, p *sessionParams) (any, error) {
	s, err := a.find(p.SessionID)
	if err != nil {
		return nil, err
	}
	a.cancelTurns(s)
	return nil, nil
}

// cancelRequest cancels the turn of a request.
func (a *agent) cancelRequest(_ context.Context, _ json.RawMessage, p *sessionParams) (any, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, s := range a.sessions {
		for _, t := range s.queue {
			if bytes.Equal(t.id, p.RequestID) {
				t.cancel()
			}
		}
	}
	return nil, nil
}
