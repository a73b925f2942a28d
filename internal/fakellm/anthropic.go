package fakellm

import (
	"encoding/json"
	"net/http"
)

// messages answers POST /v1/messages (docs.anthropic.com, "Messages" and
// "Streaming messages").
func (e *exchange) messages() error {
	var in struct {
		Model    string
		Stream   bool
		Tools    []struct{ Name string }
		Messages []struct {
			Role    string
			Content json.RawMessage
		}
	}
	if err := json.Unmarshal(e.body, &in); err != nil {
		return err
	}
	var c conversation
	for _, t := range in.Tools {
		c.tools = append(c.tools, tool{name: t.Name})
	}
	for _, m := range in.Messages {
		if m.Role != "user" {
			continue
		}
		for _, b := range blocksOf(m.Content) {
			if b.Type == "tool_result" {
				c.addResult(resultOf(b.Content))
			} else {
				c.addText(b.Text)
			}
		}
	}
	out := c.answer(e.r.Context())
	if out.status != 0 {
		e.fail(out.status, out.problem)
		return nil
	}
	stop := "end_turn"
	if out.called {
		stop = "tool_use"
	}
	message := members{
		"id": e.id("msg_", 0), "type": "message", "role": "assistant", "model": in.Model, "stop_sequence": nil,
		"content": []any{}, "stop_reason": nil, "usage": e.usage(),
	}
	event := func(kind string, m members) {
		if m["type"] = kind; in.Stream {
			e.event(kind, m)
		}
	}
	event("message_start", members{"message": message})
	var content []any
	for i, p := range out.parts {
		content = append(content, e.block(i, p, event))
	}
	event("message_delta", members{"delta": members{"stop_reason": stop, "stop_sequence": nil}, "usage": e.usage()})
	event("message_stop", members{})
	if !in.Stream {
		message["content"], message["stop_reason"] = content, stop
		e.send(http.StatusOK, message)
	}
	return nil
}

func (e *exchange) usage() members {
	return members{"input_tokens": e.tokens(), "output_tokens": 10, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
}

// block streams a part of an answer and returns its block.
func (e *exchange) block(i int, p part, event func(string, members)) members {
	start := func(empty members) { event("content_block_start", members{"index": i, "content_block": empty}) }
	delta := func(d members) { event("content_block_delta", members{"index": i, "delta": d}) }
	defer event("content_block_stop", members{"index": i})
	switch p.kind {
	case "think":
		start(members{"type": "thinking", "thinking": "", "signature": ""})
		pieces(p.text, func(s string) { delta(members{"type": "thinking_delta", "thinking": s}) })
		delta(members{"type": "signature_delta", "signature": signature})
		return members{"type": "thinking", "thinking": p.text, "signature": signature}
	case "call":
		id := e.id("toolu_", i)
		start(members{"type": "tool_use", "id": id, "name": p.tool.name, "input": members{}})
		pieces(p.text, func(s string) { delta(members{"type": "input_json_delta", "partial_json": s}) })
		return members{"type": "tool_use", "id": id, "name": p.tool.name, "input": json.RawMessage(p.text)}
	default:
		start(members{"type": "text", "text": ""})
		pieces(p.text, func(s string) { delta(members{"type": "text_delta", "text": s}) })
		return members{"type": "text", "text": p.text}
	}
}

// signature is the signature of thoughts, in base64.
const signature = "bm9uZQ=="
